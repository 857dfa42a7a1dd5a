//! Ranks that work together over gloo: real processes, what each of them does, and how a group ends when one of them fails.
#![cfg(feature = "torch")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant, UNIX_EPOCH};

use multicard::launch::{Launcher, Update, WorkerCommand, place};
use multicard::plan::image::{self, DataSet, ImageSettings};
use multicard::plan::{CudaState, Level, RunState, Worker};
use multicard::protocol::{Event, EventLine, Evidence, Job, MemoryPolicy, PROTOCOL_VERSION, RankPlace, ranges_text};
use multicard::telemetry::{read_node, read_topology};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, setrlimit};
use tempfile::TempDir;

#[path = "../built/mod.rs"]
mod built;
#[path = "../executable/mod.rs"]
mod executable;
mod over_nccl;
#[path = "../seeded/mod.rs"]
mod seeded;
mod strangers;

/// Long enough for a slow machine; reaching it is a failure.
const DEADLINE: Duration = Duration::from_secs(120);
/// What a group may take to end once a rank does not work any more.
const END_LIMIT: Duration = Duration::from_secs(30);

const TRAIN_IMAGES: u32 = 96;
const TEST_IMAGES: u32 = 25;
const BATCH: u32 = 8;
/// An image of 28×28 in fp32 with three channels, and its label.
const IMAGE_BYTES: u64 = 28 * 28 * 3 * 4 + 8;

/// One run with the real worker.
struct Run {
    folder: TempDir,
    launcher: Launcher,
    updates: Receiver<Update>,
}

