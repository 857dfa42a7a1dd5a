//! Runs through a real Slurm, end to end. What holds wherever runs are executed is tested on this machine and at a site; the rest is what
//! Slurm does to jobs: it lets them wait, preempts them, cancels them and loses nodes.
#![allow(clippy::unwrap_used)]

mod allocation;
mod arrays;
mod cluster;
#[path = "../executable/mod.rs"]
mod executable;
mod nightly;
mod nodes;
mod refusals;
#[path = "../seeded/mod.rs"]
mod seeded;
mod sites;
#[cfg(feature = "torch")]
mod workers;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use multicard::conduct::{Client, Order};
use multicard::plan::RunState;
use multicard::session::open_reader;
use multicard::store::RunRecord;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use cluster::Cluster;
use seeded::{PATIENCE, command, copy, succeed, text, wait};

/// The sites of each home.
const SITES: &str = r#"
[lab]
partition = "debug"
prologue = ["export FROM_PROLOGUE=yes"]

[gpus]
partition = "debug"
gres = "gpu"

[held]
options = ["--hold"]

[low]
partition = "low"
cpus_per_task = 4

[last]
partition = "low"
cpus_per_task = 4
most_starts = 1

[many]
partition = "debug"
most_jobs = 1000

# Its jobs may take a minute, the shortest time limit of Slurm.
[short]
partition = "debug"
time = "00:01:00"
"#;

/// A home with a session whose runs are executed at a site, or on this machine.
struct Scene {
    home: TempDir,
    cluster: Arc<Cluster>,
    site: Option<&'static str>,
}

/// Ends what a failed check leaves behind.
impl Drop for Scene {
    fn drop(&mut self) {
        fs::write(self.path("gate"), "").unwrap();
        for process in self.conductors() {
            let _ = kill_process(Pid::from_raw(process).unwrap(), Signal::KILL);
        }
        let jobs = self.own_jobs().into_iter().chain(self.allocations());
        jobs.for_each(|job| drop(self.cluster.ask("scancel", &[&job])));
    }
}

