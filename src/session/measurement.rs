//! The progress and result of a measurement of the machine's devices.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::plan::{Key, counted};
use crate::protocol::{PASSES, PRODUCTS};

/// How long a device may be measured, in seconds.
pub const MEASURE_S: RangeInclusive<f64> = 0.1..=600.0;
/// How long a device is measured by default, in seconds.
pub const USUAL_MEASURE_S: f64 = 10.0;

/// The worker's name for the CPUs as a device.
const CPUS: &str = "cpu";

/// A measurement of the machine's devices, which are measured one after another. It waits, is running or is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// When it was requested, in seconds since the Unix epoch; rates that it gives have later times.
    pub time_s: f64,
    /// Seconds for each device, without the worker's start.
    pub duration_s: f64,
    /// Number of devices.
    pub devices: usize,
    /// Devices that were measured.
    pub measured: usize,
    /// Rates that cannot be measured on a device, with the reason, one on each line.
    pub left: Vec<String>,
    /// Its progress.
    pub stage: Stage,
}

/// The progress of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It waits until the active runs and imports have ended; no other run starts before it.
    Waits,
    /// The worker is starting on the next device.
    Opens,
    /// A rate of a device is being measured.
    Measures {
        /// The device's name.
        device: String,
        /// The rate's key.
        key: Key,
    },
    /// All devices were measured.
    Measured,
    /// It was cancelled. The rates measured before are kept.
    Cancelled,
    /// It failed for this reason. The rates measured before are kept.
    Failed(String),
}

impl Measurement {
    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Measured | Stage::Cancelled | Stage::Failed(_))
    }

    /// The fraction done, from 0 to 1.
    pub fn fraction(&self) -> f64 {
        let mut keys = PRODUCTS.iter().chain(&PASSES);
        let of_device = match &self.stage {
            Stage::Measures { key, .. } => keys.position(|known| **known == **key).unwrap_or(0),
            _ => 0,
        };
        let done = self.measured as f64 + of_device as f64 / (PRODUCTS.len() + PASSES.len()) as f64;
        (done / self.devices.max(1) as f64).min(1.0)
    }

    /// Its current activity in words: `measuring bf16 of NVIDIA H100 (2 of 4)`.
    pub fn doing(&self) -> String {
        let progress = if self.devices > 1 {
            format!(" ({} of {})", (self.measured + 1).min(self.devices), self.devices)
        } else {
            String::new()
        };
        match &self.stage {
            Stage::Waits => "waits until the runs and imports under way have ended".to_owned(),
            Stage::Opens => format!("starting the worker{progress}"),
            Stage::Measures { device, key } => {
                let device = if device == CPUS { "the CPUs" } else { device };
                format!("measuring {key} of {device}{progress}")
            }
            Stage::Measured => "measured".to_owned(),
            Stage::Cancelled if self.measured > 0 => {
                format!("cancelled; kept: the rates of {} of {}", self.measured, counted(self.devices, "device"))
            }
            Stage::Cancelled => "cancelled; nothing was measured".to_owned(),
            Stage::Failed(reason) => reason.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_it_does_and_how_far_it_is() {
        let at = |measured: usize, stage: Stage| {
            let left = Vec::new();
            let one = Measurement { time_s: 0.0, duration_s: 10.0, devices: 2, measured, left, stage };
            (one.doing(), (one.fraction() * 16.0).round(), one.is_over())
        };
        let bf16 = || Stage::Measures { device: "NVIDIA H100".to_owned(), key: "bf16".into() };
        assert_eq!(at(0, Stage::Opens), ("starting the worker (1 of 2)".to_owned(), 0.0, false));
        assert_eq!(at(0, bf16()), ("measuring bf16 of NVIDIA H100 (1 of 2)".to_owned(), 4.0, false));
        assert_eq!(at(1, bf16()), ("measuring bf16 of NVIDIA H100 (2 of 2)".to_owned(), 12.0, false));
        assert_eq!(at(2, Stage::Measured), ("measured".to_owned(), 16.0, true));
        assert_eq!(at(1, Stage::Cancelled).0, "cancelled; kept: the rates of 1 of 2 devices");
        assert_eq!(at(0, Stage::Failed("no such GPU".to_owned())), ("no such GPU".to_owned(), 0.0, true));
    }
}
