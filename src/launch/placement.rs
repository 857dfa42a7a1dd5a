//! Which rank runs where.

use crate::plan::Node;
use crate::protocol::RankPlace;

/// Places `gpus` ranks on a node: one whole GPU each, in the node's order, or CPU ranks that share the CPUs evenly
/// where the node cannot use CUDA.
///
/// # Errors
/// When no rank is asked for, or more than there are GPUs; GPUs in MIG mode do not count.
pub fn place(gpus: usize, node: &Node) -> Result<Vec<RankPlace>, String> {
    let ranks = u32::try_from(gpus).ok().filter(|ranks| *ranks > 0);
    let ranks = ranks.ok_or_else(|| format!("cannot place {gpus} ranks: a run needs at least 1"))?;
    let uuids = if node.has_cuda() { whole_gpus(gpus, node)? } else { vec![None; gpus] };
    let compute_threads = (node.cpus / ranks).max(1);
    let place = |(rank, gpu_uuid)| RankPlace { rank, gpu_uuid, cpus: Vec::new(), compute_threads };
    Ok((0..ranks).zip(uuids).map(place).collect())
}

fn whole_gpus(wanted: usize, node: &Node) -> Result<Vec<Option<String>>, String> {
    let whole: Vec<_> = node.gpus.iter().filter(|gpu| !gpu.mig).map(|gpu| Some(gpu.uuid.clone())).collect();
    if wanted <= whole.len() {
        return Ok(whole.into_iter().take(wanted).collect());
    }
    let split = match node.gpus.len() - whole.len() {
        0 => String::new(),
        mig => format!(" ({mig} more in MIG mode cannot be used whole: switch MIG off for them)"),
    };
    Err(format!("{wanted} GPUs are asked for, {} can be used on {}{split}: ask for fewer", whole.len(), node.hostname))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::plan::{CudaState, Gpu, Worker};

    fn node(mig: &[bool], cuda: CudaState) -> Node {
        let gpu = |(index, mig): (usize, &bool)| Gpu {
            index: index as u32,
            uuid: format!("GPU-{index}"),
            name: "NVIDIA H200".into(),
            memory_bytes: 150 << 30,
            numa_node: None,
            mig: *mig,
        };
        let worker = Worker {
            path: PathBuf::from("multicard-worker"),
            version: "0.1.0".into(),
            protocol_version: crate::protocol::PROTOCOL_VERSION,
            torch_version: "2.11.0".into(),
            cuda,
        };
        Node {
            hostname: "node".into(),
            system: "Linux".into(),
            cpu_model: "CPU".into(),
            cpus: 6,
            memory_bytes: 1 << 34,
            numa_nodes: 1,
            driver: None,
            no_gpu_reason: None,
            gpus: mig.iter().enumerate().map(gpu).collect(),
            worker: Ok(worker),
        }
    }

    fn uuids(places: &[RankPlace]) -> Vec<Option<&str>> {
        places.iter().map(|place| place.gpu_uuid.as_deref()).collect()
    }

    #[test]
    fn ranks_get_whole_gpus_in_order_and_skip_mig() {
        let node = node(&[false, true, false], CudaState::Available);
        let places = place(2, &node).unwrap();
        assert_eq!(uuids(&places), [Some("GPU-0"), Some("GPU-2")]);
        assert_eq!(places.iter().map(|place| place.rank).collect::<Vec<_>>(), [0, 1]);
        assert!(places.iter().all(|place| place.cpus.is_empty() && place.compute_threads == 3));
    }

    #[test]
    fn more_ranks_than_gpus_are_refused_with_both_counts() {
        let text = place(3, &node(&[false, true], CudaState::Available)).unwrap_err();
        assert!(text.contains("3 GPUs") && text.contains("1 can be used") && text.contains("1 more in MIG"), "{text}");
        assert!(place(0, &node(&[false], CudaState::Available)).is_err());
    }

    #[test]
    fn without_cuda_ranks_share_the_cpus_and_have_at_least_one_thread() {
        let unavailable = CudaState::Unavailable { reason: "no driver".into() };
        for (ranks, threads) in [(1, 6), (4, 1), (9, 1)] {
            let places = place(ranks, &node(&[false], unavailable.clone())).unwrap();
            assert_eq!(places.len(), ranks);
            assert!(places.iter().all(|place| place.gpu_uuid.is_none() && place.compute_threads == threads));
        }
    }
}
