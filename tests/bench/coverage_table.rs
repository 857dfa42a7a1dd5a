//! How often intervals hold what they are of, by simulation: repeats of five kinds, from 3 to 30 of them.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::analysis::{Interval, Value, Verdict, judge, log_ratios, ratio, summarise};

/// Numbers of repeats, one a row.
pub const REPEATS: [usize; 10] = [3, 4, 5, 6, 7, 8, 10, 15, 20, 30];

/// How repeats come about, one a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Independent and normal.
    Normal,
    /// Independent and log-normal, σ = 1.
    Skewed,
    /// Independent, six in ten around one value and four around its double.
    Bimodal,
    /// Normal, and two standard deviations higher at the end than at the start.
    Drifting,
    /// Normal with a correlation of 0.5 between neighbours.
    Correlated,
}

pub const KINDS: [Kind; 5] = [Kind::Normal, Kind::Skewed, Kind::Bimodal, Kind::Drifting, Kind::Correlated];

/// What a share is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Intervals of medians that hold the true one.
    Median,
    /// Intervals of ratios that hold the true one. Drift and correlation are common to both cells.
    Ratio,
    /// Verdicts of "faster" or "slower" where nothing differs.
    FalseVerdict,
}

pub const QUESTIONS: [(Question, &str); 3] = [
    (Question::Median, "intervals of a median that contain the true one"),
    (Question::Ratio, "intervals of a ratio that contain the true one; drift and correlation are common to both cells"),
    (Question::FalseVerdict, "false verdicts of a difference, in a single comparison without a difference"),
];

/// The share in percent over so many simulated cells.
pub fn share(question: Question, kind: Kind, repeats: usize, cases: usize) -> f64 {
    let mut noise = Noise(ChaCha8Rng::seed_from_u64(repeats as u64 * 100 + kind as u64));
    let is_so = |_: &usize| match question {
        Question::Median => {
            let (values, truth) = noise.repeats(kind, repeats);
            holds(summarise(&values), truth)
        }
        Question::Ratio => {
            let (over, base) = noise.pairs(kind, repeats, 1.1);
            holds(ratio(&over, &base), 1.1)
        }
        Question::FalseVerdict => {
            let (over, base) = noise.pairs(kind, repeats, 1.0);
            let judged = judge(&[log_ratios(&over, &base)], true, 0.0);
            matches!(judged[0].verdict, Verdict::Faster | Verdict::Slower)
        }
    };
    100.0 * (0..cases).filter(is_so).count() as f64 / cases as f64
}

fn holds(value: Option<Value>, truth: f64) -> bool {
    let interval = value.and_then(|value| value.interval);
    interval.is_some_and(|Interval { low, high }| low <= truth && truth <= high)
}

/// Values, each with its repeat.
type ByRepeat = Vec<(u32, f64)>;

struct Noise(ChaCha8Rng);

impl Noise {
    fn uniform(&mut self) -> f64 {
        (f64::from(self.0.next_u32()) + 0.5) / 4_294_967_296.0
    }

    /// Standard normal (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.uniform()).cos()
    }

    /// The repeats of one cell, and the median that endless ones would have.
    fn repeats(&mut self, kind: Kind, repeats: usize) -> (Vec<f64>, f64) {
        let common = self.common(kind, repeats);
        let values = common.into_iter().map(|common| common + self.own(kind)).collect();
        let truth = match kind {
            Kind::Normal | Kind::Drifting | Kind::Correlated => 0.0,
            Kind::Skewed => 1.0,
            // Five sixths of the lower mode lie below: Φ⁻¹(5/6).
            Kind::Bimodal => 1.0 + 0.05 * 0.967_421_566_101_701,
        };
        (values, truth)
    }

    /// The repeats of two cells, of which one is so many times the other. What drifts and what hangs together is common to both.
    fn pairs(&mut self, kind: Kind, repeats: usize, times: f64) -> (ByRepeat, ByRepeat) {
        let common = self.common(kind, repeats);
        let mut side = |times: f64| -> ByRepeat {
            let value = |common: &f64| times * (0.05 * (common + self.own(kind))).exp();
            (1..).zip(common.iter().map(value)).collect()
        };
        (side(times), side(1.0))
    }

    /// What each repeat has from its neighbours or from its time.
    fn common(&mut self, kind: Kind, repeats: usize) -> Vec<f64> {
        let mut last = self.normal();
        (0..repeats)
            .map(|repeat| match kind {
                Kind::Normal | Kind::Skewed | Kind::Bimodal => 0.0,
                Kind::Drifting => 2.0 * (repeat as f64 / (repeats - 1) as f64 - 0.5),
                Kind::Correlated => {
                    last = 0.5 * last + 0.75_f64.sqrt() * self.normal();
                    last
                }
            })
            .collect()
    }

    fn own(&mut self, kind: Kind) -> f64 {
        match kind {
            Kind::Normal | Kind::Drifting => self.normal(),
            Kind::Skewed => self.normal().exp(),
            Kind::Bimodal => (if self.uniform() < 0.6 { 1.0 } else { 2.0 }) + 0.05 * self.normal(),
            // Pairs have noise of their own; it is little, so that what is common rules.
            Kind::Correlated => 0.1 * self.normal(),
        }
    }
}