impl Scene {
    /// At a site; `None` where Slurm is not installed.
    fn at(site: &'static str) -> Option<Self> {
        let cluster = Cluster::shared()?;
        let home = TempDir::new().unwrap();
        let config = home.path().join("config/multicard");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("sites.toml"), SITES).unwrap();
        Some(Self { home, cluster, site: Some(site) })
    }

    /// At a site, where the runs of a shell script are queued.
    fn launched(site: &'static str, repeats: u32, script: &str) -> Option<Self> {
        let scene = Self::at(site)?;
        scene.plan(repeats, script, "");
        scene.detach();
        Some(scene)
    }

    /// At a site, where the first run of a shell script is under way.
    fn started(site: &'static str, repeats: u32, script: &str) -> Option<Self> {
        let scene = Self::launched(site, repeats, script)?;
        scene.await_start(0);
        Some(scene)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// The names of the files in its home.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.home.path()).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn session(&self) -> PathBuf {
        self.path("session")
    }

    /// Writes a plan of a shell script that runs once, or `repeats` times. Other keys stand before its tables.
    fn plan(&self, repeats: u32, script: &str, limits: &str) {
        let place = self.site.map_or(String::new(), |site| format!("[where]\nsite = \"{site}\"\n"));
        let command = format!("[command]\nname = \"p\"\nrun = [\"sh\", \"-c\", '''{script}''']\n");
        let readings = "[command.readings]\npatterns = ['score: (?<score>[0-9.]+)']\n";
        let head = format!("version = 1\nname = \"p\"\nrepeats = {repeats}\n{place}[limits]\n{limits}\n");
        fs::write(self.path("plan.toml"), head + &command + readings).unwrap();
    }

    fn multicard(&self, arguments: &[&str]) -> Command {
        let mut command = command(self.home.path());
        command.args(arguments).current_dir(self.home.path()).stdin(Stdio::null());
        command.env("XDG_CONFIG_HOME", self.path("config")).env("SLURM_CONF", self.cluster.conf());
        command.env("MULTICARD_SLURM_INTERVAL_S", "0.3").env("MULTICARD_WORKER", "/nonexistent/worker");
        command
    }

    fn run(&self) -> Output {
        self.multicard(&["run", "plan.toml", "--session", "session"]).output().unwrap()
    }

    fn detach(&self) {
        succeed(&mut self.multicard(&["run", "plan.toml", "--session", "session", "--detach"]));
    }

    /// Launches the plan, and waits until its first run is under way.
    fn start(&self) {
        self.detach();
        self.await_start(0);
    }

    /// Follows the session in a process of its own.
    fn follow(&self) -> Attached {
        let mut command = self.multicard(&["attach", "session"]);
        Attached(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn records(&self) -> Vec<RunRecord> {
        open_reader(&self.session()).and_then(|reader| reader.runs()).unwrap_or_default()
    }

    fn states(&self) -> Vec<RunState> {
        self.records().iter().map(|record| record.state).collect()
    }

    fn reason(&self, run: usize) -> String {
        self.records()[run].reason.clone().unwrap_or_default()
    }

    fn until_ended(&self, runs: usize) {
        wait("all runs have ended", || {
            let states = self.states();
            states.len() == runs && states.iter().all(|state| state.is_final())
        });
    }

    /// The folders of the runs that were started or sent to Slurm, in their order.
    fn runs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.session().join("runs")).into_iter().flatten().flatten();
        let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        runs.sort();
        runs
    }

    /// The names of the files of the run with this index, without its samples: a run may end before it is sampled.
    fn files(&self, run: usize) -> Vec<String> {
        let names = fs::read_dir(&self.runs()[run]).unwrap().flatten().map(|entry| entry.file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| name != "samples.jsonl");
        names.sort();
        names
    }

    /// Waits until the program of the run with this index is under way.
    fn await_start(&self, run: usize) {
        let log = |folder: &PathBuf| fs::read_to_string(folder.join("rank-0.jsonl")).is_ok_and(|text| !text.is_empty());
        wait("a program is under way", || self.runs().get(run).is_some_and(log));
    }

    /// The ids of Slurm's jobs of the session's runs.
    fn own_jobs(&self) -> Vec<String> {
        self.runs().iter().filter_map(|folder| job_of(folder)).collect()
    }

    /// Asks the conductor to cancel the run with this index.
    fn cancel(&self, run: usize) {
        let run = self.records()[run].run.clone();
        let sockets =
            fs::read_dir(self.path("state/multicard/conductors")).unwrap().flatten().map(|entry| entry.path());
        let socket = sockets.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "sock")).unwrap();
        let client = Client::over(&self.session(), UnixStream::connect(socket).unwrap(), false);
        client.unwrap().unwrap().order(Order::Cancel(run)).unwrap();
    }

    /// The id of Slurm's job of the first run, once it is written down.
    fn job(&self) -> String {
        wait("the id of the job is written down", || !self.own_jobs().is_empty());
        self.own_jobs()[0].clone()
    }

    /// Slurm's words for the states of the session's jobs.
    fn job_states(&self) -> Vec<String> {
        let all = self.cluster.jobs();
        let state = |id: &String| all.iter().find_map(|line| line.strip_prefix(&format!("{id} ")).map(str::to_owned));
        let words = |line: String| line.split(' ').next().unwrap_or_default().to_owned();
        self.own_jobs().iter().filter_map(state).map(words).collect()
    }

    /// The processes that conduct the session.
    fn conductors(&self) -> Vec<i32> {
        let session = self.session().display().to_string();
        let is_ours = |pid: &i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
            let at = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            let is_named = |word: &&[u8]| *word == session.as_bytes() || *word == b"session" && at == self.home.path();
            words.get(1) == Some(&b"conduct".as_slice()) && words.iter().any(is_named)
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
    }

    fn kill_conductor(&self) {
        for process in self.conductors() {
            kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
        }
        wait("the conductor is gone", || self.conductors().is_empty());
    }

    fn open_gate(&self) {
        fs::write(self.path("gate"), "").unwrap();
    }

    /// Follows the session until nothing is left; returns the messages.
    fn attach(&self) -> String {
        text(&self.multicard(&["attach", "session"]).output().unwrap().stderr)
    }
}

/// The id of Slurm's job of the run or allocation in this folder, as Slurm writes it: `12`, or `12_4` for a task of an array.
fn job_of(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("slurm.json")).ok()?;
    let record: serde_json::Value = serde_json::from_str(&text).ok()?;
    let (job, task) = (record.get("job")?.as_u64()?, record.get("task").and_then(serde_json::Value::as_u64));
    Some(task.map_or_else(|| job.to_string(), |task| format!("{job}_{task}")))
}

/// A process that follows a session; a failed check ends it.
struct Attached(Child);

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Attached {
    /// The lines of its messages, as they come.
    fn lines(&mut self) -> Receiver<String> {
        let lines = BufReader::new(self.0.stderr.take().unwrap()).lines();
        let (sender, receiver) = sync_channel(1024);
        let pass = move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line));
        std::thread::Builder::new().spawn(pass).unwrap();
        receiver
    }

    /// All of its messages, once it has ended.
    fn output(mut self) -> String {
        let lines = self.lines();
        let text: Vec<String> = lines.iter().collect();
        self.0.wait().unwrap();
        text.join("\n")
    }
}

