//! Profiler reports: imports what Nsight Systems recorded and says where the time of GPUs and host went.
//!
//! [`import`] reads a report in one pass over each table and keeps sums, never rows. Rows that name people, hosts,
//! commands or environment variables are not read.

mod distribution;
mod error;
mod export;
mod family;
mod gap;
mod gpu;
mod host;
mod ids;
mod import;
mod metric;
mod nsys;
mod open;
mod operation;
mod pages;
mod parts;
mod progress;
mod proof;
mod record;
mod render;
mod rows;
mod schema;
mod strings;
#[cfg(test)]
mod tests;
mod timeline;
mod value;
mod window;

pub use error::TraceError;
pub use import::{import, import_bytes, import_recording};
pub use nsys::{find_nsys, nsys_path, profile_command};
pub use progress::{Progress, Stage};
pub use render::{csv, markdown};
pub use value::{
    Entry, FORMAT_VERSION, FamilyTime, Gap, GpuInfo, GpuTime, GraphProof, HostCall, LayoutProof, Memcpy,
    MemoryOperation, Memset, Metric, NvtxRange, PinProof, PrecisionProof, Proof, RankProof, Statistics, StrategyProof,
    Synchronisation, Trace, Transfer,
};
pub use window::Window;
