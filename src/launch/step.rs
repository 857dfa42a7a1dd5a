//! Runs over several nodes: steps of a Slurm job, by which the supervisor on the job's first node reaches all of them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::answer::finish;
use super::clocks;
use crate::foreign;
use crate::protocol::{
    Clock, ENVIRONMENT_FILE, Environment, Exit, Job, MASTER_ADDR, MASTER_PORT, environment_file_of, hostname,
};

/// Subcommand of `multicard` that describes a node of a run, and then answers each request with the node's time: `describe FOLDER`.
pub const DESCRIBE_COMMAND: &str = "describe";
/// Subcommand of `multicard` that starts and watches the ranks of a node: `ranks JOB PROGRAM…`.
pub const RANKS_COMMAND: &str = "ranks";
/// The option by which `multicard program` takes the number of its node from Slurm.
pub const BY_SLURM: &str = "--by-slurm";
/// The variable with the number of a node within a step.
const NODE_VARIABLE: &str = "SLURM_NODEID";

/// Time limit for all nodes to describe themselves.
const DESCRIBE_LIMIT: Duration = Duration::from_secs(60);
/// How long a file that another node has written is awaited: clients of network file systems look for new files this seldom.
const SHARED_LIMIT: Duration = Duration::from_secs(30);
/// Time limit of a command that signals steps.
const SIGNAL_LIMIT: Duration = Duration::from_secs(5);
/// Longest description of a node.
const MOST_BYTES: u64 = 1 << 20;

/// The number of this node within its step of a Slurm job; 0 outside of one.
pub fn node_of_step() -> u32 {
    std::env::var(NODE_VARIABLE).ok().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The job that this process is in, as Slurm's commands name it: `12`, or `12_4` for a task of an array. The number of a task's job would not do,
/// because one of the tasks has the number of the whole array.
pub(super) fn own_job() -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok();
    let task = variable("SLURM_ARRAY_JOB_ID").zip(variable("SLURM_ARRAY_TASK_ID"));
    task.map(|(array, task)| format!("{array}_{task}")).or_else(|| variable("SLURM_JOB_ID"))
}

/// Sends a signal to all processes of the steps of this Slurm job: `srun` would turn SIGTERM into SIGKILL. Returns whether there was a step and
/// Slurm took the signal for it.
pub(super) fn signal_steps(signal: Signal) -> bool {
    let Some(job) = own_job() else { return false };
    let ask = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(name);
        command.args(arguments);
        finish(command, SIGNAL_LIMIT)
            .ok()
            .flatten()
            .filter(|(exit, _, _)| exit.is_success())
            .map(|(_, stdout, _)| stdout)
    };
    let listed = ask("squeue", &["--steps", "--noheader", "--job", &job, "--format", "%i"]).unwrap_or_default();
    // The job's own script is a step with a name. Slurm may list steps of other tasks of the job's array, too.
    let is_own = |step: &&str| {
        step.rsplit_once('.').is_some_and(|(listed, number)| listed == job && number.parse::<u32>().is_ok())
    };
    let steps: Vec<&str> = listed.lines().map(str::trim).filter(is_own).collect();
    let option = format!("--signal={}", signal.as_raw());
    !steps.is_empty() && ask("scancel", &[&[option.as_str()], &steps[..]].concat()).is_some()
}

/// A step with one process on each node of a job.
pub(super) struct Step<'a> {
    pub job: &'a Job,
    /// `multicard`.
    pub own: &'a Path,
}

