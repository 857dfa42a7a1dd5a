//! The steward of an allocation: a process on the allocation's first node that executes the runs of a list one after the
//! other. Each run has a supervisor of its own, which starts the ranks as a step of the job. The steward needs no conductor: it executes
//! whatever is on the list.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::tools;
use crate::foreign;
use crate::launch::error::LaunchError;
use crate::launch::group_log::GroupLog;
use crate::launch::process::{STDERR_FILE, STDOUT_FILE};
use crate::launch::step::{own_job, signal_steps};
use crate::processes;
use crate::protocol::{Exit, GROUP_LOG, GroupEvent, Job, hostname, wait_for_room};

/// Subcommand of `multicard` that executes the runs of an allocation: `allocation FOLDER --idle SECONDS`.
pub const ALLOCATION_COMMAND: &str = "allocation";

/// The list of runs in an allocation's folder.
const LIST_FILE: &str = "runs.jsonl";
/// The file in an allocation's folder that says that its list gets no further runs.
pub(super) const CLOSE_FILE: &str = "close";
/// The file in a run's folder that asks the steward to end the run.
const END_FILE: &str = "end-request";
/// The record of a run's step in the run's folder.
const STEP_FILE: &str = "step.json";

/// Longest list: a line takes some hundred bytes.
const MOST_LIST_BYTES: u64 = 256 << 20;
/// Largest size of a record, in bytes.
const MOST_BYTES: u64 = 1 << 16;

/// Interval between looks at the list, and at a request to end a run, which are on a shared file system.
const LIST_POLL: Duration = Duration::from_millis(300);
/// Interval between looks at a run's process.
const POLL: Duration = Duration::from_millis(20);
/// How long a run's supervisor may take to end after a request.
const GRACE: Duration = Duration::from_secs(20);
/// At the end of a job, Slurm asks its processes to end one after the other. If a run ended this shortly before the steward was asked to
/// end, the end of the job was the reason.
const TOGETHER: Duration = Duration::from_millis(500);

/// The message of `srun` about a step in a job whose time is over but that Slurm may not have ended yet.
const REFUSED: &str = "already completing or completed";

/// A run on the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    /// The run's folder.
    folder: PathBuf,
    /// The command line of its supervisor.
    command: Vec<String>,
    /// The folder that it starts in.
    #[serde(default)]
    working_folder: Option<PathBuf>,
    /// CPUs of each node of the run.
    cpus: u32,
}

impl Line {
    /// The list's line for the run of this job. `command` is the command line of the run's supervisor.
    ///
    /// # Errors
    /// A path is not UTF-8, or the job has no site.
    pub fn of(job: &Job, command: Vec<OsString>) -> Result<Self, LaunchError> {
        let text = |word: OsString| {
            let word = word.into_string();
            word.map_err(|word| LaunchError::Site(format!("{} is not UTF-8: use another path", word.display())))
        };
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|source| LaunchError::Folder { path: path.to_owned(), source })
        };
        Ok(Self {
            folder: absolute(&job.folder)?,
            command: command.into_iter().map(text).collect::<Result<_, _>>()?,
            working_folder: job.working_folder.clone(),
            cpus: job.site.as_ref().map_or(1, |site| site.cpus(&job.shape)),
        })
    }

    /// Appends the run to the list of an allocation.
    pub fn append(&self, allocation: &Path) -> io::Result<()> {
        let text = serde_json::to_string(self)? + "\n";
        let options = &mut OpenOptions::new();
        let mut file = foreign::open_ours_with(&allocation.join(LIST_FILE), options.create(true).append(true))?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all())
    }
}

/// The record of a run's step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StepRecord {
    /// How its supervisor ended; `None` while it runs.
    pub exit: Option<Exit>,
    /// Whether it ended because its allocation did.
    #[serde(default)]
    pub is_interrupted: bool,
}

