//! Following a session's conductor on the terminal: progress on stderr, events on stdout.

mod interrupt;
mod show;
mod until;

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::ProgressBar;

use super::starts::Starts;
use super::{progress_bar, say};
use crate::conduct::{
    Client, ConductError, Host, Launch, News, Order, Orders, QueueView, SILENCE_LIMIT, Silent, ends_at_logout,
};
use crate::launch::lasting_reason;
use crate::plan::RunState;
use crate::session::{Added, Notice, SearchView, open_reader};
use crate::store::StoreError;
pub(super) use interrupt::interrupts;
use interrupt::{Interrupt, Interrupts};
use show::show;
pub(super) use until::Outcomes;

/// Interval of progress updates and checks for an interrupt.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// Format of events on stdout.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum EventFormat {
    /// One JSON object per line.
    Json,
}

/// The number of an order, and the conductor's answer to it.
type Answer = (u64, Result<Option<Added>, String>);

/// The user interrupted the wait for the conductor.
#[derive(Debug, thiserror::Error)]
#[error("interrupted: the session's conductor has not answered yet and may still carry out the order")]
pub(super) struct Interrupted;

/// How long an order's answer is awaited after an interrupt, so that its effect is known.
const INTERRUPTED_PATIENCE: Duration = Duration::from_secs(5);

/// A session that is followed through its conductor. If the conductor runs in this process, the connection is closed before it ends.
pub(super) struct Following {
    orders: Orders,
    client: Client,
    host: Option<Host>,
    folder: PathBuf,
    format: Option<EventFormat>,
    queue: QueueView,
    /// Whether the first state of the queue has arrived.
    knows_queue: bool,
    /// The runs that are shown; `None` shows all runs.
    shown: Option<HashSet<String>>,
    /// The id of the plan whose search is followed. The runs of this search are shown, too.
    search: Option<String>,
    /// The runs that had ended before the search was resumed, which makes those again that did not finish.
    earlier: HashSet<String>,
    /// For each search the number of its lines that were printed.
    searched: HashMap<String, usize>,
    letters: u64,
    /// Why runs wait at their sites, as the user was told.
    waits: HashMap<String, String>,
    starts: Starts,
    interrupts: Interrupts,
    /// When the conductor last sent a message, and whether the user was told of its silence since then.
    heard: Instant,
    is_silence_told: bool,
    /// Whether a silent conductor is given up even though it may still answer.
    is_impatient: bool,
    bar: ProgressBar,
    /// Why events could not be written to stdout.
    unwritten: Option<std::io::Error>,
}