/// A script that ends once the gate is open.
const WAITS: &str = "while [ ! -e gate ]; do sleep 0.05; done";

/// Checks what holds on this machine and at a site alike.
fn at_each_place(check: impl Fn(&Scene)) {
    let Some(at_site) = Scene::at("lab") else { return };
    check(&at_site);
    let Some(here) = Scene::at("lab") else { return };
    check(&Scene { site: None, home: TempDir::new().unwrap(), cluster: Arc::clone(&here.cluster) });
}

#[test]
fn a_program_runs_to_its_end_and_its_readings_and_its_environment_are_kept() {
    at_each_place(|scene| {
        scene.plan(2, "echo score: 4.5", "");
        let stderr = text(&scene.run().stderr);
        assert_eq!(scene.states(), [RunState::Finished; 2], "{stderr}");
        let record = &scene.records()[0];
        let reader = open_reader(&scene.session()).unwrap();
        let whole = reader.run(&record.run).unwrap().unwrap();
        let scores: Vec<f64> = (whole.ranks[0].readings.iter())
            .filter(|reading| reading.key == "score")
            .map(|reading| reading.value)
            .collect();
        assert_eq!(scores, [4.5]);
        let environment = whole.environment.unwrap();
        assert!(environment.get("hostname").is_some() && environment.get("cpu_model").is_some(), "{environment:?}");
        assert!(record.started_time_s >= Some(record.queued_time_s) && record.ended_time_s >= record.started_time_s);
    });
}

#[test]
fn a_program_that_fails_says_why() {
    at_each_place(|scene| {
        scene.plan(1, "echo no such file >&2; exit 7", "");
        scene.run();
        assert_eq!(scene.states(), [RunState::Failed]);
        let reason = scene.reason(0);
        assert!(reason.contains("exited with code 7") && reason.contains("no such file"), "{reason}");
    });
}

#[test]
fn a_run_that_is_cancelled_ends_with_its_processes() {
    at_each_place(|scene| {
        scene.plan(2, "echo $$ > pid; sleep 600", "");
        scene.start();
        wait("the program has written its process id", || scene.path("pid").exists());
        succeed(&mut scene.multicard(&["stop", "session"]));
        assert_eq!(scene.states(), [RunState::Cancelled; 2]);
        let pid = fs::read_to_string(scene.path("pid")).unwrap();
        wait("the program is gone", || !Path::new(&format!("/proc/{}", pid.trim())).exists());
        let ended = |state: &String| !["PENDING", "RUNNING", "COMPLETING"].contains(&state.as_str());
        wait("no job is left", || scene.job_states().iter().all(ended));
    });
}

#[test]
fn a_run_over_its_plans_time_is_timed_out() {
    at_each_place(|scene| {
        scene.plan(1, "sleep 600", "run_time_s = 1");
        scene.run();
        assert_eq!(scene.states(), [RunState::TimedOut]);
        assert!(scene.reason(0).contains("run_time_s = 1"), "{}", scene.reason(0));
    });
}

#[test]
fn the_runs_of_a_killed_conductor_go_on_and_the_next_one_finds_them() {
    at_each_place(|scene| {
        scene.plan(1, &format!("{WAITS}; echo score: 1"), "");
        scene.start();
        scene.kill_conductor();
        let state = scene.states()[0];
        assert!(!state.is_final(), "a run that goes on is not read as interrupted: {state:?}");
        let attached = scene.follow();
        wait("another one conducts", || scene.conductors().len() == 1);
        scene.open_gate();
        let stderr = attached.output();
        assert_eq!(scene.states(), [RunState::Finished], "{stderr}");
    });
}

#[test]
fn a_run_that_ended_while_nobody_conducted_is_what_its_logs_say() {
    at_each_place(|scene| {
        scene.plan(1, WAITS, "");
        scene.start();
        scene.kill_conductor();
        scene.open_gate();
        let log = scene.runs()[0].join("rank-0.jsonl");
        wait("the program ends", || fs::read_to_string(&log).unwrap().contains("\"finished\""));
        scene.attach();
        assert_eq!(scene.states(), [RunState::Finished]);
    });
}

