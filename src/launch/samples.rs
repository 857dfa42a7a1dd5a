//! Samples of the nodes of a run at a site: read from the files that the nodes write, and joined to samples of the run as a whole.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use super::tail::Tail;
use crate::protocol::{HostSample, Job, Sample, read_sample_line, samples_of_node};

/// The longest time, in seconds, for which samples of the first node wait for samples of the other nodes. A client of a network file system
/// may see the writes of other nodes this much later.
const PATIENCE_S: f64 = 60.0;
/// Samples of nodes that were taken this many seconds apart or less show the same moment.
const SAME_MOMENT_S: f64 = 1.5;

/// The samples of a run's nodes, which have the times of the first node's clock.
pub(super) struct NodeSamples {
    nodes: Vec<Node>,
}

struct Node {
    log: Tail,
    /// Samples that were read and may belong to a sample of the run that is still to come, in the order of their times.
    waiting: VecDeque<Sample>,
    /// The time of the last sample that was read, in seconds since the Unix epoch.
    newest_s: f64,
}

impl Node {
    fn of(job: &Job, node: u32) -> Self {
        let log = Tail::new(job.folder.join(samples_of_node(node)));
        Self { log, waiting: VecDeque::new(), newest_s: f64::NEG_INFINITY }
    }
}

impl NodeSamples {
    /// The samples of a job's nodes; empty for a job on this machine.
    pub fn of(job: &Job) -> Self {
        let nodes = if job.site.is_some() { job.shape.nodes() } else { 0 };
        Self { nodes: (0..nodes).map(|node| Node::of(job, node)).collect() }
    }

    /// The number of their files.
    pub fn files(&self) -> usize {
        self.nodes.len()
    }

    /// Reads a piece of each file; returns whether there was anything to read. Files that are far ahead of the first node's are not read yet.
    /// A file that cannot be read, and a line that is no sample, are left out: the run goes on without them.
    pub fn read(&mut self) -> bool {
        let mut more = false;
        let first_s = self.nodes.first().map_or(f64::NEG_INFINITY, |first| first.newest_s);
        for (place, Node { log, waiting, newest_s }) in self.nodes.iter_mut().enumerate() {
            if place > 0 && *newest_s > first_s + PATIENCE_S {
                continue;
            }
            more |= log.read(|_, line| waiting.extend(read_sample_line(line.as_bytes()))).unwrap_or(false);
            log.close();
            *newest_s = waiting.back().map_or(*newest_s, |sample| sample.time_s);
        }
        more
    }

    /// The samples of the run up to now. `has_more` says that more can be read at once, and `is_over` that nothing more will be written.
    pub fn joined(&mut self, has_more: bool, is_over: bool) -> Vec<Sample> {
        let mut joined = Vec::new();
        while let Some(time_s) = self.nodes.first().and_then(|first| first.waiting.front()).map(|sample| sample.time_s)
        {
            let newest_s = self.nodes.iter().map(|node| node.newest_s).fold(time_s, f64::max);
            let are_all_here = self.nodes.iter().all(|node| node.newest_s >= time_s);
            let is_silent = !has_more && (is_over || newest_s - time_s > PATIENCE_S);
            if !(are_all_here || is_silent) {
                break;
            }
            joined.extend(self.join());
        }
        joined
    }

    /// The next sample of the first node, joined with the samples of the other nodes at that time.
    fn join(&mut self) -> Option<Sample> {
        let (first, others) = self.nodes.split_first_mut()?;
        let mut sample = first.waiting.pop_front()?;
        for Node { waiting, .. } in others {
            // Samples that are further away than the next ones are needed no more.
            let distance_s = |one: &Sample| (one.time_s - sample.time_s).abs();
            while waiting.len() > 1 && distance_s(&waiting[1]) <= distance_s(&waiting[0]) {
                waiting.pop_front();
            }
            match waiting.front().filter(|&other| distance_s(other) <= SAME_MOMENT_S) {
                Some(other) => {
                    sample.host = both(&sample.host, &other.host);
                    sample.ranks.extend(other.ranks.iter().cloned());
                    sample.gpus.extend(other.gpus.iter().cloned());
                }
                // The sum over nodes is unknown.
                None => sample.host = HostSample::default(),
            }
        }
        Some(sample)
    }
}

/// Two nodes together: what one of them does not report is unknown.
fn both(a: &HostSample, b: &HostSample) -> HostSample {
    let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    HostSample {
        cpus: a.cpus.zip(b.cpus).map(|(a, b)| a.saturating_add(b)),
        cpus_busy: sum(a.cpus_busy, b.cpus_busy),
        stolen_cpus: sum(a.stolen_cpus, b.stolen_cpus),
        runnable: a.runnable.zip(b.runnable).map(|(a, b)| a.saturating_add(b)),
        memory_used_bytes: a.memory_used_bytes.zip(b.memory_used_bytes).map(|(a, b)| a.saturating_add(b)),
        disk_read_bytes_per_s: sum(a.disk_read_bytes_per_s, b.disk_read_bytes_per_s),
        disk_write_bytes_per_s: sum(a.disk_write_bytes_per_s, b.disk_write_bytes_per_s),
    }
}

