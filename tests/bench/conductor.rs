//! How much of a CPU the conductor needs while 1,000 runs of 64 ranks are under way at a site: less than 5 % of a core. Slurm and the ranks
//! are made up: commands that answer from a file, and the logs that supervisors and ranks would write.
#![allow(clippy::unwrap_used)]

#[path = "../executable/mod.rs"]
mod executable;
#[path = "../seeded/mod.rs"]
mod seeded;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use multicard::protocol::{Device, Event, EventLine, GroupEvent, GroupLine, PROTOCOL_VERSION};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const RUNS: usize = 1000;
const RANKS: u32 = 64;
/// The largest share of a core that the conductor may need.
const MOST_SHARE: f64 = 0.05;
/// How long it is watched, each time.
const WATCHED: Duration = Duration::from_secs(60);
/// Each run's first rank logs a step this often.
const STEP_INTERVAL: Duration = Duration::from_secs(20);
/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// The commands of a Slurm that starts every job at once. Its jobs are the lines of a file.
const COMMANDS: [(&str, &str); 5] = [
    (
        "sbatch",
        r#"if [ "$1" = --test-only ]; then echo "sbatch: Job 1 to start at 2030-01-01T00:00:00" >&2; exit; fi
for script; do :; done
id=$(($(wc -l < "$MADE_UP/jobs") + 1))
comment=$(sed -n 's/^#SBATCH --comment=//p' "$script")
last=$(sed -n 's/^#SBATCH --array=0-//p' "$script")
for task in $([ "$last" ] && seq 0 "$last" || echo N/A); do
    echo "$id|$task|RUNNING|2030-01-01T00:00:00|n1|1|None|$comment"
done >> "$MADE_UP/jobs"
echo $id"#,
    ),
    ("squeue", r#"cat "$MADE_UP/jobs""#),
    ("sinfo", r#"echo "debug*|up|infinite|64|8|1000000|(null)|(null)""#),
    ("scontrol", r#"[ "$2" = config ] && echo "MaxArraySize = 1001""#),
    ("scancel", "exit 0"),
];

fn wait(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "{what}: it never came true");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn now_s() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}

/// A conductor of the runs, which is killed at the end.
struct Conductor(Pid);

impl Drop for Conductor {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

impl Conductor {
    /// Queues the runs, and finds the process that conducts them.
    fn start(home: &Path, session: &Path) -> Self {
        let bin = home.join("bin");
        fs::create_dir_all(&bin).unwrap();
        for (name, script) in COMMANDS {
            executable::write(&bin.join(name), format!("#!/bin/sh\n{script}\n"));
        }
        fs::write(home.join("jobs"), "").unwrap();
        let config = home.join("config/multicard");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("sites.toml"), format!("[lab]\npartition = \"debug\"\nmost_jobs = {RUNS}\n")).unwrap();
        let plan = format!(
            "version = 1\nname = \"p\"\nrepeats = {RUNS}\n[where]\nsite = \"lab\"\n\
             [command]\nname = \"p\"\nrun = [\"true\"]\n[factors]\nnodes = {RANKS}\n"
        );
        fs::write(home.join("plan.toml"), plan).unwrap();
        let search = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = seeded::command(home);
        command.current_dir(home).env("PATH", search).env("MADE_UP", home).env("XDG_CONFIG_HOME", home.join("config"));
        command.args(["run", "plan.toml", "--detach", "--session"]).arg(session);
        seeded::succeed(&mut command);
        let is_it = |pid: &i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
            words.contains(&b"conduct".as_slice()) && words.contains(&session.as_os_str().as_encoded_bytes())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let mut all = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self(Pid::from_raw(all.find(is_it).expect("the session has a conductor")).unwrap())
    }

    /// CPU time so far, in seconds.
    fn cpu_s(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.as_raw_nonzero())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        // In user mode and in the kernel, from the 14th field on; the name and what is before it are cut off.
        let ticks: f64 = fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum();
        ticks / rustix::param::clock_ticks_per_second() as f64
    }

    fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.0.as_raw_nonzero())).unwrap().count()
    }

    /// The share of a core that it needs while `work` is done again and again.
    fn share(&self, mut work: impl FnMut()) -> f64 {
        let (begun, before_s) = (Instant::now(), self.cpu_s());
        while begun.elapsed() < WATCHED {
            work();
        }
        (self.cpu_s() - before_s) / begun.elapsed().as_secs_f64()
    }
}

fn append(path: &Path, line: &impl serde::Serialize) {
    let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
    file.write_all((serde_json::to_string(line).unwrap() + "\n").as_bytes()).unwrap();
}

/// Writes an event of a rank.
fn log(folder: &Path, rank: u32, event: Event) {
    let run = folder.file_name().unwrap().to_string_lossy().into_owned();
    append(&folder.join(format!("rank-{rank}.jsonl")), &EventLine { run, rank, time_s: now_s(), event });
}

/// The supervisor and the ranks of a run begin.
fn begin(folder: &Path) {
    let event = GroupEvent::SupervisorStarted { hostname: "n1".to_owned() };
    append(&folder.join("group.jsonl"), &GroupLine { time_s: now_s(), event });
    for rank in 0..RANKS {
        let device = Device { name: "cpu".to_owned(), gpu_uuid: None };
        let (protocol_version, torch_version) = (PROTOCOL_VERSION, String::new());
        log(
            folder,
            rank,
            Event::Started { protocol_version, pid: 1, torch_version, device, world_size: RANKS, seed: 1 },
        );
    }
}

fn main() {
    let home = TempDir::new().unwrap();
    let session = home.path().join("session");
    let conductor = Conductor::start(home.path(), &session);
    let lines = |path: PathBuf, words: &str| fs::read_to_string(path).unwrap_or_default().matches(words).count();
    wait("Slurm has all jobs", || lines(home.path().join("jobs"), "RUNNING") == RUNS);
    let folders: Vec<PathBuf> =
        fs::read_dir(session.join("runs")).unwrap().flatten().map(|entry| entry.path()).collect();
    let waiting = conductor.share(|| std::thread::sleep(Duration::from_secs(1)));
    folders.iter().for_each(|folder| begin(folder));
    wait("all runs have started", || lines(session.join("journal.jsonl"), "\"run_started\"") == RUNS);
    let quiet = conductor.share(|| std::thread::sleep(Duration::from_secs(1)));
    let mut steps = 0;
    let stepping = conductor.share(|| {
        let begun = Instant::now();
        steps += 1;
        for folder in &folders {
            let reading = Event::Reading { key: "score".into(), value: f64::from(steps), epoch: None, step: None };
            log(folder, 0, reading);
        }
        std::thread::sleep(STEP_INTERVAL.saturating_sub(begun.elapsed()));
    });
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    println!("conductor of {RUNS} runs of {RANKS} ranks, of one core:");
    println!("  while their jobs have not begun to write: {}", percent(waiting));
    println!("  while ranks are silent: {}", percent(quiet));
    println!("  while each run logs a line every {} s: {}", STEP_INTERVAL.as_secs(), percent(stepping));
    println!("  open files: {}", conductor.open_files());
    let most = waiting.max(quiet).max(stepping);
    assert!(most < MOST_SHARE, "it needs {} of a core, more than {}", percent(most), percent(MOST_SHARE));
    assert!(conductor.open_files() < RUNS, "logs of runs at a site stay closed");
}
