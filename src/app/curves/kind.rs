//! The quantities that can be drawn, one panel each, and the horizontal axes.

use strum::{EnumIter, IntoStaticStr};

use crate::figure::capitalised;

/// A quantity, drawn in one panel; in the order of the panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumIter, IntoStaticStr)]
pub enum Kind {
    /// Loss of each batch.
    Loss,
    /// Duration of each step.
    StepTime,
    /// GPU memory in use by all processes.
    #[strum(serialize = "GPU memory")]
    Memory,
    /// GPU power draw.
    Power,
    /// Share of time with a kernel running.
    #[strum(serialize = "GPU busy")]
    Busy,
    /// Share of SM cycles with a resident warp.
    #[strum(serialize = "SM activity")]
    SmActivity,
    /// GPU temperature.
    Temperature,
    /// Busy CPUs.
    #[strum(serialize = "Host CPUs busy")]
    HostCpus,
    /// Host memory in use.
    #[strum(serialize = "Host memory")]
    HostMemory,
}

impl Kind {
    /// The quantities that each step has.
    pub const OF_STEPS: [Self; 2] = [Self::Loss, Self::StepTime];
    /// The quantities that are sampled for each GPU.
    pub const OF_GPUS: [Self; 5] = [Self::Memory, Self::Power, Self::Busy, Self::SmActivity, Self::Temperature];
    /// The quantities that are sampled for the whole machine.
    pub const OF_HOST: [Self; 2] = [Self::HostCpus, Self::HostMemory];

    /// The name on screen. `step` is the workload's word for a step, such as `iteration`.
    pub fn name(self, step: &str) -> String {
        if self == Self::StepTime { format!("{} time", capitalised(step)) } else { <&str>::from(self).to_owned() }
    }

    /// The name above its numbers. For the loss, it says that the number is the loss of one step, and not the training loss of lists and
    /// tables.
    pub fn name_of_number(self, step: &str) -> String {
        if self == Self::Loss { format!("{} loss", capitalised(step)) } else { self.name(step) }
    }

    /// The quantity that it shows, in a sentence. `step` is the workload's word for a step.
    pub fn meaning(self, step: &str) -> String {
        let meaning = match self {
            Self::Loss => {
                return format!(
                    "The loss of each {step}, before any loss scaling. The training loss on Runs and in tables is its mean over an epoch"
                );
            }
            Self::StepTime => {
                return format!("Time from the end of one {step} to the end of the next, including waits for data");
            }
            Self::Memory => "GPU memory in use by all processes (NVML)",
            Self::Power => "Power draw of the GPU (NVML)",
            Self::Busy => {
                "Share of time in which any kernel is running (NVML utilisation): even 100 % may be little work"
            }
            Self::SmActivity => "Share of SM cycles with a resident warp (GPM, H100 and newer)",
            Self::Temperature => "Temperature of the GPU (NVML)",
            Self::HostCpus => "CPUs kept busy by all processes on this machine",
            Self::HostMemory => "Memory of this machine in use by all processes",
        };
        meaning.to_owned()
    }

    /// How the curve of a whole run is combined from its ranks or GPUs.
    pub fn whole(self) -> &'static str {
        match self {
            Self::Loss => "mean of ranks",
            Self::StepTime => "slowest rank",
            Self::Memory | Self::Power => "sum of GPUs",
            Self::Busy | Self::SmActivity => "mean of GPUs",
            Self::Temperature => "hottest GPU",
            Self::HostCpus | Self::HostMemory => "whole machine",
        }
    }

    /// Combines one value per GPU. `None` if one is missing, as a partial sum would look too small.
    pub fn of_all(self, values: &[Option<f64>]) -> Option<f64> {
        let values: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
        if values.is_empty() {
            return None;
        }
        let sum: f64 = values.iter().sum();
        Some(match self {
            Self::Busy | Self::SmActivity | Self::Loss => sum / values.len() as f64,
            Self::Temperature | Self::StepTime => values.into_iter().fold(f64::NEG_INFINITY, f64::max),
            Self::Memory | Self::Power | Self::HostCpus | Self::HostMemory => sum,
        })
    }

    /// The display unit for values up to `max`, and the factor from SI units to it.
    pub fn unit(self, max: f64) -> (&'static str, f64) {
        match self {
            Self::Loss => ("", 1.0),
            Self::StepTime if max >= 1.0 => ("s", 1.0),
            Self::StepTime if max >= 1e-3 => ("ms", 1e3),
            Self::StepTime => ("µs", 1e6),
            Self::Memory | Self::HostMemory => ("GB", 1e-9),
            Self::Power => ("W", 1.0),
            Self::Busy | Self::SmActivity => ("%", 100.0),
            Self::Temperature => ("°C", 1.0),
            Self::HostCpus => ("CPUs", 1.0),
        }
    }

    /// Whether the axis includes zero.
    pub fn starts_at_zero(self) -> bool {
        !matches!(self, Self::Loss | Self::Temperature)
    }
}

/// The horizontal axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumIter, IntoStaticStr)]
pub enum XAxis {
    /// Time since the run's start, so that runs overlap.
    #[strum(serialize = "Since start")]
    #[default]
    Since,
    /// Time of day.
    Clock,
    /// Step number; for loss and step time only.
    Step,
}

impl XAxis {
    /// The name on screen. `step` is the workload's word for a step.
    pub fn name(self, step: &str) -> String {
        if self == Self::Step { capitalised(step) } else { <&str>::from(self).to_owned() }
    }
}
