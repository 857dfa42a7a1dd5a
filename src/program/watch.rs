//! Watches a program: passes on and reads its output, measures its processes, and ends all of them when the program ends.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use procfs_core::FromRead;
use procfs_core::process::Stat;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions};

use super::exits::Exits;
use super::keep::Keep;
use super::log::Log;
use super::readings::{Readings, Stream};
use crate::foreign;
use crate::plan::command::PEAK_RESIDENT;
use crate::processes::{self, Process};
use crate::protocol::{Event, Exit, now_s};

/// Time between the request to end and SIGKILL. The supervisor kills the runner after 5 s.
const GRACE: Duration = Duration::from_secs(3);
/// Time between the request to end and SIGKILL for processes that a program leaves running when it ends by itself.
const LEFTOVER_GRACE: Duration = Duration::from_secs(1);
/// Interval between checks of the program and its readings.
pub const POLL: Duration = Duration::from_millis(100);
/// Interval between the first readings of its processes' memory and CPU time; each further one is twice as long.
const FIRST_MEMORY_POLL: Duration = Duration::from_millis(5);
/// Longest interval between these readings. One reading takes some milliseconds.
const MEMORY_POLL: Duration = Duration::from_secs(1);
/// Time limit for the last output, once no process is left.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
/// Longest time spent on output that has already arrived.
const DRAIN: Duration = Duration::from_millis(20);
/// The requests to end reach a program and this process within this time of each other.
const TOGETHER: Duration = Duration::from_millis(500);
/// The most pieces of output that wait to be processed.
const PIECES: usize = 64;

/// How a program's output is used.
pub enum Use {
    /// It is kept.
    Keep,
    /// Its processes are measured, too.
    Measure,
    /// Readings are found in it, too.
    Read(Box<Readings>),
}

/// A program that has ended, with all of its processes.
pub struct Ended {
    /// Its exit; `None` if it was asked to end. Of several processes, the first that failed.
    pub exit: Option<Exit>,
    /// The place of that process among those that were started.
    pub place: u32,
    /// The end of its output.
    pub last_lines: String,
    /// The time from its start to its exit.
    pub time: Duration,
    /// When the last of its processes ended, including those that it left running.
    pub at: Instant,
    /// CPU time of its processes, in seconds.
    pub cpu_s: f64,
}

/// Starts a program, once for each command, and watches it until all of its processes have ended. If one fails, the others are ended. A number
/// in `signal` requests its end.
///
/// # Errors
/// A process of the program cannot be started.
pub fn watch(commands: Vec<Command>, what: Use, log: &mut Log, signal: &AtomicUsize) -> Result<Ended, String> {
    // A set-up may have run before.
    let cpu_ticks_before = children_cpu_ticks();
    let begun = Instant::now();
    let (sender, pieces) = sync_channel(PIECES);
    let children = start_all(commands, &sender)?;
    let exits = Exits::of(&children);
    drop(sender);
    let is_measured = !matches!(what, Use::Keep);
    let mut watched = Watched {
        log,
        readings: if let Use::Read(readings) = what { Some(*readings) } else { None },
        is_measured,
        streams: children.iter().map(|_| kept()).collect(),
        pieces,
        open: true,
        events: Vec::new(),
        polled: Instant::now(),
        last: Moment::now(),
        seen: Seen {
            peak_bytes: 0,
            cpu_ticks: HashMap::new(),
            starters: children.iter().map(Child::id).collect(),
            next: Instant::now(),
            interval: FIRST_MEMORY_POLL,
        },
    };
    let own = std::process::id();
    let mut waited: Vec<(usize, Child)> = children.into_iter().enumerate().collect();
    let mut cause: Option<Cause> = None;
    while !waited.is_empty() && cause.is_none() {
        watched.advance(POLL.min(watched.seen.interval));
        let ended = reap(&mut waited);
        let is_asked = signal.load(Ordering::Relaxed) != 0;
        cause = cause_to_end(&ended, is_asked, || is_told_soon(signal, &mut watched));
    }
    let is_requested = cause == Some(Cause::Asked);
    let is_ended_early = is_requested || !waited.is_empty();
    if is_ended_early {
        let (_, left) = processes::end(|| processes::descendants(own), GRACE, || watched.advance(Duration::ZERO));
        watched.unkillable(&left);
        reap(&mut waited);
    }
    let (place, exit) = match cause {
        Some(Cause::Failed(place, exit)) => (place, exit),
        Some(Cause::Asked) | None => (0, Exit::Code(0)),
    };
    let exited = exits.last();
    let (leftovers, left) = processes::end(
        || {
            reap_orphans();
            processes::descendants(own)
        },
        LEFTOVER_GRACE,
        || watched.advance(Duration::ZERO),
    );
    let at = if leftovers.is_empty() { exited } else { Instant::now() };
    if !leftovers.is_empty() && !is_ended_early {
        let message = format!(
            "the program left processes running when it ended: {}; multicard ended them",
            processes::named(&leftovers)
        );
        watched.log.warn(message);
    }
    watched.unkillable(&left);
    reap_orphans();
    let counted = children_cpu_ticks().saturating_sub(cpu_ticks_before);
    // The CPU time of a process that cannot be killed is not counted yet.
    let cpu_s = seconds(if left.is_empty() { watched.cpu_ticks(counted) } else { counted });
    let last_lines = watched.finish(place);
    let place = u32::try_from(place).unwrap_or_default();
    let time = exited.saturating_duration_since(begun);
    Ok(Ended { exit: (!is_requested).then_some(exit), place, last_lines, time, at, cpu_s })
}

