//! Plans, which say what to run: factors, workloads, the plan file, the matrix of cells, its order and an estimate of its cost.
//!
//! Everything here is a pure value: no clock, no process, no device. The disk is read only for a plan file and for the `config.json` of a
//! model that a plan names.
//!
#![doc = include_str!("plan/plan.md")]

mod checked;
mod checked_table;
mod command_texts;
mod counted;
mod data;
mod design;
mod design_text;
mod designed;
mod factor;
mod file;
pub mod filter;
#[cfg(test)]
pub(crate) mod fixture;
mod formula;
mod gpu_choice;
mod groups;
mod hint;
mod identity;
mod level;
mod matrix;
mod measure_unit;
mod mode;
mod named;
mod node;
mod order;
mod own;
mod problem;
mod random;
mod read;
mod remark;
mod resolved;
mod run;
mod search;
mod search_text;
mod searched;
mod shape;
mod study;
mod toml_values;
mod topology;
mod tracing;
mod warm_up;
mod workload;
mod write;

pub use checked::{Checked, Margin};
pub use command_texts::{CommandTexts, FactorTexts, MeasureTexts, starting_command};
pub use counted::counted;
pub use data::{Data, DataSetRule, Obtainable, Obtained};
pub use design::{Added, Alias, Design, DesignKind, Fit, Interactions, MOST_RUNS, Size, Term};
pub use designed::trouble as design_trouble;
pub use factor::{Domain, Factor};
pub use file::{Block, Constraint, MAX_REPEATS, MAX_RUNS, Order, PLAN_VERSION, Plan};
pub use filter::{Facts, Filter, FilterError, Unordered, mentions};
pub use formula::{Formula, FormulaError, Function, Operator, OwnMeasure, Part, Place, formula_name};
pub use gpu_choice::{GpuChoice, by_numa_node};
pub use groups::groups;
pub use hint::{Hint, NumberFormat, Parallelism, TensorLayout};
pub use identity::{Identity, identity};
pub use level::{AA_COPY, Key, Level, Levels, factor_key, factor_name, number_text, places_of, rank_among};
pub use matrix::{AskedCell, Cell, Idle, InvalidCell, Matrix, Merged, asked_cells, check, expand, plan_of_cells};
pub use measure_unit::MeasureUnit;
pub use mode::Mode;
pub(crate) use named::named;
pub use node::{CudaState, Gpu, Node, Nsys, Versions, Worker};
pub use order::{PlannedRun, order, round_order};
pub use own::{MOST_OWN_MEASURES, PlannedMeasure};
pub use problem::{NAME_RULE, PlanError, Problem, is_name, suggestion};
pub use read::plan_words;
pub use remark::{Remark, remarks};
pub use resolved::{Resolved, resolved};
pub use run::RunState;
pub use search::{Bound, Goal, KeptLimit, Search};
pub use searched::{DropReason, Dropped, SearchCost, SearchEnd, SearchStep, SearchVerdict, Standing};
pub use shape::{Binding, Estimate, Limits, MemoryKinds, Shape};
pub use study::{StudyEntry, StudyTable};
pub use toml_values::TomlValues;
pub use topology::{Link, LinkKind, NumaNode, Topology};
pub use tracing::{Capture, Tracer, Tracing, WindowRole};
pub use warm_up::WarmUp;
pub use workload::{
    Better, CUDA_GRAPH_WARM_UP_STEPS, Command, DeclaredMeasure, GPUS, GPUS_PER_NODE, Kernels, NODES, OptimizerImpl,
    Passes, Request, USUAL_DATA, USUAL_STEP, Unit, WorkloadSpec, command, image, llm, obtainable, offered_levels,
    usual_workload, workload, workload_or_unknown, workloads,
};

/// Whether a value is its type's default, which files leave out because reading adds it again.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