impl StepRecord {
    /// The record in a run's folder; `None` if the run has not begun.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&foreign::read_ours(&folder.join(STEP_FILE), MOST_BYTES).ok()?).ok()
    }

    /// The record of a run that was cancelled before it began.
    pub fn cancelled() -> Self {
        Self { exit: Some(Exit::Signal(Signal::TERM.as_raw())), is_interrupted: false }
    }

    /// Writes the first record of a run, unless there is one; returns whether it did. So a run either begins, or is cancelled before it
    /// begins.
    pub fn claim(self, folder: &Path) -> io::Result<bool> {
        let options = &mut OpenOptions::new();
        match foreign::open_ours_with(&folder.join(STEP_FILE), options.write(true).create_new(true)) {
            Ok(mut file) => file.write_all(&serde_json::to_vec(&self)?).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn write(self, folder: &Path) -> io::Result<()> {
        foreign::write_ours(&folder.join(STEP_FILE), &serde_json::to_vec(&self)?)
    }
}

/// Asks the steward to end the run in this folder, or to kill it.
pub(super) fn ask_to_end(folder: &Path, kills: bool) -> io::Result<()> {
    foreign::write_ours(&folder.join(END_FILE), if kills { &b"kill"[..] } else { b"end" })
}

/// Executes the runs on the list of the allocation in `folder` until a signal ends the job, the list is closed and done, or no run came for
/// `idle`.
///
/// # Errors
/// Its log cannot be written, or Slurm started the job again.
pub fn keep_allocation(folder: &Path, idle: Duration) -> Result<(), String> {
    foreign::keep_files_from_others();
    let signal = processes::signals()?;
    let mut term = Term::of(|| own_job().and_then(|job| tools::time_left(&job)));
    keep(folder, idle, &signal, &mut term)
}

/// The time limit of the steward's job. Slurm starts no step after it, and ends the job up to a minute later.
struct Term<Left> {
    /// `None` as long as Slurm has not given it.
    end: Option<Instant>,
    /// Asks Slurm for the time that is left.
    left: Left,
}

impl<Left: FnMut() -> Option<Duration>> Term<Left> {
    fn of(mut left: Left) -> Self {
        Self { end: left().map(|left| Instant::now() + left), left }
    }

    /// Whether the time limit is reached. Slurm is asked once more first, because an administrator may have raised the limit.
    fn is_over(&mut self) -> bool {
        let is_past = |end: Option<Instant>| end.is_some_and(|end| Instant::now() >= end);
        if is_past(self.end)
            && let Some(left) = (self.left)()
        {
            self.end = Some(Instant::now() + left);
        }
        is_past(self.end)
    }
}

fn keep<Left: FnMut() -> Option<Duration>>(
    folder: &Path,
    idle: Duration,
    signal: &AtomicUsize,
    term: &mut Term<Left>,
) -> Result<(), String> {
    let mut log = GroupLog::open(folder, GROUP_LOG)?;
    if log.has_lines {
        return Err("the scheduler started this job again, but each allocation is started once".to_owned());
    }
    log.note(GroupEvent::SupervisorStarted { hostname: hostname() });
    let (mut done, mut since) = (0, Instant::now());
    // The conductor moves what is left on the list to another allocation.
    while signal.load(Ordering::Relaxed) == 0 && !term.is_over() {
        match lines(folder).into_iter().nth(done) {
            Some(line) => {
                done += 1;
                if let Some(Err(error)) = line.map(|line| execute(&line, signal)) {
                    foreign::say(format_args!("multicard: {error}"));
                }
                since = Instant::now();
            }
            None if folder.join(CLOSE_FILE).exists() || since.elapsed() > idle => break,
            None => thread::sleep(LIST_POLL),
        }
    }
    let number = signal.load(Ordering::Relaxed);
    if number != 0 {
        log.note(GroupEvent::Interrupted { signal: i32::try_from(number).unwrap_or_default() });
    }
    log.note(GroupEvent::SupervisorEnded { well: number == 0 });
    log.finish(|| signal.load(Ordering::Relaxed) != 0);
    Ok(())
}

/// The whole lines of the list; `None` for one that is malformed.
fn lines(folder: &Path) -> Vec<Option<Line>> {
    let text = foreign::read_ours(&folder.join(LIST_FILE), MOST_LIST_BYTES).unwrap_or_default();
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).ok()).collect()
}

