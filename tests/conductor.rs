//! Conductors, end to end: processes that outlive whoever started them, and the commands that attach to them. The runs are programs of
//! the shell that wait for a file, so that each test decides when they end.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
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

mod seeded;

use seeded::{command, succeed, text, with_mounts};

const PATIENCE: Duration = Duration::from_secs(60);

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
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(is_ours).filter(lives).collect()
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
        wait("a program is under way", || {
            let runs = fs::read_dir(self.session().join("runs")).into_iter().flatten().flatten();
            runs.filter(|run| run.path().join("rank-0.jsonl").exists()).count() >= count
        });
    }

    fn open_gate(&self) {
        fs::write(self.gate(), "").unwrap();
    }
}

fn wait(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}: it never came true");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a child says until it ends, and whether it succeeded.
fn ended(child: Child) -> (bool, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.success(), text(&output.stderr))
}

const ALL_FINISHED: [RunState; 3] = [RunState::Finished; 3];

#[test]
fn a_detached_queue_outlives_its_command_is_followed_and_its_conductor_ends_by_itself() {
    let scene = Scene::new();
    let said = text(&scene.detach("waits.toml").stderr);
    assert!(said.contains("3 runs queued") && said.contains("multicard attach session"), "{said}");
    let conductor = scene.conductor();
    let stat = Stat::from_file(format!("/proc/{conductor}/stat")).unwrap();
    assert_eq!((stat.session, stat.tty_nr), (conductor.cast_signed(), 0), "a session of its own without a terminal");
    let folder = scene.socket().parent().unwrap().metadata().unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    scene.await_start(1);
    let watched = scene.start(&["attach", "session"]);
    scene.open_gate();
    let (is_ok, said) = ended(watched);
    assert!(is_ok && said.contains("nothing is left to run") && said.contains(" finished"), "{said}");
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
    let scene = Scene::new();
    scene.detach("waits.toml");
    scene.await_start(1);
    let first = scene.conductor();
    kill(first);
    wait("the conductor is gone", || scene.conductors().is_empty());
    assert!(scene.socket().exists(), "its socket is left behind");
    let watched = scene.start(&["attach", "session"]);
    wait("another one conducts", || scene.conductors().len() == 1);
    scene.open_gate();
    let (is_ok, said) = ended(watched);
    assert!(!is_ok && said.contains("the queue of 2 runs is paused"), "{said}");
    wait("a conductor of a paused queue ends by itself", || scene.conductors().is_empty());
    succeed(&mut scene.multicard(&["attach", "session", "--resume"]));
    assert_eq!(scene.states(), ALL_FINISHED, "what was not started is run, and nothing twice");
}

#[test]
fn a_launch_goes_on_with_what_a_killed_conductor_left_queued() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    scene.await_start(1);
    kill(scene.conductor());
    wait("the conductor is gone", || scene.conductors().is_empty());
    scene.open_gate();
    succeed(&mut scene.multicard(&["run", "waits.toml", "--session", "session", "--detach", "--resume"]));
    wait("the conductor ends", || scene.conductors().is_empty());
    assert_eq!(scene.states(), ALL_FINISHED);
}

#[test]
fn a_run_in_a_terminal_records_what_a_killed_conductor_left_as_not_started_and_runs_it_anew() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    scene.await_start(1);
    kill(scene.conductor());
    wait("the conductor is gone", || scene.conductors().is_empty());
    scene.open_gate();
    succeed(&mut scene.multicard(&["run", "waits.toml", "--session", "session", "--resume"]));
    let count = |state: RunState| scene.states().into_iter().filter(|known| *known == state).count();
    assert_eq!((count(RunState::Finished), count(RunState::Interrupted)), (3, 2));
}

#[test]
fn commands_that_come_at_once_share_one_conductor() {
    let scene = Scene::new();
    let queue = || scene.start(&["run", "waits.toml", "--session", "session", "--detach"]);
    let both = [queue(), queue(), queue()];
    for (is_ok, said) in both.map(ended) {
        assert!(is_ok && said.contains("3 runs queued"), "{said}");
    }
    scene.conductor();
    scene.open_gate();
    succeed(&mut scene.multicard(&["attach", "session"]));
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
    scene.open_gate();
    succeed(&mut scene.multicard(&["attach", "session"]));
    use RunState::{Cancelled, Finished};
    assert_eq!(scene.states(), [Finished, Finished, Finished, Cancelled, Cancelled]);
}

