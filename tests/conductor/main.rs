//! Conductors, end to end: processes that outlive whoever started them, and the commands that attach to them. The runs are programs of
//! the shell that wait for a file, so that each test decides when they end.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use multicard::plan::RunState;
use multicard::store::{Reader, RunRecord};
use procfs_core::FromRead;
use procfs_core::process::Stat;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

#[cfg(feature = "torch")]
#[path = "../built/mod.rs"]
mod built;
#[cfg(feature = "window")]
#[path = "../driven/mod.rs"]
mod driven;
#[cfg(feature = "torch")]
#[path = "../executable/mod.rs"]
mod executable;
mod faults;
#[cfg(feature = "torch")]
mod rates;
#[path = "../seeded/mod.rs"]
mod seeded;
mod silent;
mod waiting;
#[cfg(feature = "window")]
mod window;

use seeded::{PATIENCE, command, succeed, text, wait, with_mounts};

/// A home with a session, and the conductors that were started in it.
struct Scene {
    home: TempDir,
}

/// Whatever a failed check leaves behind.
impl Drop for Scene {
    fn drop(&mut self) {
        fs::write(self.gate(), "").unwrap();
        self.conductors().into_iter().for_each(kill);
    }
}

fn kill(process: u32) {
    // It may have ended.
    let _ = kill_process(Pid::from_raw(process.cast_signed()).unwrap(), Signal::KILL);
}

impl Scene {
    fn new() -> Self {
        Self::at(TempDir::new().unwrap())
    }

    /// One run of three is under way.
    fn under_way() -> Self {
        let scene = Self::new();
        scene.detach("waits.toml");
        scene.await_start(1);
        scene
    }

    /// One run of three was under way when its conductor was killed; the gate is open.
    fn after_a_killed_conductor() -> Self {
        let scene = Self::new();
        scene.lose_conductor("waits.toml");
        scene
    }

    /// Kills the conductor of a plan while its first run is under way, and opens the gate.
    fn lose_conductor(&self, plan: &str) {
        self.detach(plan);
        self.await_start(1);
        kill(self.conductor());
        wait("the conductor is gone", || self.conductors().is_empty());
        self.open_gate();
    }

    fn at(home: TempDir) -> Self {
        let scene = Self { home };
        scene.plan("waits", 3, "while [ ! -e gate ]; do sleep 0.02; done");
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn session(&self) -> PathBuf {
        self.path("session")
    }

    /// Runs end once this file is there.
    fn gate(&self) -> PathBuf {
        self.path("gate")
    }

    fn plan(&self, name: &str, repeats: u32, script: &str) {
        let plan = format!(
            "version = 1\nname = \"{name}\"\nrepeats = {repeats}\n[command]\nname = \"{name}\"\nrun = [\"sh\", \"-c\", \"{script}\"]\n"
        );
        fs::write(self.path(&format!("{name}.toml")), plan).unwrap();
    }

    /// `multicard` in the folder of the plans, where relative paths start.
    fn multicard(&self, arguments: &[&str]) -> Command {
        // A test with a window has its process's folders.
        let own = std::env::var_os("MULTICARD_TEST_HOME").and(std::env::var_os("HOME")).map(PathBuf::from);
        let mut command = command(own.as_deref().unwrap_or(self.home.path()));
        command.args(arguments).current_dir(self.home.path()).stdin(Stdio::null());
        command.env("MULTICARD_WORKER", "/nonexistent/worker");
        command
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.multicard(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn detach(&self, plan: &str) -> Output {
        succeed(&mut self.multicard(&["run", plan, "--session", "session", "--detach"]))
    }

    /// The processes that conduct the session on their own.
    fn conductors(&self) -> Vec<u32> {
        self.processes("conduct")
    }

    /// Processes of the session that run a command of multicard.
    fn processes(&self, command: &str) -> Vec<u32> {
        let session = self.session().display().to_string();
        let is_ours = |pid: &u32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
            let at = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            let is_named =
                |word: &&[u8]| word.starts_with(session.as_bytes()) || *word == b"session" && at == self.home.path();
            words.get(1).is_some_and(|word| *word == command.as_bytes()) && words.iter().any(is_named)
        };
        let lives = |pid: &u32| Stat::from_file(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.state != 'Z');
        pids().filter(is_ours).filter(lives).collect()
    }

    /// Whether a process runs the plan's program, which waits for the gate.
    fn runs_program(&self) -> bool {
        pids().any(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let at = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("! -e gate") && at == self.home.path()
        })
    }

    /// The one that conducts; what it starts is its twin for a moment.
    fn conductor(&self) -> u32 {
        wait("one process conducts", || self.conductors().len() == 1);
        self.conductors()[0]
    }

    fn records(&self) -> Vec<RunRecord> {
        Reader::open(&self.session()).and_then(|reader| reader.runs()).unwrap_or_default()
    }

    fn states(&self) -> Vec<RunState> {
        self.records().iter().map(|record| record.state).collect()
    }

    fn socket(&self) -> PathBuf {
        let mut sockets = fs::read_dir(self.path("state/multicard/conductors")).unwrap().flatten();
        sockets.find(|entry| entry.path().extension().is_some_and(|ending| ending == "sock")).unwrap().path()
    }

    /// Waits until the program of a run is under way.
    fn await_start(&self, count: usize) {
        wait("a program is under way", || started(&self.session()) >= count);
    }

    fn open_gate(&self) {
        fs::write(self.gate(), "").unwrap();
    }

    /// Opens the gate, and follows the session until nothing is left to run.
    fn finish(&self) {
        self.open_gate();
        succeed(&mut self.multicard(&["attach", "session"]));
    }
}

/// All processes.
fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The number of runs of a session whose programs are or were under way.
fn started(session: &Path) -> usize {
    let runs = fs::read_dir(session.join("runs")).into_iter().flatten().flatten();
    runs.filter(|run| run.path().join("rank-0.jsonl").exists()).count()
}

/// What a child says until it ends, and whether it succeeded.
fn ended(child: Child) -> (bool, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.success(), text(&output.stderr))
}

