#![doc = include_str!("protocol/protocol.md")]

mod clock;
mod environment;
mod event;
mod group;
mod job;
mod line;
mod log;
mod possible;
mod ranges;
mod rates;
mod recorded;
mod sample;
mod site;
mod trace;

pub use clock::{CLOCKS_VARIABLE, Clock, now_s};
pub use environment::{
    COMMIT_TIME, DIFFERENCES, ENVIRONMENT_FILE, Environment, IMPORTED_FROM, build, environment_file_of, fact_keys,
    fact_name, set_build,
};
pub use event::{
    Device, Event, EventLine, Evidence, FailureKind, Phase, UNSTORED_UNITS, is_loss_not_finite, loss_not_finite,
    rank_log,
};
pub use group::{
    EXPORT_FOLDER, Exit, GROUP_LOG, GroupEvent, GroupLine, MASTER_ADDR, MASTER_PORT, MEETING_VARIABLE, node_log,
};
pub use job::{AllocationSize, CHECKPOINT_FOLDER, Job, JobLimits, MemoryPolicy, Placement, Program, RankPlace};
pub use line::{MAX_KEY_BYTES, event_start, read_event_line};
pub use log::{LogWriter, wait_for_room};
pub use possible::{MOST_STEPS, check_duration, check_moment};
pub use ranges::ranges_text;
pub use rates::{DeviceRates, PASSES, PRODUCTS, Rate, RateLine};
pub use recorded::{FURTHER, MOST_ENTRIES, STEPS_BY_RANGES, TraceEntry, TraceList, TraceLists, TracePattern};
pub use sample::{
    GpuSample, HostSample, RankSample, Sample, check_sample, read_sample_line, samples_of_node, throttle_words,
};
pub use site::{Site, hostname, node_name};
pub use trace::{
    BUILT_IN_TRACER, CALLS_VARIABLE, CAPTURE_RANGE, CopiedBytes, EVENTS_FILE, NOTHING_RECORDED, PYTORCH_PROFILER,
    TRACE_METRICS, TraceMetric, TraceMetricKind, TraceOutcome, TraceRange, TraceSummary, recorder,
};

/// Version of jobs, events and samples. A change that an older reader would misread raises it. Logs of protocol 1 are adapted
/// on reading.
pub const PROTOCOL_VERSION: u32 = 2;
