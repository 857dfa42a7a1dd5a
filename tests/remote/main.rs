//! Sessions on another machine, end to end: a real sshd of this user stands for the node, with a home of its own. It listens on a
//! loopback port, or on a host of its own beyond a slow line.
#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use multicard::plan::RunState;
use multicard::store::Reader;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

#[cfg(feature = "window")]
#[cfg(feature = "torch")]
#[path = "../built/mod.rs"]
mod built;
#[path = "../driven/mod.rs"]
mod driven;
#[path = "../executable/mod.rs"]
mod executable;
mod faults;
mod hosts;
mod login;
mod network;
#[path = "../seeded/mod.rs"]
mod seeded;
mod traffic;
#[cfg(feature = "window")]
mod window;

use hosts::Hosts;
use seeded::{PATIENCE, command, succeed, text, wait};

const SSHD: &str = "/usr/sbin/sshd";

/// Set in the process of a test that is alone in it: where its scene is, and the sshd of it.
const SCENE: &str = "MULTICARD_TEST_SCENE";

/// A laptop and a node: two homes, and an sshd between them.
struct Scene {
    place: PathBuf,
    sshd: u32,
    /// What ends with the scene; none in a process that was started for a test.
    owned: Option<Owned>,
}

struct Owned {
    sshd: Child,
    hosts: Option<Hosts>,
    _folder: TempDir,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let Some(Owned { sshd, .. }) = &mut self.owned else { return };
        let _ = sshd.kill();
        let _ = sshd.wait();
        fs::write(self.node("gate"), "").unwrap();
        // Whatever a failed check leaves behind.
        for process in ["conduct", "relay", "group"].into_iter().flat_map(|command| self.processes(command)) {
            let _ = kill_process(Pid::from_raw(process).unwrap(), Signal::KILL);
        }
    }
}

fn keygen(file: &Path) {
    let mut keygen = Command::new("ssh-keygen");
    succeed(keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file));
}

impl Scene {
    fn new() -> Self {
        Self::on("127.0.0.1", TempDir::new().unwrap(), None)
    }

