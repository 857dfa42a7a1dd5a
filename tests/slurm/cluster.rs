//! A real Slurm on this machine: munged, slurmctld and three slurmd in a folder of their own, on ports of their own. They are started by
//! the first test that needs them and ended with the last.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::executable;

/// Its nodes.
pub const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// The nodes that have a GPU each, where this machine has two.
const GPU_NODES: [&str; 2] = ["n1", "n2"];

/// The controller.
pub const CONTROLLER: &str = "slurmctld";

/// Far longer than the daemons take to start.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Cluster {
    folder: TempDir,
    /// The daemons, by the name of their program, or of the node for `slurmd`.
    daemons: Mutex<Vec<(String, Child)>>,
}

static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());

/// The programs that a cluster needs and this machine lacks.
fn missing() -> Vec<&'static str> {
    let search = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let is_there = |name: &&str| search.split(':').any(|folder| Path::new(folder).join(name).is_file());
    ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol"]
        .into_iter()
        .filter(|name| !is_there(name))
        .collect()
}

impl Cluster {
    /// The cluster that the tests share; `None` where Slurm is not installed.
    pub fn shared() -> Option<Arc<Self>> {
        let missing = missing();
        if !missing.is_empty() {
            println!("skipped: Slurm is not installed ({} not found): make test-packages", missing.join(", "));
            return None;
        }
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = shared.upgrade().unwrap_or_else(|| Arc::new(Self::start()));
        *shared = Arc::downgrade(&cluster);
        Some(cluster)
    }

    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        // munged refuses folders that others may write into, and Slurm's commands must reach its socket.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let cluster = Self { daemons: Mutex::default(), folder };
        cluster.configure();
        cluster.spawn(
            "munged",
            Command::new("munged")
                .args(["--foreground", "--force", "--num-threads=2"])
                .arg(format!("--key-file={}", cluster.at("munge.key").display()))
                .arg(format!("--socket={}", cluster.at("munge.socket").display()))
                .arg(format!("--pid-file={}", cluster.at("munged.pid").display()))
                .arg(format!("--log-file={}", cluster.at("munged.log").display()))
                .arg(format!("--seed-file={}", cluster.at("munged.seed").display())),
        );
        cluster.wait("munged listens", |cluster| cluster.at("munge.socket").exists());
        cluster.spawn(CONTROLLER, Command::new(CONTROLLER).args(["-D", "-c", "-i"]));
        for node in NODES {
            cluster.spawn(node, Command::new("slurmd").args(["-D", "-N", node]));
        }
        cluster.until_idle();
        cluster
    }

    /// Waits until all nodes are idle.
    pub fn until_idle(&self) {
        self.wait("all nodes are idle", |cluster| {
            let states = cluster.ask("sinfo", &["--noheader", "--Node", "--format", "%N %t"]);
            NODES.iter().all(|node| states.lines().any(|line| line.trim() == format!("{node} idle")))
        });
    }

    /// Waits until the controller has written what it knows of jobs now. It does so within seconds of a new job, but not of a start.
    pub fn until_saved(&self) {
        let begun = SystemTime::now();
        let job = self.ask("sbatch", &["--parsable", "--hold", "--output=/dev/null", "--wrap=true"]);
        self.ask("scancel", &[job.trim()]);
        self.wait("the controller writes its state", |cluster| {
            let state = fs::metadata(cluster.at("state/job_state")).and_then(|state| state.modified());
            state.is_ok_and(|written| written > begun)
        });
    }

    /// Kills the controller, or the daemon of a node.
    pub fn kill(&self, name: &str) {
        let mut daemons = self.daemons.lock().unwrap();
        let at = daemons.iter().position(|(known, _)| known == name).unwrap();
        let (_, mut daemon) = daemons.remove(at);
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Starts the controller, or the daemon of a node, after it was killed. The controller continues with the state
    /// that it had written.
    pub fn start_again(&self, name: &str) {
        match name {
            CONTROLLER => self.spawn(name, Command::new(CONTROLLER).args(["-D", "-i"])),
            node => self.spawn(node, Command::new("slurmd").args(["-D", "-N", node])),
        }
    }

    /// Starts the daemon of a node, after it was killed, on a machine of its own as far as this folder is concerned: the node sees another, empty
    /// one. Needs root.
    pub fn start_apart(&self, node: &str, hidden: &Path) {
        let begun = || {
            let about = self.ask("scontrol", &["show", "node", node]);
            about.split_whitespace().find(|word| word.starts_with("SlurmdStartTime=")).map(str::to_owned)
        };
        let before = begun();
        let script = "mount -t tmpfs none \"$0\" && exec slurmd -D -N \"$1\"";
        self.spawn(node, Command::new("unshare").args(["--mount", "sh", "-c", script]).arg(hidden).arg(node));
        self.wait("the controller knows the new daemon", |_| begun() != before);
    }

    fn configure(&self) {
        let key: Vec<u8> = (0..128).map(|_| rand::random::<u8>()).collect();
        let mut file = File::create(self.at("munge.key")).unwrap();
        file.write_all(&key).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o400)).unwrap();
        let listeners: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        let user = Command::new("id").arg("-un").output().unwrap();
        let user = String::from_utf8(user.stdout).unwrap().trim().to_owned();
        fs::create_dir(self.at("state")).unwrap();
        let gpus = self.configure_gpus();
        let nodes: String = (NODES.iter().zip(&ports[1..]))
            .map(|(node, port)| {
                let gres = if gpus.is_some() && GPU_NODES.contains(node) { " Gres=gpu:1" } else { "" };
                format!(
                    "NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=4000{gres}\n"
                )
            })
            .collect();
        let text = include_str!("slurm.conf")
            .replace("DIR", &self.folder.path().display().to_string())
            .replace("USER", &user)
            .replace("PORT", &ports[0].to_string());
        let text = text + &gpus.unwrap_or_default() + &nodes + include_str!("partitions.conf");
        fs::write(self.conf(), text).unwrap();
        // Nothing uses cgroups here. Without this, slurmd takes those of version 2 where there are some, and asks systemd, which may be missing.
        fs::write(self.at("cgroup.conf"), "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n").unwrap();
    }

    /// Where this machine has two GPUs, each of the first two nodes gets one of them: the lines for `slurm.conf`. NCCL takes the nodes for
    /// two machines, so that it connects them over a network.
    fn configure_gpus(&self) -> Option<String> {
        let devices = ["/dev/nvidia0", "/dev/nvidia1"];
        devices.iter().all(|device| Path::new(device).exists()).then(|| {
            let gres = GPU_NODES.iter().zip(devices);
            let gres: String = gres.map(|(node, device)| format!("NodeName={node} Name=gpu File={device}\n")).collect();
            fs::write(self.at("gres.conf"), gres).unwrap();
            let prolog = self.at("task-prolog");
            executable::write(&prolog, "#!/bin/sh\necho export NCCL_HOSTID=$SLURMD_NODENAME\n");
            format!("GresTypes=gpu\nTaskProlog={}\n", prolog.display())
        })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file that commands find the cluster by, in `SLURM_CONF`.
    pub fn conf(&self) -> PathBuf {
        self.at("slurm.conf")
    }

    fn spawn(&self, daemon: &str, command: &mut Command) {
        let search = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        let name = command.get_program().to_string_lossy().into_owned();
        let log = File::options().create(true).append(true).open(self.at(&format!("{name}.out"))).unwrap();
        command.env("SLURM_CONF", self.conf()).env("PATH", search).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.daemons.lock().unwrap().push((daemon.to_owned(), command.spawn().unwrap()));
    }

    /// The output of a command of Slurm; empty if it fails.
    pub fn ask(&self, name: &str, arguments: &[&str]) -> String {
        let output = Command::new(name).args(arguments).env("SLURM_CONF", self.conf()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The id and the state of each job in the queue and shortly after, with its name: `12_4 PENDING multicard-0001-a-1`.
    pub fn jobs(&self) -> Vec<String> {
        let text = self.ask("squeue", &["--noheader", "--array", "--states=all", "--format", "%i %T %j"]);
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    fn wait(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            if start.elapsed() > PATIENCE {
                for name in ["munged.log", "munged.out", "slurmctld.out", "slurmd.out"] {
                    eprintln!("{name}:\n{}", fs::read_to_string(self.at(name)).unwrap_or_default());
                }
                panic!("{what}: it never came true");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.ask("scancel", &["--signal=KILL", "--full", "--me"]);
        self.ask("scancel", &["--me"]);
        // The processes of a job end only while its daemons are there to hear of it.
        let within = |condition: &mut dyn FnMut() -> bool| {
            let start = Instant::now();
            while !condition() && start.elapsed() < Duration::from_secs(15) {
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        within(&mut || self.ask("squeue", &["--noheader"]).trim().is_empty());
        for (_, daemon) in self.daemons.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().rev() {
            let _ = kill_process(Pid::from_child(daemon), Signal::TERM);
            within(&mut || !matches!(daemon.try_wait(), Ok(None)));
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