/// Executes a run and records its step.
fn execute(line: &Line, signal: &AtomicUsize) -> Result<(), String> {
    let Line { folder, .. } = line;
    let failed = |error: io::Error| format!("{}: {error}", folder.display());
    if !StepRecord::default().claim(folder).map_err(failed)? {
        return Ok(());
    }
    let exit = match start(line) {
        Ok(child) => watch(child, folder, signal),
        Err(error) => {
            let text = format!("multicard: cannot start {}: {error}\n", line.command.join(" "));
            let _ = output(folder, STDERR_FILE).and_then(|mut file| file.write_all(text.as_bytes()));
            Exit::Code(1)
        }
    };
    if !exit.is_success() {
        let until = Instant::now() + TOGETHER;
        while signal.load(Ordering::Relaxed) == 0 && Instant::now() < until {
            thread::sleep(POLL);
        }
    }
    let is_interrupted = !exit.is_success() && (signal.load(Ordering::Relaxed) != 0 || is_refused(folder));
    let record = StepRecord { exit: Some(exit), is_interrupted };
    wait_for_room(|| signal.load(Ordering::Relaxed) != 0, || record.write(folder)).map_err(failed)
}

/// Whether Slurm refused the run's step because the job's time was over. The ranks did not start then, so that srun alone wrote this text.
fn is_refused(folder: &Path) -> bool {
    let text = foreign::read_ours(&folder.join(STDERR_FILE), MOST_BYTES).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().any(|line| line.starts_with("srun: ") && line.ends_with(REFUSED))
}

fn output(folder: &Path, name: &str) -> io::Result<File> {
    let options = &mut OpenOptions::new();
    foreign::open_ours_with(&folder.join(name), options.read(true).append(true).create(true))
}

fn start(line: &Line) -> io::Result<Child> {
    let (name, arguments) = line.command.split_first().ok_or_else(|| io::Error::other("an empty command line"))?;
    let mut command = Command::new(name);
    command.args(arguments).process_group(0).stdin(Stdio::null());
    command.stdout(output(&line.folder, STDOUT_FILE)?).stderr(output(&line.folder, STDERR_FILE)?);
    command.env("SRUN_CPUS_PER_TASK", line.cpus.to_string());
    if let Some(folder) = &line.working_folder {
        command.current_dir(folder);
    }
    command.spawn()
}