impl Run {
    fn start(
        strategy: &'static str,
        gpus: u32,
        changed: &[(&'static str, Level)],
        environment: &[(&str, &str)],
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let ranks = if strategy == "dp" { 1 } else { gpus };
        make_set(folder.path(), TRAIN_IMAGES);
        let job = job(folder.path(), strategy, gpus, ranks, changed);
        Self::launch(folder, job, worker(environment))
    }

    fn launch(folder: TempDir, job: Job, worker: WorkerCommand) -> Self {
        let (sender, updates) = sync_channel(10_000);
        let run = Self { launcher: Launcher::new(worker, sender), folder, updates };
        run.launcher.start(job).unwrap();
        run
    }

    fn log(&self, rank: u32) -> Vec<Event> {
        let text = fs::read_to_string(self.run_folder().join(format!("rank-{rank}.jsonl"))).unwrap_or_default();
        // The last line may be half written.
        text.lines().filter_map(|line| Some(serde_json::from_str::<EventLine>(line).ok()?.event)).collect()
    }

    fn run_folder(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Waits for the end: the state and its reason.
    fn end(&self) -> (RunState, String) {
        let begin = Instant::now();
        loop {
            let left = DEADLINE.saturating_sub(begin.elapsed());
            match self.updates.recv_timeout(left).expect("the run ends") {
                Update::State { state, reason, .. } if state.is_final() => return (state, reason.unwrap_or_default()),
                _ => {}
            }
        }
    }

    fn finished(&self) {
        let (state, reason) = self.end();
        assert_eq!(state, RunState::Finished, "{reason}");
    }

    /// Waits until a rank has trained some steps, and gives its process.
    fn training(&self, rank: u32) -> Pid {
        self.process(rank, |log| log.iter().filter(|event| matches!(event, Event::Step { .. })).count() > 3)
    }

    /// Waits until a rank has come so far, and gives its process.
    fn process(&self, rank: u32, far_enough: impl Fn(&[Event]) -> bool) -> Pid {
        let begin = Instant::now();
        loop {
            let log = self.log(rank);
            if let (Some(Event::Started { pid, .. }), true) = (log.first(), far_enough(&log)) {
                return Pid::from_raw(*pid as i32).unwrap();
            }
            assert!(begin.elapsed() < DEADLINE, "rank {rank} does not come so far: {log:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How the run ends once `harm` has come to a rank; it must do so soon.
    fn end_after(&self, pid: Pid, harm: impl FnOnce(Pid)) -> String {
        harm(pid);
        self.fails_soon()
    }

    /// How the run ends, which must do so in time.
    fn fails_soon(&self) -> String {
        let (begin, begin_s) = (Instant::now(), UNIX_EPOCH.elapsed().unwrap().as_secs_f64());
        let (state, reason) = self.end();
        assert_eq!(state, RunState::Failed, "{reason}");
        let took = begin.elapsed();
        let logs = ["group.jsonl", "rank-0.jsonl", "rank-1.jsonl"].map(|name| {
            let text = fs::read_to_string(self.run_folder().join(name)).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            lines[lines.len().saturating_sub(5)..].join("\n")
        });
        assert!(took < END_LIMIT, "from {begin_s} on the group took {took:?} to end: {reason}\n{}", logs.join("\n"));
        println!("the group took {:.1} s to end: {reason}", took.as_secs_f64());
        reason
    }
}

fn worker(environment: &[(&str, &str)]) -> WorkerCommand {
    let path = built::worker();
    let description = Worker {
        path: path.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        protocol_version: PROTOCOL_VERSION,
        torch_version: String::new(),
        cuda: CudaState::Unavailable { reason: "these ranks are on CPUs".into() },
        dali: Err("not installed".into()),
        versions: Default::default(),
    };
    let environment = environment.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    WorkerCommand { path, environment, description }
}

fn job(folder: &Path, strategy: &'static str, gpus: u32, ranks: u32, changed: &[(&'static str, Level)]) -> Job {
    let mut all = vec![
        ("strategy", Level::text(strategy)),
        ("gpus", Level::Integer(gpus.into())),
        ("width_multiplier", Level::Number(0.35)),
        ("image_size", Level::Integer(28)),
        ("batch_size", Level::Integer(BATCH.into())),
        ("loader_workers", Level::Integer(1)),
        ("epochs", Level::Integer(1)),
        ("train_images", Level::Integer(TRAIN_IMAGES.into())),
        ("test_images", Level::Integer(TEST_IMAGES.into())),
    ];
    all.retain(|(key, _)| changed.iter().all(|(other, _)| key != other));
    all.extend_from_slice(changed);
    let levels = image::spec().levels(&all);
    let shape = ImageSettings::from_levels(&levels).unwrap().shape();
    Job {
        run: "run".into(),
        data_folder: folder.into(),
        warm_up_steps: 1,
        folder: folder.join("run"),
        ranks: (0..ranks).map(|rank| RankPlace::on_cpu(rank, 1)).collect(),
        ..Job::new(image::KEY.into(), levels, shape, DataSet::Mnist { folder: Some(folder.into()) }.into())
    }
}

fn make_set(folder: &Path, train_images: u32) {
    seeded::make_set(folder, train_images, TEST_IMAGES);
}

fn evidence<'a>(log: &'a [Event], factor: &str) -> Vec<&'a Evidence> {
    let evidence_of = |event: &'a Event| if let Event::Evidence(evidence) = event { Some(evidence) } else { None };
    log.iter().filter_map(evidence_of).filter(|evidence| factor.is_empty() || evidence.factor == factor).collect()
}

/// The first value of a reading.
fn reading(log: &[Event], reading_key: &str) -> f64 {
    let value = |event: &Event| match event {
        Event::Reading { key, value, .. } if *key == reading_key => Some(*value),
        _ => None,
    };
    log.iter().find_map(value).unwrap_or_else(|| panic!("no reading {reading_key}"))
}

/// Images processed and bytes received in the first epoch.
fn first_epoch(log: &[Event]) -> (u32, u64) {
    (reading(log, "units") as u32, reading(log, "received_bytes") as u64)
}

/// Checks what all ranks of a run say of it, and that nothing complained.
fn agrees(run: &Run, ranks: u32) {
    say_the_same(run, ranks);
    assert_eq!(fs::read_to_string(run.run_folder().join("stderr.log")).unwrap(), "");
}

/// Checks what all ranks of a run say of it.
fn say_the_same(run: &Run, ranks: u32) {
    let logs: Vec<_> = (0..ranks).map(|rank| run.log(rank)).collect();
    for log in &logs {
        let all = evidence(log, "");
        assert!(all.iter().all(|evidence| evidence.in_effect), "{all:?}");
        assert_eq!(evidence(log, "gpus").len(), 1);
    }
    let tests: Vec<_> =
        logs.iter().map(|log| ["test_loss", "accuracy", "test_units"].map(|key| reading(log, key))).collect();
    let [_, accuracy, images] = tests[0];
    assert_eq!(images, f64::from(TEST_IMAGES));
    assert!((accuracy * 25.0 - (accuracy * 25.0).round()).abs() < 1e-9, "{accuracy} is no share of 25 images");
    assert!(tests.iter().all(|test| *test == tests[0]), "{tests:?}");
    let weights: Vec<_> = logs.iter().map(|log| evidence(log, "strategy").last().unwrap().seen.clone()).collect();
    assert!(weights.iter().all(|seen| *seen == weights[0]), "{weights:?}");
    assert!(ranks == 1 || weights[0].contains(&format!("equal on all {ranks} ranks")), "{weights:?}");
}

#[test]
fn each_strategy_processes_and_receives_what_it_says() {
    let all = TRAIN_IMAGES;
    for (strategy, processed, received) in
        [("ddp-ds", all / 2, all / 2), ("ddp", all, all), ("ddp-rr", all / 2, all), ("dp", all, all)]
    {
        let run = Run::start(strategy, 2, &[("layout", Level::text("nhwc"))], &[]);
        run.finished();
        let ranks = if strategy == "dp" { 1 } else { 2 };
        for rank in 0..ranks {
            let log = run.log(rank);
            assert_eq!(first_epoch(&log), (processed, u64::from(received) * IMAGE_BYTES), "{strategy}");
            assert_eq!(reading(&log, "unit_copies"), if strategy == "ddp" { 2.0 } else { 1.0 }, "{strategy}");
            let times = if strategy == "ddp" { "2 to 2 times" } else { "1 to 1 times" };
            assert!(evidence(&log, "strategy")[0].seen.ends_with(times), "{:?}", evidence(&log, "strategy"));
        }
        agrees(&run, ranks);
    }
}

#[test]
fn images_that_live_on_the_device_are_dealt_as_the_hosts_are() {
    let all = TRAIN_IMAGES;
    for (strategy, processed, received) in
        [("ddp-ds", all / 2, all / 2), ("ddp", all, all), ("ddp-rr", all / 2, all), ("dp", all, all)]
    {
        let run = Run::start(strategy, 2, &[("loader", Level::text("device"))], &[]);
        run.finished();
        let ranks = if strategy == "dp" { 1 } else { 2 };
        for rank in 0..ranks {
            // An index of 8 bytes an image.
            assert_eq!(first_epoch(&run.log(rank)), (processed, u64::from(received) * 8), "{strategy}");
        }
        agrees(&run, ranks);
    }
}

#[test]
fn ranks_that_share_one_copy_map_the_same_memory_and_train_as_those_that_do_not() {
    let weights = ["shared", "per_rank"].map(|data_copy| {
        let run = Run::start("ddp-ds", 2, &[("data_copy", Level::text(data_copy))], &[]);
        run.finished();
        let says = if data_copy == "shared" { "all the same" } else { "of its own" };
        for rank in 0..2 {
            let log = run.log(rank);
            assert!(evidence(&log, "data_copy")[0].seen.ends_with(says), "{:?}", evidence(&log, "data_copy"));
        }
        agrees(&run, 2);
        let log = run.log(0);
        evidence(&log, "strategy").iter().find(|seen| seen.seen.starts_with("weights")).expect("weights").seen.clone()
    });
    assert_eq!(weights[0], weights[1]);
}

#[test]
fn three_ranks_with_uneven_shares_hold_equal_weights_and_count_each_test_image_once() {
    for (synchronised, layout) in [("off", "nchw"), ("on", "nhwc")] {
        let levels = [
            ("train_images", Level::Integer(95)),
            ("sync_batch_norm", Level::text(synchronised)),
            ("layout", Level::text(layout)),
            ("epochs", Level::Integer(2)),
        ];
        let run = Run::start("ddp-ds", 3, &levels, &[]);
        run.finished();
        agrees(&run, 3);
        assert_eq!(first_epoch(&run.log(2)).0, 32);
    }
}

#[test]
fn sharded_ranks_hold_their_part_and_count_each_image_once() {
    for (ranks, changed) in [(2, ("layout", Level::text("nhwc"))), (3, ("sync_batch_norm", Level::text("on")))] {
        let run = Run::start("fsdp", ranks, &[changed], &[]);
        run.finished();
        for rank in 0..ranks {
            let log = run.log(rank);
            assert!(evidence(&log, "").iter().all(|evidence| evidence.in_effect), "{log:?}");
            assert_eq!(first_epoch(&log), (TRAIN_IMAGES / ranks, u64::from(TRAIN_IMAGES / ranks) * IMAGE_BYTES));
            assert_eq!(reading(&log, "test_units"), f64::from(TEST_IMAGES));
            assert_eq!(reading(&log, "test_loss"), reading(&run.log(0), "test_loss"));
            let held = evidence(&log, "strategy").last().unwrap().seen.clone();
            assert!(held.starts_with("this rank holds ") && held.contains("reduce-scatters"), "{held}");
        }
        assert_eq!(fs::read_to_string(run.run_folder().join("stderr.log")).unwrap(), "");
    }
}

#[test]
fn bound_ranks_prove_their_cpus_their_policy_and_their_pages() {
    let node = read_node();
    for numa in ["local", "first-node", "interleave"] {
        let folder = TempDir::new().unwrap();
        make_set(folder.path(), TRAIN_IMAGES);
        let mut job = job(folder.path(), "ddp-ds", 2, 2, &[("numa", Level::text(numa))]);
        job.ranks = place(&job.shape, &node, &read_topology(&node)).unwrap().ranks;
        let places = job.ranks.clone();
        let run = Run::launch(folder, job, worker(&[]));
        run.finished();
        agrees(&run, 2);
        for place in &places {
            let log = run.log(place.rank);
            let [proof] = evidence(&log, "numa")[..] else { panic!("one look at the binding: {log:?}") };
            assert!(proof.in_effect && proof.asked == numa, "{proof:?}");
            assert!(proof.seen.starts_with(&format!("CPUs {}", ranges_text(&place.cpus))), "{proof:?}");
            let policy = if numa == "interleave" { "policy interleave:" } else { "policy bind:" };
            // Containers may refuse policies; then pages alone are the proof.
            assert!(proof.seen.contains(policy) || proof.seen.contains("policy refused"), "{proof:?}");
            assert_eq!(proof.seen.contains("one NUMA node: no effect"), node.numa_nodes == 1, "{proof:?}");
        }
    }
}

#[test]
fn a_binding_that_does_not_take_effect_is_seen() {
    let folder = TempDir::new().unwrap();
    make_set(folder.path(), TRAIN_IMAGES);
    let mut job = job(folder.path(), "ddp-ds", 1, 1, &[("numa", Level::text("local"))]);
    // No machine has this node.
    job.ranks[0].memory = Some(MemoryPolicy::Bind { nodes: vec![1023] });
    let run = Run::launch(folder, job, worker(&[]));
    run.finished();
    let log = run.log(0);
    let proof = evidence(&log, "numa")[0];
    assert!(!proof.in_effect && proof.seen.contains("memory policy refused (set_mempolicy:"), "{proof:?}");
}

/// So many epochs that only a failure ends the run.
const ENDLESS: (&str, Level) = ("epochs", Level::Integer(100_000));

#[test]
fn a_rank_that_is_killed_ends_its_group_and_is_the_reason() {
    // The first rank, too: what the others meet in is not its own.
    for (strategy, killed) in [("ddp-ds", 0), ("ddp-ds", 2), ("fsdp", 1)] {
        let run = Run::start(strategy, 3, &[ENDLESS], &[]);
        let kill = |pid| rustix::process::kill_process(pid, Signal::KILL).unwrap();
        let reason = run.end_after(run.training(killed), kill);
        assert!(reason.starts_with(&format!("rank {killed} was killed by SIGKILL")), "{reason}");
    }
}

/// What a process of another user tries with the folder; it says what it succeeds in.
const INTRUDE: &str = r#"
for try in 'ls "$F"' 'cat "$F/store"' ': > "$F/store"' ': > "$F/answer-0"' 'mv "$F" "$F-away"' 'rmdir "$F"' 'chmod 777 "$F"'; do
  (eval "$try") 2> /dev/null && echo "succeeded: $try"
done
exit 0
"#;

#[test]
fn another_user_can_neither_read_nor_write_where_ranks_meet() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can start a process of another user");
        return;
    }
    let run = Run::start("ddp-ds", 2, &[("epochs", Level::Integer(3))], &[]);
    // From before the ranks meet until they are gone.
    let pid = run.process(0, |_| true);
    let folder = environment(pid, "MULTICARD_MEETING");
    assert!(fs::metadata(&folder).unwrap().is_dir());
    let mut tries = 0;
    while Path::new(&folder).exists() {
        let mut intruder = Command::new("setpriv");
        intruder.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", INTRUDE]);
        let output = intruder.current_dir("/").env("F", &folder).output().expect("setpriv, of util-linux");
        assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
        tries += 1;
    }
    assert!(tries > 0);
    run.finished();
    agrees(&run, 2);
}

