//! What to run: factors, workloads, the plan file, the matrix, its order and an estimate of its cost.
//!
//! Everything here is a pure value: no clock, no process, no device. The disk is touched only to read a plan.

mod data;
mod factor;
mod image;
mod level;
mod node;
mod run;
mod workload;

pub use data::DataSet;
pub use factor::{Domain, Factor, factor, factors};
pub use image::{
    BatchNorm, DataCopy, ImageSettings, Layout, Loader, Numa, OptimizerImpl, Precision, Scenario, Strategy, Tf32,
    WireDtype,
};
pub use level::{Level, Levels};
pub use node::{CudaState, Gpu, Node, Worker};
pub use run::RunState;
pub use workload::Workload;
