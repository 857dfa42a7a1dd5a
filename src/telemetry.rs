//! Telemetry: facts about the node, and samples of GPUs, host and ranks during runs.
//!
//! [`read_node`] reads the facts once. A [`Sampler`] is one thread that samples at a fixed interval and sleeps while
//! nothing is watched. GPUs are identified by UUID and read through NVML, which is loaded at run time; the host and the
//! ranks are read from `/proc`. Unknown values are `None`, never 0.

mod cgroup;
mod delivery;
mod environment;
mod gpu;
mod gpu_use;
mod host;
mod machine_use;
mod node;
mod proc_text;
mod roots;
mod sampler;
mod ticker;
mod topology;
mod visible;

pub use environment::read_environment;
pub use gpu_use::{in_use, signs_of_use};
pub use machine_use::{use_by_programs, use_now};
pub use node::read_node;
pub use sampler::{DEFAULT_INTERVAL, Sampler, TelemetryError};
pub use ticker::Watch;
pub use topology::read_topology;