/// Acts once a child says `what`; returns the exit code of the child, and all that it says.
fn ended_after(mut child: Child, what: &str, act: impl FnOnce(&Child)) -> (Option<i32>, String) {
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut printed = String::new();
    while !printed.contains(what) {
        assert_ne!(stderr.read_line(&mut printed).unwrap(), 0, "{printed}");
    }
    act(&child);
    stderr.read_to_string(&mut printed).unwrap();
    (child.wait().unwrap().code(), printed)
}

/// Listens where a session's conductor would and answers each client with a line.
fn impostor(socket: &Path, line: &'static str) {
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::Builder::new()
        .spawn(move || {
            for mut stream in listener.incoming().flatten() {
                writeln!(stream, "{line}").unwrap();
                let _ = BufReader::new(stream).read_line(&mut String::new());
            }
        })
        .unwrap();
}

const ALL_FINISHED: [RunState; 3] = [RunState::Finished; 3];

#[test]
fn a_detached_queue_outlives_its_command_is_followed_and_its_conductor_ends_by_itself() {
    let scene = Scene::new();
    let stderr = text(&scene.detach("waits.toml").stderr);
    assert!(stderr.contains("3 runs queued") && stderr.contains("multicard attach session"), "{stderr}");
    let conductor = scene.conductor();
    let stat = Stat::from_file(format!("/proc/{conductor}/stat")).unwrap();
    assert_eq!((stat.session, stat.tty_nr), (conductor.cast_signed(), 0), "a session of its own without a terminal");
    let folder = scene.socket().parent().unwrap().metadata().unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    scene.await_start(1);
    let watched = scene.start(&["attach", "session"]);
    scene.open_gate();
    let (is_ok, stderr) = ended(watched);
    assert!(is_ok && stderr.contains("nothing is left to run") && stderr.contains(" finished"), "{stderr}");
    assert_eq!(scene.states(), ALL_FINISHED);
    wait("the conductor ends", || scene.conductors().is_empty());
    assert!(
        fs::read_dir(scene.path("state/multicard/conductors"))
            .unwrap()
            .flatten()
            .all(|entry| { entry.path().extension().is_some_and(|ending| ending == "log") })
    );
    // There is nothing left to attach to, and nothing is started for it.
    let again = succeed(&mut scene.multicard(&["attach", "session"]));
    assert!(text(&again.stderr).contains("nothing runs in this session"));
}

#[test]
fn a_killed_conductor_loses_nothing_and_the_next_one_takes_its_runs_up() {
    let scene = Scene::under_way();
    let first = scene.conductor();
    kill(first);
    wait("the conductor is gone", || scene.conductors().is_empty());
    assert!(scene.socket().exists(), "its socket is left behind");
    let watched = scene.start(&["attach", "session"]);
    wait("another one conducts", || scene.conductors().len() == 1);
    scene.open_gate();
    let (is_ok, stderr) = ended(watched);
    assert!(!is_ok && stderr.contains("the queue is paused with 2 runs"), "{stderr}");
    wait("a conductor of a paused queue ends by itself", || scene.conductors().is_empty());
    succeed(&mut scene.multicard(&["attach", "session", "--resume"]));
    assert_eq!(scene.states(), ALL_FINISHED, "what was not started is run, and nothing twice");
}

