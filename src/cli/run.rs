//! `multicard run`: runs a plan, shows its progress and records it in a session.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::material::{Material, say_damage};
use super::plan::{ModeName, PlanArgument};
use super::{INTERRUPTED, OK, Outcome, SOME_RUN_FAILED, print, say};
use crate::analysis::{next_repeats, relative_precision, repeats_of};
use crate::figure::duration_text;
use crate::foreign;
use crate::papers::coverage;
use crate::plan::{Identity, Matrix, Plan, RunState, remarks};
use crate::protocol::TraceOutcome;
use crate::session::{Added, Machine, Notice, Session, new_session_folder, runnable};

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    plan: PlanArgument,
    /// Session folder, created if missing. Default: named after the plan and the time.
    #[arg(long)]
    session: Option<PathBuf>,
    /// Run only the repeats that are not finished in the session.
    #[arg(long)]
    resume: bool,
    /// How far runs go, whatever the plan says.
    #[arg(long, value_enum)]
    mode: Option<ModeName>,
    /// Run more repeats until the training time of each cell is known this well, such as 1%: half the width of its 95 % interval.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    until: Option<f64>,
    /// With --until: run at most so many repeats of a cell.
    #[arg(long, value_name = "N", default_value_t = 30, requires = "until", value_parser = clap::value_parser!(u32).range(1..=1000))]
    most_repeats: u32,
    /// Write events to stdout in this format. Default: nothing.
    #[arg(long, value_enum)]
    format: Option<Format>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One JSON object per line.
    Json,
}

/// Interval of progress updates and checks for an interrupt.
const TICK: Duration = Duration::from_millis(100);

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let plan = arguments.plan.read(arguments.mode)?;
    let folder = match &arguments.session {
        Some(folder) => folder.clone(),
        None => new_session_folder(&plan.name)?,
    };
    // Check everything before anything is written.
    let machine = Machine::look();
    let matrix = runnable(&plan, &machine.node)?;
    for block in plan.blocks() {
        super::data::prepare(block)?;
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let mut session = Session::open_or_create(&folder, machine)?;
    say_damage(&folder, &session.reader()?)?;
    let format = arguments.format;
    let drive = |session: &mut Session| drive(session, format, &interrupted);
    if arguments.resume && !session.is_idle() {
        say("waiting for the runs that an earlier multicard started");
        if drive(&mut session)?.is_none() {
            return Ok(INTERRUPTED);
        }
    }
    let full =
        if arguments.resume && arguments.plan.is_preset() { full_runs(&session, &plan)? } else { HashSet::new() };
    if !full.is_empty() {
        say(format_args!("{} cells have full runs, which tell more than quick ones: they are left out", full.len()));
    }
    let added = session.add_cells(&plan, arguments.resume, |cell| !full.contains(cell))?;
    say_added(&plan, &added, session.folder());
    for remark in remarks(&plan, &matrix, session.node()) {
        say(remark);
    }
    let Some(mut outcomes) = drive(&mut session)? else { return Ok(INTERRUPTED) };
    if let Some(precision) = arguments.until {
        let wanted = Until { precision, most_repeats: arguments.most_repeats };
        let Some(more) = run_until(&mut session, &plan, &matrix, &wanted, drive)? else { return Ok(INTERRUPTED) };
        outcomes.finished += more.finished;
        outcomes.unfinished += more.unfinished;
    }
    say(format_args!(
        "{} finished, {} did not. Results: multicard table {}",
        outcomes.finished + added.kept,
        outcomes.unfinished,
        session.folder().display()
    ));
    Ok(if outcomes.unfinished == 0 { OK } else { SOME_RUN_FAILED })
}

/// The cells of a quick plan that the session has full runs of in place of quick ones.
fn full_runs(session: &Session, plan: &Plan) -> Result<HashSet<Identity>, Box<dyn Error>> {
    let Material { runs, .. } = Material::of(&session.reader()?, session.folder())?;
    Ok(coverage(plan, &runs).full.into_iter().map(|cell| cell.identity).collect())
}

/// When a cell has enough repeats.
struct Until {
    precision: f64,
    most_repeats: u32,
}