#[test]
fn a_copy_of_a_session_leaves_the_job_of_the_original_alone_and_runs_its_run_again() {
    let Some(scene) = Scene::started("lab", 1, WAITS) else { return };
    let job = scene.job();
    wait("the conductor knows that it runs", || scene.records()[0].started_time_s.is_some());
    scene.kill_conductor();
    let copied = scene.path("copy");
    copy(&scene.session(), &copied);
    let runs = || open_reader(&copied).and_then(|reader| reader.runs()).unwrap_or_default();
    assert_eq!(runs().iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Interrupted]);
    let mut attached = scene.multicard(&["attach", "copy"]);
    let attached = Attached(attached.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    wait("the copy starts its run again", || runs().get(1).is_some_and(|run| run.started_time_s.is_some()));
    assert_eq!(scene.job_states(), ["RUNNING"]);
    succeed(&mut scene.multicard(&["stop", "copy"]));
    attached.output();
    let states: Vec<RunState> = runs().iter().map(|run| run.state).collect();
    assert_eq!(states, [RunState::Interrupted, RunState::Cancelled]);
    let reason = runs()[0].reason.clone().unwrap_or_default();
    assert!(
        reason.contains(&format!("Slurm job {job} belongs to the session of which this one is a copy")),
        "{reason}"
    );
    assert_eq!(scene.job_states(), ["RUNNING"]);
    scene.open_gate();
    scene.attach();
    assert_eq!(scene.states(), [RunState::Finished]);
}

#[test]
fn a_run_of_an_archive_that_was_at_a_site_does_not_start_again_before_its_program_is_allowed() {
    let Some(scene) = Scene::started("lab", 1, WAITS) else { return };
    wait("the conductor knows that it runs", || scene.records()[0].started_time_s.is_some());
    scene.kill_conductor();
    succeed(&mut scene.multicard(&["session", "export", "session", "--out", "a.zip"]));
    succeed(&mut scene.multicard(&["session", "import", "a.zip", "--session", "imported"]));
    let mut attached = scene.multicard(&["attach", "imported"]);
    let mut attached = Attached(attached.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait("nothing is left to run", || attached.0.try_wait().unwrap().is_some());
    let runs = open_reader(&scene.path("imported")).and_then(|reader| reader.runs()).unwrap();
    assert_eq!(runs.iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Interrupted]);
    assert_eq!(scene.job_states(), ["RUNNING"]);
}

#[test]
fn the_prologue_is_executed_and_the_program_gets_the_cpus_of_its_job() {
    let Some(scene) = Scene::at("low") else { return };
    let sites = fs::read_to_string(scene.path("config/multicard/sites.toml")).unwrap();
    let sites = sites.replacen("partition = \"low\"", "partition = \"low\"\nprologue = [\"export EXTRA=.25\"]", 1);
    fs::write(scene.path("config/multicard/sites.toml"), sites).unwrap();
    scene.plan(1, "echo score: $SRUN_CPUS_PER_TASK$EXTRA", "");
    scene.run();
    let reader = open_reader(&scene.session()).unwrap();
    let whole = reader.run(&scene.records()[0].run).unwrap().unwrap();
    let score = whole.ranks[0].readings.iter().find(|reading| reading.key == "score").unwrap();
    assert_eq!(score.value.to_string(), "4.25");
}

#[test]
fn a_held_job_says_how_it_is_released_and_then_runs() {
    let Some(scene) = Scene::launched("held", 1, "true") else { return };
    wait("the job is held", || scene.job_states() == ["PENDING"]);
    let job = scene.job();
    let mut attached = scene.follow();
    let lines = attached.lines();
    while !lines.recv_timeout(PATIENCE).expect("the reason is told").contains(&format!("`scontrol release {job}`")) {}
    scene.cluster.ask("scontrol", &["release", &job]);
    assert!(attached.0.wait().unwrap().success());
    assert_eq!(scene.states(), [RunState::Finished]);
}

#[test]
fn a_job_that_depends_on_another_one_says_so_and_runs_after_it() {
    let Some(scene) = Scene::at("after") else { return };
    let held = ["--parsable", "--hold", "--partition=debug", "--output=/dev/null", "--wrap=true"];
    let first = scene.cluster.ask("sbatch", &held);
    let first = first.trim();
    let site = format!("[after]\npartition = \"debug\"\noptions = [\"--dependency=afterany:{first}\"]\n");
    fs::write(scene.path("config/multicard/sites.toml"), site).unwrap();
    scene.plan(1, "true", "");
    scene.detach();
    let mut attached = scene.follow();
    let lines = attached.lines();
    let words = "the job that it depends on has not ended (Dependency)";
    while !lines.recv_timeout(PATIENCE).expect("the reason is told").contains(words) {}
    scene.cluster.ask("scancel", &[first]);
    assert!(attached.0.wait().unwrap().success());
    assert_eq!(scene.states(), [RunState::Finished]);
}

