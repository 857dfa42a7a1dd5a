//! Machines and plans for tests.

use super::{CudaState, Gpu, Level, Node, Nsys, Plan, Worker, image};

fn worker(cuda: CudaState) -> Worker {
    Worker {
        path: "multicard-worker".into(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol_version: 1,
        torch_version: "2.11.0".to_owned(),
        cuda,
        dali: Ok("dali".into()),
        versions: Default::default(),
    }
}

/// Four CPUs, no GPU.
pub(crate) fn cpu_node() -> Node {
    Node {
        hostname: "small".to_owned(),
        system: "Linux 6.1".to_owned(),
        cpu_model: "a processor".to_owned(),
        cpus: 4,
        memory_bytes: 16_000_000_000,
        numa_nodes: 1,
        driver: None,
        no_gpu_reason: Some("the driver is missing".to_owned()),
        gpus: Vec::new(),
        nodes: 1,
        worker: Ok(worker(CudaState::Unavailable { reason: "no CUDA libraries".to_owned() })),
        nsys: Err("it is not on PATH".to_owned()),
        tracer: Err("it was not built".to_owned()),
    }
}

/// A machine with H200s.
pub(crate) fn gpu_node(gpus: u32) -> Node {
    let gpu = |index| Gpu {
        index,
        uuid: format!("GPU-{index}"),
        name: "NVIDIA H200".to_owned(),
        memory_bytes: 141_000_000_000,
        numa_node: Some(index % 2),
        mig: false,
        compute_capability: Some((9, 0)),
    };
    Node {
        hostname: "large".to_owned(),
        cpus: 64,
        memory_bytes: 1_000_000_000_000,
        numa_nodes: 2,
        driver: Some("580.0".to_owned()),
        no_gpu_reason: None,
        gpus: (0..gpus).map(gpu).collect(),
        worker: Ok(worker(CudaState::Available)),
        nsys: Ok(Nsys { path: "nsys".into(), version: "2025.3".to_owned() }),
        ..cpu_node()
    }
}

/// A plan with defaults, except for these factors.
pub(crate) fn small_plan(ticked: &[(&'static str, Vec<Level>)]) -> Plan {
    let mut plan = Plan::new("small", image::spec());
    for (key, levels) in &mut plan.first.factors {
        if let Some((_, ticked)) = ticked.iter().find(|(name, _)| key == name) {
            levels.clone_from(ticked);
        }
    }
    plan
}
