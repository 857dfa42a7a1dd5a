//! Placement of ranks on fictional machines.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use super::*;
use crate::plan::fixture::{cpu_node, gpu_node};

/// Two NUMA nodes with 32 CPUs each (or fewer, `cpus` in total); even GPUs are on the first.
fn two_nodes(cpus: u32) -> Topology {
    let half = cpus / 2;
    let numa = |id: u32| NumaNode {
        id,
        cpus: half,
        usable_cpus: (id * half..(id + 1) * half).collect(),
        ..NumaNode::default()
    };
    Topology { links: Vec::new(), numa: vec![numa(0), numa(1)] }
}

fn one_node(cpus: u32) -> Topology {
    Topology {
        links: Vec::new(),
        numa: vec![NumaNode { cpus, usable_cpus: (0..cpus).collect(), ..NumaNode::default() }],
    }
}

/// Ranks with one device each.
fn ranks_of(processes: u32, binding: Binding) -> Shape {
    Shape { processes, binding, ..Shape::default() }
}

/// One rank on several devices.
fn threads_of(devices_per_process: u32, binding: Binding) -> Shape {
    Shape { devices_per_process, binding, ..Shape::default() }
}

fn ranks(shape: &Shape, node: &Node, topology: &Topology) -> Vec<RankPlace> {
    place(shape, node, topology).unwrap().ranks
}

fn uuids(places: &[RankPlace]) -> Vec<Option<&str>> {
    places.iter().map(|place| place.gpu_uuid.as_deref()).collect()
}

#[test]
fn ranks_get_whole_gpus_and_skip_mig() {
    let mut node = gpu_node(3);
    node.gpus[1].mig = true;
    let places = ranks(&ranks_of(2, Binding::Off), &node, &Topology::default());
    assert_eq!(uuids(&places), [Some("GPU-0"), Some("GPU-2")]);
    assert_eq!(places.iter().map(|place| place.rank).collect::<Vec<_>>(), [0, 1]);
    assert!(places.iter().all(|place| place.cpus.is_empty() && place.memory.is_none() && place.compute_threads == 32));
}

#[test]
fn threads_of_one_process_get_all_their_gpus_in_one_place() {
    let places = ranks(&threads_of(2, Binding::Off), &gpu_node(2), &Topology::default());
    assert_eq!(places.len(), 1);
    assert_eq!(places[0].gpu_uuids().collect::<Vec<_>>(), ["GPU-0", "GPU-1"]);
    assert_eq!(places[0].compute_threads, 32);
    let places = ranks(&threads_of(2, Binding::Off), &cpu_node(), &Topology::default());
    assert_eq!((places.len(), places[0].gpu_uuids().count(), places[0].compute_threads), (1, 0, 2));
}

#[test]
fn more_ranks_than_gpus_are_refused_with_both_counts() {
    let mut node = gpu_node(2);
    node.gpus[1].mig = true;
    let text = place(&ranks_of(3, Binding::Off), &node, &Topology::default()).unwrap_err();
    assert!(text.contains("3 GPUs") && text.contains("1 can be used") && text.contains("1 more in MIG"), "{text}");
    assert!(place(&ranks_of(0, Binding::Off), &node, &Topology::default()).is_err());
}

#[test]
fn without_cuda_ranks_share_the_cpus_and_have_at_least_one_thread() {
    for (count, threads) in [(1, 4), (4, 1), (9, 1)] {
        let places = ranks(&ranks_of(count, Binding::Off), &cpu_node(), &Topology::default());
        assert_eq!(places.len(), count as usize);
        assert!(places.iter().all(|place| place.gpu_uuid.is_none() && place.compute_threads == threads));
    }
}

