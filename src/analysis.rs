//! What runs say together: summaries of runs, medians with intervals, ratios. Pure functions on records.

mod activity;
mod batch;
mod bootstrap;
mod cell;
mod effect;
#[cfg(test)]
pub(crate) mod fixture;
mod loss;
mod mark;
mod measure;
mod metric;
mod places;
mod pyramid;
mod run;
mod smooth;
mod value;
mod wall_clock;

pub use activity::{Activity, Phase};
pub use batch::{BatchMeans, batch_means};
pub use cell::{Cell, CellKey, Setting, Source, cells, cells_of, held, varying};
pub use effect::{Effect, effects};
pub use loss::LossPoint;
pub use mark::Mark;
pub use measure::{MEASURES, Measure, measure};
pub use metric::{MetricUnit, metric_measure};
pub use places::Places;
pub use pyramid::{Pyramid, View};
pub use run::{EpochSummary, Recording, RunSummary, summarise_report, summarise_run};
pub use smooth::Smoother;
pub use value::{BOOTSTRAP_REPEATS, Interval, Method, Value, range, ratio, summarise};

// The plan's values that summaries and cells carry, for whoever draws them.
pub use crate::plan::{Key, Level, Levels, RunState};
pub use crate::protocol::{TRACE_METRICS, TraceMetricKind};
