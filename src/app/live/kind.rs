//! What can be drawn of runs: loss, times and what telemetry reads, each in its own panel; and along which axis.

/// One panel of curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The batches' losses.
    Loss,
    /// How long steps took.
    StepTime,
    /// Memory of GPUs in use by everybody.
    Memory,
    /// Power that GPUs draw.
    Power,
    /// Share of time in which a kernel ran.
    Busy,
    /// Share of multiprocessor cycles with work.
    SmActivity,
    /// Temperature of GPUs.
    Temperature,
    /// CPUs kept busy.
    HostCpus,
    /// Memory of the host in use.
    HostMemory,
}

impl Kind {
    /// All of them, in the order of the panels.
    pub const ALL: [Self; 9] = [
        Self::Loss,
        Self::StepTime,
        Self::Memory,
        Self::Power,
        Self::Busy,
        Self::SmActivity,
        Self::Temperature,
        Self::HostCpus,
        Self::HostMemory,
    ];
    /// Those that steps tell.
    pub(super) const OF_STEPS: [Self; 2] = [Self::Loss, Self::StepTime];
    /// Those that each GPU tells.
    pub(super) const OF_GPUS: [Self; 5] = [Self::Memory, Self::Power, Self::Busy, Self::SmActivity, Self::Temperature];
    /// Those that the host tells.
    pub(super) const OF_HOST: [Self; 2] = [Self::HostCpus, Self::HostMemory];

    /// The name on screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loss => "Loss",
            Self::StepTime => "Step time",
            Self::Memory => "GPU memory",
            Self::Power => "Power",
            Self::Busy => "GPU busy",
            Self::SmActivity => "SM activity",
            Self::Temperature => "Temperature",
            Self::HostCpus => "Host CPUs busy",
            Self::HostMemory => "Host memory",
        }
    }

    /// What it is, for who does not know.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Loss => "The loss of each batch, before any loss scaling",
            Self::StepTime => "From the end of one step to the end of the next, waiting for data included",
            Self::Memory => "Memory of the GPU in use by everybody, as NVML says",
            Self::Power => "Power that the GPU draws, as NVML says",
            Self::Busy => "Share of time in which any kernel ran (NVML's utilisation): 100 % may still be little work",
            Self::SmActivity => "Share of multiprocessor cycles with a warp on them (GPM, from H100 on)",
            Self::Temperature => "Temperature of the chip, as NVML says",
            Self::HostCpus => "CPUs kept busy by everybody on this machine",
            Self::HostMemory => "Memory of this machine in use by everybody",
        }
    }

    /// How one curve for a whole run is made of those of its ranks or GPUs.
    pub(super) fn whole(self) -> &'static str {
        match self {
            Self::Loss => "mean of ranks",
            Self::StepTime => "slowest rank",
            Self::Memory | Self::Power => "sum of GPUs",
            Self::Busy | Self::SmActivity => "mean of GPUs",
            Self::Temperature => "hottest GPU",
            Self::HostCpus | Self::HostMemory => "whole machine",
        }
    }

    /// The same of numbers, one for each GPU; none where one is missing, since a part would look like less.
    pub(super) fn of_all(self, values: &[Option<f64>]) -> Option<f64> {
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

    /// The unit to draw in where `max` is the greatest value, and how many of it one SI unit is.
    pub(super) fn unit(self, max: f64) -> (&'static str, f64) {
        match self {
            Self::Loss => ("", 1.0),
            Self::StepTime if max >= 1.0 => ("s", 1.0),
            Self::StepTime if max >= 1e-3 => ("ms", 1e3),
            Self::StepTime => ("µs", 1e6),
            Self::Memory | Self::HostMemory => ("GB", 1e-9),
            Self::Power => ("W", 1.0),
            Self::Busy | Self::SmActivity => ("%", 100.0),
            Self::Temperature => ("°C", 1.0),
            Self::HostCpus => ("", 1.0),
        }
    }

    /// Whether a curve near 0 should look near 0.
    pub(super) fn starts_at_zero(self) -> bool {
        !matches!(self, Self::Loss | Self::Temperature)
    }
}

/// What is to the right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum XAxis {
    /// Time since the run's first sign of life: runs lie over each other.
    #[default]
    Since,
    /// The time of day.
    Clock,
    /// The step; of loss and step time only.
    Step,
}

impl XAxis {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Since, Self::Clock, Self::Step];

    /// The name on screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Since => "Since start",
            Self::Clock => "Clock",
            Self::Step => "Step",
        }
    }
}