/// Why the processes of a program that are left are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// This process was asked to end.
    Asked,
    /// The process at this place among those that were started failed.
    Failed(usize, Exit),
}

/// Why the rest of a program must end, given the processes that have ended since the last check; `None` if the program continues. A process
/// that was ended by a signal has not failed if the signal asks this process to end, too: `is_told_soon` waits for that.
fn cause_to_end(ended: &[(usize, Exit)], is_asked: bool, is_told_soon: impl FnOnce() -> bool) -> Option<Cause> {
    let Some((place, exit)) = ended.iter().copied().find(|(_, exit)| !exit.is_success()) else {
        return is_asked.then_some(Cause::Asked);
    };
    let is_asked = may_be_signalled(exit) && is_told_soon();
    Some(if is_asked { Cause::Asked } else { Cause::Failed(place, exit) })
}

/// Whether a program may have been ended by a signal; a shell turns the signal of its last program into a code.
fn may_be_signalled(exit: Exit) -> bool {
    matches!(exit, Exit::Signal(_) | Exit::Code(129..))
}

/// Whether this process also receives a request to end within a short time: Slurm sends its signals to all processes of a step, one after
/// the other.
fn is_told_soon(signal: &AtomicUsize, watched: &mut Watched) -> bool {
    let until = Instant::now() + TOGETHER;
    while signal.load(Ordering::Relaxed) == 0 && Instant::now() < until {
        watched.advance(Duration::from_millis(10));
    }
    signal.load(Ordering::Relaxed) != 0
}

/// Starts a process for each command, whose output goes to `sender`.
fn start_all(commands: Vec<Command>, sender: &SyncSender<Piece>) -> Result<Vec<Child>, String> {
    let mut children = Vec::new();
    for (place, mut command) in commands.into_iter().enumerate() {
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                processes::end(|| processes::descendants(std::process::id()), Duration::ZERO, || ());
                return Err(format!("cannot start a process: {error}"));
            }
        };
        read_pipe(place, Stream::Output, child.stdout.take(), sender.clone());
        read_pipe(place, Stream::Error, child.stderr.take(), sender.clone());
        children.push(child);
    }
    Ok(children)
}

/// The kept parts of the standard output and the standard error of a process.
fn kept() -> [Keep<Box<dyn Write>>; 2] {
    [Keep::new(Box::new(io::stdout()), "standard output"), Keep::new(Box::new(io::stderr()), "standard error")]
}

/// A piece of output.
struct Piece {
    /// Which process wrote it.
    place: usize,
    stream: Stream,
    bytes: Vec<u8>,
    /// When it was read. The reading thread does nothing else, while the processing of the piece may be delayed on a busy machine.
    read: Moment,
}

