//! The runner of a node: starts a run's program there, watches its processes, and logs them as the rank with the node's number. The first
//! node's runner, which is the only one of most runs, also logs the program's readings.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use super::facts::NamedFiles;
use super::log::Log;
use super::ranks::Ranks;
use super::readings::{Place, READINGS_FILE, READINGS_VARIABLE, Readings};
use super::set_up::{SetUp, try_begin_all};
use super::shared_files::SharedFiles;
use super::watch::{Ended, POLL, Use, watch};
use super::words::{Words, session_folder};
use super::{RECORD_FILE, Record};
use crate::foreign;
use crate::plan::WarmUp;
use crate::plan::command::{CPU_TIME, EXIT_CODE, Filled, PROGRAM_TIME};
use crate::processes::{self, MARKER_VARIABLE};
use crate::protocol::{
    CALLS_VARIABLE, Clock, Device, Event, Exit, FailureKind, Job, MemoryPolicy, PROTOCOL_VERSION, Phase, Program, now_s,
};
use crate::trace;

/// Most characters of a program's output in the message about its failure; the run's folder has all of them.
const MOST_TOLD_CHARS: usize = 600;

/// Runs the program of a job on the node with this number until it has ended, and logs it; returns whether it succeeded. The calling process
/// is dedicated to the job. `starter` is the subcommand that ties a process to its parent and becomes another program. What `sample` makes
/// of the job is kept until the program has ended.
///
/// # Errors
/// The job cannot be read or has no program, or its log cannot be written.
pub fn run<S>(job_path: &Path, node: u32, starter: &str, sample: impl FnOnce(&Job) -> S) -> Result<bool, String> {
    let shown = job_path.display();
    let text = fs::read(job_path).map_err(|error| format!("cannot read the job {shown}: {error}"))?;
    let job: Job = serde_json::from_slice(&text).map_err(|error| format!("the job {shown} is malformed: {error}"))?;
    let Some(mut program) = job.program.clone() else { return Err(format!("the job {shown} has no program")) };
    program.marker = processes::mark(&program.marker, &job.folder)
        .map_err(|error| format!("cannot access the run's folder {}: {error}", job.folder.display()))?;
    let signal = processes::signals()?;
    // If this fails, orphans are found only by the run's marker.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let log = Log::open(&job.folder, &job.run, node)?;
    let ranks = Ranks::new(&job, node);
    let starter = starter.to_owned();
    let _sampler = sample(&job);
    let mut runner = Runner { job, program, ranks, starter, signal, log, injection: Vec::new() };
    let started = Instant::now();
    let (time_s, event) = match runner.run() {
        Ok(End::Well(at)) => {
            (time_of(at), Event::Finished { duration_s: at.saturating_duration_since(started).as_secs_f64() })
        }
        // The process that requested the end records the reason.
        Ok(End::Asked) => return Ok(false),
        Err(Failure { kind, message, rank }) => {
            let name = runner.ranks.name(rank).map_or(String::new(), |name| format!("{name}: "));
            (now_s(), Event::Failed { kind, message: name + &message })
        }
    };
    let well = matches!(event, Event::Finished { .. });
    runner.log.write(&[(time_s, event)]);
    runner.log.finish(&runner.signal)?;
    Ok(well)
}

/// The time of a moment in the past by the machine's clock, in seconds since the Unix epoch.
fn time_of(moment: Instant) -> f64 {
    now_s() - moment.elapsed().as_secs_f64()
}

/// How a run that did not fail ended.
enum End {
    /// The program exited with code 0, and its last process ended at this moment.
    Well(Instant),
    /// A signal requested its end.
    Asked,
}

struct Failure {
    kind: FailureKind,
    message: String,
    /// The rank of the node that failed.
    rank: u32,
}

fn input(message: impl Into<String>) -> Failure {
    Failure { kind: FailureKind::Input, message: message.into(), rank: 0 }
}

struct Runner {
    job: Job,
    program: Program,
    ranks: Ranks,
    starter: String,
    signal: Arc<AtomicUsize>,
    log: Log,
    /// Environment variables that make the tracer record the program.
    injection: Vec<(String, PathBuf)>,
}