#[test]
fn others_attach_to_a_run_in_a_terminal_which_waits_for_what_they_queued() {
    let scene = Scene::new();
    let mut host = scene.start(&["run", "waits.toml", "--session", "session"]);
    scene.await_start(1);
    scene.plan("more", 1, "while [ ! -e second-gate ]; do sleep 0.02; done");
    let said = text(&scene.detach("more.toml").stderr);
    assert!(said.contains(&format!("process {}) and end with it", host.id())), "{said}");
    assert!(scene.conductors().is_empty());
    scene.open_gate();
    let said = Arc::new(Mutex::new(String::new()));
    let (heard, stderr) = (Arc::clone(&said), host.stderr.take().unwrap());
    // Until the pipe is closed, so that nothing it says is refused.
    let hear = move || {
        for line in BufReader::new(stderr).lines() {
            heard.lock().unwrap().push_str(&line.unwrap());
        }
    };
    let reader = std::thread::Builder::new().name("hear".to_owned()).spawn(hear).unwrap();
    wait("it waits for what others queued", || {
        said.lock().unwrap().contains("waiting for runs that others queued here")
    });
    File::create(scene.path("second-gate")).unwrap();
    assert!(host.wait().unwrap().success());
    reader.join().unwrap();
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
    scene.open_gate();
    succeed(&mut scene.multicard(&["attach", "session"]));
    let place = fs::read_to_string(scene.path("plans/where")).unwrap();
    assert_eq!(Path::new(place.trim()), scene.path("plans").canonicalize().unwrap());
    assert_eq!(scene.states(), [RunState::Finished; 4]);
}

#[test]
fn stopping_ends_all_runs_or_the_queued_ones_alone() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    scene.await_start(1);
    let said = text(&succeed(&mut scene.multicard(&["stop", "session", "--queued"])).stderr);
    assert!(said.contains("1 active runs go on"), "{said}");
    wait("the queue is empty", || scene.states()[1..] == [RunState::Cancelled; 2]);
    assert!(!scene.states()[0].is_final());
    succeed(&mut scene.multicard(&["stop", "session"]));
    assert_eq!(scene.states(), [RunState::Cancelled; 3]);
    let said = text(&succeed(&mut scene.multicard(&["stop", "session"])).stderr);
    assert!(said.contains("nothing") || scene.conductors().len() == 1, "{said}");
}

#[test]
fn a_terminated_conductor_leaves_its_active_run_to_the_next() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    scene.await_start(1);
    let first = scene.conductor();
    kill_process(Pid::from_raw(first.cast_signed()).unwrap(), Signal::TERM).unwrap();
    wait("the conductor ends", || scene.conductors().is_empty());
    scene.open_gate();
    succeed(&mut scene.multicard(&["attach", "session", "--resume"]));
    assert_eq!(scene.states(), ALL_FINISHED);
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

#[test]
fn a_conductor_of_another_version_is_named_and_finished_runs_can_be_read() {
    let scene = Scene::new();
    scene.open_gate();
    succeed(&mut scene.multicard(&["run", "waits.toml", "--session", "session"]));
    scene.detach("waits.toml");
    let socket = scene.socket();
    succeed(&mut scene.multicard(&["attach", "session"]));
    wait("the conductor ends", || scene.conductors().is_empty());
    impostor(&socket, r#"{"multicard":"9.8.7","messages":99,"process":4711,"detached":true,"more":[]}"#);
    for arguments in [&["attach", "session"][..], &["stop", "session"], &["run", "waits.toml", "--session", "session"]]
    {
        let output = scene.multicard(arguments).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("multicard 9.8.7 (process 4711)") && said.contains(env!("CARGO_PKG_VERSION")), "{said}");
    }
    let table = succeed(&mut scene.multicard(&["table", "session"]));
    assert!(text(&table.stdout).contains("waits") || !table.stdout.is_empty());
}

