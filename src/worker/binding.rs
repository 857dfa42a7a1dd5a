//! Binds a rank to CPUs and to the memory of NUMA nodes. The supervisor sets the CPUs before the rank starts. The rank sets its memory
//! policy before anything else, and proves both by reading back on which CPUs its threads may run and on which nodes its pages lie.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::OnceLock;

use multicard::plan::Binding;
use multicard::protocol::{Evidence, MemoryPolicy, RankPlace, ranges_text};
use tch::TchError;

use crate::shim::ThreadPolicy;

/// The system's error message, if the system refused to set this process's memory policy.
static REFUSAL: OnceLock<String> = OnceLock::new();

/// Minimum share of a rank's memory that must lie on the nodes to which it is bound.
const BOUND_SHARE: f64 = 0.95;
/// Maximum deviation of a node's share from an even share when memory is interleaved.
const UNEVEN_SHARE: f64 = 0.5;

/// Sets this process's memory policy as its place says. Call it before any thread is started, because threads inherit the policy, and
/// before data are loaded. What is already loaded lies on the node of the CPUs that the supervisor has set. If the system refuses the
/// policy, as it may in containers, the rank continues and its evidence says so.
pub fn bind_memory(place: &RankPlace) {
    if let Some(Err(error)) = place.memory.as_ref().map(|memory| ThreadPolicy::from(memory).set()) {
        // Set once per process.
        let _ = REFUSAL.set(text(error));
    }
}

/// The system's error message, without the prefix that tch adds.
fn text(error: TchError) -> String {
    match error {
        TchError::Torch(text) => text,
        other => other.to_string(),
    }
}

/// Evidence of this process's binding. Call it once its data are in memory and its threads are running.
pub fn evidence(asked: Binding, place: &RankPlace) -> Evidence {
    Seen::of_this_process().evidence(asked, place)
}

/// CPUs and memory of a process according to the kernel.
struct Seen {
    /// CPUs of each thread, the main thread first.
    threads: Vec<BTreeSet<u32>>,
    policy: Result<ThreadPolicy, String>,
    /// Bytes of its private memory on each node; `None` if the kernel does not report them.
    bytes: Option<BTreeMap<u32, u64>>,
    /// NUMA nodes of the machine.
    nodes: usize,
}

impl Seen {
    fn of_this_process() -> Self {
        let own = std::process::id();
        let mut ids: Vec<u32> = fs::read_dir("/proc/self/task")
            .into_iter()
            .flatten()
            .filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        ids.sort_by_key(|id| (*id != own, *id));
        // A thread that has ended in the meantime has no status.
        let status = |id| fs::read_to_string(format!("/proc/self/task/{id}/status")).ok();
        let online = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
        Self {
            threads: ids.into_iter().filter_map(status).filter_map(|text| allowed_cpus(&text)).collect(),
            policy: match REFUSAL.get() {
                Some(refusal) => Err(refusal.clone()),
                None => ThreadPolicy::current().map_err(text),
            },
            bytes: fs::read_to_string("/proc/self/numa_maps").ok().map(|text| bytes_per_node(&text)),
            nodes: list(&online).len().max(1),
        }
    }

    fn evidence(&self, asked: Binding, place: &RankPlace) -> Evidence {
        let in_effect = match &place.memory {
            // No binding was requested.
            None => asked == Binding::Off,
            Some(policy) => self.has_cpus(&place.cpus) && self.has_memory(policy),
        };
        Evidence { factor: Binding::KEY.into(), asked: asked.name().into(), seen: self.text(place), in_effect }
    }

    /// Whether all threads are bound to these CPUs; none means any CPU.
    fn has_cpus(&self, cpus: &[u32]) -> bool {
        let asked: BTreeSet<u32> = cpus.iter().copied().collect();
        let bound = |threads: &[BTreeSet<u32>]| threads.iter().all(|thread| thread.is_subset(&asked));
        asked.is_empty() || (self.threads.first() == Some(&asked) && bound(&self.threads))
    }