/// The local addresses of a process's sockets, as the kernel lists them, and whether each one listens.
fn sockets(pid: Pid) -> Vec<(String, bool)> {
    let process = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    let descriptors = fs::read_dir(process.join("fd")).unwrap().flatten();
    let targets = descriptors.filter_map(|file| fs::read_link(file.path()).ok()?.into_os_string().into_string().ok());
    let inodes = targets.filter_map(|target| Some(target.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()));
    let inodes: Vec<String> = inodes.collect();
    let lists = ["net/tcp", "net/tcp6", "net/udp", "net/udp6"];
    let text = lists.map(|list| fs::read_to_string(process.join(list)).unwrap_or_default()).join("\n");
    let fields = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let own = fields.filter(|fields| fields.get(9).is_some_and(|inode| inodes.iter().any(|own| own == inode)));
    own.map(|fields| (fields[1].split(':').next().unwrap().to_owned(), fields[3] == "0A")).collect()
}

#[test]
fn ranks_listen_and_connect_on_the_loopback_interface_alone() {
    let run = Run::start("ddp-ds", 2, &[ENDLESS], &[]);
    for rank in 0..2 {
        let sockets = sockets(run.training(rank));
        // 127.0.0.1, and the same within IPv6.
        let loopback = ["0100007F", "0000000000000000FFFF00000100007F"];
        assert!(sockets.iter().all(|(address, _)| loopback.contains(&&**address)), "rank {rank}: {sockets:?}");
        assert!(sockets.iter().any(|(_, listens)| *listens), "gloo of rank {rank} listens nowhere: {sockets:?}");
        assert!(sockets.iter().any(|(_, listens)| !listens), "rank {rank} has no connection: {sockets:?}");
    }
}