#[test]
fn a_job_that_waits_is_cancelled_without_having_started() {
    let Some(scene) = Scene::launched("held", 1, "true") else { return };
    wait("the job is held", || scene.job_states() == ["PENDING"]);
    succeed(&mut scene.multicard(&["stop", "session"]));
    assert_eq!((scene.states(), scene.job_states()), (vec![RunState::Cancelled], vec!["CANCELLED".to_owned()]));
    assert_eq!(scene.records()[0].started_time_s, None);
}

#[test]
fn a_job_that_somebody_else_cancels_is_a_cancelled_run_that_says_so() {
    let Some(scene) = Scene::started("lab", 1, "sleep 600") else { return };
    scene.cluster.ask("scancel", &[&scene.job()]);
    scene.until_ended(1);
    assert_eq!(scene.states(), [RunState::Cancelled]);
    assert!(scene.reason(0).contains("not by multicard"), "{}", scene.reason(0));
}

#[test]
fn a_preempted_run_is_started_again_as_a_run_of_its_own_and_only_that_counts() {
    let Some(scene) = Scene::started("low", 1, &format!("trap \"echo told > told; exit 143\" TERM; {WAITS}")) else {
        return;
    };
    scene.cluster.ask("sbatch", &["--partition=high", "--cpus-per-task=4", "--output=/dev/null", "--wrap", "sleep 1"]);
    wait("the run is queued again", || scene.states().len() == 2);
    assert_eq!(scene.states()[0], RunState::Interrupted);
    assert!(scene.reason(0).contains("preemption"), "{}", scene.reason(0));
    wait("the program was asked to end before it was killed", || scene.path("told").exists());
    scene.open_gate();
    scene.until_ended(2);
    assert_eq!(scene.states(), [RunState::Interrupted, RunState::Finished]);
    let records = scene.records();
    assert_eq!((&records[0].cell, records[0].repeat), (&records[1].cell, records[1].repeat));
}

#[test]
fn a_job_that_an_administrator_requeues_is_an_interrupted_run_and_only_the_next_start_counts() {
    let Some(scene) = Scene::started("lab", 1, &format!("echo started >> starts; {WAITS}")) else { return };
    let job = scene.job();
    wait("the program is under way", || scene.path("starts").exists());
    wait("the conductor knows that it runs", || scene.records()[0].started_time_s.is_some());
    scene.cluster.ask("scontrol", &["update", &format!("JobId={job}"), "Requeue=1"]);
    scene.cluster.ask("scontrol", &["requeue", &job]);
    wait("the run is queued again", || scene.states().len() == 2);
    assert_eq!(scene.states()[0], RunState::Interrupted);
    assert!(scene.reason(0).contains("requeue"), "{}", scene.reason(0));
    scene.open_gate();
    scene.until_ended(2);
    assert_eq!(scene.states(), [RunState::Interrupted, RunState::Finished]);
    assert_eq!(fs::read_to_string(scene.path("starts")).unwrap().lines().count(), 2, "the first job started once");
    wait("the first job is gone", || scene.job_states().iter().any(|state| state == "CANCELLED"));
}

#[test]
fn a_run_whose_node_fails_is_interrupted_and_is_not_started_more_often_than_the_site_allows() {
    let Some(scene) = Scene::started("last", 1, "sleep 600") else { return };
    scene.cluster.ask("scontrol", &["update", "nodename=n3", "state=down", "reason=test"]);
    scene.until_ended(1);
    scene.cluster.ask("scontrol", &["update", "nodename=n3", "state=idle"]);
    assert_eq!(scene.states(), [RunState::Interrupted]);
    assert!(scene.reason(0).contains("node n3 of Slurm job"), "{}", scene.reason(0));
    wait("its conductor has nothing left to do", || scene.conductors().is_empty());
    assert_eq!(scene.states().len(), 1);
}

#[test]
fn a_job_whose_id_was_not_written_down_is_found_by_its_comment() {
    let Some(scene) = Scene::started("lab", 1, WAITS) else { return };
    let job = scene.job();
    scene.kill_conductor();
    let record = scene.runs()[0].join("slurm.json");
    let text = fs::read_to_string(&record).unwrap().replace(&format!(",\"job\":{job}"), ",\"job\":null");
    fs::write(&record, text).unwrap();
    assert!(scene.own_jobs().is_empty(), "the record names no job");
    let attached = scene.follow();
    wait("the job is found", || scene.own_jobs() == [job.as_str()]);
    scene.open_gate();
    attached.output();
    assert_eq!(scene.states(), [RunState::Finished]);
}
