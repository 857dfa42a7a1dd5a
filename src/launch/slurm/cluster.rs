//! The partitions and nodes of a cluster according to `sinfo`, and the largest node as a machine for plans.

use super::tools::{self, SlurmError};
use crate::plan::{CudaState, Gpu, Node, Worker};
use crate::protocol::{AllocationSize, Job, Site};

/// Partition, availability, time limit, number of nodes, and of each node CPUs, memory in MB, generic resources and features.
const FORMAT: &str = "%P|%a|%l|%D|%c|%m|%G|%f";
/// The columns of [`FORMAT`], followed by the state of the nodes.
const FORMAT_WITH_STATE: &str = "%P|%a|%l|%D|%c|%m|%G|%f|%T";
/// Beginnings of Slurm's words for the states of nodes that take no jobs now: `drained`, `draining`, `down`.
const OUT: [&str; 7] = ["drain", "down", "fail", "maint", "inval", "unknown", "future"];

/// More devices than a run may have.
const MOST_DEVICES: u32 = 1024;

/// Nodes of a partition that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// The partition's name.
    pub partition: String,
    /// Whether jobs that name no partition run there.
    pub is_default: bool,
    /// Whether the partition takes jobs.
    pub is_up: bool,
    /// The longest time of a job, as Slurm writes it.
    pub time_limit: String,
    /// The number of nodes.
    pub count: u32,
    /// CPUs of a node.
    pub cpus: u32,
    /// Memory of a node.
    pub memory_bytes: u64,
    /// GPUs of a node.
    pub gpus: u32,
    /// The type of these GPUs; empty if Slurm knows none.
    pub gpu_type: String,
    /// Features that a constraint may name.
    pub features: String,
}

/// The nodes of all partitions.
///
/// # Errors
/// There is no Slurm, or it does not answer.
pub fn nodes() -> Result<Vec<Nodes>, SlurmError> {
    Ok(read(&tools::ask("sinfo", &["--noheader", "--exact", "--format", FORMAT])?))
}

fn read(text: &str) -> Vec<Nodes> {
    let nodes = |line: &str| {
        let mut columns = line.trim().split('|');
        let partition = columns.next()?;
        let (is_up, time_limit, count) = (columns.next()? == "up", columns.next()?.to_owned(), columns.next()?);
        let (cpus, memory_mb, gres) = (columns.next()?, columns.next()?, columns.next()?);
        let features = columns.next()?;
        let (gpu_type, gpus) = gpus(gres);
        let number = |text: &str| text.trim_end_matches('+').parse::<u32>().ok();
        Some(Nodes {
            is_default: partition.ends_with('*'),
            partition: partition.trim_end_matches('*').to_owned(),
            is_up,
            time_limit,
            count: number(count)?,
            cpus: number(cpus)?,
            memory_bytes: u64::from(number(memory_mb)?) << 20,
            gpus,
            gpu_type,
            features: if features == "(null)" { String::new() } else { features.to_owned() },
        })
    };
    text.lines().filter_map(nodes).collect()
}

/// The type and the number of the GPUs among generic resources such as `gpu:h100:4(S:0-1),nvme:1`.
fn gpus(gres: &str) -> (String, u32) {
    // Sockets are in brackets, which may contain commas.
    let mut plain = String::new();
    let mut depth = 0_u32;
    for letter in gres.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            letter if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    let found = plain.split(',').find_map(|resource| {
        let mut parts = resource.strip_prefix("gpu:")?.rsplitn(2, ':');
        let count = parts.next()?.parse().ok()?;
        Some((parts.next().unwrap_or_default().to_owned(), count))
    });
    found.unwrap_or_default()
}

/// The machine that plans are expanded for at a site: the largest node of its partition, without GPUs if its jobs ask for none. Its
/// software is unknown. `here` is this machine.
///
/// # Errors
/// Slurm does not answer, it has no such partition, or the partition takes no jobs.
pub fn site_node(site: &Site, here: &Node) -> Result<Node, String> {
    node_among(site, here, &nodes().map_err(|error| format!("site {}: {error}", site.name))?)
}