/// Waits until a run's supervisor has ended, and ends it on request or when the job ends.
fn watch(mut child: Child, folder: &Path, signal: &AtomicUsize) -> Exit {
    let group = Pid::from_child(&child);
    let mut looked = Instant::now();
    let mut asked_since: Option<Instant> = None;
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => return Exit::from(status),
            Err(_) => return Exit::Code(-1),
        }
        let mut kills = asked_since.is_some_and(|since| since.elapsed() > GRACE);
        let mut is_asked = signal.load(Ordering::Relaxed) != 0;
        if looked.elapsed() >= LIST_POLL {
            looked = Instant::now();
            let request = fs::read(folder.join(END_FILE)).ok();
            is_asked |= request.is_some();
            kills |= request.is_some_and(|request| request == b"kill");
        }
        if is_asked && asked_since.is_none() {
            asked_since = Some(Instant::now());
            // Only the supervisor gets the signal, and ends its step: srun would kill the program.
            let _ = rustix::process::kill_process(group, Signal::TERM);
        }
        if kills {
            // These processes belong to the only run that is executed.
            signal_steps(Signal::KILL);
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        thread::sleep(POLL);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn line(folder: &Path, script: &str) -> Line {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        Line { folder: folder.to_owned(), command, working_folder: None, cpus: 2 }
    }

    /// Keeps the allocation of a job that Slurm leaves so much time, if it tells.
    fn keep_for(folder: &Path, idle: Duration, left: Option<Duration>) -> Result<(), String> {
        keep(folder, idle, &AtomicUsize::new(0), &mut Term::of(|| left))
    }

    /// A run's folder beside the allocation's.
    fn run(home: &Path, name: &str) -> PathBuf {
        let folder = home.join(name);
        fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn the_list_is_done_in_its_order_and_a_line_that_is_not_whole_is_left() {
        let home = tempfile::tempdir().unwrap();
        let at = home.path();
        let (a, b) = (run(at, "a"), run(at, "b"));
        let order = at.join("order");
        line(&a, &format!("echo a >> {}; echo $SRUN_CPUS_PER_TASK; exit 3", order.display())).append(at).unwrap();
        line(&b, &format!("echo b >> {}", order.display())).append(at).unwrap();
        OpenOptions::new().append(true).open(at.join(LIST_FILE)).unwrap().write_all(b"{\"folder\":").unwrap();
        File::create(at.join(CLOSE_FILE)).unwrap();
        keep_for(at, Duration::from_secs(60), None).unwrap();
        assert_eq!(fs::read_to_string(order).unwrap(), "a\nb\n");
        assert_eq!(StepRecord::read(&a).unwrap(), StepRecord { exit: Some(Exit::Code(3)), is_interrupted: false });
        assert_eq!(StepRecord::read(&b).unwrap().exit, Some(Exit::Code(0)));
        assert_eq!(fs::read_to_string(a.join(STDOUT_FILE)).unwrap(), "2\n");
        assert!(super::super::record::has_ended_well(at));
        assert!(keep_for(at, Duration::ZERO, None).unwrap_err().contains("started this job again"));
    }

    #[test]
    fn a_run_that_is_to_end_ends_alone() {
        let home = tempfile::tempdir().unwrap();
        let at = home.path();
        let (a, b, c) = (run(at, "a"), run(at, "b"), run(at, "c"));
        line(&a, &format!("echo end > {}; exec sleep 600", a.join(END_FILE).display())).append(at).unwrap();
        assert!(StepRecord::cancelled().claim(&b).unwrap() && !StepRecord::default().claim(&b).unwrap());
        line(&b, "touch ran").append(at).unwrap();
        line(&c, "true").append(at).unwrap();
        keep_for(at, Duration::ZERO, None).unwrap();
        let exits = [&a, &b, &c].map(|folder| StepRecord::read(folder).unwrap().exit.unwrap());
        assert_eq!(exits, [Exit::Signal(15), Exit::Signal(15), Exit::Code(0)]);
        assert!(!b.join("ran").exists() && !b.join(STDOUT_FILE).exists());
    }

    #[test]
    fn no_run_begins_once_the_time_of_the_job_is_over_unless_the_limit_was_raised() {
        let home = tempfile::tempdir().unwrap();
        let at = home.path();
        let a = run(at, "a");
        line(&a, "true").append(at).unwrap();
        keep_for(at, Duration::from_secs(60), Some(Duration::ZERO)).unwrap();
        assert_eq!(StepRecord::read(&a), None);
        assert!(super::super::record::has_ended_well(at), "its runs go to another allocation");

        let mut answers = [Duration::ZERO, Duration::from_secs(600)].into_iter();
        assert!(!Term::of(|| answers.next()).is_over(), "it was raised");
        let mut answers = [Duration::ZERO].into_iter();
        assert!(Term::of(|| answers.next()).is_over(), "Slurm does not answer again");
    }

    #[test]
    fn a_run_whose_step_slurm_refused_is_interrupted_and_one_that_failed_by_itself_is_not() {
        let home = tempfile::tempdir().unwrap();
        let at = home.path();
        let (a, b) = (run(at, "a"), run(at, "b"));
        let refusal = "srun: error: Unable to create step for job 2: Job/step already completing or completed";
        line(&a, &format!("echo {refusal:?} >&2; exit 1")).append(at).unwrap();
        line(&b, "echo 'the download was already completing or completed' >&2; exit 1").append(at).unwrap();
        keep_for(at, Duration::ZERO, None).unwrap();
        let interrupted = [&a, &b].map(|folder| StepRecord::read(folder).unwrap().is_interrupted);
        assert_eq!(interrupted, [true, false]);
    }
}