    /// Whether its memory follows the policy, by counted pages or, if they cannot be counted, by the policy in effect.
    fn has_memory(&self, asked: &MemoryPolicy) -> bool {
        let Some(bytes) = self.bytes.as_ref().filter(|bytes| !bytes.is_empty()) else {
            return self.policy.as_ref().is_ok_and(|policy| *policy == ThreadPolicy::from(asked));
        };
        let all = bytes.values().sum::<u64>() as f64;
        let share = |node: &u32| bytes.get(node).copied().unwrap_or(0) as f64 / all;
        match asked {
            MemoryPolicy::Bind { nodes } => nodes.iter().map(share).sum::<f64>() >= BOUND_SHARE,
            MemoryPolicy::Interleave { nodes } => {
                let even = 1.0 / nodes.len().max(1) as f64;
                nodes.iter().all(|node| (share(node) - even).abs() <= UNEVEN_SHARE * even)
            }
        }
    }

    fn text(&self, place: &RankPlace) -> String {
        let first: Vec<u32> = self.threads.first().into_iter().flatten().copied().collect();
        let mut parts = vec![format!("CPUs {}", ranges_text(&first))];
        let asked: BTreeSet<u32> = place.cpus.iter().copied().collect();
        let stray = self.threads.iter().filter(|thread| !asked.is_empty() && !thread.is_subset(&asked)).count();
        if stray > 0 {
            parts.push(format!("{stray} of {} threads on others", self.threads.len()));
        }
        parts.push(match &self.policy {
            Ok(policy) => format!("memory policy {policy}"),
            Err(refusal) if refusal.contains("not permitted") => {
                format!("memory policy refused ({refusal}: a container needs CAP_SYS_NICE for it)")
            }
            Err(refusal) => format!("memory policy refused ({refusal})"),
        });
        parts.push(match &self.bytes {
            Some(bytes) => shares_text(bytes),
            None => "pages not told".to_owned(),
        });
        if self.nodes == 1 && place.memory.is_some() {
            parts.push("one NUMA node: no effect".to_owned());
        }
        parts.join(", ")
    }
}

/// `memory 75 % on node 0, 25 % on node 1`.
fn shares_text(bytes: &BTreeMap<u32, u64>) -> String {
    let all = bytes.values().sum::<u64>().max(1) as f64;
    let share = |(node, bytes): (&u32, &u64)| format!("{:.0} % on node {node}", *bytes as f64 / all * 100.0);
    format!("memory {}", bytes.iter().map(share).collect::<Vec<_>>().join(", "))
}

/// The allowed CPUs in `/proc/<pid>/status`.
fn allowed_cpus(status: &str) -> Option<BTreeSet<u32>> {
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(list(line))
}

