//! Factors: every knob that a plan may turn, its levels, and what it is good for.

use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};

use super::Workload;
use super::image::{DataCopy, Layout, Loader, Numa, OptimizerImpl, Precision, Scenario, Strategy, Tf32, WireDtype};
use super::level::{Key, Level};

/// The values that a factor takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// Named levels.
    Names(Vec<Arc<str>>),
    /// Whole numbers from `min` to `max`.
    Integer {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// Real numbers from `min` to `max`.
    Number {
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
    },
}

/// One knob.
#[derive(Clone, Debug, PartialEq)]
pub struct Factor {
    /// The key in plans.
    pub key: Key,
    /// The name on screen.
    pub name: Arc<str>,
    /// The unit of its values; empty for named levels and counts.
    pub unit: Arc<str>,
    /// The values that it takes.
    pub domain: Domain,
    /// The level of a plan that does not say.
    pub default: Level,
    /// Numbers offered as boxes to tick, in order, each with its own colour; empty for named levels.
    ///
    /// Later versions append: the place of a number decides its colour.
    pub usual: Vec<f64>,
    /// One line: what it changes and what to expect.
    pub help: String,
    /// What the papers found, with the place; empty where they say nothing.
    pub finding: String,
}

impl Factor {
    /// A factor of named levels, the default first.
    pub fn named(key: &str, name: &str, names: &[&str]) -> Self {
        let names: Vec<Arc<str>> = names.iter().map(|name| Arc::from(*name)).collect();
        let default = names.first().map_or(Level::text(""), |first| Level::Text(first.clone()));
        Self::new(key, name, Domain::Names(names), default)
    }

    /// A factor of whole numbers.
    pub fn count(key: &str, name: &str, range: RangeInclusive<i64>, default: i64) -> Self {
        Self::new(key, name, Domain::Integer { min: *range.start(), max: *range.end() }, Level::Integer(default))
    }

    /// A factor of real numbers.
    pub fn number(key: &str, name: &str, range: RangeInclusive<f64>, default: f64) -> Self {
        Self::new(key, name, Domain::Number { min: *range.start(), max: *range.end() }, Level::Number(default))
    }

    fn new(key: &str, name: &str, domain: Domain, default: Level) -> Self {
        let (help, finding) = (String::new(), String::new());
        Self { key: key.into(), name: name.into(), unit: "".into(), domain, default, usual: Vec::new(), help, finding }
    }

    /// With a unit of its values.
    pub fn unit(self, unit: &str) -> Self {
        Self { unit: unit.into(), ..self }
    }

    /// With numbers that are offered.
    pub fn usual(self, usual: &[f64]) -> Self {
        Self { usual: usual.to_vec(), ..self }
    }

    /// With a line of help.
    pub fn help(self, help: &str) -> Self {
        Self { help: help.to_owned(), ..self }
    }

    /// With what the papers found.
    pub fn finding(self, finding: &str) -> Self {
        Self { finding: finding.to_owned(), ..self }
    }

    /// The place of a named level among all, or of a number among the usual ones.
    pub fn place(&self, level: &Level) -> Option<usize> {
        match (&self.domain, level) {
            (Domain::Names(names), Level::Text(name)) => names.iter().position(|known| known == name),
            (Domain::Names(_), _) | (_, Level::Text(_)) => None,
            (_, number) => self.usual.iter().position(|usual| Some(*usual) == number.as_number()),
        }
    }
}

const OFF_ON: &[&str] = &["off", "on"];
const ON_OFF: &[&str] = &["on", "off"];