impl Following {
    pub fn new(
        client: Client,
        host: Option<Host>,
        folder: &Path,
        format: Option<EventFormat>,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Self, ConductError> {
        Ok(Self {
            orders: client.orders()?,
            client,
            host,
            folder: folder.to_owned(),
            format,
            queue: QueueView::default(),
            knows_queue: false,
            shown: None,
            search: None,
            earlier: HashSet::new(),
            searched: HashMap::new(),
            letters: 0,
            waits: HashMap::new(),
            starts: Starts::default(),
            interrupts: Interrupts::new(interrupted),
            heard: Instant::now(),
            is_silence_told: false,
            is_impatient: false,
            bar: progress_bar("{bar:30} {pos}/{len} runs  {msg}"),
            unwritten: None,
        })
    }

    /// Gives up a silent conductor, even if it may only be slow.
    #[must_use]
    pub fn impatient(self) -> Self {
        Self { is_impatient: true, ..self }
    }

    /// The session's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Continues over another connection.
    pub fn go_on(&mut self, client: Client) -> Result<(), ConductError> {
        (self.orders, self.client) = (client.orders()?, client);
        (self.queue, self.knows_queue, self.heard) = (QueueView::default(), false, Instant::now());
        Ok(())
    }

    /// Whether the conductor belongs to another command and ends with it.
    pub fn is_guest(&self) -> bool {
        self.host.is_none() && !self.client.conducting().detached
    }

    /// Continues with another conductor, which may be in this process.
    pub fn go_on_with(&mut self, client: Client, host: Option<Host>) -> Result<(), ConductError> {
        self.host = host;
        self.go_on(client)
    }

    /// Waits for the first state of the queue.
    pub fn await_queue(&mut self) -> Result<(), Box<dyn Error>> {
        while !self.knows_queue {
            if self.interrupts.is_pending() {
                return Err(Interrupted.into());
            }
            self.turn()?;
            self.bear_silence()?;
        }
        Ok(())
    }

    /// The queue as the conductor last reported it.
    pub fn queue(&self) -> &QueueView {
        &self.queue
    }

    /// The runs that have not ended.
    pub fn unfinished(&self) -> Vec<String> {
        self.queue.rows.iter().filter(|row| !row.state.is_final()).map(|row| row.run.clone()).collect()
    }

    /// The waiting runs, last first: cancelled in this order, no run starts in the place of a cancelled one.
    pub fn queued(&self) -> Vec<String> {
        let queued = self.queue.rows.iter().filter(|row| row.state == RunState::Queued);
        queued.rev().map(|row| row.run.clone()).collect()
    }

    /// Tells the user what runs wait for at their sites.
    pub fn say_waits(&self) {
        for row in &self.queue.rows {
            if let Some(waits) = &row.waits {
                say(format_args!("run {}: {waits}", row.run));
            }
        }
    }

    /// Sends an order and waits for its answer. After an interrupt it waits only a short while, and after a second one not at all.
    pub fn order(&mut self, order: Order) -> Result<Option<Added>, Box<dyn Error>> {
        self.letters += 1;
        self.heard = Instant::now();
        self.orders.send(self.letters, order)?;
        let mut first: Option<(Interrupt, Instant)> = None;
        loop {
            let interrupt = self.interrupts.take();
            let is_again = first.is_some() && interrupt == Some(Interrupt::Wanted);
            first = first.or(interrupt.map(|interrupt| (interrupt, Instant::now())));
            if is_again || first.is_some_and(|(_, at)| at.elapsed() >= INTERRUPTED_PATIENCE) {
                return Err(Interrupted.into());
            }
            self.bear_silence()?;
            if let Some((number, outcome)) = self.turn()?
                && number == self.letters
            {
                // Whoever follows what was ordered obeys the interrupt.
                if let Some((interrupt, _)) = first {
                    self.interrupts.put_back(interrupt);
                }
                return Ok(outcome?);
            }
        }
    }

    /// Goes on waiting for a silent conductor, unless it is stopped or given up.
    fn bear_silence(&mut self) -> Result<(), Box<dyn Error>> {
        match self.silence() {
            Some(silent) if silent.is_stopped() || self.is_impatient => Err(ConductError::Silent(silent).into()),
            Some(silent) => {
                self.say_silence(&silent);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The conductor's silence, if it has lasted long.
    fn silence(&self) -> Option<Silent> {
        let silence = self.heard.elapsed();
        (silence >= SILENCE_LIMIT).then(|| self.client.silent(silence))
    }

    fn say_silence(&mut self, silent: &Silent) {
        if !std::mem::replace(&mut self.is_silence_told, true) {
            self.bar.suspend(|| say(silent));
        }
    }

    /// Lets the runs that have ended until now count only if they finished.
    pub fn forgive_earlier(&mut self) -> Result<(), StoreError> {
        let ended = open_reader(&self.folder)?.headings()?.into_iter().filter(|run| run.state.is_final());
        self.earlier = ended.map(|run| run.run).collect();
        Ok(())
    }

    /// Queues the runs of a plan; from then on only these runs are shown.
    pub fn launch(&mut self, launch: Launch) -> Result<Added, Box<dyn Error>> {
        let added =
            self.order(Order::Launch(Box::new(launch)))?.ok_or("the conductor does not say which runs it queued")?;
        self.shown = Some(added.runs.iter().cloned().collect());
        self.search.clone_from(&added.search);
        self.say_searches();
        Ok(added)
    }

    /// Shows these runs, too, beside those of the last launch.
    pub fn show_too(&mut self, runs: &[String]) {
        self.shown.get_or_insert_default().extend(runs.iter().cloned());
    }

    /// Tells the user which process runs what was queued.
    pub fn say_detached(&self, session: &str) {
        let conducting = self.client.conducting();
        if conducting.detached {
            say(format_args!("the runs go on without this terminal: multicard attach {session}"));
            // Another machine has settings of its own.
            if let Some(ends) = ends_at_logout().filter(|_| !session.starts_with("ssh://")) {
                say(ends);
            }
        } else {
            let process = conducting.process;
            say(format_args!(
                "the runs belong to `multicard run` in another terminal (process {process}) and end with it"
            ));
        }
    }

    /// Waits a moment for news and shows it; returns an answer if one arrived.
    fn turn(&mut self) -> Result<Option<Answer>, Box<dyn Error>> {
        let news = self.client.next(Some(TICK))?;
        if news.is_some() {
            (self.heard, self.is_silence_told) = (Instant::now(), false);
        }
        match news {
            Some(News::Queue(change)) => {
                self.queue.apply(change);
                self.knows_queue = true;
                self.say_searches();
            }
            Some(News::Notice(notice)) => {
                if let Notice::Event(line) = &notice {
                    self.starts.event(line);
                }
                let format = self.format.filter(|_| self.unwritten.is_none());
                if self.is_shown(&notice) && self.is_new(&notice) {
                    self.unwritten = show(&notice, &self.folder, &self.bar, format).err().or(self.unwritten.take());
                }
            }
            Some(News::Answer { number, outcome }) => return Ok(Some((number, outcome))),
            // The conductor goes on once there is room, or whatever it lacks.
            Some(News::Problem(message)) => self.bar.suspend(|| say(message)),
            Some(News::Records) | None => {}
        }
        Ok(None)
    }

    /// Whether a notice says something new: of a run that waits at its site, only the reason counts, since the expected start and the priority
    /// change with each question to Slurm.
    fn is_new(&mut self, notice: &Notice) -> bool {
        let Notice::Waits { run, reason: Some(text) } = notice else { return true };
        let reason = lasting_reason(text).to_owned();
        self.waits.insert(run.clone(), reason.clone()).is_none_or(|before| before != reason)
    }

    fn is_shown(&self, notice: &Notice) -> bool {
        let run = match notice {
            Notice::Event(line) => &line.run,
            Notice::State { run, .. }
            | Notice::Waits { run, .. }
            | Notice::Sample { run, .. }
            | Notice::Noise { run, .. } => run,
            Notice::Importing { name, .. } | Notice::Trace { name, .. } => name,
        };
        self.shows(run)
    }

    /// Whether a run is shown.
    fn shows(&self, run: &str) -> bool {
        let search = || search_in(&self.queue, self.search.as_deref());
        let is_of_search = || search().is_some_and(|search| search.runs.iter().any(|searched| searched == run));
        self.shown.as_ref().is_none_or(|shown| shown.contains(run) || is_of_search())
    }

    /// Tells the user what the shown runs are doing that take long to start.
    fn say_starts(&mut self) {
        let mut starts = std::mem::take(&mut self.starts);
        let shown = self.queue.rows.iter().filter(|row| self.shows(&row.run));
        for text in starts.news(shown, Instant::now()) {
            self.bar.suspend(|| say(text));
        }
        self.starts = starts;
    }

    /// Prints what is new in the searches that are followed.
    fn say_searches(&mut self) {
        for search in &self.queue.searches {
            if self.shown.is_some() && self.search.as_ref() != Some(&search.plan) {
                continue;
            }
            let printed = self.searched.entry(search.plan.clone()).or_default();
            for line in &search.lines[(*printed).min(search.lines.len())..] {
                self.bar.suspend(|| say(line));
            }
            *printed = search.lines.len();
        }
    }
}

/// The search of a plan in the queue.
fn search_in<'q>(queue: &'q QueueView, plan: Option<&str>) -> Option<&'q SearchView> {
    queue.searches.iter().find(|search| Some(&*search.plan) == plan)
}