impl Step<'_> {
    /// The command that starts `multicard` with these arguments on each node. If it fails on one of them, the others are ended.
    fn command(&self, arguments: impl IntoIterator<Item = OsString>) -> Command {
        let shape = &self.job.shape;
        let mut command = Command::new("srun");
        command.arg(format!("--nodes={0}", shape.nodes())).arg(format!("--ntasks={0}", shape.nodes()));
        command.args(["--ntasks-per-node=1", "--kill-on-bad-exit=1", "--quiet"]);
        if let Some(site) = &self.job.site {
            // srun does not inherit this number from the job.
            command.arg(format!("--cpus-per-task={}", site.cpus(shape)));
            if self.job.allocation.is_some() {
                // Only what the step asks for, not everything that the allocation has.
                command.args(["--exact", "--relative=0"]);
                command.args(site.gres.as_ref().map(|gres| match shape.devices_per_node() {
                    0 => "--gres=none".to_owned(),
                    devices => format!("--gres={gres}:{devices}"),
                }));
            }
        }
        command.arg(self.own).args(arguments).stdin(Stdio::null());
        command
    }

    /// The command that starts, on each node, the leader of the node's ranks. `program` is the command line of a rank.
    pub fn ranks(&self, job: &Path, program: &[OsString]) -> Command {
        let leader = [RANKS_COMMAND.into(), job.into()];
        self.command(leader.into_iter().chain(program.iter().cloned()))
    }

    /// The command that starts the program's runner on each node.
    ///
    /// # Errors
    /// There is no free port for the ranks to meet.
    pub fn program(&self, arguments: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
        let port = TcpListener::bind(("0.0.0.0", 0)).and_then(|listener| listener.local_addr());
        let port = port.map_err(|error| format!("no free port for the ranks to meet: {error}"))?.port();
        let mut command = self.command(arguments.into_iter().chain([BY_SLURM.into()]));
        command.env(MASTER_ADDR, hostname()).env(MASTER_PORT, port.to_string());
        Ok(command)
    }

    /// Lets each node describe itself, and writes the facts that they share and the facts that differ into the run's folder. Meanwhile,
    /// compares the clocks of the nodes; returns the result.
    ///
    /// # Errors
    /// A node cannot take part in the run, because it does not share the run's folder or has another multicard. The error has the node's
    /// number and the reason.
    pub fn describe(&self) -> Result<Vec<Option<Clock>>, (u32, String)> {
        let (folder, nodes) = (&self.job.folder, self.job.shape.nodes());
        let asked = clocks::ask(self.command([DESCRIBE_COMMAND.into(), folder.into()]), nodes, DESCRIBE_LIMIT);
        let no_srun = |error: io::Error| {
            (0_u32, format!("cannot execute srun, by which a job starts processes on its nodes: {error}"))
        };
        let asked = asked.map_err(no_srun)?;
        let problem = match asked.exit {
            None => format!("; srun took longer than {} s", DESCRIBE_LIMIT.as_secs()),
            Some(Exit::Code(0)) => String::new(),
            Some(_) => format!("; srun: {}", asked.stderr.lines().take(4).collect::<Vec<_>>().join("; ")),
        };
        let until = Instant::now() + if problem.is_empty() { SHARED_LIMIT } else { Duration::ZERO };
        let mut described_nodes: Vec<(String, Environment)> = Vec::new();
        for node in 0..nodes {
            let path = folder.join(environment_file_of(node));
            let described = awaited(&path, until).ok_or_else(|| {
                let folder = folder.display();
                (node, format!("the job's node {node} wrote nothing into {folder} that its first node can read: put the session on a file \
                                system that all nodes share{problem}"))
            })?;
            if let Some((first, known)) = described_nodes.first() {
                for key in ["multicard", "multicard_build"] {
                    if known.get(key) != described.1.get(key) {
                        let version = |one: &Environment| one.get(key).unwrap_or("unknown").to_owned();
                        let (known, other) = (version(known), version(&described.1));
                        let name = &described.0;
                        return Err((
                            node,
                            format!(
                                "multicard is {known} on {first} and {other} on {name}: install one version in a folder \
                                                   that all nodes share"
                            ),
                        ));
                    }
                }
            }
            let _ = fs::remove_file(&path);
            described_nodes.push(described);
        }
        let text = serde_json::to_vec(&Environment::of_nodes(&described_nodes)).unwrap_or_default();
        if let Err(error) = foreign::write_ours(&folder.join(ENVIRONMENT_FILE), &text) {
            foreign::say(format_args!("multicard: cannot write {ENVIRONMENT_FILE}: {error}"));
        }
        Ok(asked.clocks)
    }
}

/// A node's name and its description, once its file can be read.
fn awaited(path: &Path, until: Instant) -> Option<(String, Environment)> {
    loop {
        let read = foreign::read_ours(path, MOST_BYTES).ok();
        if let Some(described) = read.and_then(|text| serde_json::from_slice(&text).ok()) {
            return Some(described);
        }
        if Instant::now() >= until {
            return None;
        }
        thread::sleep(Duration::from_millis(100));
    }
}