/// Whether the jobs of a site may run on these nodes.
fn is_of(site: &Site, nodes: &Nodes) -> bool {
    match &site.partition {
        Some(named) => named.split(',').any(|partition| partition == nodes.partition),
        None => nodes.is_default,
    }
}

/// Why a job will only have to wait, although Slurm refused to test it with this reason. There are two such cases: the user already has as
/// many jobs as a limit allows; or so many nodes are drained or down that the others are too few. Slurm accepts a job of the second kind,
/// but tests it as if these nodes did not exist. `None` in all other cases, and if Slurm does not answer.
pub fn delay(job: &Job, reason: &str) -> Option<String> {
    if tools::is_full(reason) {
        return Some(format!("{reason}: the runs are sent as soon as Slurm takes them"));
    }
    let site = job.site.as_ref()?;
    let size = job.allocation.unwrap_or_else(|| AllocationSize::of(site, &job.shape));
    let text = tools::ask("sinfo", &["--noheader", "--exact", "--format", FORMAT_WITH_STATE]).ok()?;
    lacking(site, &size, &text)
}

/// A message about the drained nodes that delay a job of this size, from the output of `sinfo`; `None` if there are none.
fn lacking(site: &Site, size: &AllocationSize, text: &str) -> Option<String> {
    let fits = |nodes: &Nodes| nodes.cpus >= size.cpus && (site.gres.is_none() || nodes.gpus >= size.devices);
    let fitting = |line: &str| {
        let (nodes, state) = line.trim().rsplit_once('|')?;
        // A star marks nodes that do not respond.
        let is_out = OUT.iter().any(|word| state.starts_with(word)) || state.contains('*');
        let nodes = read(nodes).pop().filter(|nodes| nodes.is_up && is_of(site, nodes) && fits(nodes))?;
        Some((nodes, is_out))
    };
    let ours: Vec<(Nodes, bool)> = text.lines().filter_map(fitting).collect();
    let count = |partition: &str, is_counted: fn(bool) -> bool| -> u32 {
        let own = ours.iter().filter(|(nodes, is_out)| nodes.partition == partition && is_counted(*is_out));
        own.map(|(nodes, _)| nodes.count).fold(0, u32::saturating_add)
    };
    let has = |is_counted: fn(bool) -> bool| {
        ours.iter().map(|(nodes, _)| nodes.partition.as_str()).find(|name| count(name, is_counted) >= size.nodes)
    };
    let partition = has(|_| true).filter(|_| has(|is_out| !is_out).is_none())?;
    let (all, out) = (count(partition, |_| true), count(partition, |is_out| is_out));
    Some(format!(
        "{out} of the {all} nodes of partition {partition} that the runs could use are drained or down: the runs wait until enough of \
         them are back"
    ))
}

fn node_among(site: &Site, here: &Node, all: &[Nodes]) -> Result<Node, String> {
    let name = &site.name;
    let ours: Vec<&Nodes> = all.iter().filter(|nodes| is_of(site, nodes)).collect();
    if ours.is_empty() {
        let mut known: Vec<&str> = all.iter().map(|nodes| nodes.partition.as_str()).collect();
        known.dedup();
        let known = known.join(", ");
        return Err(match &site.partition {
            Some(named) => format!("site {name}: Slurm has no partition {named}: it has {known}; correct `partition`"),
            None => format!("site {name}: Slurm has no default partition: set `partition` to one of {known}"),
        });
    }
    if !ours.iter().any(|nodes| nodes.is_up) {
        return Err(format!("site {name}: partition {} takes no jobs now (it is down)", ours[0].partition));
    }
    let largest = |measure: fn(&Nodes) -> u64| ours.iter().map(|nodes| measure(nodes)).max().unwrap_or(0);
    let gpu_type = ours.iter().max_by_key(|nodes| nodes.gpus).map_or("", |nodes| nodes.gpu_type.as_str());
    let gpus = if site.gres.is_some() { largest(|nodes| nodes.gpus.into()) } else { 0 };
    if site.gres.is_some() && gpus == 0 {
        return Err(format!("site {name}: no node of partition {} has GPUs: remove `gres`", ours[0].partition));
    }
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    // A job runs in one partition, on nodes that have GPUs if it asks for some.
    let is_usable = |at: &&&Nodes| at.is_up && (site.gres.is_none() || at.gpus > 0);
    let count_in = |partition: &str| {
        let own = ours.iter().filter(is_usable).filter(|at| at.partition == partition);
        own.map(|at| at.count).fold(0, u32::saturating_add)
    };
    let count = ours.iter().map(|at| count_in(&at.partition)).max().unwrap_or(1);
    let node = machine(site, here, number(largest(|nodes| nodes.cpus.into())), number(gpus), gpu_type);
    Ok(Node { memory_bytes: largest(|nodes| nodes.memory_bytes), nodes: count.max(1), ..node })
}