/// The factors of the `image` workload, in the order of columns and cards.
static IMAGE: LazyLock<Vec<Factor>> = LazyLock::new(|| {
    vec![
        Factor::named(Precision::KEY, "Precision", Precision::NAMES)
            .help("The arithmetic of training. fp16 and bf16 are mixed: autocast, weights stay in fp32.")
            .finding("Against fp64, fp32 is 54-68 % and fp16 110-152 % faster at equal accuracy (2503.15252 Table 2)."),
        Factor::named(Tf32::KEY, "TF32", Tf32::NAMES)
            .help("Whether fp32 may use tensor cores with 10-bit mantissas: nowhere, in convolutions, everywhere.")
            .finding("The papers' FP32 was most likely `conv`, PyTorch's own default."),
        Factor::named(WireDtype::KEY, "Wire type", WireDtype::NAMES)
            .help("The type in which images travel to the GPU; `run` is the run's precision.")
            .finding("Host-to-device copies took 226 s in FP64, 104 s in FP32, 50 s in FP16 (2503.15252 section 3.4)."),
        Factor::named("pin_memory", "pin_memory", OFF_ON)
            .help("Batches are staged in page-locked memory and copied without blocking the host.")
            .finding("16-30 % faster, less with more GPUs (2503.15252 Table 3)."),
        Factor::named(Layout::KEY, "Layout", Layout::NAMES)
            .help("The memory format of images and weights; tensor cores want nhwc (channels last).")
            .finding("nhwc brings PyTorch's DataLoader close to DALI on 1 and 2 GPUs (2505.22905 Fig. 9)."),
        Factor::named(Loader::KEY, "Loader", Loader::NAMES)
            .help("Who prepares batches: threads on the CPU, NVIDIA DALI (`make dali`), or the GPU from bytes that live there.")
            .finding("DALI shows no pauses between epochs on 3-4 GPUs, the DataLoader does (2505.22905 Fig. 6-8)."),
        Factor::count("loader_workers", "Loader workers", 1..=256, 8)
            .unit("threads")
            .usual(&[1.0, 2.0, 4.0, 8.0, 16.0])
            .help("Loader threads a rank. More than the rank's share of CPUs does not help."),
        Factor::named("persistent_workers", "Persistent workers", OFF_ON)
            .help("The loader's threads live over epochs, or are started anew for each.")
            .finding("Restarted loaders pause before each epoch on 3-4 GPUs (2505.22905 Fig. 7)."),
        Factor::named(Scenario::KEY, "Scenario", Scenario::NAMES)
            .help("a: 28×28 digits, upsampled for each batch. b: 300×300 colour files, normalised only.")
            .finding("b moves the cost from arithmetic on the CPU to memory traffic (2505.22905 section 3)."),
        Factor::named(Strategy::KEY, "Strategy", Strategy::NAMES)
            .help("How the work is spread over GPUs. ddp-ds: each rank loads and processes its own share.")
            .finding("ddp-ds scales with the GPUs, ddp and ddp-rr do not (2503.15252 Fig. 1)."),
        Factor::count("gpus", "GPUs", 1..=64, 1)
            .usual(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
            .help("Ranks, one a GPU, or threads of one rank under dp; on a machine without GPUs, on CPUs.")
            .finding("4 GPUs bring 3.23× in FP64 and 2.70× in FP16 (2503.15252 Table 2)."),
        Factor::named(Numa::KEY, "NUMA", Numa::NAMES)
            .help("Binding of ranks and their memory to NUMA nodes: off as the system pleases, local next to the rank's GPU (CPU ranks \
               spread over the nodes), interleave with memory spread and CPUs free, first-node with all on the first. On a \
               machine of one node it is done and proven, and has no effect.")
            .finding("Memory of the second socket's ranks on the first is suspected behind the pauses on 3-4 GPUs (2505.22905)."),
        Factor::named(DataCopy::KEY, "Data copy", DataCopy::NAMES)
            .help("One copy of the data set in memory for each rank, or one for the node."),
        Factor::named("broadcast_buffers", "Broadcast buffers", ON_OFF)
            .help("Rank 0's batch-norm statistics are sent to all ranks before each forward pass."),
        Factor::named("sync_batch_norm", "Synchronised batch norm", OFF_ON)
            .help("Batch statistics are computed over all ranks: closer to one big batch, more communication."),
        Factor::named("cuda_graph", "CUDA graph", OFF_ON)
            .help("The whole step is captured once and replayed from step 12 on: removes launch costs, which bind small images."),
        Factor::named(OptimizerImpl::KEY, "Optimizer", OptimizerImpl::NAMES)
            .help("SGD's update as one kernel for all parameters, a few, or several for each parameter."),
        Factor::named("cudnn_benchmark", "cuDNN benchmark", ON_OFF)
            .help("cuDNN tries its algorithms in the first steps and keeps the fastest."),
        Factor::named("deterministic", "Deterministic", OFF_ON)
            .help("Only algorithms that give the same bits each time; slower. Turns cuDNN's benchmark off."),
        Factor::count("image_size", "Image size", 28..=2048, 100)
            .unit("px")
            .usual(&[32.0, 100.0, 224.0, 300.0, 500.0, 700.0])
            .help("Width and height of the images the model sees. Work grows with its square.")
            .finding("More GPUs pay only where images are large enough (2503.15252 Fig. 2)."),
        Factor::count("batch_size", "Batch size", 1..=65_536, 64)
            .unit("images per GPU")
            .usual(&[32.0, 64.0, 128.0, 256.0])
            .help("Images a GPU and step."),
        Factor::count("epochs", "Epochs", 1..=100_000, 1)
            .usual(&[1.0, 2.0, 5.0, 10.0, 20.0])
            .help("Passes over the training set.")
            .finding("98-99 % accuracy within 20 epochs (2505.22905 section 3)."),
        Factor::number("learning_rate", "Learning rate", 0.0..=100.0, 0.01)
            .usual(&[0.001, 0.003, 0.01, 0.03, 0.1])
            .help("SGD's step size; momentum is 0.9."),
        Factor::number("width_multiplier", "Width multiplier", 0.1..=4.0, 1.0)
            .unit("×")
            .usual(&[0.5, 0.75, 1.0, 1.4])
            .help("Scales MobileNetV2's channels."),
        Factor::count("train_images", "Training images", 1..=100_000_000, 60_000)
            .usual(&[512.0, 2000.0, 12_800.0, 60_000.0])
            .help("Images used for training, from the start of the set."),
        Factor::count("test_images", "Test images", 1..=100_000_000, 10_000)
            .usual(&[256.0, 1000.0, 2000.0, 10_000.0])
            .help("Images used for the test, from the start of the set."),
    ]
});

/// The factors of a workload, in registry order.
pub fn factors(workload: Workload) -> &'static [Factor] {
    match workload {
        Workload::Image => &IMAGE,
        // Not there yet: plans of these workloads are refused with a message that says so.
        Workload::Llm | Workload::Command => &[],
    }
}

/// A factor by its key.
pub fn factor(workload: Workload, key: &str) -> Option<&'static Factor> {
    factors(workload).iter().find(|factor| factor.key == key)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn usual_numbers_lie_in_the_domain_and_every_numeric_factor_has_some() {
        for factor in Workload::ALL.into_iter().flat_map(factors) {
            let (min, max) = match factor.domain {
                Domain::Names(_) => {
                    assert!(factor.usual.is_empty(), "{}", factor.key);
                    continue;
                }
                Domain::Integer { min, max } => (min as f64, max as f64),
                Domain::Number { min, max } => (min, max),
            };
            let usual = &factor.usual;
            assert!(!usual.is_empty(), "{}", factor.key);
            assert!(usual.iter().all(|number| (min..=max).contains(number)), "{}: {usual:?}", factor.key);
            assert!(usual.windows(2).all(|pair| pair[0] < pair[1]), "{}: {usual:?}", factor.key);
        }
    }
}
