//! This machine and the worker found on it.

use std::thread;

use crate::launch::{self, WorkerCommand};
use crate::plan::{Node, Topology};
use crate::{telemetry, trace};

/// This machine and the worker found on it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// GPUs, CPUs, memory and installed tools.
    pub node: Node,
    /// GPU interconnects and NUMA nodes.
    pub topology: Topology,
    /// The worker binary, if one was found.
    pub worker: Option<WorkerCommand>,
}

impl Machine {
    /// Queries the hardware and the worker. Takes seconds: do not call it on the window's thread.
    pub fn look() -> Self {
        // To describe itself, the worker loads CUDA's libraries, which takes a second or more.
        let (found, mut node) = thread::scope(|scope| {
            let describing = thread::Builder::new().name("worker".to_owned()).spawn_scoped(scope, launch::find_worker);
            let node = node_without_worker();
            let description = describing.ok().and_then(|describing| describing.join().ok());
            (description.unwrap_or_else(launch::find_worker), node)
        });
        node.worker = found.as_ref().map(|worker| worker.description.clone()).map_err(Clone::clone);
        let topology = telemetry::read_topology(&node);
        Self { node, topology, worker: found.ok() }
    }
}

/// The machine without its worker.
fn node_without_worker() -> Node {
    let mut node = telemetry::read_node();
    node.nsys = trace::find_nsys();
    node.tracer = match &node.no_gpu_reason {
        Some(_) => Err("this machine has no GPU that can be used".to_owned()),
        None => trace::find_tracer(),
    };
    node
}
