//! Choice of GPUs for a run on several GPUs: the set with the best interconnects.

use crate::plan::{Gpu, GpuChoice, LinkKind, Topology, by_numa_node};

/// The largest number of GPUs to choose from; further GPUs are ignored. No current machine has more.
const MOST_GPUS: usize = 16;

/// Chooses `wanted` of the free GPUs by the plan's `gpu_set`; `None` while other runs use too many of the suitable GPUs.
pub(super) fn choose_by<'a>(
    choice: GpuChoice,
    free: &[&'a Gpu],
    wanted: usize,
    topology: &Topology,
) -> Option<Vec<&'a Gpu>> {
    let enough = |gpus: &[&'a Gpu]| (wanted <= gpus.len()).then(|| choose(gpus, wanted, topology));
    match choice {
        GpuChoice::Nearest => enough(free),
        GpuChoice::Only(_) => {
            let listed = choice.listed().unwrap_or_default();
            let of_list: Vec<&Gpu> = free.iter().copied().filter(|gpu| listed.contains(&gpu.index)).collect();
            enough(&of_list)
        }
        GpuChoice::SameSocket => by_numa_node(free.iter().copied()).values().find_map(|gpus| enough(gpus)),
        GpuChoice::Spread => {
            let by_node = by_numa_node(free.iter().copied());
            let most = by_node.values().map(Vec::len).max().unwrap_or(0);
            let in_turn = (0..most).flat_map(|place| by_node.values().filter_map(move |gpus| gpus.get(place).copied()));
            let chosen: Vec<&Gpu> = in_turn.take(wanted).collect();
            (chosen.len() == wanted && by_node.len() > 1).then_some(chosen)
        }
    }
}

/// Chooses `wanted` of the usable GPUs: the set with the best interconnects between its pairs, and among equal sets the first in the given
/// order. One NVLink counts more than any number of PCIe switches, and one PCIe switch more than any number of pairs on one NUMA node. If
/// fewer GPUs are usable than wanted, all are chosen.
fn choose<'a>(usable: &[&'a Gpu], wanted: usize, topology: &Topology) -> Vec<&'a Gpu> {
    if wanted < 2 || wanted >= usable.len() || wanted > MOST_GPUS {
        return usable.iter().copied().take(wanted).collect();
    }
    let candidates = &usable[..usable.len().min(MOST_GPUS)];
    let mut search = Search { candidates, wanted, topology, chosen: Vec::new(), best: Vec::new(), best_score: 0 };
    search.extend(0, 0);
    search.best.iter().map(|place| candidates[*place]).collect()
}

struct Search<'a, 'b> {
    candidates: &'b [&'a Gpu],
    wanted: usize,
    topology: &'b Topology,
    chosen: Vec<usize>,
    best: Vec<usize>,
    best_score: u64,
}

impl Search<'_, '_> {
    /// Tries every set that starts with the chosen GPUs, in order. Among sets with equal scores, the first one is kept.
    fn extend(&mut self, from: usize, chosen_score: u64) {
        if self.chosen.len() == self.wanted {
            if self.best.is_empty() || chosen_score > self.best_score {
                (self.best, self.best_score) = (self.chosen.clone(), chosen_score);
            }
            return;
        }
        for next in from..self.candidates.len() {
            let own: u64 = self.chosen.iter().map(|other| self.score(*other, next)).sum();
            self.chosen.push(next);
            self.extend(next + 1, chosen_score + own);
            self.chosen.pop();
        }
    }

    fn score(&self, a: usize, b: usize) -> u64 {
        let (a, b) = (self.candidates[a], self.candidates[b]);
        // A set has at most 120 pairs, so that each class counts more than all pairs of the class below.
        match self.topology.link(a.index, b.index) {
            Some(LinkKind::NvLink(links)) => 60_000 + u64::from(links),
            Some(LinkKind::Pix) => 400,
            Some(LinkKind::Pxb) => 300,
            Some(LinkKind::Phb) => 2,
            Some(LinkKind::Node) => 1,
            Some(LinkKind::Sys) => 0,
            // Without the driver's information, only the kernel's NUMA nodes are left.
            None => u64::from(a.numa_node.is_some() && a.numa_node == b.numa_node),
        }
    }
}