impl Runner {
    fn run(&mut self) -> Result<End, Failure> {
        let place = self.job.ranks.first().cloned();
        let gpu_uuid = place.as_ref().and_then(|place| place.gpu_uuid.clone());
        let started = Event::Started {
            protocol_version: PROTOCOL_VERSION,
            pid: std::process::id(),
            torch_version: String::new(),
            device: Device { name: self.program.device.clone(), gpu_uuid },
            world_size: u32::try_from(self.job.ranks.len()).unwrap_or(1),
            seed: self.job.seed,
        };
        self.log.write(&[(now_s(), started), (now_s(), Event::Phase { phase: Phase::Start })]);
        self.inject();
        for (key, value) in Clock::of_node(self.ranks.node()).into_iter().flat_map(Clock::readings) {
            self.log.reading(key, value);
        }
        let (filled, files) = {
            let words = Words::new(&self.job, &self.program, &self.ranks);
            (words.command().map_err(input)?, words.files().map_err(input)?)
        };
        let folder =
            std::path::absolute(filled.folder.as_deref().unwrap_or(".")).map_err(|error| input(error.to_string()))?;
        if !folder.is_dir() {
            return Err(input(format!(
                "the program's folder {} does not exist: correct `folder`, which is relative to the plan's file",
                folder.display()
            )));
        }
        // What the set-up made is kept from being replaced until the program has ended.
        let _made = if filled.setup.is_empty() {
            None
        } else {
            let made = self.set_up(&filled, &folder)?;
            if made.is_none() {
                return Ok(End::Asked);
            }
            made
        };
        let commands = (0..self.ranks.here()).map(|rank| self.command(&filled.run, &filled, &folder, Some(rank)));
        let commands = commands.collect::<Result<Vec<_>, _>>().map_err(input)?;
        let first = commands.first().map(|(executable, _)| executable.clone()).unwrap_or_default();
        let (mut shared, mut what) = (SharedFiles::default(), Use::Measure);
        // A step's units are those of all ranks, which the first one reports.
        if self.ranks.node() == 0 {
            self.record(&filled, &first, &folder);
            shared = self.shared_files(&files, &folder);
            let mut readings = self.readings(&files, &folder)?;
            readings.watch_files();
            what = Use::Read(Box::new(readings));
        }
        let commands = commands.into_iter().map(|(_, command)| command).collect();
        let named = NamedFiles::of(&filled.run, &folder);
        let Ended { exit, place, last_lines, time, at, cpu_s } =
            watch(commands, what, &mut self.log, &self.signal).map_err(input)?;
        for file in named.changed() {
            self.log.warn(format!(
                "{} was changed while the program ran, which may have read either version: run it again",
                file.display()
            ));
        }
        shared.warnings().for_each(|warning| self.log.warn(warning));
        // The time of this event is the end of the program: what it reported may have been read much later.
        let whole = Event::Reading { key: PROGRAM_TIME.into(), value: time.as_secs_f64(), epoch: None, step: None };
        self.log.write(&[(time_of(at), whole)]);
        self.log.reading(CPU_TIME, cpu_s);
        match exit {
            None => Ok(End::Asked),
            Some(exit) => {
                if let Exit::Code(code) = exit {
                    self.log.reading(EXIT_CODE, f64::from(code));
                }
                if exit.is_success() { Ok(End::Well(at)) } else { Err(failure(&filled.run, exit, place, &last_lines)) }
            }
        }
    }

    /// The part that finds the program's readings.
    fn readings(&self, files: &[String], folder: &Path) -> Result<Readings, Failure> {
        let run_folder = std::path::absolute(&self.job.folder).map_err(|error| input(error.to_string()))?;
        let place = Place { run_folder, working_folder: folder.to_owned(), started_s: now_s() };
        let spec = &self.program.command.readings;
        let warm_up = if spec.finds_warm_up { WarmUp::Found } else { WarmUp::Steps(self.job.warm_up_steps) };
        Ok(Readings::new(spec, files, &place, warm_up))
    }

