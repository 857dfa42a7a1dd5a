//! The numbers that are usual for a factor: offered as boxes to tick, and each with a colour of its own.

/// The usual numbers of a factor, in order; empty for factors of named levels and for keys that are no factor.
///
/// Later versions append: the place of a number decides its colour.
pub fn usual_numbers(key: &str) -> &'static [f64] {
    match key {
        "gpus" => &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
        "image_size" => &[32.0, 100.0, 224.0, 300.0, 500.0, 700.0],
        "batch_size" => &[32.0, 64.0, 128.0, 256.0],
        "epochs" => &[1.0, 2.0, 5.0, 10.0, 20.0],
        "loader_workers" => &[1.0, 2.0, 4.0, 8.0, 16.0],
        "learning_rate" => &[0.001, 0.003, 0.01, 0.03, 0.1],
        "width_multiplier" => &[0.5, 0.75, 1.0, 1.4],
        "train_images" => &[512.0, 2000.0, 12_800.0, 60_000.0],
        "test_images" => &[256.0, 1000.0, 2000.0, 10_000.0],
        _ => &[],
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::{Domain, Workload, factors};

    #[test]
    fn usual_numbers_lie_in_the_domain_and_every_numeric_factor_has_some() {
        for factor in Workload::ALL.into_iter().flat_map(factors) {
            let (min, max) = match factor.domain {
                Domain::Names(_) => {
                    assert!(usual_numbers(factor.key).is_empty(), "{}", factor.key);
                    continue;
                }
                Domain::Integer { min, max, .. } => (min as f64, max as f64),
                Domain::Number { min, max, .. } => (min, max),
            };
            let usual = usual_numbers(factor.key);
            assert!(!usual.is_empty(), "{}", factor.key);
            assert!(usual.iter().all(|number| (min..=max).contains(number)), "{}: {usual:?}", factor.key);
            assert!(usual.windows(2).all(|pair| pair[0] < pair[1]), "{}: {usual:?}", factor.key);
        }
    }
}
