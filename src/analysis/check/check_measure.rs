//! The measures by which work is checked: their margins and units, and the values that runs have of them.

use std::sync::{Arc, LazyLock};

use crate::analysis::training::TRAINING_TIME;
use crate::analysis::{Key, Mark, Measure, RunSummary};
use crate::plan::{Checked, Margin};

/// A measure by which work is checked.
#[derive(Clone)]
pub(super) struct CheckMeasure {
    pub(super) key: Key,
    /// Its name in a sentence.
    pub(super) name: Arc<str>,
    pub(super) margin: Margin,
    /// The factor for shown values, and their unit.
    shown: (f64, Arc<str>),
    /// The measure in whose unit values and margin are, as the plan that names it has it; `None` for usual ones.
    known: Option<Measure>,
}

/// The last loss of a run, used if the run reports no loss of an epoch.
pub(super) const LAST_LOSS: &str = "last_loss";

/// The number of steps of a run.
pub(super) const STEPS: &str = "steps";
pub(super) static STEP_COUNT: LazyLock<Arc<CheckMeasure>> = LazyLock::new(|| {
    let (name, margin) = ("number of steps".into(), Margin::Absolute(0.5));
    Arc::new(CheckMeasure { key: STEPS.into(), name, margin, shown: (1.0, "".into()), known: None })
});

/// The check measures of plans that do not name any. Every measure that both cells report is checked. [`LAST_LOSS`] is checked only if
/// the cells report no other.
pub(super) static USUAL: LazyLock<[Arc<CheckMeasure>; 4]> = LazyLock::new(|| {
    let usual = |key: &str, name: &str, margin, shown: (f64, &str)| {
        let shown = (shown.0, shown.1.into());
        Arc::new(CheckMeasure { key: key.into(), name: name.into(), margin, shown, known: None })
    };
    [
        usual("accuracy", "accuracy", Margin::Absolute(0.01), (100.0, "%")),
        usual("test_loss", "test loss", Margin::Relative(0.05), (1.0, "")),
        usual("train_loss", "training loss", Margin::Relative(0.05), (1.0, "")),
        usual(LAST_LOSS, "last losses", Margin::Relative(0.05), (1.0, "")),
    ]
});

/// The factor for shown values of a measure, and their unit.
fn shown_unit(known: Option<&Measure>) -> (f64, &str) {
    let (factor, unit) = known.map_or((1.0, ""), |measure| (measure.shown_factor, &*measure.shown_unit));
    (factor, if unit == "1" { "" } else { unit })
}

/// The margin of a check measure of a run in words: `2 %` for a share, `100 us` for a number. A number in percent is one of points.
pub(super) fn margin_text(checked: &Checked, run: &RunSummary) -> String {
    let Margin::Absolute(margin) = checked.margin else { return checked.margin.to_string() };
    let (factor, unit) = shown_unit(run.measures.find(&checked.measure));
    let number = Margin::Absolute(without_last_digits(margin * factor));
    match unit {
        "" => number.to_string(),
        "%" if number == Margin::Absolute(1.0) => "1 point".to_owned(),
        "%" => format!("{number} points"),
        unit => format!("{number} {unit}"),
    }
}

/// A number with twelve digits: conversions of units change digits behind them.
fn without_last_digits(number: f64) -> f64 {
    format!("{number:.11e}").parse().unwrap_or(number)
}

impl CheckMeasure {
    /// A check measure that a run's plan names.
    pub(super) fn of(checked: &Checked, run: &RunSummary) -> Self {
        let known = run.measures.find(&checked.measure);
        let name = known.map_or_else(|| checked.measure.to_string(), |measure| measure.name.to_lowercase());
        let (factor, unit) = shown_unit(known);
        let shown = (factor, unit.into());
        let known = known.cloned();
        Self { key: checked.measure.clone(), name: name.into(), margin: checked.margin, shown, known }
    }

    /// Whether a plan names this measure with a margin of the same kind. If plans name a share and a number, both are checked.
    pub(super) fn is_named(&self, measure: &Key, margin: Margin) -> bool {
        self.key == *measure && self.margin.is_like(&margin)
    }

