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
    BatchNorm, CudnnBenchmark, DataCopy, ImageSettings, Layout, Loader, Precision, Scenario, Strategy, Tf32, WireDtype,
};

use super::{Request, USUAL_STEP, Unit, WorkloadSpec};
use crate::plan::{Estimate, Shape};

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
            factors: factors::factors(),
            data_sets: data::rules(),
            cuts: vec!["train_images".into(), "test_images".into()],
            measures: Vec::new(),
            command: None,
            check,
        })
    });
    SPEC.clone()
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