/// A machine that has whatever a run of the site asks for, without a question to Slurm: for runs that were checked when they were queued.
pub fn unlimited_node(site: &Site, here: &Node) -> Node {
    let node = machine(site, here, MOST_DEVICES, if site.gres.is_some() { MOST_DEVICES } else { 0 }, "");
    Node { nodes: MOST_DEVICES, ..node }
}

fn no_gres(site: &str) -> String {
    format!("the settings of site {site} ask for no `gres`")
}

/// A machine of a site, with this number of CPUs and GPUs.
fn machine(site: &Site, here: &Node, cpus: u32, gpus: u32, gpu_type: &str) -> Node {
    let gpu = |index| Gpu {
        index,
        uuid: String::new(),
        name: if gpu_type.is_empty() { "GPU".to_owned() } else { gpu_type.to_owned() },
        memory_bytes: 0,
        numa_node: None,
        mig: false,
        compute_capability: None,
    };
    let name = &site.name;
    // CUDA is assumed to be usable if the nodes have GPUs. `multicard site` tries whether the worker can use them.
    let cuda = if gpus > 0 { CudaState::Available } else { CudaState::Unavailable { reason: no_gres(name) } };
    Node {
        worker: here.worker.clone().map(|worker| Worker { cuda, ..worker }),
        hostname: format!("the largest node of site {name}"),
        cpus,
        gpus: (0..gpus.min(MOST_DEVICES)).map(gpu).collect(),
        no_gpu_reason: (gpus == 0).then(|| no_gres(name)),
        ..here.clone()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::fixture;

    const TEXT: &str = "debug*|up|1:00:00|2|4|8000|(null)|(null)\n\
        gpu|up|2-00:00:00|3|64|512000+|gpu:h100:4(S:0,1),nvme:1|h100,ib\n\
        gpu|up|2-00:00:00|1|64|512000|gpu:8|ib\n\
        old|down|infinite|1|16|64000|gpu:2|(null)\n";

    fn site(partition: Option<&str>, gres: Option<&str>) -> Site {
        let (partition, gres) = (partition.map(str::to_owned), gres.map(str::to_owned));
        Site { name: "lab".into(), partition, gres, ..Site::default() }
    }

    fn at(partition: Option<&str>, gres: Option<&str>) -> Result<Node, String> {
        node_among(&site(partition, gres), &fixture::cpu_node(), &read(TEXT))
    }

    #[test]
    fn partitions_are_read_with_their_gpus() {
        let nodes = read(TEXT);
        let brief: Vec<_> = nodes.iter().map(|at| (&*at.partition, at.is_default, at.gpus, &*at.gpu_type)).collect();
        let expected =
            [("debug", true, 0, ""), ("gpu", false, 4, "h100"), ("gpu", false, 8, ""), ("old", false, 2, "")];
        assert_eq!(brief, expected);
        assert_eq!((nodes[1].memory_bytes, &*nodes[1].features), (512_000 << 20, "h100,ib"));
    }

    #[test]
    fn a_site_is_as_large_as_the_largest_node_of_its_partition() {
        let node = at(Some("gpu"), Some("gpu")).unwrap();
        assert_eq!((node.gpus.len(), node.cpus, node.nodes), (8, 64, 4));
        assert_eq!(at(None, None).unwrap().gpus.len(), 0);
        assert_eq!(at(Some("gpu"), None).unwrap().gpus.len(), 0, "jobs ask for no GPU");
    }

    #[test]
    fn a_job_that_drained_nodes_keep_waiting_is_told_from_one_that_no_node_can_run() {
        let lacks = |nodes: u32, cpus: u32, states: [&str; 2]| {
            let [one, other] = states;
            let text = format!(
                "debug*|up|1:00|1|4|8000|(null)|(null)|{one}\ndebug*|up|1:00|1|4|8000|(null)|(null)|{other}\n\
                 large|up|1:00|9|64|8000|(null)|(null)|idle\n"
            );
            lacking(&Site::default(), &AllocationSize { nodes, cpus, devices: 1 }, &text)
        };
        let message = lacks(1, 4, ["drained", "down*"]).unwrap();
        assert!(message.starts_with("2 of the 2 nodes of partition debug"), "{message}");
        assert!(lacks(2, 4, ["idle", "draining"]).unwrap().starts_with("1 of the 2 nodes"));
        assert!(lacks(1, 4, ["idle*", "drained"]).is_some(), "a node that does not respond takes no jobs");
        assert_eq!(lacks(1, 4, ["allocated", "drained"]), None, "one node is enough");
        assert_eq!(lacks(1, 8, ["drained", "drained"]), None, "the nodes are too small");
        assert_eq!(lacks(3, 4, ["drained", "drained"]), None, "there are too few nodes");
    }

    #[test]
    fn a_partition_that_is_missing_or_down_or_without_gpus_is_refused() {
        assert!(at(Some("gpus"), None).unwrap_err().contains("no partition gpus: it has debug, gpu, old"));
        assert!(at(Some("old"), None).unwrap_err().contains("takes no jobs"));
        assert!(at(None, Some("gpu")).unwrap_err().contains("remove `gres`"));
    }

    #[test]
    fn a_site_that_claims_to_be_endless_is_as_large_as_a_run_can_use() {
        let line = "gpu*|up|1:00|4294967295|4|8000|gpu:4294967295|(null)";
        let all = read(&format!("{line}\n{line}\n"));
        let node = node_among(&site(None, Some("gpu")), &fixture::cpu_node(), &all).unwrap();
        assert_eq!((node.gpus.len(), node.nodes), (MOST_DEVICES as usize, u32::MAX));
        let size = AllocationSize { nodes: 1, cpus: 1, devices: 1 };
        let message = lacking(&site(None, None), &size, &format!("{line}|down\n{line}|drained\n")).unwrap();
        assert!(message.starts_with("4294967295 of the 4294967295 nodes"), "{message}");
    }

    proptest! {
        #[test]
        fn whatever_sinfo_prints_is_read_or_left_out(
            text in r"((debug|gpu)?\*?\|(up|down)?\|1:00\|[0-9]{0,10}\+?\|[0-9]{1,5}\|[0-9]{1,11}\|(gpu:)?(h100)?:?[0-9]{0,10}[(),:]{0,3}\|ib(\|(idle|down\*)?)?\n|[^\n]{0,40}\n){0,4}",
            partition in proptest::option::of("debug|gpu"), gres in proptest::option::of(Just("gpu")), nodes in 1..4_u32,
        ) {
            let site = site(partition.as_deref(), gres);
            let all = read(&text);
            prop_assert!(all.len() <= text.lines().count());
            match node_among(&site, &fixture::cpu_node(), &all) {
                Ok(node) => prop_assert!(node.nodes > 0 && node.gpus.len() <= MOST_DEVICES as usize),
                Err(reason) => prop_assert!(reason.starts_with("site lab: ")),
            }
            let message = lacking(&site, &AllocationSize { nodes, cpus: 1, devices: 1 }, &text);
            prop_assert!(message.is_none_or(|message| message.contains(" of the ")));
        }
    }
}
