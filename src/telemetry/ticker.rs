//! The telemetry thread: samples the watched runs at a fixed interval and delivers the samples.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nvml_wrapper::Nvml;

use super::delivery::{Delivery, SinkGone};
use super::gpu::{GpuReader, Reading};
use super::gpu_use;
use super::host::{HostReader, RankReader};
use super::roots::Roots;
use crate::processes;
use crate::protocol::{GpuSample, HostSample, RankSample, Sample, now_s};

/// Interval of slow PCIe readings, which block for 40 ms: each reading is for the next GPU in turn.
const PCIE_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of searches for descendant processes, which take some milliseconds.
const TREE_INTERVAL: Duration = Duration::from_millis(500);

/// The processes and GPUs to sample for one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watch {
    /// The run's id; its samples are delivered under it.
    pub run: String,
    /// UUIDs of its GPUs. All values of a GPU unknown to NVML are `None`.
    pub gpu_uuids: Vec<String>,
    /// Its ranks with their process ids.
    pub ranks: Vec<(u32, u32)>,
    /// Whether all descendants of a rank's process count as the rank.
    pub trees: bool,
    /// The `time_s` of the last sample from an earlier sampling of this run; the time in between is marked as a gap. Ignored if the run is
    /// already being sampled.
    pub samples_after: Option<f64>,
}

/// One watched run.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Revision of the first watch of this run; a run that is watched again starts over.
    pub birth: u64,
    pub revision: u64,
    pub watch: Watch,
}