/// A program that is being watched.
struct Watched<'a> {
    log: &'a mut Log,
    /// Readings of its first process.
    readings: Option<Readings>,
    is_measured: bool,
    /// Standard output and standard error of each process.
    streams: Vec<[Keep<Box<dyn Write>>; 2]>,
    pieces: Receiver<Piece>,
    /// Whether more output may come.
    open: bool,
    events: Vec<(f64, Event)>,
    polled: Instant,
    /// The time of the last piece that was processed.
    last: Moment,
    seen: Seen,
}

impl Watched<'_> {
    /// Processes the output that arrives within some time, and everything else that is due.
    fn advance(&mut self, time: Duration) {
        let started = Instant::now();
        loop {
            match self.pieces.recv_timeout(time.saturating_sub(started.elapsed())) {
                Ok(piece) => self.take(&piece),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    self.open = false;
                    // The program may continue after closing its output.
                    thread::sleep(time.saturating_sub(started.elapsed()).min(Duration::from_millis(5)));
                    break;
                }
            }
            // A program may write faster than this thread reads.
            if started.elapsed() >= time.max(DRAIN) {
                break;
            }
        }
        self.seen.look();
        if self.polled.elapsed() >= POLL {
            self.polled = Instant::now();
            let now = Moment::now();
            self.comes_to(now);
            if let Some(readings) = &mut self.readings {
                readings.poll(now.clock_s, &mut self.events);
            }
            self.write_events();
        }
    }

    /// Tells the readings if the machine's clock was set since the last piece.
    fn comes_to(&mut self, now: Moment) {
        let last = std::mem::replace(&mut self.last, now);
        if let (Some(readings), Some(by_s)) = (&mut self.readings, now.clock_set_since(last)) {
            readings.clock_set(last.clock_s, now.clock_s, by_s);
        }
    }

    fn take(&mut self, piece: &Piece) {
        let Piece { place, stream, bytes, read } = piece;
        let [output, errors] = &mut self.streams[*place];
        let keep = if *stream == Stream::Output { output } else { errors };
        match keep.push(bytes) {
            Ok(None) => {}
            Ok(Some(message)) => self.log.warn(message),
            Err(error) => self.log.warn(lost_output(&error)),
        }
        self.comes_to(*read);
        if let (Some(readings), 0) = (&mut self.readings, *place) {
            readings.output(*stream, bytes, read.clock_s);
        }
    }

    fn write_events(&mut self) {
        // Even if there are none: earlier ones may wait for room on the disk.
        self.log.write(&self.events);
        self.events.clear();
    }

    fn unkillable(&mut self, left: &[Process]) {
        if !left.is_empty() {
            self.log.warn(format!("{} cannot be killed and may still hold GPUs", processes::named(left)));
        }
    }

    /// CPU time of all processes in clock ticks, given what the system counted for those that have ended. If a process ignores SIGCHLD, the
    /// system counts the time of its children for nobody, and what was seen of them is the least that they took.
    fn cpu_ticks(&mut self, counted: u64) -> u64 {
        let seen: u64 = self.seen.cpu_ticks.values().sum();
        // Each number of ticks is rounded.
        let is_less = seen > counted.saturating_add(rustix::param::clock_ticks_per_second() / 20);
        if !(self.is_measured && is_less) {
            return counted;
        }
        self.log.warn(format!(
            "cpu_time_s is too low: a process of the program ignores SIGCHLD, and the system then counts the CPU time of its children for \
                 nobody; the program took at least {:.1} s",
            seconds(seen)
        ));
        seen
    }

    /// The first process that printed something, if the process whose output is read (the first of all) printed nothing.
    fn speaker_beside_silent_first(&self) -> Option<usize> {
        let has_printed = |streams: &[Keep<Box<dyn Write>>; 2]| streams.iter().any(|keep| !keep.is_empty());
        let speaker = self.streams.iter().position(has_printed)?;
        (speaker > 0).then_some(speaker)
    }

    /// Processes the last output and readings; returns the end of the output of one process for a message.
    fn finish(mut self, place: usize) -> String {
        let until = Instant::now() + LAST_OUTPUT;
        while self.open && Instant::now() < until {
            self.advance(Duration::from_millis(10));
        }
        if let Some(readings) = &mut self.readings {
            readings.finish(now_s(), &mut self.events);
            let found_nothing = readings.found_nothing();
            self.write_events();
            if let Some(rank) = self.speaker_beside_silent_first().filter(|_| found_nothing) {
                self.log.warn(format!(
                    "there are no readings: only the output of rank 0 is searched for them, which printed nothing, while rank {rank} did; \
                         let rank 0 print the steps"
                ));
            }
        }
        // A program may have ended before its memory was read once.
        if self.is_measured && self.seen.peak_bytes > 0 {
            self.log.reading(PEAK_RESIDENT, self.seen.peak_bytes as f64);
        }
        for keep in self.streams.iter_mut().flatten() {
            if let Err(error) = keep.finish() {
                self.log.warn(lost_output(&error));
            }
        }
        let Some([output, errors]) = self.streams.get(place) else { return String::new() };
        let stderr = errors.last_lines();
        if stderr.is_empty() { output.last_lines() } else { stderr }
    }
}

