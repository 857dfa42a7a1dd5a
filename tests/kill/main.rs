//! Kills at random moments: whatever dies, finished runs stay whole, and `--resume` ends with every cell run as often as
//! the plan says.
//!
//! `MULTICARD_KILLS=500 cargo test --workspace --features torch --test worker --test kill -- --nocapture` runs a campaign of so many kills (default 6)
//! with the seed `MULTICARD_KILL_SEED` (default 1), and prints how many of which kind there were. Half of the queues are detached. With
//! `MULTICARD_KILL_CONDUCTORS=1` all are, their runs are programs, and most kills hit the conductor. `MULTICARD_KILL_BINARIES` is a
//! folder of other binaries than those of this build.
#![cfg(feature = "torch")]
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use multicard::plan::RunState;
use multicard::store::{Reader, RunRecord, rebuild};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

#[path = "../built/mod.rs"]
mod built;
mod scene;
#[path = "../seeded/mod.rs"]
mod seeded;

use built::worker;
use scene::{Scene, names, wait_until};
use seeded::records;

/// Long enough for a slow machine; reaching it is a failure.
const DEADLINE: Duration = Duration::from_secs(900);
/// Three cells: one rank, two ranks that meet over gloo, and a program that leaves processes behind.
const REPEATS: usize = 2;
const CELLS: usize = 3;
/// `WORD` becomes a duration for `sleep` that no other process has: of a daemon in a session of its own, and of one that ignores
/// requests to end and has lost its parent.
const PLAN: &str = r#"
version = 1
name = "killed"
workload = "image"
repeats = 2
[measure]
warm_up_steps = 1
[data]
set = "digits"
[factors]
strategy = "ddp"
gpus = [1, 2]
image_size = 32
batch_size = 4
train_images = 8
test_images = 4
loader_workers = 1
epochs = 1
[[block]]
[block.command]
name = "tree"
run = ["sh", "-c", '''
setsid sleep WORD &
(trap '' TERM INT HUP; setsid sh -c 'sleep WORD; true' &)
for step in 1 2 3 4 5; do echo "{{\"step\": $step, \"loss\": 0.5}}" >> "$MULTICARD_READINGS"; sleep 0.1; done
''']
"#;

/// Three cells of such a program: for campaigns in which conductors are started often.
const PROGRAMS: &str = r#"
version = 1
name = "killed"
repeats = 2
[command]
name = "tree"
run = ["sh", "-c", '''
setsid sleep WORD &
(trap '' TERM INT HUP; setsid sh -c 'sleep WORD; true' &)
for step in 1 2 3 {turn}; do echo "{{\"step\": $step, \"loss\": 0.5}}" >> "$MULTICARD_READINGS"; sleep 0.1; done
''']
[factors]
turn = [4, 5, 6]
"#;

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    /// `multicard run` or `multicard attach`; what it started goes on.
    Workbench,
    /// `multicard conduct`, which runs a detached queue.
    Conductor,
    /// One rank.
    Rank,
    /// The supervisor of a run's ranks.
    Group,
    /// One process that a program has started, or the program.
    Program,
    /// A second `multicard run` on the session, beside the first.
    Second,
    /// Everything at once, and the last page of a log is lost or full of zeros.
    Machine,
    /// `multicard session rebuild`.
    Rebuild,
    /// `multicard table`, which brings the index up to the logs.
    Table,
    /// `multicard session export`.
    Export,
    /// `multicard session import`.
    Import,
    /// `multicard trace --session`, which imports a profiler's report.
    Report,
    /// `multicard study --save`.
    Study,
}

