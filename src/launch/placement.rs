//! Which rank runs where.

use crate::plan::{Level, Levels, Node, Strategy};
use crate::protocol::RankPlace;

/// Places a cell's `gpus` on a node: a rank for each, or one rank for all where the strategy is threads of one process. GPUs are
/// whole and in the node's order; where the node cannot use CUDA, CPU ranks share the CPUs evenly.
///
/// # Errors
/// When no rank is asked for, or more than there are GPUs; GPUs in MIG mode do not count.
pub fn place(levels: &Levels, node: &Node) -> Result<Vec<RankPlace>, String> {
    let gpus = levels.get("gpus").and_then(Level::as_integer).unwrap_or(1);
    let count = u32::try_from(gpus).ok().filter(|count| *count > 0);
    let count = count.ok_or_else(|| format!("cannot place {gpus} ranks: a run needs at least 1"))?;
    let mut uuids = if node.has_cuda() { whole_gpus(count as usize, node)? } else { Vec::new() }.into_iter();
    let one_process = levels.get(Strategy::KEY).and_then(Level::as_text) == Some(Strategy::Dp.name());
    let ranks = if one_process { 1 } else { count };
    // Replicas of one process compute at the same time too.
    let compute_threads = (node.cpus / count).max(1);
    let place = |rank| {
        let gpu_uuid = uuids.next();
        let more_gpu_uuids = if one_process { uuids.by_ref().collect() } else { Vec::new() };
        RankPlace { gpu_uuid, more_gpu_uuids, ..RankPlace::on_cpu(rank, compute_threads) }
    };
    Ok((0..ranks).map(place).collect())
}

fn whole_gpus(wanted: usize, node: &Node) -> Result<Vec<String>, String> {
    let whole: Vec<_> = node.gpus.iter().filter(|gpu| !gpu.mig).map(|gpu| gpu.uuid.clone()).collect();
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
            dali: Err("not installed".into()),
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

    fn levels(gpus: i64, strategy: &'static str) -> Levels {
        Levels::new(vec![("gpus", Level::Integer(gpus)), (Strategy::KEY, Level::text(strategy))])
    }

    fn uuids(places: &[RankPlace]) -> Vec<Option<&str>> {
        places.iter().map(|place| place.gpu_uuid.as_deref()).collect()
    }

    #[test]
    fn ranks_get_whole_gpus_in_order_and_skip_mig() {
        let node = node(&[false, true, false], CudaState::Available);
        let places = place(&levels(2, "ddp-ds"), &node).unwrap();
        assert_eq!(uuids(&places), [Some("GPU-0"), Some("GPU-2")]);
        assert_eq!(places.iter().map(|place| place.rank).collect::<Vec<_>>(), [0, 1]);
        assert!(places.iter().all(|place| place.cpus.is_empty() && place.compute_threads == 3));
    }

    #[test]
    fn threads_of_one_process_get_all_their_gpus_in_one_place() {
        let places = place(&levels(2, "dp"), &node(&[false, true, false], CudaState::Available)).unwrap();
        assert_eq!(places.len(), 1);
        assert_eq!(places[0].gpu_uuids().collect::<Vec<_>>(), ["GPU-0", "GPU-2"]);
        assert_eq!(places[0].compute_threads, 3);
        let unavailable = CudaState::Unavailable { reason: "no driver".into() };
        let places = place(&levels(2, "dp"), &node(&[], unavailable)).unwrap();
        assert_eq!((places.len(), places[0].gpu_uuids().count(), places[0].compute_threads), (1, 0, 3));
    }

    #[test]
    fn more_ranks_than_gpus_are_refused_with_both_counts() {
        let text = place(&levels(3, "ddp-ds"), &node(&[false, true], CudaState::Available)).unwrap_err();
        assert!(text.contains("3 GPUs") && text.contains("1 can be used") && text.contains("1 more in MIG"), "{text}");
        assert!(place(&levels(0, "ddp-ds"), &node(&[false], CudaState::Available)).is_err());
    }

    #[test]
    fn without_cuda_ranks_share_the_cpus_and_have_at_least_one_thread() {
        let unavailable = CudaState::Unavailable { reason: "no driver".into() };
        for (ranks, threads) in [(1, 6), (4, 1), (9, 1)] {
            let places = place(&levels(ranks, "ddp"), &node(&[false], unavailable.clone())).unwrap();
            assert_eq!(places.len(), ranks as usize);
            assert!(places.iter().all(|place| place.gpu_uuid.is_none() && place.compute_threads == threads));
        }
    }
}