    /// The files of readings that other runs may read, too.
    fn shared_files(&self, files: &[String], folder: &Path) -> SharedFiles {
        let run_folder = std::path::absolute(&self.job.folder).unwrap_or_else(|_| self.job.folder.clone());
        let session = session_folder(&run_folder).unwrap_or(&run_folder);
        SharedFiles::enter(session, &run_folder, files.iter().map(|file| folder.join(file)).collect())
    }

    /// The states of the set-ups that may replace what the run's set-up makes: that of the program's folder comes last. A set-up may also build
    /// outside of it: if the plan writes the folder with placeholders, the state of all folders that they stand for comes first.
    fn set_up_states(&self, filled: &Filled, folder: &Path) -> Result<Vec<SetUp>, Failure> {
        let failed = |error: io::Error| input(format!("cannot record the set-up in the session: {error}"));
        let run_folder = std::path::absolute(&self.job.folder).map_err(failed)?;
        let session = session_folder(&run_folder).unwrap_or(&run_folder);
        // On another machine, the set-up's results are in another place or were made by another user. The nodes of a site share the session
        // and what its set-ups made.
        let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let place = self.job.site.as_ref().map_or(hostname.trim(), |site| &site.name);
        let shared = Words::new(&self.job, &self.program, &self.ranks).shared_command().map_err(input)?;
        // Nodes of a run whose folders differ have one state, so that runs over several nodes never wait for each other in a circle.
        let at = std::path::absolute(shared.folder.as_deref().unwrap_or(".")).map_err(failed)?;
        let at = at.canonicalize().unwrap_or(at);
        let written = self.program.command.written_folder().filter(|written| shared.folder.as_ref() != Some(written));
        let set_up = serde_json::json!([self.job.site.is_some(), place, self.in_container(&shared.setup), shared.env]);
        let set_up_with_folder = serde_json::json!([shared.folder, set_up]);
        let own = serde_json::json!([filled.setup, folder, filled.env]).to_string();
        let of_written = written.as_deref().map(|written| (Path::new(written), &set_up_with_folder));
        let opened = of_written.into_iter().chain([(&*at, &set_up)]).map(|(folder, shared)| {
            SetUp::open(session, folder, &shared.to_string(), &own, self.job.shape.nodes()).map_err(failed)
        });
        opened.collect()
    }

    /// Runs the set-up, unless it was the last one that a run of the session executed in all of these places, whatever command that run had.
    /// Returns what keeps other runs from replacing what it made; `None` if the run is asked to end.
    fn set_up(&mut self, filled: &Filled, folder: &Path) -> Result<Option<Vec<File>>, Failure> {
        let failed = |error: io::Error| input(format!("cannot record the set-up in the session: {error}"));
        let no_lock = |error: io::Error| {
            let advice = foreign::advice(&error).unwrap_or("check the session's disk");
            input(format!(
                "cannot lock the set-up in the session, which other runs may execute meanwhile: {error}; {advice}"
            ))
        };
        let states = self.set_up_states(filled, folder)?;
        if !self.wait_for(|| try_begin_all(&states)).map_err(no_lock)? {
            return Ok(None);
        }
        let into_use = |states: Vec<SetUp>| states.into_iter().map(SetUp::into_use).collect::<io::Result<Vec<File>>>();
        if states.iter().all(SetUp::is_done) {
            return into_use(states).map(Some).map_err(no_lock);
        }
        let (_, command) =
            self.command(&filled.setup, filled, folder, None).map_err(|error| input(format!("setup: {error}")))?;
        states.iter().try_for_each(SetUp::start).map_err(failed)?;
        let Ended { exit, last_lines, .. } =
            watch(vec![command], Use::Keep, &mut self.log, &self.signal).map_err(input)?;
        match exit {
            None => Ok(None),
            Some(exit) if exit.is_success() => {
                states.iter().try_for_each(SetUp::finish).map_err(failed)?;
                into_use(states).map(Some).map_err(no_lock)
            }
            Some(exit) => {
                let failed = failure(&filled.setup, exit, 0, &last_lines);
                Err(Failure { message: format!("setup: {}", failed.message), ..failed })
            }
        }
    }