#[test]
fn a_launch_goes_on_with_what_a_killed_conductor_left_queued() {
    let scene = Scene::after_a_killed_conductor();
    succeed(&mut scene.multicard(&["run", "waits.toml", "--session", "session", "--detach", "--resume"]));
    wait("the conductor ends", || scene.conductors().is_empty());
    assert_eq!(scene.states(), ALL_FINISHED);
}

#[test]
fn a_run_in_a_terminal_records_what_a_killed_conductor_left_as_not_started_and_runs_it_anew() {
    let scene = Scene::after_a_killed_conductor();
    succeed(&mut scene.multicard(&["run", "waits.toml", "--session", "session", "--resume"]));
    let count = |state: RunState| scene.states().into_iter().filter(|known| *known == state).count();
    assert_eq!((count(RunState::Finished), count(RunState::Interrupted)), (3, 2));
}

#[test]
fn the_owner_alone_can_write_the_files_of_a_session_whatever_the_umask() {
    for umask in ["000", "777"] {
        let scene = Scene::new();
        scene.plan("writes", 1, "echo out; echo err >&2; touch $MULTICARD_READINGS");
        let mut open = scene.multicard(&[]);
        let program = open.get_program().to_owned();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("umask {umask}; \"$0\" \"$@\"")]).arg(program);
        command.args(["run", "writes.toml", "--session", "session", "--detach"]).current_dir(scene.home.path());
        let variables = open.env("MULTICARD_WORKER", "/nonexistent").get_envs();
        command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
        succeed(&mut command);
        wait("the conductor ends", || scene.conductors().is_empty());
        assert_eq!(scene.states(), [RunState::Finished]);
        let mut folders = vec![scene.session(), scene.path("state")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap().flatten() {
                let about = entry.metadata().unwrap();
                let (mode, own) = (about.permissions().mode(), if about.is_dir() { 0o700 } else { 0o600 });
                assert_eq!(mode & (0o022 | own), own, "{} has mode {mode:o} of umask {umask}", entry.path().display());
                if about.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
    }
}

#[test]
fn commands_that_come_at_once_share_one_conductor() {
    let scene = Scene::new();
    let queue = || scene.start(&["run", "waits.toml", "--session", "session", "--detach"]);
    let both = [queue(), queue(), queue()];
    for (is_ok, stderr) in both.map(ended) {
        assert!(is_ok && stderr.contains("3 runs queued"), "{stderr}");
    }
    scene.conductor();
    scene.finish();
    assert_eq!(scene.states(), [RunState::Finished; 9]);
}

#[test]
fn a_run_in_the_foreground_joins_the_conductor_and_its_interrupt_stops_its_own_runs_alone() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    scene.plan("more", 2, "while [ ! -e gate ]; do sleep 0.02; done");
    let joined = scene.start(&["run", "more.toml", "--session", "session"]);
    wait("both plans are queued", || scene.records().len() == 5);
    kill_process(Pid::from_child(&joined), Signal::INT).unwrap();
    let output = joined.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    scene.finish();
    use RunState::{Cancelled, Finished};
    assert_eq!(scene.states(), [Finished, Finished, Finished, Cancelled, Cancelled]);
}

#[test]
fn others_attach_to_a_run_in_a_terminal_which_waits_for_what_they_queued() {
    let scene = Scene::new();
    let mut host = scene.start(&["run", "waits.toml", "--session", "session"]);
    scene.await_start(1);
    scene.plan("more", 1, "while [ ! -e second-gate ]; do sleep 0.02; done");
    let error_text = text(&scene.detach("more.toml").stderr);
    assert!(error_text.contains(&format!("process {}) and end with it", host.id())), "{error_text}");
    assert!(scene.conductors().is_empty());
    scene.open_gate();
    let error_text = Arc::new(Mutex::new(String::new()));
    let (heard, stderr) = (Arc::clone(&error_text), host.stderr.take().unwrap());
    // Until the pipe is closed, so that nothing it says is refused.
    let hear = move || {
        for line in BufReader::new(stderr).lines() {
            heard.lock().unwrap().push_str(&line.unwrap());
        }
    };
    let reader = std::thread::Builder::new().name("hear".to_owned()).spawn(hear).unwrap();
    wait("it waits for what others queued", || {
        error_text.lock().unwrap().contains("waiting for runs that other programs queued here")
    });
    File::create(scene.path("second-gate")).unwrap();
    assert!(host.wait().unwrap().success());
    reader.join().unwrap();
    assert_eq!(scene.states(), [RunState::Finished; 4]);
}