#[test]
fn connected_ranks_may_open_as_many_files_as_the_system_allows() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum.map(|most| most.min(1024)), maximum }).unwrap();
    let run = Run::start("ddp-ds", 2, &[ENDLESS], &[]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", run.training(0).as_raw_nonzero())).unwrap();
    let words: Vec<&str> =
        limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap().split_whitespace().collect();
    assert_eq!(words[0], words[1], "{limits}");
}

#[test]
fn a_rank_that_hangs_ends_its_group_and_is_the_reason() {
    for strategy in ["ddp-ds", "fsdp"] {
        let run = Run::start(strategy, 3, &[ENDLESS], &[]);
        let reason = run.end_after(run.training(1), |pid| rustix::process::kill_process(pid, Signal::STOP).unwrap());
        assert!(reason.contains("rank 1 does not answer"), "{strategy}: {reason}");
    }
}

#[test]
fn a_rank_that_hangs_while_it_starts_ends_its_group_and_is_the_reason() {
    let run = Run::start("ddp-ds", 2, &[ENDLESS], &[]);
    let begun = run.process(1, |_| true);
    let reason = run.end_after(begun, |pid| rustix::process::kill_process(pid, Signal::STOP).unwrap());
    assert!(reason.contains("rank 1 does not answer"), "{reason}");
}