    /// Makes the tracer record the program, if the job asks for it. If that is impossible, the run continues, because its measurements
    /// count.
    fn inject(&mut self) {
        if !self.job.tracer().is_built_in() {
            return;
        }
        let folder = std::path::absolute(&self.job.folder).unwrap_or_else(|_| self.job.folder.clone());
        match trace::injection(&folder) {
            Ok(injection) => self.injection = injection,
            Err(why) => self.log.warn(format!("there is no trace: {why}")),
        }
    }

    /// The environment variables for the program as one of the node's ranks, or for the set-up, each once; the plan's values take precedence.
    /// What a set-up reports or does must not count as the program's, so it finds neither the file of readings nor the tracer.
    fn environment(&self, filled: &Filled, rank: Option<u32>) -> Vec<(String, OsString)> {
        let folder = std::path::absolute(&self.job.folder).unwrap_or_else(|_| self.job.folder.clone());
        let mut all: Vec<(String, OsString)> = vec![
            (MARKER_VARIABLE.into(), self.program.marker.clone().into()),
            ("MULTICARD_RUN_FOLDER".into(), folder.clone().into()),
            // This makes lines of output arrive when they are printed, not when a buffer is full.
            ("PYTHONUNBUFFERED".into(), "1".into()),
        ];
        // Only the first rank reports its own readings.
        if self.ranks.node() == 0 && rank == Some(0) {
            all.push((READINGS_VARIABLE.into(), folder.join(READINGS_FILE).into()));
        }
        if rank.is_some() {
            all.extend(self.injection.iter().map(|(name, path)| (name.clone(), path.clone().into_os_string())));
            if self.job.without_calls {
                all.push((CALLS_VARIABLE.0.to_owned(), CALLS_VARIABLE.1.into()));
            }
        }
        // The supervisor has set them for this process.
        for name in ["CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS"] {
            all.extend(std::env::var_os(name).map(|value| (name.to_owned(), value)));
        }
        let own = rank.map(|rank| self.ranks.variables(rank)).unwrap_or_default();
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        for (name, value) in own.chain(filled.env.iter().cloned()) {
            all.retain(|(known, _)| *known != name);
            all.push((name, value.into()));
        }
        all
    }

    /// The command of a program as one of the node's ranks, or of the set-up, and the file that it executes.
    fn command(
        &mut self,
        words: &[String],
        filled: &Filled,
        folder: &Path,
        rank: Option<u32>,
    ) -> Result<(PathBuf, Command), String> {
        let environment = self.environment(filled, rank);
        let search = environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        let search = search.or_else(|| std::env::var_os("PATH"));
        let words = self.in_container(words);
        let (name, arguments) = words.split_first().ok_or("the command names no program")?;
        let executable = processes::executable(name, folder, search.as_deref())?;
        let own = std::env::current_exe().map_err(|error| format!("cannot find the path of this program: {error}"))?;
        let mut command = Command::new(own);
        command.arg(&self.starter).arg(std::process::id().to_string());
        command.args(self.memory_policy(search.as_deref()));
        command.arg(&executable).args(arguments);
        // This process may itself have been started by a program of a run.
        command.env_remove(READINGS_VARIABLE);
        command.current_dir(folder).envs(environment).stdin(Stdio::null()).process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok((executable, command))
    }

    /// A command line as the site's container executes it.
    fn in_container(&self, words: &[String]) -> Vec<String> {
        let container = self.job.site.iter().flat_map(|site| &site.container);
        container.chain(words).cloned().collect()
    }

    /// The command in front of the program that sets its memory policy. The supervisor has already bound this process to its CPUs.
    fn memory_policy(&mut self, search: Option<&OsStr>) -> Vec<OsString> {
        let list = |nodes: &[u32]| nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let option = match self.job.ranks.first().and_then(|place| place.memory.as_ref()) {
            None => return Vec::new(),
            Some(MemoryPolicy::Bind { nodes }) => format!("--membind={}", list(nodes)),
            Some(MemoryPolicy::Interleave { nodes }) => format!("--interleave={}", list(nodes)),
        };
        match processes::executable("numactl", Path::new("/"), search) {
            Ok(numactl) => vec![numactl.into(), option.into()],
            Err(_) => {
                self.log.warn(format!(
                    "the program's memory policy ({option}) could not be set: install numactl; only its CPUs are bound"
                ));
                Vec::new()
            }
        }
    }