#[test]
fn what_listens_and_is_no_conductor_is_named() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    let socket = scene.socket();
    scene.open_gate();
    succeed(&mut scene.multicard(&["attach", "session"]));
    wait("the conductor ends", || scene.conductors().is_empty());
    impostor(&socket, "220 mail.example.org ESMTP");
    let output = scene.multicard(&["stop", "session"]).output().unwrap();
    assert!(text(&output.stderr).contains("unreadable message of the session's conductor"), "{}", text(&output.stderr));
}

#[test]
fn clients_that_write_nonsense_or_break_off_disturb_nobody() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    let socket = scene.socket();
    for nonsense in [
        "",
        "\n",
        "GET / HTTP/1.1\r\n\r\n",
        "{\"messages\":1,\"live\":true}\n{\"order\":",
        "{\"messages\":2,\"live\":false}\n",
    ] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let _ = stream.write_all(nonsense.as_bytes());
    }
    scene.open_gate();
    succeed(&mut scene.multicard(&["attach", "session"]));
    assert_eq!(scene.states(), ALL_FINISHED);
}

#[test]
fn a_session_that_is_moved_away_is_named_and_its_queue_goes_on_once_it_is_back() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    scene.await_start(1);
    let mut watched = scene.start(&["attach", "session"]);
    let mut said = BufReader::new(watched.stderr.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "3 runs under way or queued; Ctrl-C leaves them running");
    fs::rename(scene.session(), scene.path("moved")).unwrap();
    let named = said.find_map(|line| line.ok().filter(|line| line.contains("moved, removed or replaced"))).unwrap();
    assert!(named.contains("session") && named.contains("put the session back"), "{named}");
    fs::rename(scene.path("moved"), scene.session()).unwrap();
    scene.open_gate();
    assert!(said.any(|line| line.is_ok_and(|line| line.contains("nothing is left to run"))));
    assert!(watched.wait().unwrap().success());
    assert_eq!(scene.states(), ALL_FINISHED);
}

#[test]
fn the_conductor_of_a_session_that_was_removed_ends() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    scene.await_start(1);
    assert_eq!(scene.conductors().len(), 1);
    // The run writes on meanwhile.
    wait("the folder is removed", || fs::remove_dir_all(scene.session()).is_ok() || !scene.session().exists());
    wait("the conductor ends", || scene.conductors().is_empty());
    // The run goes on by itself.
    assert_eq!(scene.processes("group").len(), 1);
    scene.open_gate();
    wait("the run ends", || scene.processes("group").is_empty());
}

#[test]
fn a_session_that_cannot_be_conducted_says_why() {
    let scene = Scene::new();
    fs::create_dir(scene.session()).unwrap();
    File::create(scene.session().join("thesis.tex")).unwrap();
    let output = scene.multicard(&["run", "waits.toml", "--session", "session", "--detach"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("thesis.tex") && said.matches("multicard:").count() == 1, "{said}");
    let output = scene.multicard(&["attach", "session"]).output().unwrap();
    assert!(text(&output.stderr).contains("not a session"), "{}", text(&output.stderr));
}

#[test]
fn a_folder_of_sockets_that_others_may_enter_is_closed_to_them_first() {
    let scene = Scene::new();
    let folder = scene.path("state/multicard/conductors");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    scene.detach("waits.toml");
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    scene.open_gate();
    succeed(&mut scene.multicard(&["attach", "session"]));
}

#[test]
fn a_full_disk_is_told_by_a_detached_conductor_whose_queue_goes_on_once_there_is_space() {
    let scene = Scene::new();
    let disk = scene.path("disk");
    fs::create_dir(&disk).unwrap();
    // The first run ends while nothing can be written: neither its log nor the journal.
    let script = "mount -t tmpfs -o size=24m none \"$1\"
        await() { tries=0; until eval \"$1\"; do tries=$((tries + 1)); test $tries -lt 1200; sleep 0.05; done; }
        \"$0\" run waits.toml --session \"$1/s\" --detach
        await 'test -n \"$(ls disk/s/runs/*/rank-0.jsonl 2> /dev/null)\"'
        \"$0\" attach \"$1/s\" 2> said & following=$!
        await 'grep -q under said'
        head -c 30000000 /dev/zero > \"$1/fill\" 2> /dev/null || true
        touch gate
        await 'grep -q free said'
        sleep 1
        test \"$(ls \"$1/s/runs\" | wc -l)\" = 1
        rm \"$1/fill\"
        wait $following
        cat said >&2
        \"$0\" session show \"$1/s\" --format json";
    let Some(output) = with_mounts(scene.home.path(), script, &[&disk]) else { return };
    let said = text(&output.stderr);
    assert!(output.status.success(), "{:?} {said}", output.status.code());
    assert!(said.contains("nothing is left to run"), "{said}");
    // The first one lacks what its rank could not log, and says so.
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |state: &str| shown["runs"][state].as_u64().unwrap_or(0);
    assert!(count("finished") >= 2 && count("finished") + count("failed") == 3, "{shown} {said}");
}

/// What Python prints as another user; none where only root could become one, or there is no Python.
fn as_another_user(script: &str, argument: &Path) -> Option<Child> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return None;
    }
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(argument).current_dir("/").uid(4711).gid(4711);
    let started = python.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    started.inspect_err(|error| println!("skipped: python3: {error}")).ok()
}

