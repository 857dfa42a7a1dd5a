//! `multicard run`: runs a plan, shows its progress and records it in a session.

mod until;

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use super::follow::{EventFormat, Following, Interrupted, Outcomes, TICK, interrupts};
use super::material::{Material, say_damage};
use super::plan::{Changes, PlanArgument};
use super::remote::{Far, LaunchState};
use super::{INTERRUPTED, OK, Outcome, SOME_RUN_FAILED, say};
use crate::analysis::counted;
use crate::conduct::{Client, ConductError, Host, Launch, host, other_sessions_with_runs};
use crate::dataset::check_models;
use crate::papers::coverage;
use crate::plan::{Identity, Node, Plan, RunState, remarks};
use crate::remote::shell_word;
use crate::session::{
    Added, Machine, SearchReport, Session, SessionError, Where, all_finished, new_session_folder, open_reader,
    runnable, search_reports,
};
use crate::store::{StoreError, held_cells};
use crate::telemetry::use_now;
use until::{Until, precision, run_until};

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    plan: PlanArgument,
    /// Session folder, created if missing; on another machine: ssh://[user@]host/path. Default: named after the plan and the time.
    #[arg(long)]
    session: Option<PathBuf>,
    /// Run only the repeats that are not finished in the session.
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    changes: Changes,
    /// Add repeats until the training time of each cell is known this precisely, such as 1%: half the width of its 95 % interval.
    #[arg(long, value_name = "PERCENT", value_parser = precision)]
    until: Option<f64>,
    /// With --until: run at most this many repeats of a cell.
    #[arg(long, value_name = "N", default_value_t = 30, requires = "until", value_parser = clap::value_parser!(u32).range(1..=1000))]
    most_repeats: u32,
    /// Write events to stdout in this format. Default: nothing.
    #[arg(long, value_enum)]
    format: Option<EventFormat>,
    /// Queue the runs and return: they go on when this terminal is closed. `multicard attach` follows them, `multicard stop` ends them.
    /// Runs get the environment of the command or window that started the session's conductor: set variables before the first one, or name
    /// them in the plan.
    #[arg(long, conflicts_with_all = ["until", "format"])]
    detach: bool,
}

/// How long to wait for a process that holds the session's lock: it must end or accept clients within this time.
const LOCK_LIMIT: Duration = Duration::from_secs(3);

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let mut plan = arguments.plan.read(&arguments.changes)?;
    if plan.search.is_some() && arguments.until.is_some() {
        return Err(
            "--until adds repeats to each cell, and the plan's search drops cells: leave out --until, or [search]"
                .into(),
        );
    }
    let Some(mut far) = arguments.session.as_deref().map(Far::of).transpose()?.flatten() else {
        let folder = match &arguments.session {
            Some(folder) => folder.clone(),
            None => new_session_folder(&plan.name)?,
        };
        return run_here(arguments, &plan, &folder);
    };
    // Its programs start in the home folder, as whatever ssh starts.
    if plan.folder().is_some() {
        plan.set_folder(far.home().to_str());
    }
    match run_there(arguments, &plan, &mut far) {
        Err(error) if far.was_cut() && !error.is::<Interrupted>() => Err(far.broke().into()),
        outcome => outcome,
    }
}

