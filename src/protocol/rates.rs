//! The rates that a device sustains, in arithmetic and memory, as the worker measured them.

use serde::{Deserialize, Serialize};

use super::Device;
use super::possible::{check_amount, check_moment};
use crate::plan::{Key, NumberFormat};

/// The precisions of matrix products that are measured, by the keys of their rates: `fp32` without TF32, `tf32` with it. Only GPUs have
/// `tf32`, and only those from compute capability 8.9 on have `fp8`.
pub const PRODUCTS: [&str; 6] = [
    NumberFormat::Fp64.name(),
    NumberFormat::Fp32.name(),
    NumberFormat::Tf32.name(),
    NumberFormat::Fp16.name(),
    NumberFormat::Bf16.name(),
    NumberFormat::Fp8.name(),
];
/// The passes over memory that are measured: `b = a` and `c = a + b` over arrays of fp32.
pub const PASSES: [&str; 2] = ["copy", "add"];

/// If other programs keep this many CPUs busy, or this share of the measured ones, the rates count as disturbed.
const OTHERS_CPUS: f64 = 0.25;
const OTHERS_SHARE: f64 = 0.05;

/// A rate: FLOP of matrix products, or bytes that a pass reads and writes, per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The key of the rate: one of [`PRODUCTS`] or [`PASSES`].
    pub key: Key,
    /// The median over samples.
    pub per_s: f64,
    /// The lower end of the median's interval; with 6 samples or more, the interval contains the median in 95 % of cases.
    pub low_per_s: f64,
    /// The upper end.
    pub high_per_s: f64,
    /// Number of samples.
    pub samples: u32,
    /// Rows and columns of the matrices, or bytes of an array.
    pub size: u64,
}

/// The rates of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceRates {
    /// The device. A CPU stands for all usable CPUs.
    pub device: Device,
    /// When it was measured, in seconds since the Unix epoch; `None` in sessions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_s: Option<f64>,
    /// libtorch version.
    pub torch_version: String,
    /// Threads of arithmetic on CPUs; `None` for a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Its rates; rates that cannot be measured on it are missing.
    pub rates: Vec<Rate>,
    /// Mean clock of a GPU's multiprocessors during the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<f64>,
    /// Reasons for which a GPU's clocks were limited during the measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttle_reasons: Vec<String>,
    /// For CPUs, the number of CPUs that other programs kept busy during the measurement; `None` in sessions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_cpus: Option<f64>,
}

impl DeviceRates {
    /// Whether other programs used the measured CPUs, so that the rates are lower than on an idle machine.
    pub fn is_contended(&self) -> bool {
        let matters = OTHERS_CPUS.max(OTHERS_SHARE * self.threads.map_or(0.0, f64::from));
        self.others_cpus.is_some_and(|others| others >= matters)
    }

    /// A rate by its key.
    pub fn find(&self, key: &str) -> Option<&Rate> {
        self.rates.iter().find(|rate| rate.key == *key)
    }

    /// The memory rate of the faster pass.
    pub fn memory(&self) -> Option<&Rate> {
        let passes = PASSES.iter().filter_map(|key| self.find(key));
        passes.max_by(|a, b| a.per_s.total_cmp(&b.per_s))
    }

    /// Checks that all rates are numbers above 0, and that the time is possible.
    ///
    /// # Errors
    /// The invalid value.
    pub fn check(&self) -> Result<(), String> {
        self.time_s.map_or(Ok(()), check_moment)?;
        check_amount("others_cpus", self.others_cpus)?;
        let all =
            self.rates.iter().flat_map(|rate| [rate.per_s, rate.low_per_s, rate.high_per_s].map(|one| (rate, one)));
        for (rate, value) in all {
            if value <= 0.0 {
                return Err(format!("the rate {} is {value}", rate.key));
            }
            check_amount("per_s", Some(value))?;
        }
        Ok(())
    }
}

/// A line of the worker's output while it measures a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum RateLine {
    /// The device is open.
    Device {
        /// The device.
        device: Device,
        /// libtorch version.
        torch_version: String,
        /// Number of threads for arithmetic on CPUs.
        threads: Option<u32>,
    },
    /// A rate is about to be measured.
    Begins {
        /// Its key.
        key: Key,
    },
    /// A rate was measured.
    Rate(Rate),
    /// A rate cannot be measured on this device.
    Left {
        /// Its key.
        key: Key,
        /// Why it cannot be measured.
        reason: String,
    },
    /// Nothing can be measured.
    Failed {
        /// What was tried, what was found, what to do.
        message: String,
    },
}
