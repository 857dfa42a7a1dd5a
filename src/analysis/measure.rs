//! The registry of measures: keys, units, and where a run's summary keeps them.

use super::RunSummary;

/// One measure of a run.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// The key in files.
    pub key: &'static str,
    /// The name on paper and on screen.
    pub name: &'static str,
    /// The unit in files; empty for a plain number.
    pub unit: &'static str,
    /// The unit on paper and on screen.
    pub shown_unit: &'static str,
    /// Times this, a value in `unit` is one in `shown_unit`.
    pub shown_factor: f64,
    /// The measure of a run.
    pub of: fn(&RunSummary) -> Option<f64>,
}

impl Measure {
    /// The measure of a run as tables take it: none where it depends on the machine's speed and others were on it.
    pub fn of_run_alone(&self, run: &RunSummary) -> Option<f64> {
        if self.depends_on_speed() && run.had_company() { None } else { (self.of)(run) }
    }

    fn depends_on_speed(&self) -> bool {
        matches!(self.unit, "s" | "images/s" | "J")
    }
}

pub(super) const fn plain(
    key: &'static str,
    name: &'static str,
    unit: &'static str,
    of: fn(&RunSummary) -> Option<f64>,
) -> Measure {
    Measure { key, name, unit, shown_unit: unit, shown_factor: 1.0, of }
}

const fn bytes(key: &'static str, name: &'static str, of: fn(&RunSummary) -> Option<f64>) -> Measure {
    Measure { key, name, unit: "B", shown_unit: "GB", shown_factor: 1e-9, of }
}

/// All measures, in the order of columns.
pub const MEASURES: &[Measure] = &[
    plain("step_time_s", "Step time", "s", |run| run.step_time_s),
    plain("epoch_time_s", "Epoch time", "s", |run| run.epoch_time_s),
    plain("total_time_s", "Total time", "s", |run| run.total_time_s),
    plain("images_per_s", "Distinct images", "images/s", |run| run.images_per_s),
    plain("processed_images_per_s", "Processed images", "images/s", |run| run.processed_images_per_s),
    plain("load_wait_s", "Wait for data per step", "s", |run| run.load_wait_s),
    plain("loader_start_s", "Start of the loader per epoch", "s", |run| run.loader_start_s),
    plain("train_loss", "Training loss", "", |run| run.train_loss),
    plain("test_loss", "Test loss", "", |run| run.test_loss),
    Measure {
        key: "accuracy",
        name: "Accuracy",
        unit: "",
        shown_unit: "%",
        shown_factor: 100.0,
        of: |run| run.accuracy,
    },
    bytes("peak_allocated_bytes", "Peak allocated", |run| run.peak_allocated_bytes),
    bytes("peak_reserved_bytes", "Peak reserved", |run| run.peak_reserved_bytes),
    bytes("peak_active_bytes", "Peak active", |run| run.peak_active_bytes),
    bytes("warm_up_peak_bytes", "Peak allocated in warm-up", |run| run.warm_up_peak_bytes),
    bytes("peak_device_bytes", "Peak on the device", |run| run.peak_device_bytes),
    plain("energy_j", "Energy", "J", |run| run.energy_j),
];

/// A measure by its key.
pub fn measure(key: &str) -> Option<&'static Measure> {
    MEASURES.iter().chain(super::metric::METRIC_MEASURES).find(|measure| measure.key == key)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{fixture, summarise_run};

    #[test]
    fn a_run_that_had_company_has_losses_and_memory_and_no_times_for_tables() {
        let mut record = fixture::finished();
        let told = |run: &RunSummary| -> Vec<&str> {
            MEASURES.iter().filter(|measure| measure.of_run_alone(run).is_some()).map(|measure| measure.key).collect()
        };
        let alone = summarise_run(&record);
        assert!(told(&alone).contains(&"step_time_s") && told(&alone).contains(&"energy_j"));
        record.beside = vec!["0002-b-1".to_owned()];
        let beside = summarise_run(&record);
        let gone: Vec<_> = told(&alone).into_iter().filter(|key| !told(&beside).contains(key)).collect();
        let speeds = [
            "step_time_s",
            "epoch_time_s",
            "total_time_s",
            "images_per_s",
            "processed_images_per_s",
            "load_wait_s",
            "loader_start_s",
            "energy_j",
        ];
        assert_eq!(gone, speeds);
        assert_eq!((measure("step_time_s").unwrap().of)(&beside), alone.step_time_s, "its own page shows them");
    }
}