fn lost_output(error: &io::Error) -> String {
    format!("a part of the program's output is missing, as it could not be written: {error}")
}

/// A moment in two clocks: the machine's clock, which may be set at any time, and one that cannot be set.
#[derive(Clone, Copy)]
struct Moment {
    /// Seconds since the Unix epoch.
    clock_s: f64,
    passed: Instant,
}

impl Moment {
    /// The longest time between the readings of both clocks; the system may interrupt the process in between.
    const APART: Duration = Duration::from_millis(1);
    /// If the clocks differ by less than this, the clock was not set.
    const STEP_S: f64 = 0.05;

    fn now() -> Self {
        // On a machine that is always busy, the last attempt is as good as any.
        for _ in 0..10 {
            let (passed, clock_s) = (Instant::now(), now_s());
            if passed.elapsed() < Self::APART {
                return Self { clock_s, passed };
            }
        }
        Self { clock_s: now_s(), passed: Instant::now() }
    }

    /// The seconds by which the machine's clock was set since `other`; `None` if it was not set.
    fn clock_set_since(self, other: Self) -> Option<f64> {
        let passed = self.passed.saturating_duration_since(other.passed).as_secs_f64();
        // Moments from several threads need not be in order.
        let passed_s = passed - other.passed.saturating_duration_since(self.passed).as_secs_f64();
        let by_s = self.clock_s - other.clock_s - passed_s;
        // Time synchronisation makes the clock run slightly faster or slower, by at most 1 in 1,000.
        (by_s.abs() > Self::STEP_S + passed_s.abs() / 1000.0).then_some(by_s)
    }
}

/// What was seen of all descendants of this process: their memory and CPU time.
struct Seen {
    peak_bytes: u64,
    /// CPU time of each process when it was seen last, in clock ticks, by its id and its start.
    cpu_ticks: HashMap<(u32, u64), u64>,
    /// The processes that will become the program; until then they are still this executable.
    starters: Vec<u32>,
    next: Instant,
    interval: Duration,
}

impl Seen {
    /// Looks at the processes if it is due: often at first, so that short programs have a value, too.
    fn look(&mut self) {
        if Instant::now() < self.next {
            return;
        }
        let own = processes::own_name();
        let mut below = processes::descendants(std::process::id());
        self.cpu_ticks.extend(below.iter().map(|process| ((process.pid, process.start), process.cpu_ticks)));
        below.retain(|process| !self.starters.contains(&process.pid) || process.name != own);
        self.peak_bytes = self.peak_bytes.max(below.iter().map(|process| process.resident_bytes).sum());
        self.next = Instant::now() + self.interval;
        self.interval = (self.interval * 2).min(MEMORY_POLL);
    }
}

/// Reads a pipe on a thread and passes its bytes on; the thread ends with the pipe.
fn read_pipe(place: usize, stream: Stream, pipe: Option<impl Read + Send + 'static>, sender: SyncSender<Piece>) {
    let Some(mut pipe) = pipe else { return };
    let read = move || {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    let piece = Piece { place, stream, bytes: buffer[..count].to_vec(), read: Moment::now() };
                    if sender.send(piece).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    };
    if let Err(error) = thread::Builder::new().name("output".to_owned()).spawn(read) {
        foreign::say(format_args!("multicard: cannot read the program's output: {error}"));
    }
}

