//! A home with a session whose runs are executed at a site of a real Slurm, or on this machine, and what tests ask it.

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

use crate::cluster::Cluster;
use crate::seeded::{command, succeed, text, wait};

/// The sites of each home. All nodes are this machine. Its host name may have an address that not even the machine itself can reach, so that ranks
/// on CPUs meet over the loopback interface.
const SITES: &str = r#"
[lab]
partition = "debug"
prologue = ["export FROM_PROLOGUE=yes", "export GLOO_SOCKET_IFNAME=lo"]

[gpus]
partition = "debug"
gres = "gpu"

# Without the interface that it names.
[unreachable]
partition = "debug"
prologue = ["export GLOO_SOCKET_IFNAME=nowhere0"]

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
pub struct Scene {
    pub home: TempDir,
    pub cluster: Arc<Cluster>,
    pub site: Option<&'static str>,
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
    pub fn at(site: &'static str) -> Option<Self> {
        let cluster = Cluster::shared()?;
        let home = TempDir::new().unwrap();
        let config = home.path().join("config/multicard");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("sites.toml"), SITES).unwrap();
        Some(Self { home, cluster, site: Some(site) })
    }

    /// At a site, where the runs of a shell script are queued.
    pub fn launched(site: &'static str, repeats: u32, script: &str) -> Option<Self> {
        let scene = Self::at(site)?;
        scene.plan(repeats, script, "");
        scene.detach();
        Some(scene)
    }

    /// At a site, where the first run of a shell script is under way.
    pub fn started(site: &'static str, repeats: u32, script: &str) -> Option<Self> {
        let scene = Self::launched(site, repeats, script)?;
        scene.await_start(0);
        Some(scene)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// The names of the files in its home.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.home.path()).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    pub fn session(&self) -> PathBuf {
        self.path("session")
    }

    /// Writes a plan of a shell script that runs once, or `repeats` times. Other keys stand before its tables.
    pub fn plan(&self, repeats: u32, script: &str, limits: &str) {
        let place = self.site.map_or(String::new(), |site| format!("[where]\nsite = \"{site}\"\n"));
        let command = format!("[command]\nname = \"p\"\nrun = [\"sh\", \"-c\", '''{script}''']\n");
        let readings = "[command.readings]\npatterns = ['score: (?<score>[0-9.]+)']\n";
        let head = format!("version = 1\nname = \"p\"\nrepeats = {repeats}\n{place}[limits]\n{limits}\n");
        fs::write(self.path("plan.toml"), head + &command + readings).unwrap();
    }

    pub fn multicard(&self, arguments: &[&str]) -> Command {
        let mut command = command(self.home.path());
        command.args(arguments).current_dir(self.home.path()).stdin(Stdio::null());
        command.env("XDG_CONFIG_HOME", self.path("config")).env("SLURM_CONF", self.cluster.conf());
        command.env("MULTICARD_SLURM_INTERVAL_S", "0.3").env("MULTICARD_WORKER", "/nonexistent/worker");
        command
    }

    pub fn run(&self) -> Output {
        self.multicard(&["run", "plan.toml", "--session", "session"]).output().unwrap()
    }

    pub fn detach(&self) {
        succeed(&mut self.multicard(&["run", "plan.toml", "--session", "session", "--detach"]));
    }

    /// Launches the plan, and waits until its first run is under way.
    pub fn start(&self) {
        self.detach();
        self.await_start(0);
    }

    /// Follows the session in a process of its own.
    pub fn follow(&self) -> Attached {
        let mut command = self.multicard(&["attach", "session"]);
        Attached(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    pub fn records(&self) -> Vec<RunRecord> {
        open_reader(&self.session()).and_then(|reader| reader.runs()).unwrap_or_default()
    }

    pub fn states(&self) -> Vec<RunState> {
        self.records().iter().map(|record| record.state).collect()
    }

    pub fn reason(&self, run: usize) -> String {
        self.records()[run].reason.clone().unwrap_or_default()
    }

    pub fn until_ended(&self, runs: usize) {
        wait("all runs have ended", || {
            let states = self.states();
            states.len() == runs && states.iter().all(|state| state.is_final())
        });
    }

    /// The folders of the runs that were started or sent to Slurm, in their order.
    pub fn runs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.session().join("runs")).into_iter().flatten().flatten();
        let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        runs.sort();
        runs
    }

    /// The names of the files of the run with this index, without its samples: a run may end before it is sampled.
    pub fn files(&self, run: usize) -> Vec<String> {
        let names = fs::read_dir(&self.runs()[run]).unwrap().flatten().map(|entry| entry.file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| name != "samples.jsonl");
        names.sort();
        names
    }

    /// Waits until the program of the run with this index is under way.
    pub fn await_start(&self, run: usize) {
        let log = |folder: &PathBuf| fs::read_to_string(folder.join("rank-0.jsonl")).is_ok_and(|text| !text.is_empty());
        wait("a program is under way", || self.runs().get(run).is_some_and(log));
    }

    /// The ids of Slurm's jobs of the session's runs.
    pub fn own_jobs(&self) -> Vec<String> {
        self.runs().iter().filter_map(|folder| job_of(folder)).collect()
    }

    /// Asks the conductor to cancel the run with this index.
    pub fn cancel(&self, run: usize) {
        let run = self.records()[run].run.clone();
        let sockets =
            fs::read_dir(self.path("state/multicard/conductors")).unwrap().flatten().map(|entry| entry.path());
        let socket = sockets.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "sock")).unwrap();
        let client = Client::over(&self.session(), UnixStream::connect(socket).unwrap(), false);
        client.unwrap().unwrap().order(Order::Cancel(run)).unwrap();
    }

    /// The id of Slurm's job of the first run, once it is written down.
    pub fn job(&self) -> String {
        wait("the id of the job is written down", || !self.own_jobs().is_empty());
        self.own_jobs()[0].clone()
    }

    /// Slurm's words for the states of the session's jobs.
    pub fn job_states(&self) -> Vec<String> {
        let all = self.cluster.jobs();
        let state = |id: &String| all.iter().find_map(|line| line.strip_prefix(&format!("{id} ")).map(str::to_owned));
        let words = |line: String| line.split(' ').next().unwrap_or_default().to_owned();
        self.own_jobs().iter().filter_map(state).map(words).collect()
    }

    /// The processes that conduct the session.
    pub fn conductors(&self) -> Vec<i32> {
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

    pub fn kill_conductor(&self) {
        for process in self.conductors() {
            kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
        }
        wait("the conductor is gone", || self.conductors().is_empty());
    }

    pub fn open_gate(&self) {
        fs::write(self.path("gate"), "").unwrap();
    }

    /// Follows the session until nothing is left; returns the messages.
    pub fn attach(&self) -> String {
        text(&self.multicard(&["attach", "session"]).output().unwrap().stderr)
    }
}

