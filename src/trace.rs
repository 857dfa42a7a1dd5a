//! Recordings of runs by Nsight Systems, by PyTorch's profiler or by the ranks themselves, and the analysis of where the time of GPUs and
//! host went.
//!
//! ```text
//! source: reports of nsys ─────────────────────┐
//! recorder, cupti, pytorch ─▶ file: events ─┴▶ event ─┬▶ fold ─▶ value, render
//!                    └▶ tile ─▶ timeline              └▶ perfetto
//! ```
//!
//! A source provides events, kind by kind, on several threads; folds turn them into sums and keep no event. [`import`] makes one pass
//! over each kind. Timelines draw tiles, which sum up events at each zoom level, and read events only where few are in view. Rows that
//! name people, hosts, commands or environment variables are not read.

mod cupti;
mod division;
mod error;
mod event;
mod export;
mod file;
mod fold;
mod ids;
mod import;
mod intake;
mod live;
mod nsys;
mod perfetto;
mod progress;
mod pytorch;
mod recorder;
mod render;
mod reported_steps;
mod source;
#[cfg(test)]
mod tests;
mod tile;
mod timeline;
mod unfinished;
mod value;
mod window;

pub use cupti::{TRACER, find_tracer, gather, has_raw_files, injection};
pub use division::StepsFrom;
pub use error::TraceError;
pub use import::{export_perfetto, import, import_bytes, import_divided, import_recording, keep_events};
pub use nsys::{find_nsys, nsys_path, profile_command};
pub use progress::{Progress, Stage};
pub use pytorch::is_trace as is_pytorch_trace;
pub use recorder::{Recorder, now_ns, this_thread};
pub use render::{csv, markdown};
pub use reported_steps::ReportedStep;
pub use timeline::{
    Binding, Class, Collective, CriticalPath, Flow, Found, Item, Mark, MarkKind, NoSize, Part, PartTime, Segment,
    Shelf, Split, StepSplit, Steps, Stretch, Timeline, TimelineRow, keep_for_timeline, over_repeats,
};
pub use value::{
    Allocations, Entry, FORMAT_VERSION, FamilyTime, Gap, GpuInfo, GpuTime, GraphProof, HostCall, LayoutProof, Memcpy,
    MemoryOperation, Memset, Metric, NvtxRange, PinProof, PrecisionProof, Proof, RankProof, Statistics, StrategyProof,
    Synchronisation, Trace, Transfer, WorkOfSteps,
};
pub use window::Window;
