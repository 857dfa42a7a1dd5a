//! The `llm` workload: fine-tuning of Llama 3 models (2505.22905 section 5).

mod constraints;
mod data;
mod estimate;
mod factors;
mod model;
mod settings;
mod stand_in;

use std::sync::{Arc, LazyLock};

use constraints::{Candidate, reason};
pub use data::{LlmData, Source};
pub use model::{ModelConfig, RopeScaling};
pub use settings::{
    DataSet, FsdpGather, FsdpWrap, LlmSettings, Lora, LoraTargets, Model, Precision, Sharding, Technique, Template,
    Tf32, TrainOnInput,
};
pub use stand_in::{Lengths, STAND_IN_BLOCK};

use super::{Better, DeclaredMeasure, GPUS, Request, Unit, WorkloadSpec};
use crate::plan::{Estimate, Kernels, Key, Shape};

/// The workload's key.
pub const KEY: &str = "llm";

/// The workload `llm`.
pub fn spec() -> Arc<WorkloadSpec> {
    static SPEC: LazyLock<Arc<WorkloadSpec>> = LazyLock::new(|| {
        Arc::new(WorkloadSpec {
            key: KEY.into(),
            name: "Language models".into(),
            unit: Unit { one: "token".into(), many: "tokens".into() },
            step: "iteration".into(),
            data_name: "Rows".into(),
            factors: factors::factors(),
            main_factors: main_factors(),
            data_sets: data::rules(),
            cuts: vec!["rows".into(), "test_rows".into()],
            measures: measures(),
            recurring_cells: Default::default(),
            declared_cells: Default::default(),
            command: None,
            check,
        })
    });
    SPEC.clone()
}

/// The factors that most plans vary, in the order of their cards.
fn main_factors() -> Vec<Key> {
    let keys = [
        Technique::KEY,
        Model::KEY,
        DataSet::KEY,
        Precision::KEY,
        Kernels::KEY,
        "pin_memory",
        GPUS,
        "batch_size",
        "max_tokens",
        "rows",
        "epochs",
    ];
    keys.map(Key::from).into()
}

/// Measures besides the built-in ones.
fn measures() -> Vec<DeclaredMeasure> {
    let measure = |key: &str, name: &str, unit: &str, better: Better| DeclaredMeasure {
        key: key.into(),
        name: name.into(),
        unit: unit.into(),
        better,
        on_speed: false,
        written_steps: None,
        recurring_cells: Default::default(),
        dependent_cells: Default::default(),
    };
    vec![
        measure("step_learning_rate", "Learning rate of a step", "", Better::Neither),
        measure("gradient_norm", "Gradient norm", "", Better::Neither),
        measure("padding_share", "Padding", "", Better::Lower),
        measure("rewards_chosen", "Reward of chosen answers", "", Better::Neither),
        measure("rewards_rejected", "Reward of rejected answers", "", Better::Neither),
        measure("reward_margin", "Reward margin", "", Better::Higher),
        measure("reward_accuracy", "Pairs with a positive margin", "", Better::Higher),
        measure("made_answers_share", "Pairs with a made answer", "", Better::Neither),
    ]
}

fn check(request: &Request) -> Result<(Shape, Estimate), String> {
    let settings = LlmSettings::from_levels(request.levels)?;
    let data = LlmData::read(request.data)?;
    let model = data.model(settings.model)?;
    let rows = settings.lengths();
    let memory = estimate::memory(&settings, &model, &rows);
    let estimate = estimate::run(&settings, &model, &rows, &memory, request.node);
    let candidate = Candidate {
        settings: &settings,
        data: &data,
        model: &model,
        rows: &rows,
        memory: &memory,
        estimate: &estimate,
        limits: request.limits,
        node: request.node,
    };
    match reason(&candidate) {
        Some(reason) => Err(reason),
        None => Ok((settings.shape(&rows), estimate)),
    }
}

#[cfg(test)]
#[path = "llm/tests.rs"]
mod tests;