/// The watched runs; the thread takes them over between ticks.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub watches: BTreeMap<String, Entry>,
    pub revision: u64,
    pub stop: bool,
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    board: Mutex<Board>,
    pub changed: Condvar,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn change(&self, change: impl FnOnce(&mut Board)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

/// The grid of deadlines. It starts at the first call, and again after every rest.
#[derive(Debug)]
pub(super) struct Cadence {
    interval: Duration,
    next: Option<Instant>,
}

impl Cadence {
    pub fn new(interval: Duration) -> Self {
        Self { interval, next: None }
    }

    /// Time until the next deadline; zero if it is due.
    pub fn wait(&mut self, now: Instant) -> Duration {
        self.next.get_or_insert(now).saturating_duration_since(now)
    }

    /// Moves to the first deadline after `now`, skipping missed ones.
    pub fn advance(&mut self, now: Instant) {
        let due = self.next.unwrap_or(now);
        let missed = now.saturating_duration_since(due).as_nanos() / self.interval.as_nanos().max(1);
        let steps = u32::try_from(missed).unwrap_or(u32::MAX - 1) + 1;
        self.next = Some(due + self.interval * steps);
    }

    /// Drops the grid while nothing is watched.
    pub fn rest(&mut self) {
        self.next = None;
    }
}

/// A run that is being sampled.
struct Run {
    birth: u64,
    revision: u64,
    gpu_uuids: Vec<String>,
    ranks: Vec<RankReader>,
    /// The descendants of each rank's process, if they count as the rank; the next search is at this time.
    below: Vec<RankReader>,
    trees: Option<Instant>,
    /// All descendants that were ever found: the driver lists a process until the kernel has removed it, when it has no parent any more.
    family: BTreeSet<u32>,
    /// Processes on the run's GPUs that were searched for among the descendants and not found.
    strangers: BTreeSet<u32>,
    delivery: Delivery,
}

impl Run {
    /// Searches for descendants of the ranks' processes when it is time, or when an unknown process is on their GPUs; known ones keep their
    /// counters.
    fn look_below(&mut self, roots: &Roots, gpus: &BTreeMap<String, Reading>) {
        let Some(due) = self.trees else { return };
        let readings = self.gpu_uuids.iter().filter_map(|uuid| gpus.get(uuid));
        let on_gpus = readings.flat_map(|reading| reading.processes.iter().flatten()).map(|process| process.pid);
        let is_known = |pid: &u32| self.family.contains(pid) || self.strangers.contains(pid);
        let unknown: Vec<u32> = on_gpus.filter(|pid| !is_known(pid)).collect();
        if unknown.is_empty() && Instant::now() < due {
            return;
        }
        self.strangers.extend(unknown);
        self.trees = Some(Instant::now() + TREE_INTERVAL);
        let mut before = std::mem::take(&mut self.below);
        for (rank, root) in self.ranks.iter().map(|reader| (reader.rank, reader.pid)) {
            for pid in processes::descendants(root).into_iter().map(|process| process.pid) {
                let index = before.iter().position(|reader| (reader.rank, reader.pid) == (rank, pid));
                let reader = index.map(|index| before.swap_remove(index));
                self.below.push(reader.unwrap_or_else(|| RankReader::new(roots, rank, pid)));
            }
        }
        self.family.extend(self.below.iter().map(|reader| reader.pid));
    }
}

/// State of the thread.
pub(super) struct Ticker {
    interval: Duration,
    cadence: Cadence,
    sink: SyncSender<(String, Sample)>,
    nvml: Option<&'static Nvml>,
    roots: Roots,
    /// Whether this process runs in a separate PID namespace, whose ids differ from those of NVML.
    own_namespace: bool,
    host: HostReader,
    gpus: BTreeMap<String, GpuReader>,
    pcie_due: Option<Instant>,
    pcie_turn: usize,
    runs: BTreeMap<String, Run>,
    revision: u64,
}

impl Ticker {
    pub fn new(
        interval: Duration,
        sink: SyncSender<(String, Sample)>,
        nvml: Option<&'static Nvml>,
        roots: Roots,
    ) -> Self {
        Self {
            interval,
            cadence: Cadence::new(interval),
            sink,
            nvml,
            own_namespace: in_own_pid_namespace(&roots),
            host: HostReader::new(roots.clone()),
            roots,
            gpus: BTreeMap::new(),
            pcie_due: None,
            pcie_turn: 0,
            runs: BTreeMap::new(),
            revision: 0,
        }
    }

    /// Samples until stopped or until the receiver is dropped.
    pub fn run(mut self, shared: &Shared) {
        while self.wait(shared) && self.tick().is_ok() {}
    }

    /// Sleeps until the next deadline, or until something is watched; false when stopped.
    fn wait(&mut self, shared: &Shared) -> bool {
        let mut board = shared.lock();
        loop {
            if board.stop {
                return false;
            }
            if board.revision != self.revision {
                self.take_over(&board);
            }
            if self.runs.is_empty() {
                self.cadence.rest();
                self.host.forget();
                board = shared.changed.wait(board).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let now = Instant::now();
            let wait = self.cadence.wait(now);
            if wait.is_zero() {
                self.cadence.advance(now);
                return true;
            }
            board = shared.changed.wait_timeout(board, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes over the watched runs; unchanged ranks keep their counters.
    fn take_over(&mut self, board: &Board) {
        self.revision = board.revision;
        self.runs.retain(|name, run| board.watches.get(name).is_some_and(|entry| entry.birth == run.birth));
        for (name, Entry { birth, revision, watch }) in &board.watches {
            let run = self.runs.entry(name.clone()).or_insert_with(|| Run {
                birth: *birth,
                revision: 0,
                gpu_uuids: Vec::new(),
                ranks: Vec::new(),
                below: Vec::new(),
                trees: None,
                family: BTreeSet::new(),
                strangers: BTreeSet::new(),
                delivery: Delivery::after(watch.samples_after),
            });
            if run.revision == *revision {
                continue;
            }
            run.revision = *revision;
            run.gpu_uuids.clone_from(&watch.gpu_uuids);
            run.trees = watch.trees.then(Instant::now);
            let mut before = std::mem::take(&mut run.ranks);
            for &(rank, pid) in &watch.ranks {
                let index = before.iter().position(|reader| (reader.rank, reader.pid) == (rank, pid));
                let reader = index.map(|index| before.swap_remove(index));
                run.ranks.push(reader.unwrap_or_else(|| RankReader::new(&self.roots, rank, pid)));
            }
        }
        let uuids: Vec<&String> = self.runs.values().flat_map(|run| &run.gpu_uuids).collect();
        self.gpus.retain(|uuid, _| uuids.contains(&uuid));
        for uuid in uuids {
            self.gpus.entry(uuid.clone()).or_insert_with(|| GpuReader::new(self.nvml, uuid));
        }
    }

    /// Reads everything once and delivers one sample per run.
    fn tick(&mut self) -> Result<(), SinkGone> {
        let time_s = now_s();
        let host = self.host.read();
        let gpus = self.read_gpus();
        let (interval, own_namespace) = (self.interval, self.own_namespace);
        for (name, run) in &mut self.runs {
            run.look_below(&self.roots, &gpus);
            let sample = sample(run, time_s, &host, &gpus, own_namespace);
            run.delivery.deliver(name, sample, interval, &self.sink)?;
        }
        Ok(())
    }

    fn read_gpus(&mut self) -> BTreeMap<String, Reading> {
        let mut readings: BTreeMap<String, Reading> =
            self.gpus.iter_mut().map(|(uuid, reader)| (uuid.clone(), reader.read())).collect();
        let now = Instant::now();
        if self.pcie_due.is_none_or(|due| now >= due) {
            self.pcie_due = Some(now + PCIE_INTERVAL);
            let mut slow: Vec<_> = self.gpus.iter_mut().filter(|(_, reader)| reader.needs_slow_pcie()).collect();
            self.pcie_turn = (self.pcie_turn + 1) % slow.len().max(1);
            if let Some((uuid, reader)) = slow.get_mut(self.pcie_turn)
                && let Some(reading) = readings.get_mut(*uuid)
            {
                reader.read_pcie(&mut reading.sample);
            }
        }
        readings
    }
}

/// The sample of one run from the readings of a tick.
fn sample(
    run: &mut Run,
    time_s: f64,
    host: &HostSample,
    gpus: &BTreeMap<String, Reading>,
    own_namespace: bool,
) -> Sample {
    let pids: Vec<u32> = run.ranks.iter().map(|reader| reader.pid).chain(run.family.iter().copied()).collect();
    let gpu_sample = |uuid: &String| -> Option<GpuSample> {
        let reading = gpus.get(uuid)?;
        let mut sample = reading.sample.clone();
        if let Some(processes) = &reading.processes {
            (sample.ranks_memory_bytes, sample.foreign_processes) = gpu_use::split(processes, &pids, own_namespace);
        }
        Some(sample)
    };
    let gpus = run.gpu_uuids.iter().filter_map(gpu_sample).collect();
    let mut ranks: Vec<RankSample> = run.ranks.iter_mut().map(RankReader::read).collect();
    for below in &mut run.below {
        let RankSample { rank, resident_bytes, cpus_busy } = below.read();
        let Some(of_rank) = ranks.iter_mut().find(|sample| sample.rank == rank) else { continue };
        of_rank.resident_bytes = of_rank.resident_bytes.into_iter().chain(resident_bytes).reduce(u64::saturating_add);
        of_rank.cpus_busy = of_rank.cpus_busy.into_iter().chain(cpus_busy).reduce(|sum, one| sum + one);
    }
    Sample { time_s, hole_s: None, host: host.clone(), ranks, gpus }
}

/// Whether this process is outside the machine's root PID namespace, which has a fixed number.
pub(super) fn in_own_pid_namespace(roots: &Roots) -> bool {
    const OF_THE_MACHINE: &str = "pid:[4026531836]";
    fs::read_link(roots.proc.join("self/ns/pid")).map_or(true, |link| link.as_os_str() != OF_THE_MACHINE)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process;
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::telemetry::DEFAULT_INTERVAL;
    use crate::telemetry::gpu::GpuProcess;

    #[test]
    #[ignore = "measures: prints what a tick of the host and two ranks costs"]
    fn what_a_tick_costs() {
        let (sink, samples) = sync_channel(1);
        let mut ticker = Ticker::new(DEFAULT_INTERVAL, sink, None, Roots::default());
        let mut board = Board { revision: 1, ..Board::default() };
        let ranks = vec![(0, process::id()), (1, process::id())];
        let watch = Watch { run: "a".to_owned(), ranks, ..Watch::default() };
        board.watches.insert("a".to_owned(), Entry { birth: 1, revision: 1, watch });
        ticker.take_over(&board);
        let start = Instant::now();
        for _ in 0..1000 {
            assert!(ticker.tick().is_ok());
            samples.recv().unwrap();
        }
        println!("{:.1} µs a tick", start.elapsed().as_secs_f64() * 1e3);
    }

    #[test]
    fn a_process_of_the_run_is_none_of_others_when_it_has_just_begun_or_ended() {
        let mut child = process::Command::new("sleep").arg("600").spawn().unwrap();
        let mut run = Run {
            birth: 1,
            revision: 1,
            gpu_uuids: vec!["GPU-0".to_owned()],
            ranks: vec![RankReader::new(&Roots::default(), 0, process::id())],
            below: Vec::new(),
            // Not yet due.
            trees: Some(Instant::now() + Duration::from_secs(600)),
            family: BTreeSet::new(),
            strangers: BTreeSet::new(),
            delivery: Delivery::after(None),
        };
        let on_gpu = |pids: &[u32]| {
            let processes = pids.iter().map(|&pid| GpuProcess { pid, memory_bytes: Some(5) }).collect();
            BTreeMap::from([("GPU-0".to_owned(), Reading { processes: Some(processes), ..Reading::default() })])
        };
        let mut foreign = |pids: &[u32]| {
            let gpus = on_gpu(pids);
            run.look_below(&Roots::default(), &gpus);
            sample(&mut run, 0.0, &HostSample::default(), &gpus, false).gpus[0].foreign_processes
        };
        assert_eq!(foreign(&[child.id()]), Some(0), "it is looked for at once");
        assert_eq!(foreign(&[child.id(), 1]), Some(1), "that is another's");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(foreign(&[child.id()]), Some(0), "the driver still lists it");
    }

    #[test]
    fn delays_do_not_move_the_grid() {
        let ms = Duration::from_millis;
        let start = Instant::now();
        let mut cadence = Cadence::new(ms(100));
        assert_eq!(cadence.wait(start), ms(0));
        cadence.advance(start);
        for tick in 1..1000_u32 {
            let late = start + ms(100) * tick + ms(u64::from(tick % 37));
            assert_eq!(cadence.wait(late), ms(0));
            cadence.advance(late);
            assert_eq!(cadence.wait(start + ms(100) * tick + ms(40)), ms(60));
        }
    }

    #[test]
    fn missed_deadlines_are_skipped_and_a_rest_starts_a_new_grid() {
        let ms = Duration::from_millis;
        let start = Instant::now();
        let mut cadence = Cadence::new(ms(100));
        cadence.wait(start);
        cadence.advance(start + ms(350));
        assert_eq!(cadence.wait(start + ms(350)), ms(50));
        cadence.rest();
        assert_eq!(cadence.wait(start + ms(1234)), ms(0));
    }
}
