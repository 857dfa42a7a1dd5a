//! Session in a temporary folder, with ranks that write their logs as workers do.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use tempfile::TempDir;

use crate::plan::fixture::cpu_node;
use crate::plan::{Data, Levels, Mode, Node, RunState, Tracer, image};
use crate::protocol::{Device, Event, EventLine, GpuSample, PROTOCOL_VERSION, Phase, Sample};
use crate::store::{Decision, Reader, RunRecord, Store};

pub(super) fn node() -> Node {
    Node { hostname: "node".to_owned(), system: "Linux 6.8".to_owned(), ..cpu_node() }
}

pub(super) fn session() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path(), &node()).unwrap();
    (folder, store)
}

/// A session in which the run r1 is queued.
pub(super) fn session_of_r1() -> (TempDir, Store) {
    let (folder, store) = session();
    store.decide(queued("r1")).unwrap();
    (folder, store)
}

/// A session whose only run is finished, and its records; nobody has it open.
pub(super) fn session_of_a_finished_run() -> (TempDir, Vec<RunRecord>) {
    let (folder, store) = session_of_r1();
    say(&store, "r1", 0, 1.0, step(1));
    store.decide(ended("r1", RunState::Finished)).unwrap();
    store.flush().unwrap();
    let records = everything(&store.reader().unwrap());
    (folder, records)
}

pub(super) fn levels() -> Levels {
    image::spec().levels(&[])
}

pub(super) fn queued(run: &str) -> Decision {
    Decision::RunQueued {
        run: run.to_owned(),
        plan: "p1".to_owned(),
        cell: "c1".to_owned(),
        workload: image::KEY.into(),
        levels: levels(),
        data: Data::of_set("digits"),
        repeat: 1,
        tracer: Tracer::Off,
        mode: Mode::Full,
        seed: u64::MAX,
    }
}

pub(super) fn plan_added() -> Decision {
    Decision::PlanAdded {
        plan: "p1".to_owned(),
        name: "precision".to_owned(),
        toml: "version = 1\n".to_owned(),
        workloads: Vec::new(),
    }
}

pub(super) fn run_started(run: &str) -> Decision {
    Decision::RunStarted { run: run.to_owned(), pid: 17, process_start: 1234 }
}

pub(super) fn ended(run: &str, state: RunState) -> Decision {
    Decision::RunEnded { run: run.to_owned(), state, reason: None, duration_s: None }
}

pub(super) fn started() -> Event {
    started_of(1)
}

/// The first event of one of so many ranks.
pub(super) fn started_of(world_size: u32) -> Event {
    Event::Started {
        protocol_version: PROTOCOL_VERSION,
        pid: 17,
        torch_version: "2.11".to_owned(),
        device: Device { name: "cpu".to_owned(), gpu_uuid: None },
        world_size,
        seed: 1,
    }
}

pub(super) fn phase(phase: Phase) -> Event {
    Event::Phase { phase }
}

pub(super) fn step(step: u64) -> Event {
    Event::Step {
        epoch: 1,
        step,
        steps: 100,
        duration_s: 0.1 * step as f64,
        load_wait_s: 0.01,
        loss: 2.3 / step as f64,
        units: 64,
        warm_up: step < 3,
        traced: false,
    }
}

pub(super) fn reading(key: &str, value: f64, epoch: Option<u32>) -> Event {
    Event::Reading { key: key.into(), value, epoch, step: None }
}

pub(super) fn line(run: &str, rank: u32, time_s: f64, event: Event) -> EventLine {
    EventLine { run: run.to_owned(), rank, time_s, event }
}

pub(super) fn sample(time_s: f64, energy_j: f64, reasons: &[&str]) -> Sample {
    let gpu = GpuSample {
        uuid: "GPU-0".to_owned(),
        memory_used_bytes: Some(1 << 30),
        energy_j: Some(energy_j),
        throttle_reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
        ..GpuSample::default()
    };
    Sample { time_s, gpus: vec![gpu], ..Sample::default() }
}

/// Appends a line to the log of its rank, as the rank does.
pub(super) fn log(folder: &Path, line: &EventLine) {
    let text = serde_json::to_string(line).unwrap();
    append(folder, &format!("runs/{}/rank-{}.jsonl", line.run, line.rank), &(text + "\n"));
}

pub(super) fn append(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Logs an event of a rank and passes it to the store.
pub(super) fn say(store: &Store, run: &str, rank: u32, time_s: f64, event: Event) {
    let line = line(run, rank, time_s, event);
    log(store.folder(), &line);
    store.event(line).unwrap();
}

/// Everything known about all runs, including steps.
pub(super) fn everything(reader: &Reader) -> Vec<RunRecord> {
    let runs = reader.runs().unwrap();
    runs.iter().map(|record| reader.run(&record.run).unwrap().unwrap()).collect()
}
