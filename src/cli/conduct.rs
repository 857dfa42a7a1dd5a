//! `multicard conduct`, `attach` and `stop`: run a session's queue, follow a session, and stop its runs.

use std::io::{IsTerminal as _, Write};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use super::follow::{EventFormat, Following, interrupts};
use super::remote::{Far, Place, only_here};
use super::{INTERRUPTED, OK, Outcome, say};
use crate::analysis::counted;
use crate::conduct::{Client, ConductError, LOCKED, Order, READY, end_conductor_of_renamed, serve};
use crate::foreign;
use crate::session::{Machine, Session, SessionError, digest_of_programs};
use crate::store::{Reader, StoreError};

#[derive(Args)]
pub(super) struct ConductArguments {
    /// Session folder, created if missing.
    session: PathBuf,
    /// How many seconds the process stays when it has nothing to do and no client is attached.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    linger: f64,
    /// Leave the terminal's session, and print a line on stdout when clients can connect.
    #[arg(long, hide = true)]
    detached: bool,
}

#[derive(Args)]
pub(super) struct AttachArguments {
    /// Session folder, the name of a session in the default folder, or ssh://[user@]host/path.
    session: PathBuf,
    /// Write events to stdout in this format. Default: nothing.
    #[arg(long, value_enum)]
    format: Option<EventFormat>,
    /// First resume the queue, if it is paused.
    #[arg(long)]
    resume: bool,
    /// With --resume: allow the programs that came with the session's archive, without asking.
    #[arg(long, requires = "resume")]
    allow_programs: bool,
}

#[derive(Args)]
pub(super) struct StopArguments {
    /// Session folder, the name of a session in the default folder, or ssh://[user@]host/path.
    session: PathBuf,
    /// Let active runs go on to their end; cancel only the queued ones.
    #[arg(long)]
    queued: bool,
    /// If the process that runs the session does not answer for 10 s, end that process first.
    #[arg(long, conflicts_with = "queued")]
    now: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=1e9).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds from 0 to 1e9".to_owned()),
    }
}

pub(super) fn conduct(arguments: &ConductArguments) -> Outcome {
    only_here(&arguments.session, "conduct")?;
    if arguments.detached {
        let_go();
        // Neither a closed terminal nor its Ctrl-C ends it.
        rustix::process::setsid().map_err(|error| format!("cannot leave the terminal's session: {error}"))?;
    }
    let stop = interrupts()?;
    let folder = std::path::absolute(&arguments.session)?;
    let session = Session::open_and_restore(&folder, Machine::look());
    if let (true, Err(SessionError::Store(StoreError::InUse { .. }))) = (arguments.detached, &session) {
        tell(LOCKED);
    }
    let ready = || {
        if arguments.detached {
            tell(READY);
        } else {
            say(format_args!("conducting {} (process {})", folder.display(), std::process::id()));
        }
    };
    serve(session?, Duration::from_secs_f64(arguments.linger), &stop, ready)?;
    Ok(OK)
}

/// Closes all files that this process inherited from the one that started it, except input, output and errors. A script may wait until
/// every copy of its output is closed, and a login over ssh does not end while its output is open elsewhere. This process has not opened
/// any file of its own yet.
fn let_go() {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<RawFd> = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // One of the descriptors was that of the list of descriptors, which has been read and closed.
    let is_open = |number: &RawFd| Path::new(&format!("/proc/self/fd/{number}")).symlink_metadata().is_ok();
    for number in numbers.into_iter().filter(|number| *number > 2 && is_open(number)) {
        #[expect(unsafe_code, reason = "no crate closes a number safely")]
        // SAFETY: the process has just started, and no value in it owns an open file yet; so no value will use or close this file
        // descriptor after it is closed here.
        unsafe {
            rustix::io::close(number);
        }
    }
}

