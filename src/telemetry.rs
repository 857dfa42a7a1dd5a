//! What the machine says of itself: the facts of the node, and samples of GPUs, host and ranks while runs go on.
//!
//! [`read_node`] reads the facts once. A [`Sampler`] is one thread at a fixed cadence; it sleeps while nothing is
//! watched. GPUs are read through NVML, opened at run time, and are known by UUID; the host and the ranks are read from
//! `/proc`. A value that the machine does not tell is `None`, never 0.

mod board;
mod cadence;
mod cgroup;
mod delivery;
mod gpu;
mod gpu_memory;
mod host;
mod in_use;
mod node;
mod proc_text;
mod roots;
mod sampler;
mod ticker;
mod topology;
mod visible;

pub use board::Watch;
pub use in_use::{in_use, signs_of_use};
pub use node::read_node;
pub use sampler::{DEFAULT_INTERVAL, Sampler, TelemetryError};
pub use topology::read_topology;