#[test]
fn local_ranks_are_on_the_node_of_their_gpu() {
    let places = ranks(&ranks_of(3, Binding::Local), &gpu_node(3), &two_nodes(64));
    let bound = |nodes: &[u32]| Some(MemoryPolicy::Bind { nodes: nodes.to_vec() });
    // The set within one NUMA node comes first: 0 and 2, then the rest.
    let seen: Vec<_> =
        places.iter().map(|place| (place.gpu_uuid.as_deref().unwrap(), place.cpus[0], &place.memory)).collect();
    assert_eq!(seen, [("GPU-0", 0, &bound(&[0])), ("GPU-1", 32, &bound(&[1])), ("GPU-2", 0, &bound(&[0]))]);
    assert!(places.iter().all(|place| place.cpus.len() == 32));
    // Two of the ranks share a node's 32 CPUs.
    assert_eq!(places.iter().map(|place| place.compute_threads).collect::<Vec<_>>(), [16, 21, 16]);
    // One process on GPUs of both nodes is bound to both.
    let places = ranks(&threads_of(3, Binding::Local), &gpu_node(3), &two_nodes(64));
    assert_eq!((places[0].cpus.len(), &places[0].memory), (64, &bound(&[0, 1])));
}

#[test]
fn local_ranks_without_gpus_spread_over_the_nodes() {
    let places = ranks(&ranks_of(2, Binding::Local), &cpu_node(), &two_nodes(4));
    assert_eq!(places.iter().map(|place| place.cpus.clone()).collect::<Vec<_>>(), [vec![0, 1], vec![2, 3]]);
    assert_eq!(places[1].memory, Some(MemoryPolicy::Bind { nodes: vec![1] }));
    assert_eq!(places[1].compute_threads, 2);
}

#[test]
fn first_node_puts_everything_there_and_interleave_spreads_memory_alone() {
    let places = ranks(&ranks_of(4, Binding::FirstNode), &gpu_node(4), &two_nodes(64));
    assert!(places.iter().all(|place| place.cpus == (0..32).collect::<Vec<_>>() && place.compute_threads == 8));
    assert!(places.iter().all(|place| place.memory == Some(MemoryPolicy::Bind { nodes: vec![0] })));
    let places = ranks(&ranks_of(4, Binding::Interleave), &gpu_node(4), &two_nodes(64));
    assert!(places.iter().all(|place| place.cpus.is_empty() && place.compute_threads == 16));
    assert!(places.iter().all(|place| place.memory == Some(MemoryPolicy::Interleave { nodes: vec![0, 1] })));
}

#[test]
fn on_one_node_ranks_are_bound_to_it_wherever_the_machine_says_their_gpus_are() {
    let mut node = gpu_node(1);
    node.gpus[0].numa_node = None;
    let places = ranks(&ranks_of(1, Binding::Local), &node, &one_node(64));
    assert_eq!((places[0].cpus.len(), &places[0].memory), (64, &Some(MemoryPolicy::Bind { nodes: vec![0] })));
    let text = place(&ranks_of(1, Binding::Local), &node, &two_nodes(64)).unwrap_err();
    assert!(text.contains("the NUMA node of GPU 0 is unknown"), "{text}");
}

#[test]
fn a_node_whose_cpus_this_process_may_not_use_is_named() {
    let mut topology = two_nodes(64);
    topology.numa[1].usable_cpus.clear();
    let text = place(&ranks_of(2, Binding::Local), &gpu_node(2), &topology).unwrap_err();
    assert!(text.contains("GPU 1 is on NUMA node 1, and this process may use none"), "{text}");
    assert!(place(&ranks_of(2, Binding::FirstNode), &gpu_node(2), &topology).is_ok());
}

/// Packs cells of one kind until there is no room left.
fn packed(shape: &Shape, node: &Node, topology: &Topology) -> Vec<RankPlace> {
    let mut taken: Vec<RankPlace> = Vec::new();
    while let Some(placement) = place_beside(shape, node, topology, &taken).unwrap() {
        taken.extend(placement.ranks);
    }
    taken
}

#[test]
fn runs_side_by_side_have_gpus_and_cpus_of_their_own() {
    for binding in [Binding::Off, Binding::Local, Binding::Interleave] {
        let taken = packed(&ranks_of(2, binding), &gpu_node(5), &two_nodes(64));
        let gpus: BTreeSet<&str> = taken.iter().flat_map(RankPlace::gpu_uuids).collect();
        let cpus: BTreeSet<u32> = taken.iter().flat_map(|place| place.cpus.clone()).collect();
        // Two runs of two of the five GPUs, each with a fifth of the CPUs.
        assert_eq!((taken.len(), gpus.len(), cpus.len()), (4, 4, 4 * 12), "{binding:?}");
        assert!(taken.iter().all(|place| place.compute_threads == 12));
    }
    let taken = packed(&ranks_of(1, Binding::Off), &gpu_node(2), &two_nodes(64));
    // Near their GPUs, although no binding requires it.
    assert_eq!((taken[0].cpus[0], taken[1].cpus[0]), (0, 32));
    assert!(taken.iter().all(|place| place.memory.is_none()));
}