/// Runs more repeats of the cells that are not known well enough; `None` if it was interrupted.
fn run_until(
    session: &mut Session,
    plan: &Plan,
    matrix: &Matrix,
    until: &Until,
    drive: impl Fn(&mut Session) -> Result<Option<Outcomes>, Box<dyn Error>>,
) -> Result<Option<Outcomes>, Box<dyn Error>> {
    let mut outcomes = Outcomes::default();
    // A cell whose runs fail, or tell no training time, gets no further.
    let mut before: HashMap<Identity, usize> = HashMap::new();
    loop {
        let Material { runs, .. } = Material::of(&session.reader()?, session.folder())?;
        let mut next: HashMap<Identity, u32> = HashMap::new();
        for cell in &matrix.cells {
            let repeats = repeats_of(&runs, &cell.identity);
            let grew = before.insert(cell.identity, repeats.len()) != Some(repeats.len());
            let wanted = next_repeats(&repeats, until.precision).map(|wanted| wanted.min(until.most_repeats));
            if let Some(wanted) = wanted.filter(|wanted| grew && *wanted as usize > repeats.len()) {
                next.insert(cell.identity, wanted);
            } else {
                say_known(&cell.id, &repeats, until.precision);
            }
        }
        let Some(most) = next.values().copied().max() else { return Ok(Some(outcomes)) };
        let more = Plan { repeats: most, ..plan.clone() };
        let added = session.add_cells(&more, true, |cell| next.contains_key(cell))?;
        say(format_args!("{} more runs of {} cells", added.queued, next.len()));
        let Some(more) = drive(session)? else { return Ok(None) };
        outcomes.finished += more.finished;
        outcomes.unfinished += more.unfinished;
        if added.queued == 0 {
            return Ok(Some(outcomes));
        }
    }
}

fn say_known(cell: &str, repeats: &[f64], precision: f64) {
    let (n, asked) = (repeats.len(), precision * 100.0);
    match relative_precision(repeats) {
        Some(found) if found <= precision => {
            say(format_args!("{cell}: training time known to ±{:.2} % by {n} repeats", found * 100.0));
        }
        Some(found) => {
            say(format_args!(
                "{cell}: training time known to ±{:.2} % by {n} repeats, not to ±{asked} %",
                found * 100.0
            ));
        }
        None => {
            say(format_args!("{cell}: {n} repeats tell no interval of the training time, ±{asked} % was asked for"));
        }
    }
}

/// A share, of percent: `1%` or `0.5 %`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>();
    match number {
        Ok(percent) if (0.01..=50.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("give percent from 0.01 to 50, such as 1%".to_owned()),
    }
}

/// Drives the session until nothing is left to do; `None` if it was interrupted or stdout was closed, once all runs have ended.
fn drive(
    session: &mut Session,
    format: Option<Format>,
    interrupted: &AtomicBool,
) -> Result<Option<Outcomes>, Box<dyn Error>> {
    let mut outcomes = Outcomes::default();
    let bar = bar();
    let mut cancelled = false;
    let mut unwritten = None;
    while !session.is_idle() {
        for notice in session.advance(TICK)? {
            outcomes.count(&notice);
            let format = format.filter(|_| unwritten.is_none());
            unwritten = show(&notice, session, &bar, format).err().or(unwritten);
        }
        draw(&bar, session);
        if (interrupted.load(Ordering::Relaxed) || unwritten.is_some()) && !cancelled {
            let why =
                unwritten.as_ref().map_or("interrupted".to_owned(), |error| format!("cannot write events: {error}"));
            bar.suspend(|| say(format_args!("{why}: stopping all runs")));
            // Queued runs send no notice when they are cancelled.
            outcomes.unfinished += session.states().filter(|(_, state)| *state == RunState::Queued).count();
            session.cancel_all()?;
            cancelled = true;
        }
    }
    session.flush()?;
    bar.finish_and_clear();
    if cancelled {
        say(format_args!("{} finished, {} did not", outcomes.finished, outcomes.unfinished));
    }
    // Whoever closes the pipe interrupts; runs that ended anyway are kept.
    if let Some(error) = unwritten {
        return if error.kind() == std::io::ErrorKind::BrokenPipe { Ok(None) } else { Err(error.into()) };
    }
    Ok((!cancelled).then_some(outcomes))
}

#[derive(Default)]
struct Outcomes {
    finished: usize,
    unfinished: usize,
}