#[test]
fn another_user_is_not_answered_by_a_conductor_and_does_not_pass_for_one() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    let socket = scene.socket();
    let open_to_all = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    // Not even if the folder's mode, which is the first guard, were undone.
    let ask = "import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print('connected', flush=True)
try:
    s.sendall(b'{\"messages\":1,\"live\":true}\\n'); print('heard', s.recv(100))
except OSError as error: print('heard', b'', error)";
    let refused = as_another_user(ask, &socket);
    if let Some(refused) = refused {
        let output = refused.wait_with_output().unwrap();
        assert!(text(&output.stderr).contains("PermissionError"), "{}", text(&output.stderr));
        socket.ancestors().take_while(|path| path.starts_with(scene.home.path())).for_each(open_to_all);
        let output = as_another_user(ask, &socket).unwrap().wait_with_output().unwrap();
        let said = text(&output.stdout);
        assert!(said.starts_with("connected\nheard b''"), "{said} {}", text(&output.stderr));
    }
    scene.open_gate();
    succeed(&mut scene.multicard(&["attach", "session"]));
    assert_eq!(scene.states(), ALL_FINISHED);
    wait("the conductor ends", || scene.conductors().is_empty());
    open_to_all(socket.parent().unwrap());
    let pretend = "import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print('listening', flush=True)
c, _ = s.accept(); print('heard', c.recv(100))";
    let Some(mut pretender) = as_another_user(pretend, &socket) else { return };
    let mut said = BufReader::new(pretender.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "listening");
    let output = scene.multicard(&["attach", "session"]).output().unwrap();
    let error = text(&output.stderr);
    assert!(output.status.code() == Some(2) && error.contains("conducted by the user with id 4711"), "{error}");
    assert_eq!(said.next().unwrap().unwrap(), "heard b''");
    pretender.wait().unwrap();
}

#[test]
fn a_session_that_another_users_conductor_holds_is_named_and_can_be_read() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    scene.await_start(1);
    // Another user has other sockets.
    let mut attach = scene.multicard(&["attach", "session"]);
    let output = attach.env("XDG_STATE_HOME", scene.path("other")).output().unwrap();
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(2)
            && said.contains("is writing this session")
            && said.contains("(multicard conduct)"),
        "{said}"
    );
    let mut table = scene.multicard(&["table", "session"]);
    succeed(table.env("XDG_STATE_HOME", scene.path("other")));
    scene.open_gate();
    succeed(&mut scene.multicard(&["attach", "session"]));
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
    scene.open_gate();
    succeed(&mut scene.multicard(&["attach", "session"]));
}

/// A window of this process. Its state folder is that of the environment, so tests with a window run in a process of their own.
#[cfg(feature = "window")]
mod window {
    use egui_kittest::Harness;
    use multicard::app::{App, Command as Click, RunsCommand, SessionsCommand, Settings, State};

    use super::*;

    const HOME: &str = "MULTICARD_TEST_HOME";