#[test]
fn a_hang_and_a_death_among_eight_ranks_are_named_in_time() {
    for (signal, named) in [(Signal::STOP, "rank 5 does not answer"), (Signal::KILL, "rank 5 was killed by SIGKILL")] {
        let begin = Instant::now();
        let run = Run::start("ddp-ds", 8, &[ENDLESS], &[]);
        let pids: Vec<Pid> = (0..8).map(|rank| run.training(rank)).collect();
        println!("eight ranks train {:.1} s after their start", begin.elapsed().as_secs_f64());
        let reason = run.end_after(pids[5], |pid| rustix::process::kill_process(pid, signal).unwrap());
        assert!(reason.contains(named), "{reason}");
    }
}

/// Whether c10d's file store holds the address that a rank left for gloo.
fn has_address(store: &[u8], rank: u32) -> bool {
    let key = format!("/gloo//0/{rank}");
    store.windows(key.len()).any(|part| part == key.as_bytes())
}

/// What a rank leaves for the other one where they meet: its process, and what it will say to each rank.
const CARD: &str = "0 1 2";

/// The real worker, whose first rank starts only once the file `go` lies in the folder.
fn worker_whose_first_rank_waits(folder: &Path) -> WorkerCommand {
    let real = worker(&[]);
    let path = folder.join("multicard-worker");
    let waits = format!("[ \"$3\" != 0 ] || until [ -e '{}' ]; do sleep 0.02; done", folder.join("go").display());
    executable::write(&path, format!("#!/bin/sh\n{waits}\nexec '{}' \"$@\"\n", real.path.display()));
    WorkerCommand { path, ..real }
}