impl Outcomes {
    fn count(&mut self, notice: &Notice) {
        match notice {
            Notice::State { state: RunState::Finished, .. } => self.finished += 1,
            // Left by an earlier command and ended before this one looked: its cell is run anew where it is wanted.
            Notice::State { state: RunState::Interrupted, .. } => {}
            Notice::State { state, .. } if state.is_final() => self.unfinished += 1,
            Notice::State { .. } => {}
            Notice::Event(_)
            | Notice::Sample { .. }
            | Notice::Noise { .. }
            | Notice::Importing { .. }
            | Notice::Trace { .. } => {}
        }
    }
}

fn say_added(plan: &Plan, added: &Added, folder: &Path) {
    say(format_args!("{}: {} runs queued, session {}", plan.name, added.queued, folder.display()));
    if added.kept > 0 {
        say(format_args!("{} existing runs are kept", added.kept));
    }
    for invalid in added.invalid.iter().take(5) {
        let levels: Vec<String> = plan
            .varied()
            .into_iter()
            .filter_map(|key| invalid.levels.get(key).map(|level| format!("{key} {level}")))
            .collect();
        say(format_args!("cannot run here: {}: {}", levels.join(", "), invalid.reason));
    }
    if added.invalid.len() > 5 {
        say(format_args!("… and {} more cells; `multicard plan` lists them", added.invalid.len() - 5));
    }
}

fn show(notice: &Notice, session: &Session, bar: &ProgressBar, format: Option<Format>) -> Result<(), std::io::Error> {
    match notice {
        Notice::Event(line) if format == Some(Format::Json) => print(&serde_json::to_string(line)?)?,
        Notice::Event(_) | Notice::Sample { .. } => {}
        Notice::Importing { name, fraction } => {
            let message = format!("importing the report of {name}: {:.0} %", fraction * 100.0);
            bar.set_message(foreign::message(&message).into_owned());
        }
        Notice::Trace { name, outcome } => match outcome {
            Some(TraceOutcome::Imported(trace)) => {
                let lost = trace.evidence.iter().filter(|evidence| !evidence.in_effect);
                let lost =
                    lost.map(|lost| format!("; {} = {} is not in effect: {}", lost.factor, lost.asked, lost.seen));
                let lost: String = lost.collect();
                bar.suspend(|| {
                    say(format_args!("run {name} traced: {:.1} s of {} GPUs{lost}", trace.wall_s, trace.gpus));
                });
            }
            Some(TraceOutcome::Failed(reason)) => {
                bar.suspend(|| say(format_args!("run {name} has no trace: {reason}")));
            }
            None => bar.suspend(|| say(format_args!("run {name}: import cancelled; opening the session resumes it"))),
        },
        Notice::Noise { message, .. } => bar.suspend(|| say(format_args!("unreadable line in a log: {message}"))),
        Notice::State { run, state, reason } if state.is_final() => {
            // A cancelled run has no further reason.
            let reason = reason.as_deref().filter(|reason| *reason != state.name());
            let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
            let log = if reason.is_empty() {
                String::new()
            } else {
                format!(" (log: {})", session.folder().join("runs").join(run).join("stderr.log").display())
            };
            bar.suspend(|| say(format_args!("run {run} {}{reason}{log}", state.name())));
        }
        Notice::State { .. } => {}
    }
    Ok(())
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    // The template is valid; without it the bar would be plain.
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} runs  {msg}") {
        bar.set_style(style);
    }
    bar
}

fn draw(bar: &ProgressBar, session: &Session) {
    let progress = session.progress();
    bar.set_length(progress.queued as u64);
    bar.set_position(progress.ended as u64);
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let running = progress.running.iter().map(|(run, at)| {
        let loss = at.loss.map_or(String::new(), |loss| format!(", loss {loss:.3}"));
        format!("{run} step {}/{}{loss}  ", at.step, at.steps)
    });
    let message = format!("{}ETA {}", running.collect::<String>(), duration_text(progress.remaining_s(now_s)));
    bar.set_message(foreign::message(&message).into_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_runs_that_ended_under_this_command_decide_its_exit_code() {
        let mut outcomes = Outcomes::default();
        for state in [RunState::Running, RunState::Interrupted, RunState::Finished] {
            outcomes.count(&Notice::State { run: "0001-cell-1".to_owned(), state, reason: None });
        }
        assert_eq!((outcomes.finished, outcomes.unfinished), (1, 0));
        for state in [RunState::Failed, RunState::TimedOut, RunState::Cancelled] {
            outcomes.count(&Notice::State { run: "0002-cell-1".to_owned(), state, reason: None });
        }
        assert_eq!((outcomes.finished, outcomes.unfinished), (1, 3));
    }
}