fn run_here(arguments: &Arguments, plan: &Plan, folder: &Path) -> Outcome {
    if arguments.resume && arguments.until.is_none() && folder.join("session.toml").exists() {
        let reader = open_reader(folder)?;
        if let Some(added) = all_finished(plan, folder, &reader)? {
            say_damage(folder, &reader)?;
            let session = folder.display().to_string();
            say_added(plan, &added, &session);
            let searches = search_reports(&reader)?;
            let own = searches.iter().find(|search| Some(&search.plan) == added.search.as_ref());
            own.into_iter().flat_map(SearchReport::in_lines).for_each(say);
            say_results(added.kept, 0, &session);
            return Ok(OK);
        }
    }
    // Check everything before anything is written.
    let machine = Machine::look();
    for block in plan.blocks() {
        check_models(block)?;
    }
    let node = Where::of(plan, &machine.node)?.node;
    super::plan::check_candidates(plan, &runnable(plan, &node)?)?;
    for block in plan.blocks() {
        super::data::prepare(block)?;
    }
    for other in other_sessions_with_runs(Some(folder)) {
        say(format!(
            "session {} has runs on this machine now. Runs that overlap slow each other down and are marked.",
            other.display()
        ));
    }
    let live = arguments.format == Some(EventFormat::Json);
    let connect = || -> Result<Conducted, Box<dyn Error>> {
        if arguments.detach {
            Ok((Client::connect_or_start(folder, false)?, None))
        } else {
            conductor(folder, &machine, live)
        }
    };
    let (client, host) = connect()?;
    let interrupted = interrupts()?;
    // Another conductor may have runs under way, and a site has machines of its own.
    let others = if host.is_some() && plan.site.is_none() { use_now(&machine.node) } else { None };
    let following = Following::new(client, host, folder, arguments.format, Arc::clone(&interrupted))?;
    let (name, start) = (folder.display().to_string(), std::env::current_dir()?);
    follow(arguments, plan, following, Site { name, node, others, start, line: Line::Here(&connect) }, &interrupted)
}

fn run_there(arguments: &Arguments, plan: &Plan, far: &mut Far) -> Outcome {
    let mut node = far.node()?;
    // The conductor there knows the site, and refuses what the site cannot do.
    if let Some(site) = &plan.site {
        node = Where::unknown(site, &node);
    }
    super::plan::check_candidates(plan, &runnable(plan, &node)?)?;
    let live = arguments.format == Some(EventFormat::Json);
    let client = far.client_or_start(live)?;
    let interrupted = interrupts()?;
    let following = Following::new(client, None, far.folder(), arguments.format, Arc::clone(&interrupted))?;
    let (name, start) = (far.address().to_string(), far.home().to_owned());
    let site = Site { name, node, others: None, start, line: Line::There(far, live) };
    follow(arguments, plan, following, site, &interrupted)
}

/// The session in which runs are made, on this or another machine.
struct Site<'f> {
    /// The session's name, as arguments write it.
    name: String,
    node: Node,
    /// The use of this machine by other programs, in words.
    others: Option<String>,
    /// The folder where relative paths start.
    start: PathBuf,
    line: Line<'f>,
}

/// A client of a conductor, and the conductor if it is in this process.
type Conducted = (Client, Option<Host>);