#[test]
fn a_run_that_waited_for_another_command_goes_on_when_the_conductor_has_ended_with_that_command() {
    let scene = Scene::new();
    let host = scene.start(&["run", "waits.toml", "--session", "session"]);
    scene.await_start(1);
    scene.plan("more", 1, "true");
    let waiting = scene.start(&["run", "more.toml", "--session", "session", "--resume"]);
    let (code, stderr) = ended_after(waiting, "waiting for the runs that an earlier multicard started", |waiting| {
        // It orders its run when nobody is left to take the order.
        kill_process(Pid::from_child(waiting), Signal::STOP).unwrap();
        scene.open_gate();
        let host = ended(host);
        kill_process(Pid::from_child(waiting), Signal::CONT).unwrap();
        assert!(host.0, "{}", host.1);
    });
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(scene.states(), [RunState::Finished; 4]);
}

#[test]
fn programs_start_in_the_folder_of_their_plan_whoever_conducts() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    let elsewhere = scene.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    scene.plan("here", 1, "pwd > where");
    fs::create_dir(scene.path("plans")).unwrap();
    fs::rename(scene.path("here.toml"), scene.path("plans/here.toml")).unwrap();
    let mut other = scene.multicard(&["run", "../plans/here.toml", "--session", "../session", "--detach"]);
    succeed(other.current_dir(&elsewhere));
    scene.finish();
    let place = fs::read_to_string(scene.path("plans/where")).unwrap();
    assert_eq!(Path::new(place.trim()), scene.path("plans").canonicalize().unwrap());
    assert_eq!(scene.states(), [RunState::Finished; 4]);
}

#[test]
fn stopping_ends_all_runs_or_the_queued_ones_alone() {
    let scene = Scene::under_way();
    let stderr = text(&succeed(&mut scene.multicard(&["stop", "session", "--queued"])).stderr);
    assert!(stderr.contains("1 active run goes on to the end"), "{stderr}");
    wait("the queue is empty", || scene.states()[1..] == [RunState::Cancelled; 2]);
    assert!(!scene.states()[0].is_final());
    succeed(&mut scene.multicard(&["stop", "session"]));
    assert_eq!(scene.states(), [RunState::Cancelled; 3]);
    let error_text = text(&succeed(&mut scene.multicard(&["stop", "session"])).stderr);
    assert!(error_text.contains("nothing") || scene.conductors().len() == 1, "{stderr}");
}

#[test]
fn a_terminated_conductor_leaves_its_active_run_to_the_next() {
    let scene = Scene::under_way();
    let first = scene.conductor();
    kill_process(Pid::from_raw(first.cast_signed()).unwrap(), Signal::TERM).unwrap();
    wait("the conductor ends", || scene.conductors().is_empty());
    scene.open_gate();
    succeed(&mut scene.multicard(&["attach", "session", "--resume"]));
    assert_eq!(scene.states(), ALL_FINISHED);
}

#[test]
fn a_desktop_is_notified_of_failed_runs_and_of_the_end_and_without_one_nothing_is_missed() {
    let scene = Scene::new();
    let daemon =
        Command::new("dbus-daemon").args(["--session", "--nofork", "--print-address"]).stdout(Stdio::piped()).spawn();
    let Ok(mut daemon) = daemon else {
        println!("skipped: this system has no dbus-daemon");
        return;
    };
    let mut address = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let heard = scene.path("heard");
    let mut monitor = Command::new("dbus-monitor")
        .args(["--session", "interface='org.freedesktop.Notifications'"])
        .env("DBUS_SESSION_BUS_ADDRESS", address.trim())
        .stdout(File::create(&heard).unwrap())
        .spawn()
        .unwrap();
    let hears = |text: &str| fs::read_to_string(&heard).is_ok_and(|heard| heard.contains(text));
    wait("the monitor listens", || hears("NameAcquired"));
    scene.plan("fails", 1, "exit 3");
    let mut launch = scene.multicard(&["run", "fails.toml", "--session", "session", "--detach"]);
    succeed(launch.env("DBUS_SESSION_BUS_ADDRESS", address.trim()));
    wait("the end is notified", || hears("session: all runs have ended") && hears("0 finished, 1 did not"));
    monitor.kill().unwrap();
    monitor.wait().unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    scene.open_gate();
    scene.detach("waits.toml");
    succeed(&mut scene.multicard(&["attach", "session"]));
    assert_eq!(scene.states()[1..], ALL_FINISHED);
}

#[test]
fn studies_are_saved_through_the_conductor_while_runs_go_on() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    succeed(&mut scene.multicard(&["study", "session", "--save", "mine", "--form", "scaling"]));
    let names = |scene: &Scene| Reader::open(&scene.session()).unwrap().studies().unwrap().len();
    assert_eq!(names(&scene), 1);
    succeed(&mut scene.multicard(&["study", "session", "--delete", "mine"]));
    assert_eq!(names(&scene), 0);
    scene.finish();
}