/// The command line; what it keeps for its user is in `folder`.
fn multicard(folder: &Path) -> Command {
    let others = std::env::var_os("MULTICARD_KILL_BINARIES").map(PathBuf::from);
    let binary = |name, built: PathBuf| others.as_ref().map_or(built, |folder| folder.join(name));
    let mut command = Command::new(binary("multicard", env!("CARGO_BIN_EXE_multicard").into()));
    command.env("MULTICARD_WORKER", binary("multicard-worker", worker()));
    command.env("MULTICARD_DATA", folder.join("data")).env("XDG_STATE_HOME", folder.join("state"));
    // Where ranks meet.
    command.env("XDG_RUNTIME_DIR", folder.join("meetings"));
    // Threads that wait for each other must not take the CPUs from those that work.
    command.env("OMP_WAIT_POLICY", "passive").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Ends a child that a failed check leaves behind.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Campaign {
    folder: TempDir,
    random: ChaCha8Rng,
    kills: BTreeMap<Victim, usize>,
    /// What the kills met, for the record.
    seen: BTreeMap<&'static str, usize>,
    wanted: usize,
    /// Every queue is detached, its runs are programs, and most kills hit its conductor.
    conductors_first: bool,
    /// How long a tool takes when it is let be.
    takes: BTreeMap<Victim, Duration>,
}

impl Campaign {
    fn killed(&self) -> usize {
        self.kills.values().sum()
    }

    fn note(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn run(&mut self) {
        let mut number = 0;
        while self.killed() < self.wanted {
            number += 1;
            let scene = Scene {
                session: self.folder.path().join(format!("session-{number}")),
                errors: self.folder.path().join(format!("errors-{number}")),
                word: format!("9{:08}", rand::random::<u32>() % 100_000_000),
                meetings: self.folder.path().join("meetings"),
                sockets: self.folder.path().join("state/multicard/conductors"),
                was_detached: false,
                conductor_killed: false,
                finished: BTreeMap::new(),
            };
            println!("session {number}, {} kills so far: {:?}", self.killed(), self.kills);
            self.session(scene);
        }
    }

    /// One plan through some kills, up to its end.
    fn session(&mut self, mut scene: Scene) {
        let mut kills = self.random.random_range(6..20).min(self.wanted - self.killed());
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < DEADLINE, "{}: no end", scene.session.display());
            let detached = self.conductors_first || self.random.random_bool(0.5);
            scene.was_detached |= detached;
            let mut workbench = Owned(self.start(&scene, detached));
            let mut follows = false;
            // One workbench may live through kills of its ranks and groups.
            let ended = loop {
                let ended = if kills == 0 {
                    Some(workbench.0.wait().unwrap())
                } else {
                    self.await_moment(&scene, &mut workbench.0)
                };
                if let Some(status) = ended {
                    if !detached || follows || !status.success() {
                        break Some(status);
                    }
                    // The queue goes on without the command that started it.
                    follows = true;
                    workbench = Owned(self.attach(&scene));
                    continue;
                }
                let victim = match self.random.random_range(0..if detached { 21 } else { 13 }) {
                    0..13 if self.conductors_first && self.random.random_bool(0.8) => Victim::Conductor,
                    0..4 => Victim::Workbench,
                    4..6 => Victim::Rank,
                    6..8 => Victim::Group,
                    8..10 => Victim::Machine,
                    10..12 => Victim::Program,
                    12..13 => Victim::Second,
                    _ => Victim::Conductor,
                };
                if !self.strike(&scene, &mut workbench.0, victim, detached) {
                    continue;
                }
                kills -= 1;
                scene.conductor_killed |= matches!(victim, Victim::Conductor | Victim::Machine);
                if matches!(victim, Victim::Workbench | Victim::Conductor | Victim::Machine) {
                    break None;
                }
            };
            drop(workbench);
            self.check(&mut scene);
            if ended.is_some_and(|status| status.success()) {
                if scene.is_complete() {
                    break;
                }
                // Whoever follows a queue has no part in what became of the runs of an earlier conductor.
                assert!(scene.was_detached, "{}", scene.complaints());
            } else if let Some(status) = ended {
                // On a machine that has far too much to do, the worker may not even say in time what it is.
                let slow = status.code() == Some(2) && scene.complaints().trim_end().ends_with("to see why");
                assert!(slow || status.code() == Some(1), "{status}: {}", scene.complaints());
            }
            while kills > 0 && !scene.is_written() && self.random.random_bool(0.5) {
                let tools = [Victim::Rebuild, Victim::Table, Victim::Export, Victim::Report, Victim::Study];
                let victim = tools[self.random.random_range(0..tools.len())];
                kills -= usize::from(self.strike_tool(&mut scene, victim));
            }
            if self.random.random_bool(0.3) {
                sleep(Duration::from_millis(self.random.random_range(0..3000)));
            }
        }
        scene.check_end();
        let mut kills = self.random.random_range(0..7).min(self.wanted.saturating_sub(self.killed()));
        while kills > 0 {
            let tools = [Victim::Rebuild, Victim::Table, Victim::Export, Victim::Import, Victim::Report, Victim::Study];
            let victim = tools[self.random.random_range(0..tools.len())];
            kills -= usize::from(self.strike_tool(&mut scene, victim));
        }
        fs::remove_dir_all(&scene.session).unwrap();
    }

    fn start(&mut self, scene: &Scene, detached: bool) -> Child {
        let plan = self.folder.path().join("plan.toml");
        let text = if self.conductors_first { PROGRAMS } else { PLAN };
        fs::write(&plan, text.replace("WORD", &scene.word)).unwrap();
        if !scene.processes().group.is_empty() {
            self.note("a group was under way when the workbench came back");
        }
        let mut command = multicard(self.folder.path());
        command.arg("run").arg(plan).arg("--session").arg(&scene.session).arg("--resume");
        if detached {
            command.arg("--detach");
        }
        command.stderr(scene.error_log()).spawn().unwrap()
    }

    /// Follows the session's queue; starts its conductor if runs were left behind.
    fn attach(&self, scene: &Scene) -> Child {
        multicard(self.folder.path()).arg("attach").arg(&scene.session).stderr(scene.error_log()).spawn().unwrap()
    }

    /// Waits until the logs have grown by some bytes, or for some time; gives how the workbench ended if it did before.
    fn await_moment(&mut self, scene: &Scene, workbench: &mut Child) -> Option<ExitStatus> {
        let begun = Instant::now();
        let by_time = self.random.random_bool(0.25);
        let limit = Duration::from_millis(if by_time { self.random.random_range(0..3000) } else { u64::MAX });
        let bytes = scene.log_bytes() + self.random.random_range(0..16_000);
        while begun.elapsed() < limit && (by_time || scene.log_bytes() < bytes) {
            assert!(begun.elapsed() < DEADLINE, "nothing happens: {}", scene.complaints());
            if let Some(status) = workbench.try_wait().unwrap() {
                return Some(status);
            }
            sleep(Duration::from_millis(1));
        }
        sleep(Duration::from_micros(self.random.random_range(0..20_000)));
        workbench.try_wait().unwrap()
    }

    /// Kills; says whether there was anything to kill.
    fn strike(&mut self, scene: &Scene, workbench: &mut Child, victim: Victim, detached: bool) -> bool {
        if victim == Victim::Second {
            return self.strike_second(scene, detached);
        }
        let processes = scene.processes();
        let own = Pid::from_child(workbench);
        let one_of = |pids: Vec<Pid>, random: &mut ChaCha8Rng| {
            if pids.is_empty() { pids } else { vec![pids[random.random_range(0..pids.len())]] }
        };
        let victims = match victim {
            Victim::Workbench => vec![own],
            Victim::Conductor => processes.conductor,
            Victim::Rank => one_of(processes.rank, &mut self.random),
            Victim::Program => one_of(processes.program, &mut self.random),
            Victim::Group => processes.group,
            _ => processes.all().chain([own]).collect(),
        };
        if victims.is_empty() {
            return false;
        }
        for pid in &victims {
            let pid = *pid;
            // One may have ended just now.
            let _ = kill_process(pid, Signal::KILL);
        }
        *self.kills.entry(victim).or_default() += 1;
        println!("  {victim:?}");
        match victim {
            Victim::Workbench => {
                workbench.wait().unwrap();
                if !scene.processes().group.is_empty() {
                    self.note("a group went on when its workbench was killed");
                }
            }
            Victim::Conductor => {
                wait_until("the conductor is gone", || {
                    scene.processes().conductor.iter().all(|pid| !victims.contains(pid))
                });
                if !scene.processes().group.is_empty() {
                    self.note("a group went on when its conductor was killed");
                }
            }
            Victim::Machine => {
                workbench.wait().unwrap();
                // A group that was started in the moment of the kill is killed with the rest.
                wait_until("everything is dead", || {
                    let left = scene.processes();
                    left.all().for_each(|pid| {
                        let _ = kill_process(pid, Signal::KILL);
                    });
                    left.all().next().is_none()
                });
                if let Some(what) = scene.lose_a_page(&mut self.random) {
                    println!("    after it, {what}");
                    self.note(what);
                }
            }
            _ => {}
        }
        true
    }

    /// Starts a second workbench on the session, which joins the first one's queue, and kills it on its way; says whether it was still there.
    fn strike_second(&mut self, scene: &Scene, detached: bool) -> bool {
        let mut second = Owned(self.start(scene, detached));
        sleep(Duration::from_millis(self.random.random_range(0..300)));
        let _ = second.0.kill();
        let status = second.0.wait().unwrap();
        if status.signal().is_none() {
            // The first may have come to its end meanwhile, and the plan with it.
            assert!(matches!(status.code(), Some(0..=2)), "{status}: {}", scene.complaints());
            return false;
        }
        *self.kills.entry(Victim::Second).or_default() += 1;
        true
    }

    /// The archive that tools export, and the session that they import of it.
    fn archive_and_copy(&self) -> (PathBuf, PathBuf) {
        (self.folder.path().join("session.zip"), self.folder.path().join("copies").join("copy"))
    }

    /// A tool on the session.
    fn tool(&self, scene: &Scene, victim: Victim) -> Command {
        let (archive, copy) = self.archive_and_copy();
        let report = self.folder.path().join("report.sqlite");
        if !report.exists() {
            let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/trace/single_100.sqlite.gz");
            let mut unpacked = flate2::read::GzDecoder::new(File::open(packed).unwrap());
            std::io::copy(&mut unpacked, &mut File::create(&report).unwrap()).unwrap();
        }
        let mut command = multicard(self.folder.path());
        match victim {
            Victim::Rebuild => command.args(["session", "rebuild"]).arg(&scene.session),
            Victim::Table => command.arg("table").arg(&scene.session).args(["--preset", "times"]),
            Victim::Export => command.args(["session", "export"]).arg(&scene.session).arg("--out").arg(&archive),
            Victim::Report => command.arg("trace").arg(&report).arg("--session").arg(&scene.session),
            Victim::Study => command.arg("study").arg(&scene.session).args(["--save", "kept", "--form", "scaling"]),
            _ => command.args(["session", "import"]).arg(&archive).arg("--session").arg(&copy),
        };
        command.stderr(scene.error_log());
        command
    }

    /// Runs a tool on the session to its end.
    fn succeed(&self, scene: &Scene, victim: Victim) {
        assert!(self.tool(scene, victim).status().unwrap().success(), "{}", scene.complaints());
    }

    /// Starts a tool on the session and kills it on its way; says whether it was still there to be killed.
    fn strike_tool(&mut self, scene: &mut Scene, victim: Victim) -> bool {
        if !scene.session.join("session.toml").exists() {
            return false;
        }
        let (archive, copy) = self.archive_and_copy();
        let _ = fs::remove_dir_all(copy.parent().unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        if victim == Victim::Import {
            let _ = fs::remove_file(&archive);
            self.succeed(scene, Victim::Export);
        }
        let takes = self.takes.get(&victim).copied().unwrap_or_else(|| {
            let begun = Instant::now();
            self.tool(scene, victim).status().unwrap();
            begun.elapsed()
        });
        self.takes.insert(victim, takes);
        let _ = fs::remove_dir_all(&copy);
        if victim == Victim::Export {
            let _ = fs::remove_file(&archive);
        }
        let mut child = Owned(self.tool(scene, victim).spawn().unwrap());
        sleep(takes.mul_f64(self.random.random_range(0.0..1.1)));
        let _ = child.0.kill();
        let status = child.0.wait().unwrap();
        if status.signal().is_none() {
            return false;
        }
        *self.kills.entry(victim).or_default() += 1;
        println!("  {victim:?}");
        self.check_tool(scene, victim);
        self.check(scene);
        true
    }

    /// What holds after a tool was killed.
    fn check_tool(&self, scene: &Scene, victim: Victim) {
        let (archive, copy) = self.archive_and_copy();
        match victim {
            Victim::Export => {
                // What has the archive's name is whole, and the next export takes the place of what was left.
                if archive.exists() {
                    self.succeed(scene, Victim::Import);
                    fs::remove_dir_all(&copy).unwrap();
                    fs::remove_file(&archive).unwrap();
                }
                self.succeed(scene, Victim::Export);
                let left = names(self.folder.path()).into_iter().filter(|name| name.contains("session.zip"));
                assert_eq!(left.collect::<Vec<_>>(), ["session.zip"]);
            }
            Victim::Import => {
                if !copy.exists() {
                    self.succeed(scene, Victim::Import);
                }
                assert_eq!(names(copy.parent().unwrap()), ["copy"]);
                assert_eq!(texts(&records(&copy)), texts(&records(&scene.session)));
            }
            Victim::Report | Victim::Study => {
                // What was kept stays, and the next attempt keeps it once.
                self.succeed(scene, victim);
                let reader = Reader::open(&scene.session).unwrap();
                let kept = if victim == Victim::Report {
                    reader.reports().unwrap().into_iter().map(|(name, _)| name).collect()
                } else {
                    reader.studies().unwrap().into_iter().map(|(name, _)| name).collect::<Vec<_>>()
                };
                assert_eq!(kept, [if victim == Victim::Report { "report" } else { "kept" }]);
            }
            _ => {}
        }
    }

    /// What holds at any moment, whatever was killed.
    fn check(&mut self, scene: &mut Scene) {
        if !scene.session.join("session.toml").exists() {
            self.note("killed before there was a session");
            return;
        }
        // What is being written now is checked when it is not.
        let is_written = scene.is_written();
        let is_quiet = scene.processes().all().next().is_none();
        if is_quiet {
            scene.await_lock();
        }
        if is_written {
            self.note("looked at while a conductor went on");
        } else {
            scene.check_logs();
        }
        let found = records(&scene.session);
        for (run, before) in &scene.finished {
            let now = found.iter().find(|record| record.run == *run);
            assert_eq!(now.map(|record| format!("{record:?}")).as_ref(), Some(before), "run {run} was finished");
        }
        let mut repeats = BTreeSet::new();
        for record in found.iter().filter(|record| record.state == RunState::Finished) {
            assert!(repeats.insert((&record.cell, record.repeat)), "{} is there twice", record.run);
            scene.finished.insert(record.run.clone(), format!("{record:?}"));
        }
        if is_written {
            return;
        }
        let known: BTreeSet<&str> = found.iter().map(|record| record.run.as_str()).collect();
        for (run, file) in scene.run_files() {
            assert!(known.contains(run.as_str()), "{} belongs to no run", file.display());
        }
        let processes = scene.processes();
        assert!(processes.group.len() <= 1, "runs side by side disturb each other: {processes:?}");
        // A group that ended meanwhile has written more than was read.
        if is_quiet {
            for _ in 0..2 {
                let report = rebuild(&scene.session, &mut |_, _| {}).unwrap();
                assert_eq!(report.damaged, Vec::<String>::new());
                assert_eq!(texts(&records(&scene.session)), texts(&found), "the index differs from its logs");
            }
            self.note("indexes compared with two rebuilds");
        }
    }
}

/// Records as texts: NaN, the wait of a program's steps, is not equal to itself.
fn texts(records: &[RunRecord]) -> Vec<String> {
    records.iter().map(|record| format!("{record:?}")).collect()
}

#[test]
fn nothing_is_lost_whatever_is_killed() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let seed = number("MULTICARD_KILL_SEED", 1);
    let shared = || names(Path::new("/dev/shm")).into_iter().collect::<BTreeSet<_>>();
    let before = shared();
    let mut campaign = Campaign {
        folder: TempDir::new().unwrap(),
        random: ChaCha8Rng::seed_from_u64(seed),
        kills: BTreeMap::new(),
        seen: BTreeMap::new(),
        wanted: number("MULTICARD_KILLS", 6) as usize,
        conductors_first: number("MULTICARD_KILL_CONDUCTORS", 0) > 0,
        takes: BTreeMap::new(),
    };
    fs::DirBuilder::new().mode(0o700).create(campaign.folder.path().join("meetings")).unwrap();
    let begun = Instant::now();
    campaign.run();
    println!("{} kills in {:.0?}, seed {seed}: {:?}", campaign.killed(), begun.elapsed(), campaign.kills);
    println!("seen: {:?}", campaign.seen);
    // Other tests and users put things there, too.
    println!("new in /dev/shm: {:?}", shared().difference(&before).collect::<Vec<_>>());
    assert!(campaign.killed() >= campaign.wanted);
}