/// Removes the files of a run that has ended, whose samples the session has taken.
pub fn remove_node_samples(job: &Job, folder: &Path) {
    for node in 0..job.shape.nodes() {
        // A file that stays does no harm.
        let _ = fs::remove_file(folder.join(samples_of_node(node)));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::plan::{Data, Levels, Shape};
    use crate::protocol::{GpuSample, RankSample, Site};

    fn job(folder: &Path, nodes: u32) -> Job {
        let shape = Shape { processes: nodes, own_program: true, ..Shape::default() };
        Job {
            folder: folder.to_owned(),
            site: Some(Site::default()),
            ..Job::new("command".into(), Levels::default(), shape, Data::default())
        }
    }

    /// A node writes a sample.
    fn write(folder: &Path, node: u32, time_s: f64) {
        let host = HostSample { cpus: Some(8), cpus_busy: Some(f64::from(node) + 1.0), ..HostSample::default() };
        let ranks = vec![RankSample { rank: node, ..RankSample::default() }];
        let gpus = vec![GpuSample { uuid: format!("GPU-{node}"), power_w: Some(time_s), ..GpuSample::default() }];
        let line = serde_json::to_string(&Sample { time_s, hole_s: None, host, ranks, gpus }).unwrap();
        let mut file = fs::File::options().create(true).append(true).open(folder.join(samples_of_node(node))).unwrap();
        writeln!(file, "{line}").unwrap();
    }

    fn times(samples: &[Sample]) -> Vec<f64> {
        samples.iter().map(|sample| sample.time_s).collect()
    }

    #[test]
    fn nodes_are_joined_at_the_moments_of_the_first_one_once_all_have_reached_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut samples = NodeSamples::of(&job(folder.path(), 2));
        assert!(!samples.read() && samples.joined(false, false).is_empty());
        for time_s in [10.0, 11.0, 12.0] {
            write(folder.path(), 0, time_s);
        }
        for time_s in [9.75, 10.75, 11.75] {
            write(folder.path(), 1, time_s);
        }
        assert!(samples.read());
        let joined = samples.joined(false, false);
        assert_eq!(times(&joined), [10.0, 11.0], "the second node has not reached 12 s");
        let second = &joined[1];
        assert_eq!((second.host.cpus, second.host.cpus_busy), (Some(16), Some(3.0)));
        assert_eq!(second.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 1]);
        let gpus: Vec<_> = second.gpus.iter().map(|gpu| (gpu.uuid.as_str(), gpu.power_w)).collect();
        assert_eq!(gpus, [("GPU-0", Some(11.0)), ("GPU-1", Some(10.75))]);
        assert_eq!(times(&samples.joined(false, true)), [12.0]);
    }

    #[test]
    fn a_node_that_is_silent_is_unknown_and_holds_nothing_up_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let mut samples = NodeSamples::of(&job(folder.path(), 2));
        write(folder.path(), 0, 10.0);
        write(folder.path(), 1, 10.0);
        for time_s in [20.0, 50.0, 81.0] {
            write(folder.path(), 0, time_s);
        }
        samples.read();
        assert_eq!(times(&samples.joined(true, false)), [10.0], "the second node may only not have been read yet");
        let joined = samples.joined(false, false);
        assert_eq!(times(&joined), [20.0]);
        assert_eq!((joined[0].host.cpus, joined[0].gpus.len(), joined[0].ranks.len()), (None, 1, 1));
    }

    #[test]
    fn nodes_are_not_read_while_they_are_far_ahead_of_the_first_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut samples = NodeSamples::of(&job(folder.path(), 2));
        write(folder.path(), 1, 10.0);
        assert!(samples.read());
        write(folder.path(), 1, 11.0);
        assert!(!samples.read(), "the first node has written nothing yet");
        write(folder.path(), 0, 11.0);
        assert!(samples.read() && samples.read(), "then the first node, then the others");
        let joined = samples.joined(false, false);
        assert_eq!((times(&joined), joined[0].gpus[1].power_w), (vec![11.0], Some(11.0)));
    }

    #[test]
    fn the_samples_of_one_node_are_those_of_the_run_and_malformed_lines_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let job = job(folder.path(), 1);
        let mut samples = NodeSamples::of(&job);
        write(folder.path(), 0, 10.0);
        fs::File::options()
            .append(true)
            .open(folder.path().join("samples-0.jsonl"))
            .unwrap()
            .write_all(b"{}\n")
            .unwrap();
        write(folder.path(), 0, 11.0);
        samples.read();
        assert_eq!(times(&samples.joined(false, false)), [10.0, 11.0]);
        remove_node_samples(&job, folder.path());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(NodeSamples::of(&Job { site: None, ..job }).nodes.is_empty());
    }
}