/// The numbers of a list such as `0-3,8`.
fn list(text: &str) -> BTreeSet<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// Bytes of a process's private memory on each node, from `/proc/<pid>/numa_maps` (numa(7)). File pages are excluded: they
/// are shared by all processes that read them, and lie where the first reader ran.
fn bytes_per_node(numa_maps: &str) -> BTreeMap<u32, u64> {
    let mut bytes = BTreeMap::new();
    for line in numa_maps.lines().filter(|line| !line.contains(" file=")) {
        let value = |key: &str| line.split(' ').find_map(|word| word.strip_prefix(key)?.parse::<u64>().ok());
        let page_bytes = value("kernelpagesize_kB=").unwrap_or(4) * 1024;
        for word in line.split(' ') {
            let Some((node, pages)) = word.strip_prefix('N').and_then(|rest| rest.split_once('=')) else { continue };
            if let (Ok(node), Ok(pages)) = (node.parse::<u32>(), pages.parse::<u64>()) {
                *bytes.entry(node).or_insert(0) += pages * page_bytes;
            }
        }
    }
    bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const NUMA_MAPS: &str = "\
55e20437d000 bind:0 file=/usr/bin/worker mapped=100 N1=100 kernelpagesize_kB=4
55e216ed2000 bind:0 heap anon=300 dirty=300 active=0 N0=300 kernelpagesize_kB=4
7fc2028 bind:0 anon=100 dirty=100 N0=50 N1=50 kernelpagesize_kB=4
7fc2030 bind:0 huge anon=1 dirty=1 N1=1 kernelpagesize_kB=2048
7ffd000 bind:0 stack
";

    fn place(cpus: &[u32], memory: MemoryPolicy) -> RankPlace {
        RankPlace { cpus: cpus.to_vec(), memory: Some(memory), ..RankPlace::on_cpu(0, 1) }
    }

    fn bind(nodes: &[u32]) -> MemoryPolicy {
        MemoryPolicy::Bind { nodes: nodes.to_vec() }
    }

    /// A process on a machine of two nodes.
    fn seen(threads: &[&str], policy: &MemoryPolicy, bytes: &[(u32, u64)]) -> Seen {
        Seen {
            threads: threads.iter().map(|cpus| list(cpus)).collect(),
            policy: Ok(policy.into()),
            bytes: Some(bytes.iter().copied().collect()),
            nodes: 2,
        }
    }

    #[test]
    fn pages_are_counted_in_their_size_and_those_of_files_are_not() {
        let bytes = bytes_per_node(NUMA_MAPS);
        assert_eq!(bytes, [(0, 350 * 4096), (1, 50 * 4096 + (2 << 20))].into());
        assert!(bytes_per_node("N=3 Nx=1 N1=-4 N2= \nkernelpagesize_kB=4").is_empty());
    }

    #[test]
    fn a_rank_is_bound_where_cpus_threads_and_pages_are() {
        let place = place(&[4, 5], bind(&[1]));
        let good = seen(&["4-5", "4", "5"], &bind(&[1]), &[(1, 990), (0, 10)]).evidence(Binding::Local, &place);
        assert!(good.in_effect, "{good:?}");
        assert_eq!(good.seen, "CPUs 4-5, memory policy bind:1, memory 1 % on node 0, 99 % on node 1");
        let far = seen(&["4-5"], &bind(&[1]), &[(1, 500), (0, 500)]).evidence(Binding::Local, &place);
        assert!(!far.in_effect && far.seen.contains("50 % on node 0"), "{far:?}");
        let stray = seen(&["4-5", "0-7"], &bind(&[1]), &[(1, 9)]).evidence(Binding::Local, &place);
        assert!(!stray.in_effect && stray.seen.contains("1 of 2 threads on others"), "{stray:?}");
        assert!(!seen(&["0-7"], &bind(&[1]), &[(1, 9)]).evidence(Binding::Local, &place).in_effect);
    }

    #[test]
    fn interleaved_memory_is_on_all_nodes_alike() {
        let spread = MemoryPolicy::Interleave { nodes: vec![0, 1] };
        let place = place(&[], spread.clone());
        let judged =
            |bytes: &[(u32, u64)]| seen(&["0-7"], &spread, bytes).evidence(Binding::Interleave, &place).in_effect;
        assert!(judged(&[(0, 450), (1, 550)]));
        assert!(!judged(&[(0, 950), (1, 50)]));
        assert!(!judged(&[(0, 1000)]));
    }

    #[test]
    fn without_pages_the_policy_is_the_proof_and_a_refused_one_is_said() {
        let place = place(&[0], bind(&[0]));
        let mut seen_bytes = Seen { bytes: None, ..seen(&["0"], &bind(&[0]), &[]) };
        assert!(seen_bytes.evidence(Binding::FirstNode, &place).in_effect);
        seen_bytes.policy = Err("set_mempolicy: Operation not permitted".to_owned());
        let refused = seen_bytes.evidence(Binding::FirstNode, &place);
        assert!(
            !refused.in_effect && refused.seen.contains("refused (set_mempolicy: Operation not permitted"),
            "{refused:?}"
        );
        // Bound CPUs may suffice: pages lie where they are first touched.
        seen_bytes.bytes = Some([(0, 1000)].into());
        assert!(seen_bytes.evidence(Binding::FirstNode, &place).in_effect);
    }

    #[test]
    fn this_process_sees_its_cpus_its_policy_and_its_pages() {
        let seen = Seen::of_this_process();
        assert!(!seen.threads.is_empty() && seen.policy.is_ok());
        assert!(seen.bytes.as_ref().unwrap().values().sum::<u64>() > 1 << 20, "{:?}", seen.bytes);
        let off = seen.evidence(Binding::Off, &RankPlace::on_cpu(0, 1));
        assert!(off.in_effect && off.seen.starts_with("CPUs ") && !off.seen.contains("no effect"), "{off:?}");
    }
}
