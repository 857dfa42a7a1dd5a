//! The `image` workload: MobileNetV2 on images of digits (2503.15252 section 3).

mod constraints;
mod data;
mod estimate;
mod factors;
mod settings;

use std::sync::{Arc, LazyLock};

use constraints::{Candidate, reason};
pub use data::{Corrupt, DataSet, Decode};
pub use settings::{
    BatchNorm, CudnnBenchmark, DataCopy, ImageSettings, Layout, Loader, Precision, Scenario, Strategy, Tf32,
    UpdateRule, WireDtype,
};

use super::{GPUS, Request, USUAL_DATA, USUAL_STEP, Unit, WorkloadSpec};
use crate::plan::{Estimate, Kernels, Key, Shape};

/// The workload's key.
pub const KEY: &str = "image";

/// The workload.
pub fn spec() -> Arc<WorkloadSpec> {
    static SPEC: LazyLock<Arc<WorkloadSpec>> = LazyLock::new(|| {
        Arc::new(WorkloadSpec {
            key: KEY.into(),
            name: "Images".into(),
            unit: Unit { one: "image".into(), many: "images".into() },
            step: USUAL_STEP.into(),
            data_name: USUAL_DATA.into(),
            factors: factors::factors(),
            main_factors: main_factors(),
            data_sets: data::rules(),
            cuts: vec!["train_images".into(), "test_images".into()],
            measures: Vec::new(),
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
        Precision::KEY,
        Layout::KEY,
        Kernels::KEY,
        "pin_memory",
        Loader::KEY,
        Strategy::KEY,
        GPUS,
        "image_size",
        "batch_size",
        "epochs",
    ];
    keys.map(Key::from).into()
}

fn check(request: &Request) -> Result<(Shape, Estimate), String> {
    let settings = ImageSettings::from_levels(request.levels)?;
    let data = DataSet::read(request.data)?;
    let costs = estimate::image(&settings, &data, request.node);
    let candidate =
        Candidate { settings: &settings, data: &data, costs: &costs, limits: request.limits, node: request.node };
    match reason(&candidate) {
        Some(reason) => Err(reason),
        None => Ok((settings.shape(), costs.estimate)),
    }
}