/// The interconnects of a set's pairs, the most frequent first: `NV18`, or `4 × SYS, 2 × NV12`; empty for fewer than two GPUs.
pub(super) fn interconnects(gpus: &[&Gpu], topology: &Topology) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for (place, a) in gpus.iter().enumerate() {
        for b in &gpus[place + 1..] {
            let name = topology.link(a.index, b.index).map_or("unknown".to_owned(), LinkKind::name);
            match counts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => counts.push((name, 1)),
            }
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    match counts.as_slice() {
        [(only, _)] => only.clone(),
        several => several.iter().map(|(name, count)| format!("{count} × {name}")).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::Link;
    use crate::plan::fixture::gpu_node;

    /// A machine whose pairs have the interconnects that `link` returns.
    fn topology(gpus: u32, link: impl Fn(u32, u32) -> LinkKind) -> Topology {
        let pairs = (0..gpus).flat_map(|a| (a + 1..gpus).map(move |b| (a, b)));
        Topology { links: pairs.map(|(a, b)| Link { a, b, kind: link(a, b) }).collect(), numa: Vec::new() }
    }

    fn chosen(gpus: u32, without: &[u32], wanted: usize, topology: &Topology) -> (Vec<u32>, String) {
        let node = gpu_node(gpus);
        let usable: Vec<&Gpu> = node.gpus.iter().filter(|gpu| !without.contains(&gpu.index)).collect();
        let set = choose(&usable, wanted, topology);
        (set.iter().map(|gpu| gpu.index).collect(), interconnects(&set, topology))
    }

    #[test]
    fn behind_one_nvlink_switch_all_sets_are_equal_and_the_first_is_taken() {
        let switched = topology(8, |_, _| LinkKind::NvLink(18));
        assert_eq!(chosen(8, &[], 3, &switched), (vec![0, 1, 2], "NV18".to_owned()));
        assert_eq!(chosen(8, &[], 8, &switched).0, (0..8).collect::<Vec<_>>());
        assert_eq!(chosen(8, &[0, 2], 4, &switched).0, [1, 3, 4, 5]);
        assert_eq!(chosen(8, &[], 1, &switched), (vec![0], String::new()));
    }

    #[test]
    fn pairs_with_nvlink_are_taken_as_pairs() {
        // 0-2 and 1-3 are bridged, the halves are on two sockets.
        let pairs = topology(4, |a, b| if b == a + 2 { LinkKind::NvLink(12) } else { LinkKind::Sys });
        assert_eq!(chosen(4, &[], 2, &pairs), (vec![0, 2], "NV12".to_owned()));
        assert_eq!(chosen(4, &[0], 2, &pairs), (vec![1, 3], "NV12".to_owned()));
        assert_eq!(chosen(4, &[], 3, &pairs), (vec![0, 1, 2], "2 × SYS, 1 × NV12".to_owned()));
    }

    #[test]
    fn gpus_are_chosen_as_the_plan_asks() {
        let node = gpu_node(6);
        let free: Vec<&Gpu> = node.gpus.iter().filter(|gpu| gpu.index != 1).collect();
        let set_of = |text: &str, wanted| {
            let chosen = choose_by(text.parse().unwrap(), &free, wanted, &Topology::default())?;
            Some(chosen.iter().map(|gpu| gpu.index).collect::<Vec<_>>())
        };
        // Even GPUs are on NUMA node 0, odd ones on 1.
        assert_eq!(set_of("same-socket", 3), Some(vec![0, 2, 4]));
        assert_eq!(set_of("spread", 3), Some(vec![0, 3, 2]));
        assert_eq!(set_of("3,5", 2), Some(vec![3, 5]));
        assert_eq!(set_of("2,5", 1), Some(vec![2]));
        assert_eq!(set_of("1,5", 2), None, "GPU 1 is taken");
        assert_eq!(set_of("same-socket", 4), None);
    }

    #[test]
    fn more_nvlinks_are_better() {
        let mesh = topology(4, |a, b| LinkKind::NvLink(if (a, b) == (1, 2) { 2 } else { 1 }));
        assert_eq!(chosen(4, &[], 2, &mesh), (vec![1, 2], "NV2".to_owned()));
    }

    #[test]
    fn without_nvlink_a_switch_is_better_than_a_socket_and_a_socket_than_none() {
        // Sockets hold 0-3 and 4-7; 5, 6 and 7 are below one switch.
        let pcie = topology(8, |a, b| match (a, b) {
            (5, 6) | (6, 7) => LinkKind::Pix,
            (5, 7) => LinkKind::Pxb,
            _ if (a < 4) == (b < 4) => LinkKind::Node,
            _ => LinkKind::Sys,
        });
        assert_eq!(chosen(8, &[], 2, &pcie).0, [5, 6]);
        assert_eq!(chosen(8, &[], 3, &pcie), (vec![5, 6, 7], "2 × PIX, 1 × PXB".to_owned()));
        assert_eq!(chosen(8, &[], 4, &pcie).0, [4, 5, 6, 7]);
        assert_eq!(chosen(8, &[5, 6], 2, &pcie).0, [0, 1]);
    }

    #[test]
    fn without_interconnects_from_the_driver_numa_nodes_decide() {
        // The machine's even GPUs are on node 0.
        assert_eq!(chosen(4, &[], 2, &Topology::default()), (vec![0, 2], "unknown".to_owned()));
    }
}
