//! Statistics that several rooms share: medians with intervals from order statistics, and the distributions behind intervals and tests.
//! `multicard help method` says where they are used.

mod change;
mod correlation;
mod distribution;
mod order;
mod power;
mod succession;

pub use change::{ChangePoint, change_points, least_values};
pub use correlation::{CORRELATED_PAIRS, Correlation, rank_correlation, ranks};
pub use distribution::{student_t_above, student_t_quantile};
pub use order::{
    CONFIDENCE, INTERVAL_REPEATS, Interval, coverage_of_range, geometric, linear, median, median_interval,
    median_of_sorted,
};
pub use power::{errors_to_show, least_that_suffices};
pub use succession::{Succession, alike_by_chance};

#[cfg(test)]
pub(crate) mod fixture {
    //! Golden numbers.

    /// The output of `tests/oracles/intervals.py`.
    #[derive(serde::Deserialize)]
    pub(crate) struct Oracle {
        pub student_t: Vec<(f64, f64, f64)>,
        pub coins: Vec<(usize, usize, f64)>,
        pub medians: Vec<MedianCase>,
        pub family: Vec<Vec<f64>>,
        pub within: f64,
        pub difference: Vec<f64>,
        pub difference_holm: Vec<f64>,
        pub equivalence_holm: Vec<f64>,
    }

    #[derive(serde::Deserialize)]
    pub(crate) struct MedianCase {
        pub sample: Vec<f64>,
        pub low: f64,
        pub high: f64,
        pub whole: (f64, f64),
    }

    pub(crate) fn oracle() -> Oracle {
        serde_json::from_str(include_str!("../tests/golden/intervals.json")).expect("the oracle's numbers")
    }
}