/// Prints a line for the process that started this one.
fn tell(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // It may have ended.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// Follows a session until nothing is left to do. An interrupt ends only the following; the runs go on.
pub(super) fn attach(arguments: &AttachArguments) -> Outcome {
    let mut place = Place::of(&arguments.session)?;
    let mut resumes = arguments.resume;
    loop {
        let resume = resumes.then_some(Resuming { allows_programs: arguments.allow_programs });
        let outcome = attach_to(&place, arguments.format, resume);
        match (&mut place, outcome) {
            (Place::There(far), Err(_)) if far.was_cut() => {
                if !far.wait(&*interrupts()?)? {
                    say(format_args!("the runs go on: multicard attach {}", far.address()));
                    return Ok(INTERRUPTED);
                }
                // It was done, or its answer was lost on the way.
                resumes = false;
            }
            (_, outcome) => return outcome,
        }
    }
}

/// How a paused queue is resumed.
#[derive(Clone, Copy)]
struct Resuming {
    /// Whether programs that came with an archive are allowed without asking.
    allows_programs: bool,
}

/// Resumes a paused queue. Programs that came with the session's archive are shown first, and the user is asked once a session.
fn resume(following: &mut Following, resuming: Resuming, session: &str) -> Result<(), Box<dyn std::error::Error>> {
    let programs = following.queue().asks.clone();
    if !programs.is_empty() {
        say("this session came with an archive, and its runs start programs that somebody else wrote:");
        // Whole, however long they are: nothing may hide behind a cut.
        programs.iter().try_for_each(|line| writeln!(std::io::stderr(), "  {}", foreign::printable(line)))?;
        if !(resuming.allows_programs || is_agreed("Run them on this machine, under your account?")?) {
            let answer = "nothing was started; if you trust these programs: multicard attach --resume --allow-programs";
            return Err(format!("{answer} {session}").into());
        }
        following.order(Order::Allow(digest_of_programs(&programs)))?;
    }
    following.order(Order::Pause(false))?;
    Ok(())
}

/// Asks the user at the terminal a question. Without a terminal, the answer is no.
fn is_agreed(question: &str) -> std::io::Result<bool> {
    let (mut errors, input) = (std::io::stderr(), std::io::stdin());
    if !(input.is_terminal() && errors.is_terminal()) {
        return Ok(false);
    }
    write!(errors, "{question} [y/N] ")?;
    errors.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn attach_to(place: &Place, format: Option<EventFormat>, resuming: Option<Resuming>) -> Outcome {
    let Some(client) = conductor(place, format == Some(EventFormat::Json))? else {
        say(format_args!("nothing runs in this session. Results: multicard table {}", place.name()));
        return Ok(OK);
    };
    let mut following = Following::new(client, None, place.folder(), format, interrupts()?)?;
    following.await_queue()?;
    if let Some(resuming) = resuming {
        resume(&mut following, resuming, &place.name())?;
    }
    let paused = |following: &Following| {
        let queued = following.queued().len();
        say(format_args!(
            "the queue is paused with {}: multicard attach {} --resume",
            counted(queued, "run"),
            place.name()
        ));
    };
    let (unfinished, queued) = (following.unfinished().len(), following.queued().len());
    if following.queue().paused && queued > 0 {
        let active = unfinished - queued;
        if active > 0 {
            say(format_args!("{} under way; Ctrl-C leaves them running", counted(active, "run")));
        }
        paused(&following);
        if following.queue().stands_still() {
            return Ok(INTERRUPTED);
        }
    } else {
        say(format_args!("{} under way or queued; Ctrl-C leaves them running", counted(unfinished, "run")));
    }
    following.say_waits();
    following.watch()?;
    if following.queue().is_resting() {
        paused(&following);
        return Ok(INTERRUPTED);
    }
    if following.queue().is_idle() {
        say(format_args!("nothing is left to run. Results: multicard table {}", place.name()));
        return Ok(OK);
    }
    let (unfinished, queued) = (following.unfinished().len(), following.queued().len());
    if following.queue().paused && queued > 0 {
        let active = counted(unfinished - queued, "run");
        say(format_args!("{active} under way without this terminal: multicard attach {}", place.name()));
        paused(&following);
        return Ok(INTERRUPTED);
    }
    say(format_args!("{}: multicard attach {}", going_on(unfinished, "run"), place.name()));
    Ok(INTERRUPTED)
}

/// Gives an order to the conductor of a session. False if no conductor runs; for a session on another machine, one is started.
///
/// # Errors
/// The conductor cannot be reached, or refuses the order.
fn ordered(folder: &Path, order: Order) -> Result<bool, Box<dyn std::error::Error>> {
    let client = match Far::of(folder)? {
        Some(far) if matches!(order, Order::Attach(..)) => {
            let (address, host) = (far.address(), far.address().host());
            let remote_command = address.session_command(&format!("{} trace FILE --session", address.program()));
            return Err(format!(
                "the report is a file on this machine: copy it to {host} and import it there: {remote_command}"
            )
            .into());
        }
        Some(far) => {
            let client = far.client_or_start(false)?;
            Following::new(client, None, folder, None, Arc::default())?.order(order)?;
            return Ok(true);
        }
        None => Client::connect(folder, false)?,
    };
    let Some(client) = client else { return Ok(false) };
    Following::new(client, None, folder, None, Arc::default())?.order(order)?;
    Ok(true)
}

/// Gives an order to the conductor of a session and returns `None`. If no conductor runs, calls `alone`, which executes
/// the order in this process, and returns its result. Commands that are given at the same time wait for each other,
/// since each writes the session only for a moment.
///
/// # Errors
/// The errors of [`ordered`] and of `alone`; or another process writes the session for too long.
pub(super) fn ordered_or<T>(
    folder: &Path,
    order: &Order,
    mut alone: impl FnMut() -> Result<T, SessionError>,
) -> Result<Option<T>, Box<dyn std::error::Error>> {
    const PATIENCE: Duration = Duration::from_secs(20);
    let begun = Instant::now();
    loop {
        if ordered(folder, order.clone())? {
            return Ok(None);
        }
        match alone() {
            // It may be a conductor that does not serve yet.
            Err(SessionError::Store(StoreError::InUse { .. })) if begun.elapsed() < PATIENCE => {}
            done => return Ok(Some(done?)),
        }
    }
}

/// The conductor of a session: the running one, or a new one that takes over the runs which an earlier conductor left; none if there is
/// nothing to conduct.
fn conductor(place: &Place, live: bool) -> Result<Option<Client>, Box<dyn std::error::Error>> {
    if let Some(client) = place.connect(live)? {
        return Ok(Some(client));
    }
    // Runs whose processes have all ended count, too, because the runs that were queued can continue.
    let is_left = Reader::open(place.folder())?.headings()?.iter().any(|run| !run.state.is_final());
    Ok(if is_left { Some(place.connect_or_start(live)?) } else { None })
}

pub(super) fn stop(arguments: &StopArguments) -> Outcome {
    if arguments.now {
        only_here(&arguments.session, "stop --now")?;
    }
    let place = Place::of(&arguments.session)?;
    let error = match stop_at(&place, arguments) {
        Err(error) => error,
        outcome => return outcome,
    };
    let (process, why) = match error.downcast_ref() {
        Some(ConductError::Silent(silent)) if arguments.now => {
            silent.end().map_err(|reason| format!("{silent}; its process cannot be ended: {reason}"))?;
            (silent.process().unwrap_or_default(), "did not answer")
        }
        Some(ConductError::InUse(_)) => match end_conductor_of_renamed(place.folder(), arguments.queued)? {
            Some(process) => (process.pid.cast_signed(), "cannot be reached since the session's folder was renamed"),
            None => return Err(error),
        },
        _ => return Err(error),
    };
    let then = if arguments.queued { "takes over" } else { "stops" };
    say(format_args!("ended the conductor, process {process}, which {why}; the next conductor {then} its runs"));
    stop_at(&place, arguments)
}

fn stop_at(place: &Place, arguments: &StopArguments) -> Outcome {
    let Some(client) = conductor(place, false)? else {
        say("nothing runs in this session");
        return Ok(OK);
    };
    let following = Following::new(client, None, place.folder(), None, interrupts()?)?;
    let mut following = if arguments.now { following.impatient() } else { following };
    following.await_queue()?;
    if arguments.queued {
        for run in following.queued() {
            following.order(Order::Cancel(run))?;
        }
        say(format_args!("{} to the end", going_on(following.unfinished().len(), "active run")));
        return Ok(OK);
    }
    let queued = following.queued().len();
    following.order(Order::CancelAll)?;
    if queued > 0 {
        say(format_args!("{} taken out of the queue", counted(queued, "run")));
    }
    following.watch()?;
    Ok(if following.queue().is_idle() { OK } else { INTERRUPTED })
}

/// `1 run goes on`, `2 runs go on`.
fn going_on(count: usize, one: &str) -> String {
    format!("{} {} on", counted(count, one), if count == 1 { "goes" } else { "go" })
}
