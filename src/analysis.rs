//! What runs say together: summaries of runs, medians with intervals, ratios. Pure functions on records.

mod batch;
mod bootstrap;
mod cell;
#[cfg(test)]
pub(crate) mod fixture;
mod loss;
mod mark;
mod measure;
mod pyramid;
mod run;
mod smooth;
mod value;

pub use batch::{BatchMeans, batch_means};
pub use cell::{Cell, CellKey, Setting, Source, cells, cells_of, held, varying};
pub use loss::LossPoint;
pub use mark::Mark;
pub use measure::{MEASURES, Measure, measure};
pub use pyramid::{Pyramid, View};
pub use run::{EpochSummary, RunSummary, summarise_run};
pub use smooth::Smoother;
pub use value::{Interval, Method, Value, range, ratio, summarise};

// The plan's values that summaries and cells carry, for whoever draws them.
pub use crate::plan::{Level, Levels, RunState};