#[test]
fn cpu_ranks_side_by_side_have_one_cpu_each() {
    let taken = packed(&ranks_of(1, Binding::Off), &cpu_node(), &two_nodes(4));
    assert_eq!(taken.iter().map(|place| place.cpus.clone()).collect::<Vec<_>>(), [[0], [1], [2], [3]]);
    let bound = packed(&ranks_of(1, Binding::FirstNode), &cpu_node(), &two_nodes(4));
    assert_eq!(bound.len(), 2);
    // The cgroup's quota counts, not the number of CPUs.
    let mut small = cpu_node();
    small.cpus = 2;
    assert_eq!(packed(&ranks_of(1, Binding::Off), &small, &two_nodes(4)).len(), 2);
}

#[test]
fn nothing_is_put_beside_a_run_that_may_use_all_cpus() {
    let alone = place(&ranks_of(1, Binding::Off), &cpu_node(), &two_nodes(4)).unwrap().ranks;
    assert_eq!(place_beside(&ranks_of(1, Binding::Off), &cpu_node(), &two_nodes(4), &alone), Ok(None));
}

#[test]
fn a_run_gets_the_gpus_that_its_plan_names_or_the_reason_why_not() {
    let listed = |list: &str| Shape { gpu_choice: list.parse().unwrap(), ..ranks_of(2, Binding::Off) };
    assert_eq!(uuids(&ranks(&listed("1,3"), &gpu_node(4), &two_nodes(64))), [Some("GPU-1"), Some("GPU-3")]);
    let placed = place(&listed("spread"), &gpu_node(4), &two_nodes(64)).unwrap();
    assert_eq!(uuids(&placed.ranks), [Some("GPU-0"), Some("GPU-1")]);
    let text = place(&listed("1,7"), &gpu_node(4), &two_nodes(64)).unwrap_err();
    assert!(text.contains("has no GPU 7, only 0, 1, 2, 3"), "{text}");
    assert!(place(&listed("0,1"), &cpu_node(), &two_nodes(4)).is_err());
    // Side by side, a run waits for its own GPUs.
    let first = place_beside(&listed("0,1"), &gpu_node(4), &two_nodes(64), &[]).unwrap().unwrap().ranks;
    assert_eq!(place_beside(&listed("1,2"), &gpu_node(4), &two_nodes(64), &first), Ok(None));
    let second = place_beside(&listed("2,3"), &gpu_node(4), &two_nodes(64), &first).unwrap().unwrap().ranks;
    assert_eq!(uuids(&second), [Some("GPU-2"), Some("GPU-3")]);
}

#[test]
fn what_would_never_have_room_is_refused() {
    let text = place_beside(&ranks_of(5, Binding::Off), &cpu_node(), &two_nodes(4), &[]).unwrap_err();
    assert!(text.contains("5 CPUs are needed and 4 are usable"), "{text}");
}

#[test]
fn a_program_that_uses_no_gpu_has_a_place_among_the_cpus() {
    let none = Shape { own_program: true, ..threads_of(0, Binding::Off) };
    let places = ranks(&none, &gpu_node(2), &Topology::default());
    assert_eq!((places.len(), places[0].gpu_uuids().count(), places[0].compute_threads), (1, 0, 64));
    let beside = place_beside(&none, &gpu_node(2), &one_node(64), &[]).unwrap().unwrap().ranks;
    assert_eq!((beside.len(), beside[0].gpu_uuids().count(), beside[0].cpus.len()), (1, 0, 1));
    assert!(
        place(&threads_of(0, Binding::Off), &gpu_node(2), &Topology::default()).is_err(),
        "ranks of the worker need one"
    );
}