    /// The factor from the unit of a run's values to its unit; `None` if they are not of one quantity.
    pub(super) fn factor_from(&self, run: &RunSummary) -> Option<f64> {
        self.known.as_ref().map_or(Some(1.0), |known| run.factor_to(known))
    }

    /// The factor from its unit to the unit of the same measure of another plan; `None` if they are not of one quantity.
    pub(super) fn factor_to(&self, other: &Self) -> Option<f64> {
        self.known.as_ref().zip(other.known.as_ref()).map_or(Some(1.0), |(own, other)| own.factor_to(other))
    }

    /// Replaces the margin by one that another plan names, if that is tighter; `factor` converts the unit of that plan.
    pub(super) fn tighten(&mut self, margin: Margin, factor: Option<f64>) {
        if let (Margin::Absolute(own), Margin::Absolute(other)) = (self.margin, margin) {
            // Values whose unit cannot be converted are not checked.
            self.margin = Margin::Absolute(factor.map_or(own, |factor| own.min(other * factor)));
        } else if let (Margin::Relative(own), Margin::Relative(other)) = (self.margin, margin) {
            self.margin = Margin::Relative(own.min(other));
        }
    }

    pub(super) fn value(&self, run: &RunSummary) -> Option<f64> {
        if *self.key == *STEPS {
            let training = run.training.filter(|_| run.workload.command.is_some());
            return training.map(|training| training.steps as f64);
        }
        if *self.key != *LAST_LOSS {
            // A value that is not finite, or impossible, was removed from the run's values, and is reported by its mark.
            let is_marked = |mark: &Mark| match mark {
                Mark::NotFinite(key) | Mark::Impossible(key) => *key == self.key,
                Mark::TrainingOutlivesProcess => *self.key == *TRAINING_TIME,
                _ => false,
            };
            let value = run.value(&self.key).or_else(|| run.marks.iter().any(is_marked).then_some(f64::NAN));
            return Some(value? * self.factor_from(run)?);
        }
        let tail = run.losses.len().div_ceil(10);
        let last = &run.losses[run.losses.len() - tail..];
        (!last.is_empty()).then(|| last.iter().map(|point| point.loss).sum::<f64>() / last.len() as f64)
    }

    /// The values of both sides on the scale on which the margin is symmetric.
    pub(super) fn scaled(&self, over: &[f64], base: &[f64]) -> [Vec<f64>; 2] {
        let both = || over.iter().chain(base);
        // A ratio of values with different signs, or of 0, has no logarithm: differences are then shares of the usual size.
        let have_logs = both().all(|value| *value > 0.0) || both().all(|value| *value < 0.0);
        let mean_size = |side: &[f64]| side.iter().map(|value| value.abs()).sum::<f64>() / side.len() as f64;
        // Zeros differ by 0, whatever divides them.
        let size = (mean_size(over) / 2.0 + mean_size(base) / 2.0).max(f64::MIN_POSITIVE);
        let scaled = |value: &f64| match self.margin {
            Margin::Absolute(_) => *value,
            Margin::Relative(_) if have_logs => value.abs().ln(),
            Margin::Relative(_) => *value / size,
        };
        [over, base].map(|side| side.iter().map(scaled).collect())
    }

    pub(super) fn margin(&self) -> f64 {
        match self.margin {
            Margin::Absolute(margin) => margin,
            Margin::Relative(share) => share.ln_1p(),
        }
    }

    pub(super) fn shown(&self, value: f64) -> String {
        let (factor, unit) = &self.shown;
        let value = factor * value;
        match value.abs() {
            _ if **unit == *"%" => format!("{value:.1}").replace(".0", ""),
            _ if *self.key == *STEPS => format!("{value:.0}"),
            1e-3..1e6 => format!("{value:.3}"),
            0.0 => "0".to_owned(),
            _ => format!("{value:.2e}"),
        }
    }

    pub(super) fn unit(&self) -> String {
        if self.shown.1.is_empty() { String::new() } else { format!(" {}", self.shown.1) }
    }
}