    /// Records the command line in the run's folder.
    fn record(&mut self, filled: &Filled, executable: &Path, folder: &Path) {
        let environment = self.environment(filled, Some(0));
        let shown = environment.iter().filter(|(name, _)| *name != MARKER_VARIABLE);
        let shown = shown.map(|(name, value)| (name.clone(), value.to_string_lossy().into_owned()));
        let record = Record {
            command_line: self.in_container(&filled.run),
            executable: executable.to_owned(),
            folder: folder.to_owned(),
            environment: shown.collect(),
        };
        let text = serde_json::to_string_pretty(&record).unwrap_or_default();
        if let Err(error) = fs::write(self.job.folder.join(RECORD_FILE), text + "\n") {
            self.log.warn(format!("cannot write {RECORD_FILE}: {error}: the run's command line is not recorded"));
        }
    }

    /// Waits until a lock is free; returns `false` if the run is asked to end first.
    fn wait_for(&self, try_lock: impl Fn() -> Result<(), TryLockError>) -> io::Result<bool> {
        loop {
            match try_lock() {
                Ok(()) => return Ok(true),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if self.is_asked_to_end() => return Ok(false),
                Err(TryLockError::WouldBlock) => thread::sleep(POLL),
            }
        }
    }

    fn is_asked_to_end(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }
}