/// Removes the processes of the program that have ended, and returns their places and exits. Ended orphans are reaped at the same time.
fn reap(waited: &mut Vec<(usize, Child)>) -> Vec<(usize, Exit)> {
    let mut ended = Vec::new();
    waited.retain_mut(|(place, child)| {
        let exit = match child.try_wait() {
            Ok(None) => return true,
            Ok(Some(status)) => Exit::from(status),
            Err(_) => Exit::Code(-1),
        };
        ended.push((*place, exit));
        false
    });
    reap_orphans_but(&waited.iter().map(|(_, child)| child.id()).collect::<Vec<_>>());
    ended
}

fn reap_orphans() {
    reap_orphans_but(&[]);
}

/// Reaps children that have ended, except those that another part of the program waits for.
fn reap_orphans_but(kept: &[u32]) {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if !matches!(rustix::process::waitid(WaitId::All, look), Ok(Some(_))) {
        return;
    }
    // A child has ended, but the answer does not say which child.
    for pid in zombies_of(std::process::id(), kept) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// Children of a process that have ended and wait to be reaped, except the `kept` ones.
fn zombies_of(parent: u32, kept: &[u32]) -> Vec<u32> {
    let stats = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        Stat::from_file(format!("/proc/{pid}/stat")).ok()
    });
    let zombies = stats.filter(|stat| stat.state == 'Z' && u32::try_from(stat.ppid) == Ok(parent));
    zombies.filter_map(|stat| u32::try_from(stat.pid).ok()).filter(|pid| !kept.contains(pid)).collect()
}

/// CPU time of all children that have ended, in clock ticks.
fn children_cpu_ticks() -> u64 {
    let stat = Stat::from_file("/proc/self/stat").ok();
    stat.and_then(|stat| u64::try_from(stat.cutime.saturating_add(stat.cstime)).ok()).unwrap_or_default()
}

/// Clock ticks as seconds.
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_program_goes_on_until_a_process_of_it_fails_or_its_end_is_requested() {
        let cause = |ended: &[(usize, Exit)], is_asked: bool| {
            cause_to_end(ended, is_asked, || panic!("no signal can have ended any of these"))
        };
        let (well, failed) = ((0, Exit::Code(0)), (1, Exit::Code(3)));
        assert_eq!((cause(&[], false), cause(&[well], false)), (None, None));
        assert_eq!((cause(&[], true), cause(&[well], true)), (Some(Cause::Asked), Some(Cause::Asked)));
        let first = Some(Cause::Failed(1, Exit::Code(3)));
        assert_eq!(cause(&[well, failed, (2, Exit::Code(4))], false), first);
        assert_eq!(cause(&[failed], true), first, "it failed before it could be asked");
    }

    #[test]
    fn a_process_that_a_signal_ended_has_failed_unless_the_runner_is_told_to_end_as_well() {
        for exit in [Exit::Signal(15), Exit::Code(143)] {
            assert_eq!(cause_to_end(&[(2, exit)], false, || true), Some(Cause::Asked));
            assert_eq!(cause_to_end(&[(2, exit)], false, || false), Some(Cause::Failed(2, exit)));
        }
    }

    #[test]
    fn a_child_whose_exit_is_waited_for_is_not_among_those_to_reap() {
        let mut waited = Command::new("true").spawn().unwrap();
        let mut orphan = Command::new("true").spawn().unwrap();
        let (own, start) = (std::process::id(), Instant::now());
        let have_ended = |children: [u32; 2]| {
            let zombies = zombies_of(own, &[]);
            children.iter().all(|child| zombies.contains(child))
        };
        while !have_ended([waited.id(), orphan.id()]) {
            assert!(start.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(2));
        }
        let to_reap = zombies_of(own, &[waited.id()]);
        assert_eq!((to_reap.contains(&waited.id()), to_reap.contains(&orphan.id())), (false, true));
        assert!(waited.wait().unwrap().success() && orphan.wait().unwrap().success());
    }
}