    /// A scene whose node has this address.
    fn on(node: &str, folder: TempDir, hosts: Option<Hosts>) -> Self {
        assert!(Path::new(SSHD).exists(), "{SSHD} is missing: .ci/packages --test installs openssh-server");
        let at = |name: &str| folder.path().join(name);
        for home in ["laptop", "node"] {
            fs::create_dir(at(home)).unwrap();
        }
        ["host-key", "key", "other-key"].iter().for_each(|name| keygen(&at(name)));
        fs::copy(at("key.pub"), at("authorized_keys")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let place = folder.path().display();
        let server = format!(
            "ListenAddress {node}:{port}\nHostKey {place}/host-key\nAuthorizedKeysFile {place}/authorized_keys\nStrictModes no\n\
             UsePAM no\nPidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
        );
        fs::write(at("sshd_config"), server).unwrap();
        let host_key = fs::read_to_string(at("host-key.pub")).unwrap();
        fs::write(at("known_hosts"), format!("[{node}]:{port} {host_key}")).unwrap();
        fs::write(at("no_hosts"), "").unwrap();
        let usual = format!("  HostName {node}\n  Port {port}\n  IdentitiesOnly yes\n  StrictHostKeyChecking yes\n");
        let client = format!(
            "Host node\n{usual}  IdentityFile {place}/key\n  UserKnownHostsFile {place}/known_hosts\n\
             Host stranger\n{usual}  IdentityFile {place}/other-key\n  UserKnownHostsFile {place}/known_hosts\n\
             Host unknown\n{usual}  IdentityFile {place}/key\n  UserKnownHostsFile {place}/no_hosts\n\
             Host counted\n{usual}  IdentityFile {place}/key\n  UserKnownHostsFile {place}/known_hosts\n  \
             ProxyCommand python3 {place}/count.py 127.0.0.1 {port} {place}/wire\n\
             Host held\n{usual}  IdentityFile {place}/key\n  UserKnownHostsFile {place}/known_hosts\n  \
             ProxyCommand python3 {place}/hold.py 127.0.0.1 {port} {place}/hold\n\
             Host closed\n  HostName 127.0.0.1\n  Port 1\n"
        );
        fs::write(at("ssh_config"), client).unwrap();
        fs::write(at("count.py"), traffic::COUNTING_PROXY).unwrap();
        fs::write(at("hold.py"), traffic::HOLDING_PROXY).unwrap();
        // The node's own home and folders, with a shell that talks.
        let program = env!("CARGO_BIN_EXE_multicard");
        let wrapper = format!(
            "#!/bin/sh\necho Welcome to the node\ncd {place}/node\n\
             export HOME={place}/node XDG_STATE_HOME={place}/node/state XDG_DATA_HOME={place}/node/data\n\
             export MULTICARD_WORKER={place}/worker\nexec {program} \"$@\"\n"
        );
        let script = |name: &str, text: &str| executable::write(&at(name), text);
        script("multicard", &wrapper);
        script(
            "newer",
            "#!/bin/sh\necho 'multicard-relay {\"frames\":99,\"multicard\":\"9.9\",\"home\":\"/\"}'\ncat >/dev/null\n",
        );
        script("older", "#!/bin/sh\necho \"error: unrecognized subcommand 'relay'\" >&2\nexit 2\n");
        script("garbled", "#!/bin/sh\necho Welcome >&2\necho 'multicard-relay {\"frames\":'\ncat >/dev/null\n");
        script(
            "noisy",
            "#!/bin/sh\necho Welcome >&2\necho 'multicard-relay {\"frames\":2,\"multicard\":\"1\",\"home\":\"/\"}'\necho words\n\
             cat >/dev/null\n",
        );
        script("silent", "#!/bin/sh\nexec sleep 1000\n");
        // As root it wants this folder; anybody else has no use for it.
        let _ = fs::create_dir_all("/run/sshd");
        let mut sshd = hosts.as_ref().map_or_else(|| Command::new(SSHD), |hosts| hosts.on_node(SSHD));
        sshd.args(["-D", "-e", "-f"]).arg(at("sshd_config"));
        let sshd = sshd.stdin(Stdio::null()).stderr(fs::File::create(at("sshd.log")).unwrap()).spawn().unwrap();
        wait("sshd listens", || fs::read_to_string(at("sshd.log")).is_ok_and(|log| log.contains("Server listening")));
        let (place, process) = (folder.path().to_owned(), sshd.id());
        let scene = Self { place, sshd: process, owned: Some(Owned { sshd, hosts, _folder: folder }) };
        scene.plan("waits", 3, "while [ ! -e gate ]; do sleep 0.02; done");
        scene
    }

    /// The scene of a test that needs a process whose environment is the laptop's; none in the process that starts that one.
    fn alone(test: &str) -> Option<Self> {
        Self::of_this_process().or_else(|| Self::new().again(test))
    }

    /// The same, with a laptop and a node that are two hosts.
    fn on_two_hosts(test: &str) -> Option<Self> {
        Self::of_this_process().or_else(|| {
            let folder = TempDir::new().unwrap();
            match Hosts::new(&folder.path().join(hosts::CUT)) {
                Ok(hosts) => Self::on(hosts::NODE, folder, Some(hosts)).again(test),
                Err(reason) => {
                    println!("skipped: this system does not give two hosts: {reason}");
                    None
                }
            }
        })
    }

    fn of_this_process() -> Option<Self> {
        let scene = std::env::var(SCENE).ok()?;
        let (sshd, place) = scene.split_once(' ').unwrap();
        Some(Self { place: place.into(), sshd: sshd.parse().unwrap(), owned: None })
    }

    /// Runs a test once more, in a process of the laptop.
    fn again(self, test: &str) -> Option<Self> {
        let program = std::env::current_exe().unwrap();
        let hosts = self.owned.as_ref().and_then(|owned| owned.hosts.as_ref());
        let mut again = hosts.map_or_else(|| Command::new(&program), |hosts| hosts.on_laptop(&program));
        again.args(["--exact", test, "--nocapture"]).env(SCENE, format!("{} {}", self.sshd, self.place.display()));
        self.as_laptop(&mut again);
        assert!(again.status().unwrap().success());
        None
    }

    /// A program on the node, which has the namespaces of its sshd.
    fn on_node(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = hosts::on_host(self.sshd, program);
        seeded::at_home(&mut command, &self.at("node"));
        command.current_dir(self.at("node")).stdin(Stdio::null());
        command
    }

    fn as_laptop(&self, command: &mut Command) {
        seeded::at_home(command, &self.at("laptop"));
        command.current_dir(self.at("laptop")).stdin(Stdio::null());
        command.env("MULTICARD_SSH", format!("ssh -F {}", self.at("ssh_config").display()));
        command.env("MULTICARD_WORKER", "/nonexistent/worker").env_remove("XDG_CACHE_HOME").env_remove("SSH_ASKPASS");
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    fn laptop(&self, name: &str) -> PathBuf {
        self.at("laptop").join(name)
    }

    fn node(&self, name: &str) -> PathBuf {
        self.at("node").join(name)
    }

    /// The address of the session on the node, as a host of the ssh configuration reaches it with a program.
    fn through(&self, host: &str, program: &str) -> String {
        format!("ssh://{host}/~/session?multicard={}", self.at(program).display())
    }

    fn address(&self) -> String {
        self.through("node", "multicard")
    }

    fn plan(&self, name: &str, repeats: u32, script: &str) {
        let plan = format!(
            "version = 1\nname = \"{name}\"\nrepeats = {repeats}\n[command]\nname = \"{name}\"\nrun = [\"sh\", \"-c\", \"{script}\"]\n"
        );
        fs::write(self.laptop(&format!("{name}.toml")), plan).unwrap();
    }

    /// `multicard` on the laptop.
    fn multicard(&self, arguments: &[&str]) -> Command {
        let mut command = command(&self.at("laptop"));
        self.as_laptop(&mut command);
        command.args(arguments);
        command
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.multicard(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn detach(&self, plan: &str) -> Output {
        succeed(&mut self.multicard(&["run", plan, "--session", &self.address(), "--detach"]))
    }

    /// Processes of the scene that run a command of multicard on the node.
    fn processes(&self, command: &str) -> Vec<i32> {
        let home = self.at("node").display().to_string();
        let is_ours = |pid: &i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let is_named = words.split(|byte| *byte == 0).nth(1) == Some(command.as_bytes());
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            is_named && environment.split(|byte| *byte == 0).any(|one| one == format!("HOME={home}").as_bytes())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
    }

    /// Cuts every line: ends the processes of sshd that hold one.
    fn cut(&self) {
        let sshd = self.sshd.to_string();
        let children = fs::read_to_string(format!("/proc/{sshd}/task/{sshd}/children")).unwrap();
        for child in children.split_whitespace() {
            let _ = kill_process(Pid::from_raw(child.parse().unwrap()).unwrap(), Signal::KILL);
        }
    }

    fn states(&self) -> Vec<RunState> {
        let runs = Reader::open(&self.node("session")).and_then(|reader| reader.runs()).unwrap_or_default();
        runs.iter().map(|record| record.state).collect()
    }

    fn await_start(&self) {
        wait("a program is under way", || {
            let runs = fs::read_dir(self.node("session/runs")).into_iter().flatten().flatten();
            runs.filter(|run| run.path().join("rank-0.jsonl").exists()).count() >= 1
        });
    }

    /// Gives the node a worker, which it has none of otherwise.
    #[cfg(feature = "torch")]
    fn give_worker(&self) {
        std::os::unix::fs::symlink(built::worker(), self.at("worker")).unwrap();
    }

    /// The rates that a session holds.
    #[cfg(feature = "torch")]
    fn rates(&self, session: &Path) -> Vec<multicard::protocol::DeviceRates> {
        let rates = Reader::open(session).and_then(|reader| reader.rates()).unwrap_or_default();
        rates.iter().map(|rates| (**rates).clone()).collect()
    }

    fn open_gate(&self) {
        fs::write(self.node("gate"), "").unwrap();
    }

    /// The folder of the laptop's copy.
    fn copy(&self) -> PathBuf {
        let nodes = fs::read_dir(self.laptop(".cache/multicard/nodes")).unwrap().flatten();
        let mut copies = nodes.map(|node| node.path().join("session")).filter(|copy| copy.join("origin").exists());
        copies.next().unwrap()
    }
}

/// Reads what a child says until it has said something.
fn hear(child: &mut Child, words: &str) -> String {
    use std::io::Read;
    let (mut heard, mut byte) = (Vec::new(), [0]);
    let stderr = child.stderr.as_mut().unwrap();
    while !text(&heard).contains(words) {
        assert!(stderr.read(&mut byte).unwrap() == 1, "it never said {words:?}: {}", text(&heard));
        heard.push(byte[0]);
    }
    text(&heard)
}

const ALL_FINISHED: [RunState; 3] = [RunState::Finished; 3];

/// Logs of a session and their bytes.
fn logs(session: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = seeded::files(session).into_iter();
    let logs = files.filter(|file| file.extension().is_some_and(|ending| ending == "jsonl" || ending == "toml"));
    logs.map(|log| (log.strip_prefix(session).unwrap().to_owned(), fs::read(&log).unwrap())).collect()
}

#[test]
fn a_session_on_another_machine_is_run_followed_read_and_noted_as_if_it_were_here() {
    let scene = Scene::new();
    let address = scene.address();
    let stderr = text(&scene.detach("waits.toml").stderr);
    assert!(stderr.contains("3 runs queued") && stderr.contains(&format!("multicard attach {address}")), "{stderr}");
    assert!(!stderr.contains("damaged"), "{stderr}");
    wait("the conductor is the node's", || scene.processes("conduct").len() == 1);
    wait("no relay is left behind", || scene.processes("relay").is_empty());
    scene.await_start();
    let mut watched = scene.start(&["attach", &address]);
    hear(&mut watched, "3 runs under way or queued");
    scene.open_gate();
    hear(&mut watched, "nothing is left to run");
    assert!(watched.wait().unwrap().success());
    assert_eq!(scene.states(), ALL_FINISHED);
    succeed(&mut scene.multicard(&["session", "note", &address, "seen from afar #paper"]));
    let shown = succeed(&mut scene.multicard(&["session", "show", &address]));
    assert!(text(&shown.stdout).contains("runs: 3 finished"), "{}", text(&shown.stdout));
    assert_eq!(logs(&scene.copy()), logs(&scene.node("session")), "the copy holds what the session does");
    // Without a line the copy can still be read, and not be written.
    let copy = scene.copy().display().to_string();
    succeed(&mut scene.multicard(&["table", &copy]));
    let written = scene.multicard(&["conduct", &copy]).output().unwrap();
    assert!(text(&written.stderr).contains("a copy of ssh://node/~/session"), "{}", text(&written.stderr));
}

#[test]
fn the_end_of_runs_is_followed_however_much_they_wrote_at_last() {
    let scene = Scene::new();
    scene.plan("wordy", 1, "sleep 1; head -c 100000 /dev/urandom | od -x >&2");
    for _ in 0..8 {
        scene.detach("wordy.toml");
        let mut watched = scene.start(&["attach", &scene.address()]);
        wait("the end arrives", || watched.try_wait().unwrap().is_some());
    }
    assert_eq!(scene.states(), [RunState::Finished; 8]);
}

#[test]
fn what_is_no_relay_is_named_and_its_silence_is_told() {
    let scene = Scene::new();
    for program in ["garbled", "noisy"] {
        let output = scene.multicard(&["attach", &scene.through("node", program)]).output().unwrap();
        let stderr = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && stderr.contains("is not what multicard sends"),
            "{program}: {stderr}"
        );
        assert!(!stderr.contains("signal") && !stderr.contains("Welcome"), "{program}: {stderr}");
    }
    let mut silent = scene.start(&["attach", &scene.through("node", "silent")]);
    hear(&mut silent, "multicard on that machine has sent nothing for 10 s");
    kill_process(Pid::from_child(&silent), Signal::INT).unwrap();
    silent.wait().unwrap();
}

#[test]
fn an_interrupt_here_stops_the_runs_of_this_command_there() {
    let scene = Scene::new();
    let child = scene.start(&["run", "waits.toml", "--session", &scene.address()]);
    scene.await_start();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert_eq!(scene.states(), [RunState::Cancelled; 3]);
}

#[test]
fn a_line_that_breaks_is_taken_up_again_and_the_node_does_not_notice() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    scene.await_start();
    let mut watched = scene.start(&["attach", &scene.address()]);
    hear(&mut watched, "3 runs under way or queued");
    let conductor = scene.processes("conduct");
    for _ in 0..2 {
        scene.cut();
        let message = hear(&mut watched, "reached node again");
        assert!(message.contains("no connection to node") && message.contains("trying again in 1 s"), "{message}");
        hear(&mut watched, "runs under way or queued");
        assert_eq!(scene.processes("conduct"), conductor);
    }
    scene.open_gate();
    hear(&mut watched, "nothing is left to run");
    assert!(watched.wait().unwrap().success());
    assert_eq!(scene.states(), ALL_FINISHED);
    assert_eq!(logs(&scene.copy()), logs(&scene.node("session")));
}

#[cfg(feature = "torch")]
#[test]
fn another_machine_is_measured_there_through_a_line_that_breaks_and_its_rates_are_printed_here() {
    let scene = Scene::new();
    scene.give_worker();
    scene.open_gate();
    let address = scene.address();
    scene.detach("waits.toml");
    let measure = |seconds: &str| {
        let mut command = scene.multicard(&["node", "measure", "--session", &address, "--seconds", seconds]);
        command.args(["--format", "json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // Long enough for a line that is opened again after a second.
    let mut asks = measure("10");
    wait("the worker measures there", || scene.processes("rates").len() == 1);
    scene.cut();
    hear(&mut asks, "reached node again");
    let output = asks.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let kept = scene.rates(&scene.node("session"));
    assert_eq!((kept.len(), kept[0].device.name.as_str()), (1, "cpu"));
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap(),
        serde_json::to_value(&kept).unwrap()
    );
    assert_eq!(scene.rates(&scene.copy()), kept, "the copy has them");
    assert_eq!(scene.states(), ALL_FINISHED);

    let asks = measure("600");
    wait("the worker measures again", || scene.processes("rates").len() == 1);
    kill_process(Pid::from_child(&asks), Signal::INT).unwrap();
    assert_eq!(asks.wait_with_output().unwrap().status.code(), Some(130));
    assert!(scene.processes("rates").is_empty());
    assert_eq!(scene.rates(&scene.node("session")), kept);
}

#[test]
fn a_session_that_took_the_place_of_another_replaces_its_copy() {
    let scene = Scene::new();
    scene.open_gate();
    let address = scene.address();
    let attach = || succeed(&mut scene.multicard(&["attach", &address]));
    scene.detach("waits.toml");
    attach();
    wait("its conductor ends", || scene.processes("conduct").is_empty());
    fs::rename(scene.node("session"), scene.node("before")).unwrap();
    let gone = scene.multicard(&["table", &address]).output().unwrap();
    assert!(text(&gone.stderr).contains("no session there"), "{}", text(&gone.stderr));
    scene.detach("waits.toml");
    attach();
    succeed(&mut scene.multicard(&["table", &address]));
    assert_eq!(logs(&scene.copy()), logs(&scene.node("session")));
}

#[test]
fn what_keeps_a_line_from_coming_about_is_named_with_what_to_do() {
    let scene = Scene::new();
    for (address, found, advice) in [
        (scene.through("nowhere.invalid", "multicard"), "no such host", "check the name"),
        (scene.through("stranger", "multicard"), "refuses the login", "authorized_keys"),
        (scene.through("unknown", "multicard"), "host key", "run `ssh unknown` in a terminal"),
        (scene.through("closed", "multicard"), "no connection to closed", "Connection refused"),
        (scene.through("node", "nothing"), "is not installed there", "?multicard=/path/to/multicard"),
        (scene.through("node", "newer"), "has multicard 9.9", "install the same version on both"),
        (scene.through("node", "older"), "without `relay`", "install the same version on both"),
        (scene.address(), "no session there", "check the path"),
        ("ssh://node".to_owned(), "the path is missing", "ssh://[user@]host[:port]/path"),
    ] {
        let output = scene.multicard(&["table", &address]).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{address}: {stderr}");
        assert!(stderr.contains(found) && stderr.contains(advice), "{address}: {stderr}");
        assert_eq!(stderr.trim().lines().count(), 1, "{stderr}");
    }
    let mut without = scene.multicard(&["table", &scene.address()]);
    let error_text = text(&without.env("MULTICARD_SSH", "/nonexistent/ssh -v").output().unwrap().stderr);
    assert!(
        error_text.contains("cannot start /nonexistent/ssh -v") && error_text.contains("MULTICARD_SSH"),
        "{error_text}"
    );
    assert!(!scene.node("session").exists(), "nothing was made on the node");
}