/// Why a program failed as this rank of its node, with the end of its output.
fn failure(words: &[String], exit: Exit, rank: u32, last_lines: &str) -> Failure {
    let lower = last_lines.to_lowercase();
    let kind = if lower.contains("out of memory") || lower.contains("outofmemory") {
        FailureKind::OutOfMemory
    } else {
        FailureKind::Engine
    };
    let name = words.first().map_or("the program", String::as_str);
    let how = match exit {
        Exit::Code(code) => format!("exited with code {code}"),
        Exit::Signal(9) => {
            "was killed by SIGKILL, possibly by the kernel's out-of-memory killer (see the kernel's log)".to_owned()
        }
        Exit::Signal(signal) => format!(
            "was ended by {}",
            signal_hook::low_level::signal_name(signal).map_or(format!("signal {signal}"), str::to_owned)
        ),
    };
    let output_note = if last_lines.is_empty() {
        "; it printed nothing".to_owned()
    } else {
        format!("; end of its output: {}", foreign::shortened(last_lines, MOST_TOLD_CHARS))
    };
    Failure { kind, message: format!("{name} {how}{output_note}"), rank }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::{Data, Shape, command, image};

    /// A runner in the folder of a run, whose program has this set-up.
    fn runner(run_folder: &Path, setup: &[&str]) -> (Runner, Filled) {
        fs::create_dir_all(run_folder).unwrap();
        let mut job = Job::new(image::KEY.into(), image::spec().levels(&[]), Shape::default(), Data::of_set("digits"));
        job.folder = run_folder.to_owned();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let command = command::Command { run: words(&["true"]), setup: words(setup), ..Default::default() };
        let program = Program { command, repeat: 1, marker: String::new(), device: "cpu".to_owned() };
        let ranks = Ranks::new(&job, 0);
        let filled = Words::new(&job, &program, &ranks).command().unwrap();
        let log = Log::open(run_folder, "", 0).unwrap();
        let signal = Arc::default();
        let runner = Runner { job, program, ranks, starter: String::new(), signal, log, injection: Vec::new() };
        (runner, filled)
    }

    #[test]
    fn a_failure_tells_the_start_and_the_end_of_a_long_output_and_what_it_means() {
        let output = format!("begin {}CUDA out of memory{} end", "x".repeat(2_000), "x".repeat(2_000));
        let failed = failure(&["train".to_owned()], Exit::Code(1), 0, &output);
        assert_eq!(failed.kind, FailureKind::OutOfMemory);
        let text = &failed.message;
        assert!(text.starts_with("train exited with code 1; end of its output: begin x"), "{text}");
        assert!(text.ends_with("x end") && text.contains('…') && text.chars().count() < 700, "{text}");
    }

    #[test]
    fn of_the_ranks_only_rank_0_is_told_where_to_write_readings() {
        let folder = tempfile::tempdir().unwrap();
        let (mut runner, filled) = runner(folder.path(), &[]);
        runner.job.shape.ranks_per_node = 2;
        let mut is_told = |node, rank| {
            runner.ranks = Ranks::new(&runner.job, node);
            let (_, command) = runner.command(&filled.run, &filled, folder.path(), Some(rank)).unwrap();
            let mut variables = command.get_envs();
            variables.find(|(name, _)| **name == *READINGS_VARIABLE).map(|(_, value)| value.is_some())
        };
        assert_eq!([is_told(0, 0), is_told(0, 1), is_told(1, 0)], [Some(true), Some(false), Some(false)]);
    }

    #[test]
    fn a_set_up_finds_neither_the_file_of_readings_nor_the_tracer_of_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let (mut runner, filled) = runner(folder.path(), &["true"]);
        runner.injection = vec![("TRACER".to_owned(), PathBuf::from("tracer.so"))];
        runner.job.without_calls = true;
        let finds = |rank| {
            let environment = runner.environment(&filled, rank);
            let is_set = |name: &str| environment.iter().any(|(known, _)| *known == *name);
            ["MULTICARD_RUN_FOLDER", READINGS_VARIABLE, "TRACER", CALLS_VARIABLE.0].map(is_set)
        };
        assert_eq!(finds(Some(0)), [true; 4]);
        assert_eq!(finds(None), [true, false, false, false]);
    }

    /// How many open descriptors this process has for a file.
    fn times_open(file: &Path) -> usize {
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter(|entry| fs::read_link(entry.path()).is_ok_and(|path| path == *file)).count()
    }

    #[test]
    fn a_run_waits_for_the_set_up_of_another_and_does_not_repeat_it_unless_it_is_asked_to_end() {
        let session = tempfile::tempdir().unwrap();
        let session = session.path().canonicalize().unwrap();
        let (first, second) = (session.join("runs/1"), session.join("runs/2"));
        // A set-up that cannot be started fails, and does not keep other runs from beginning.
        let (mut runner_of_first, filled) = runner(&first, &["/nonexistent/setup"]);
        assert!(runner_of_first.set_up(&filled, &session).is_err());
        let states = runner_of_first.set_up_states(&filled, &session).map_err(|failure| failure.message).unwrap();
        let [executing] = <[SetUp; 1]>::try_from(states).ok().unwrap();
        executing.try_begin().unwrap();
        let is_turn = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "turn");
        let mut files = fs::read_dir(session.join("setup")).unwrap().map(|entry| entry.unwrap().path());
        let lock = files.find(is_turn).unwrap();
        let (mut waiting, filled) = runner(&second, &["/nonexistent/setup"]);
        let folder = session.clone();
        let set_up = move || waiting.set_up(&filled, &folder).map_err(|failure| failure.message);
        let waits = thread::Builder::new().name("set-up".to_owned()).spawn(set_up).unwrap();
        while times_open(&lock) < 2 {
            thread::sleep(POLL / 10);
        }
        thread::sleep(POLL);
        // The other run has done it.
        executing.finish().unwrap();
        let used = executing.into_use().unwrap();
        assert!(waits.join().unwrap().unwrap().is_some());
        drop(used);
        // On a file system without locks, no run waits for a lock.
        let refused = || Err(TryLockError::Error(rustix::io::Errno::NOLCK.into()));
        let (unlocked, _) = runner(&second, &[]);
        assert_eq!(unlocked.wait_for(refused).map_err(|error| error.raw_os_error()), Err(Some(37)));
        // A run that is asked to end does not wait.
        let held = File::open(&lock).unwrap();
        held.try_lock().unwrap();
        let (mut asked, filled) = runner(&second, &["/nonexistent/setup"]);
        asked.signal.store(15, Ordering::Relaxed);
        assert!(asked.set_up(&filled, &session).map_err(|failure| failure.message).unwrap().is_none());
    }
}