/// What a rank was told in its environment.
fn environment(pid: Pid, name: &str) -> String {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let value = environment.split('\0').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    value.unwrap().to_owned()
}

#[test]
fn a_rank_that_hangs_after_it_has_left_its_address_ends_its_group_and_is_the_reason() {
    let folder = TempDir::new().unwrap();
    make_set(folder.path(), TRAIN_IMAGES);
    let (job, worker) = (job(folder.path(), "ddp-ds", 2, 2, &[ENDLESS]), worker_whose_first_rank_waits(folder.path()));
    let go = folder.path().join("go");
    let run = Run::launch(folder, job, worker);
    let second = run.process(1, |_| true);
    let meeting = PathBuf::from(environment(second, "MULTICARD_MEETING"));
    // The first rank, which it connects to next, is not there yet.
    fs::write(meeting.join("card-1-0"), CARD).unwrap();
    let store = meeting.join("store-1");
    let begin = Instant::now();
    while !fs::read(&store).is_ok_and(|text| has_address(&text, 1)) {
        assert!(begin.elapsed() < DEADLINE, "rank 1 leaves no address: {:?}", fs::read(&store));
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process(second, Signal::STOP).unwrap();
    fs::write(go, "").unwrap();
    // From here on it waits for rank 1; its own start, however long, is not counted.
    run.process(0, |_| true);
    let reason = run.fails_soon();
    // The kernel takes connections for a process that is stopped: rank 0 waits for the connection or for the first message after it.
    let waited = reason.contains("did not connect within 23 s") || reason.contains("Timed out waiting 20000ms");
    assert!(reason.contains("rank 1 does not answer") && waited, "{reason}");
}

#[test]
fn a_rank_that_runs_out_of_memory_ends_its_group_and_is_the_reason() {
    // Every tensor of some size is taken from the system, so that none comes from memory that the process holds already.
    let environment = [("MALLOC_MMAP_THRESHOLD_", "65536"), ("MALLOC_TOP_PAD_", "0")];
    // Nor does a new thread ask for memory first.
    let levels = [ENDLESS, ("image_size", Level::Integer(96)), ("persistent_workers", Level::text("on"))];
    let run = Run::start("ddp-ds", 2, &levels, &environment);
    // The threads that load test images start at the end of the first epoch.
    let second_epoch = run.process(1, |log| log.iter().any(|event| matches!(event, Event::Step { epoch: 2.., .. })));
    let reason = run.end_after(second_epoch, |pid| {
        // Less than a step's activations above the least that it holds between steps: small objects still find room.
        let held = (0..100).map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            virtual_bytes(pid)
        });
        let limit = Some(held.min().unwrap() + (2 << 20));
        rustix::process::prlimit(Some(pid), Resource::As, Rlimit { current: limit, maximum: limit }).unwrap();
    });
    assert!(reason.starts_with("rank 1: ") && reason.contains("can't allocate memory"), "{reason}");
}

fn virtual_bytes(pid: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}