/// The id of Slurm's job of the run or allocation in this folder, as Slurm writes it: `12`, or `12_4` for a task of an array.
pub fn job_of(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("slurm.json")).ok()?;
    let record: serde_json::Value = serde_json::from_str(&text).ok()?;
    let (job, task) = (record.get("job")?.as_u64()?, record.get("task").and_then(serde_json::Value::as_u64));
    Some(task.map_or_else(|| job.to_string(), |task| format!("{job}_{task}")))
}

/// A process that follows a session; a failed check ends it.
pub struct Attached(pub Child);

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Attached {
    /// The lines of its messages, as they come.
    pub fn lines(&mut self) -> Receiver<String> {
        let lines = BufReader::new(self.0.stderr.take().unwrap()).lines();
        let (sender, receiver) = sync_channel(1024);
        let pass = move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line));
        std::thread::Builder::new().spawn(pass).unwrap();
        receiver
    }

    /// All of its messages, once it has ended.
    pub fn output(mut self) -> String {
        let lines = self.lines();
        let text: Vec<String> = lines.iter().collect();
        self.0.wait().unwrap();
        text.join("\n")
    }
}

/// A script that ends once the gate is open.
pub const WAITS: &str = "while [ ! -e gate ]; do sleep 0.05; done";

/// Checks what holds on this machine and at a site alike.
pub fn at_each_place(check: impl Fn(&Scene)) {
    let Some(at_site) = Scene::at("lab") else { return };
    check(&at_site);
    let Some(here) = Scene::at("lab") else { return };
    check(&Scene { site: None, home: TempDir::new().unwrap(), cluster: Arc::clone(&here.cluster) });
}
