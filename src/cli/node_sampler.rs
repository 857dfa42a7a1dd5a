//! Samples a node of a site while a run is executed there: its CPUs, its memory, and the run's processes and GPUs. The samples go into the
//! run's folder, from which the conductor takes them.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::say;
use crate::foreign;
use crate::protocol::{Clock, Job, Sample, samples_of_node};
use crate::telemetry::{self, Sampler, Watch};

/// Interval between samples: longer than on the conductor's own machine, because each one is written to a file system that nodes share.
const INTERVAL: Duration = Duration::from_secs(1);
/// Capacity of the channel from the sampler; when it is full, samples are dropped and the gap is marked.
const SAMPLES_IN_FLIGHT: usize = 64;

/// Samples the node until it is dropped.
pub(super) struct NodeSampler(Option<JoinHandle<Option<Sampling>>>);

struct Sampling {
    sampler: Sampler,
    writer: JoinHandle<()>,
}

impl NodeSampler {
    /// Samples this node, which has the given number in the run; `None` if the job is not at a site, where its conductor samples it.
    /// `ranks` are ranks with their processes. If the node cannot be sampled, stderr says why, and the run goes on.
    pub fn of(job: &Job, node: u32, ranks: Vec<(u32, u32)>) -> Option<Self> {
        let site = job.site.as_ref()?;
        let has_gpus = site.assigns_gpus(&job.shape);
        let watch = Watch { run: job.run.clone(), ranks, trees: job.program.is_some(), ..Watch::default() };
        let name = samples_of_node(node);
        let log = foreign::open_ours_with(&job.folder.join(&name), OpenOptions::new().create(true).append(true));
        let log = log.map_err(|error| say(format_args!("multicard: cannot write {name}: {error}"))).ok()?;
        let ahead_s = Clock::of_node(node).map_or(0.0, |clock| clock.ahead_s);
        // Ranks do not wait until the GPUs are found.
        let begun = Builder::new().name("node-sampler".into()).spawn(move || begin(watch, has_gpus, log, ahead_s));
        let begun = begun.map_err(|error| say(format_args!("multicard: cannot sample this node: {error}"))).ok()?;
        Some(Self(Some(begun)))
    }
}

impl Drop for NodeSampler {
    fn drop(&mut self) {
        // A panic was printed where it happened.
        if let Some(Ok(Some(Sampling { sampler, writer }))) = self.0.take().map(JoinHandle::join) {
            drop(sampler);
            drop(writer.join());
        }
    }
}

fn begin(mut watch: Watch, has_gpus: bool, log: File, ahead_s: f64) -> Option<Sampling> {
    if has_gpus {
        // Slurm hides the others.
        watch.gpu_uuids = telemetry::read_node().gpus.into_iter().map(|gpu| gpu.uuid).collect();
    }
    let (sink, samples) = sync_channel(SAMPLES_IN_FLIGHT);
    let failed = |error: &dyn std::fmt::Display| say(format_args!("multicard: cannot sample this node: {error}"));
    let sampler = Sampler::start(INTERVAL, sink).map_err(|error| failed(&error)).ok()?;
    let writer = Builder::new().name("samples".into()).spawn(move || write_all(&samples, log, ahead_s));
    let writer = writer.map_err(|error| failed(&error)).ok()?;
    sampler.watch(watch);
    Some(Sampling { sampler, writer })
}

/// Writes samples with times on the clock of the run's first node, until the sampler ends.
fn write_all(samples: &Receiver<(String, Sample)>, mut log: impl Write, ahead_s: f64) {
    for (_, mut sample) in samples {
        sample.time_s -= ahead_s;
        let line = serde_json::to_string(&sample).unwrap_or_default() + "\n";
        if let Err(error) = log.write_all(line.as_bytes()) {
            say(format_args!("multicard: cannot write samples of this node: {error}"));
            return;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::plan::{Data, Levels, Shape};
    use crate::protocol::{Site, read_sample_line};

    #[test]
    fn a_node_of_a_site_is_sampled_with_its_ranks_until_they_have_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mut job = Job::new("command".into(), Levels::default(), Shape::default(), Data::default());
        job.folder = folder.path().to_owned();
        assert!(NodeSampler::of(&job, 1, Vec::new()).is_none(), "the conductor samples its own machine");
        job.site = Some(Site::default());
        let path = folder.path().join("samples-1.jsonl");
        let sampler = NodeSampler::of(&job, 1, vec![(3, std::process::id())]).unwrap();
        let begun = Instant::now();
        let whole = || std::fs::read_to_string(&path).unwrap().lines().count();
        while whole() == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "no sample came");
            std::thread::yield_now();
        }
        drop(sampler);
        let text = std::fs::read_to_string(&path).unwrap();
        let first = read_sample_line(text.lines().next().unwrap().as_bytes()).unwrap();
        assert_eq!(first.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [3]);
        assert!(first.host.cpus.is_some() && first.gpus.is_empty());
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn samples_have_the_times_of_the_first_node() {
        let (sink, samples) = sync_channel(1);
        sink.send(("a".to_owned(), Sample { time_s: 100.0, ..Sample::default() })).unwrap();
        drop(sink);
        let mut log = Vec::new();
        write_all(&samples, &mut log, 0.25);
        assert_eq!(read_sample_line(log.trim_ascii_end()).unwrap().time_s, 99.75);
    }
}