    /// The scene of a test whose process has its environment; none in the process that starts that one.
    fn scene(test: &str) -> Option<Scene> {
        if let Some(home) = std::env::var_os(HOME) {
            return Some(Scene::at(TempDir::new_in(home).unwrap()));
        }
        let home = TempDir::new().unwrap();
        let scene = home.path().join("scene");
        fs::create_dir(&scene).unwrap();
        let mut again = Command::new(std::env::current_exe().unwrap());
        seeded::at_home(&mut again, home.path());
        again.args(["--exact", &format!("window::{test}"), "--nocapture"]).env(HOME, &scene);
        assert!(again.env("MULTICARD_WORKER", "/nonexistent/worker").status().unwrap().success());
        None
    }

    fn open(session: &Path) -> Harness<'static, App> {
        let session = session.to_owned();
        Harness::builder().build_eframe(move |context| App::new(&context.egui_ctx, Settings::default(), Some(session)))
    }

    fn until(window: &mut Harness<'_, App>, what: &str, met: impl Fn(&State) -> bool) {
        let start = Instant::now();
        while !met(window.state().state()) {
            let state = window.state().state();
            assert!(start.elapsed() < PATIENCE, "{what}: {:?}, {:?}, {:?}", state.session, state.problems, state.queue);
            window.step();
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_window_acts_on_what_is_run_closes_without_ending_it_and_survives_its_conductor() {
        let Some(scene) = scene("a_window_acts_on_what_is_run_closes_without_ending_it_and_survives_its_conductor")
        else {
            return;
        };
        scene.detach("waits.toml");
        scene.await_start(1);
        let mut window = open(&scene.session());
        until(&mut window, "the queue is there", |state| state.queue.rows.len() == 3 && state.queue.is_running());
        let last = window.state().state().queue.rows[2].run.clone();
        window.state_mut().send(Click::Runs(RunsCommand::Cancel(last)));
        until(&mut window, "the last one is cancelled", |state| state.queue.rows[2].state == RunState::Cancelled);
        drop(window);
        let conductor = scene.conductor();
        assert!(!scene.states()[0].is_final() && scene.states()[1] == RunState::Queued, "{:?}", scene.states());

        let mut window = open(&scene.session());
        until(&mut window, "the queue is there again", |state| state.queue.rows.len() == 3);
        kill(conductor);
        // One that ended so soon is not replaced unasked; on a slow machine it has lived long enough.
        let is_read_only = |state: &State| state.session.as_ref().is_some_and(|session| session.read_only.is_some());
        let is_replaced = || scene.conductors().iter().any(|process| *process != conductor);
        until(&mut window, "the window lost its conductor", |state| is_read_only(state) || is_replaced());
        if is_read_only(window.state().state()) {
            window.state_mut().send(Click::Sessions(SessionsCommand::TryAgain));
        }
        until(&mut window, "another conductor took the run up", |state| {
            state.session.as_ref().is_some_and(|session| session.read_only.is_none()) && state.queue.is_running()
        });
        until(&mut window, "what waits is told", |state| {
            state.queue.paused && state.problems.iter().any(|problem| problem.message.contains("1 run waits"))
        });
        scene.open_gate();
        until(&mut window, "the run has ended", |state| !state.queue.is_running());
        assert!(window.state().state().queue.is_active(), "nobody resumed the queue");
        window.state_mut().send(Click::Runs(RunsCommand::Pause(false)));
        until(&mut window, "all runs have ended", |state| !state.queue.is_active());
        drop(window);
        assert_eq!(scene.states(), [RunState::Finished, RunState::Finished, RunState::Cancelled]);
        wait("the conductor ends", || scene.conductors().is_empty());
    }

    #[test]
    fn a_window_names_a_conductor_of_another_version_and_shows_what_is_finished() {
        let Some(scene) = scene("a_window_names_a_conductor_of_another_version_and_shows_what_is_finished") else {
            return;
        };
        scene.open_gate();
        succeed(&mut scene.multicard(&["run", "waits.toml", "--session", "session"]));
        let socket = multicard::conduct::socket_path(&scene.session()).unwrap();
        impostor(&socket, r#"{"multicard":"9.8.7","messages":99,"process":4711,"detached":true}"#);
        let mut window = open(&scene.session());
        until(&mut window, "the other version is named", |state| {
            let reason = state.session.as_ref().and_then(|session| session.read_only.clone()).unwrap_or_default();
            reason.contains("multicard 9.8.7 (process 4711)")
        });
        until(&mut window, "its runs are shown", |state| state.records.summaries.len() == 3);
    }
}