/// How the session's conductor is reached again.
enum Line<'f> {
    /// The session is on this machine: connects to its conductor, or begins to conduct.
    Here(&'f dyn Fn() -> Result<Conducted, Box<dyn Error>>),
    /// The connection to another machine, and whether events are sent over it.
    There(&'f mut Far, bool),
}

impl Site<'_> {
    /// Queues runs; `None` if the user interrupted while there was no connection.
    fn launch(
        &mut self,
        following: &mut Following,
        launch: &Launch,
        interrupted: &AtomicBool,
    ) -> Result<Option<Added>, Box<dyn Error>> {
        self.note_launch(LaunchState::Unanswered);
        // Its answer may be lost with a line; sent again, it is not executed again.
        let added = self.over_conductors(following, |site, following| {
            site.over_lines(following, interrupted, |following| following.launch(launch.clone()).map(Some))
        })?;
        if added.is_some() {
            self.note_launch(LaunchState::Answered);
        }
        Ok(added)
    }

    fn note_launch(&mut self, launch: LaunchState) {
        if let Line::There(far, _) = &mut self.line {
            far.note_launch(launch);
        }
    }

    /// Executes an action. If the conductor belonged to another command and ended with it, executes the action again
    /// with the next conductor.
    fn over_conductors<T>(
        &mut self,
        following: &mut Following,
        mut act: impl FnMut(&mut Self, &mut Following) -> Result<T, Box<dyn Error>>,
    ) -> Result<T, Box<dyn Error>> {
        let error = match act(self, following) {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let Line::Here(connect) = self.line else { return Err(error) };
        let has_ended = matches!(error.downcast_ref::<ConductError>(), Some(ConductError::Ended));
        if !has_ended || !following.is_guest() {
            return Err(error);
        }
        let (client, host) = connect()?;
        following.go_on_with(client, host)?;
        act(self, following)
    }

    /// Follows runs until they have ended; `None` if it was interrupted.
    fn until_ended(
        &mut self,
        following: &mut Following,
        runs: &[String],
        interrupted: &AtomicBool,
    ) -> Result<Option<Outcomes>, Box<dyn Error>> {
        self.over_lines(following, interrupted, |following| following.until_ended(runs))
    }

    /// Says how an interrupted launch is continued: by the same command with `--resume`. Runs behind a broken connection go on.
    fn say_how_to_continue(&self, arguments: &Arguments) {
        if matches!(&self.line, Line::There(far, _) if far.was_cut()) {
            return;
        }
        let mut words: Vec<String> =
            std::env::args_os().skip(1).map(|word| shell_word(&word.to_string_lossy())).collect();
        if arguments.session.is_none() {
            words.extend(["--session".to_owned(), shell_word(&self.name)]);
        }
        words.extend((!arguments.resume).then(|| "--resume".to_owned()));
        say(format_args!("Continue: `multicard {}`", words.join(" ")));
    }

    /// Repeats an action until it succeeds over one connection: when the connection breaks, it waits for the next one. `None` if it was
    /// interrupted.
    fn over_lines<T>(
        &mut self,
        following: &mut Following,
        interrupted: &AtomicBool,
        mut act: impl FnMut(&mut Following) -> Result<Option<T>, Box<dyn Error>>,
    ) -> Result<Option<T>, Box<dyn Error>> {
        loop {
            let error = match act(following) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let Line::There(far, live) = &mut self.line else { return Err(error) };
            if !far.was_cut() {
                return Err(error);
            }
            if !far.wait(interrupted)? {
                say(format_args!("interrupted; {}", far.broke()));
                return Ok(None);
            }
            match far.client_or_start(*live) {
                Ok(client) => following.go_on(client)?,
                // The next line may be better.
                Err(_) if far.was_cut() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Launches a plan and follows its runs.
fn follow(
    arguments: &Arguments,
    plan: &Plan,
    mut following: Following,
    mut site: Site<'_>,
    interrupted: &AtomicBool,
) -> Outcome {
    let folder = following.folder().to_owned();
    let matrix = runnable(plan, &site.node)?;
    let finished = if arguments.resume { finished_repeats(&folder, plan)? } else { HashMap::new() };
    super::plan::head(plan, &matrix, &finished).iter().for_each(say);
    if let Some(others) = &site.others {
        say(format_args!("warning: {others}: runs launched now will be slower and will be marked"));
    }
    say_damage(&folder, &open_reader(&folder)?)?;
    if arguments.resume && !arguments.detach {
        following.await_queue()?;
        if !following.queue().is_idle() && !following.queue().is_resting() {
            say("waiting for the runs that an earlier multicard started");
            if site.over_conductors(&mut following, |_, following| following.until_settled())?.is_none() {
                return Ok(INTERRUPTED);
            }
        }
    }
    let full = if arguments.resume && arguments.plan.is_preset() { full_runs(&folder, plan)? } else { HashSet::new() };
    if !full.is_empty() {
        say(format_args!(
            "{} with full runs left out: full runs measure more than quick runs",
            counted(full.len(), "cell")
        ));
    }
    let mut launch = Launch::new(plan, &site.start, arguments.resume).of_named_file();
    if !full.is_empty() {
        let cells = matrix.cells.iter().map(|cell| cell.identity).filter(|cell| !full.contains(cell));
        launch = launch.of_cells(cells.collect());
    }
    if arguments.resume && plan.search.is_some() {
        following.forgive_earlier()?;
    }
    let Some(added) = site.launch(&mut following, &launch, interrupted)? else { return Ok(INTERRUPTED) };
    say_added(plan, &added, &site.name);
    for remark in remarks(plan, &matrix, &site.node) {
        say(format_args!("{}{remark}", if remark.is_warning { "warning: " } else { "" }));
    }
    if arguments.detach {
        following.say_detached(&site.name);
        return Ok(OK);
    }
    let Some(mut outcomes) = site.until_ended(&mut following, &added.runs, interrupted)? else {
        site.say_how_to_continue(arguments);
        return Ok(INTERRUPTED);
    };
    if let Some(precision) = arguments.until {
        let wanted = Until { precision, most_repeats: arguments.most_repeats };
        let Some(more) = run_until(&mut following, plan, &matrix, &mut site, &wanted, interrupted)? else {
            site.say_how_to_continue(arguments);
            return Ok(INTERRUPTED);
        };
        outcomes.add(&more);
    }
    if !following.wait_for_others()? {
        return Ok(INTERRUPTED);
    }
    let watched =
        site.over_lines(&mut following, interrupted, |following| following.watch_kept(&added.open).map(Some))?;
    let Some((ended, open)) = watched else { return Ok(INTERRUPTED) };
    outcomes.add(&ended);
    // All runs of the search were followed, including those that it had before.
    let kept = if added.search.is_some() { 0 } else { added.kept - added.open.len() };
    say_results(outcomes.finished + kept, outcomes.unfinished, &site.name);
    if open > 0 {
        say(format_args!("{} still under way: multicard attach {}", counted(open, "kept run"), site.name));
        return Ok(if interrupted.load(Ordering::Relaxed) { INTERRUPTED } else { SOME_RUN_FAILED });
    }
    Ok(if outcomes.unfinished == 0 { OK } else { SOME_RUN_FAILED })
}

/// The conductor of a session: the running one, or a new one in this process, which ends with the process.
fn conductor(folder: &Path, machine: &Machine, live: bool) -> Result<Conducted, Box<dyn Error>> {
    // Others that attach may start runs from another folder.
    let session = std::path::absolute(folder)?;
    let begun = Instant::now();
    loop {
        if let Some(client) = Client::connect(&session, live)? {
            return Ok((client, None));
        }
        match Session::open_or_create(&session, machine.clone()) {
            Ok(session) => {
                let (client, host, alone) = host(session, live)?;
                if let Some(why) = alone {
                    say(format_args!("no window can attach to these runs: {why}"));
                }
                return Ok((client, Some(host)));
            }
            Err(SessionError::Store(StoreError::InUse { .. })) if begun.elapsed() < LOCK_LIMIT => {
                std::thread::sleep(TICK);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// How many of a plan's repeats have finished in the session, by cell; empty for a search, which chooses its runs itself.
fn finished_repeats(folder: &Path, plan: &Plan) -> Result<HashMap<Identity, u32>, StoreError> {
    let mut runs = open_reader(folder)?.headings()?;
    runs.retain(|run| run.state == RunState::Finished && plan.search.is_none());
    let planned_count = |repeats: &[u32]| {
        let planned: HashSet<&u32> = repeats.iter().filter(|repeat| (1..=plan.repeats).contains(*repeat)).collect();
        planned.len() as u32
    };
    Ok(held_cells(&runs).into_iter().map(|(cell, held)| (cell, planned_count(&held.repeats))).collect())
}

/// The cells of a quick plan for which the session already has full runs.
fn full_runs(folder: &Path, plan: &Plan) -> Result<HashSet<Identity>, Box<dyn Error>> {
    let Material { runs, .. } = Material::of(&open_reader(folder)?, folder)?;
    Ok(coverage(plan, &runs).full.into_iter().map(|cell| cell.identity).collect())
}

fn say_results(finished: usize, unfinished: usize, session: &str) {
    say(format_args!("{finished} finished, {unfinished} did not finish. Results: multicard table {session}"));
    if finished > 0 {
        say(format_args!("a figure: multicard figure {session} --out figure.svg"));
    }
}

fn say_added(plan: &Plan, added: &Added, session: &str) {
    say(format_args!("{}: {} queued, session {}", plan.name, counted(added.runs.len(), "run"), session));
    if added.kept > 0 {
        let are = if added.kept == 1 { "is" } else { "are" };
        say(format_args!("{} {are} kept", counted(added.kept, "existing run")));
    }
    for warning in &added.warnings {
        say(format_args!("warning: {warning}"));
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
        say(format_args!("… and {}; `multicard plan` lists them", counted(added.invalid.len() - 5, "more cell")));
    }
}
