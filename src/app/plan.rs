//! The Plan screen: tick levels, see the runs they give, launch them.

mod about;
mod bar;
mod card;
mod command;
mod document;
mod edit;
mod files;
mod grid;
mod matrix;
mod outlook;
mod start;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui::{CentralPanel, Context, Frame, Margin, Panel, ScrollArea, Ui};
use poll_promise::Promise;

use super::engine::Records;
use super::theme::GRID;
use super::widgets::fields_on_cards;
use super::{Command, Request, Screen, State};
use crate::analysis::SpreadSeen;
use crate::papers;
use crate::plan::{
    Block, Capture, CommandTexts, Data, Identity, Key, Level, Mode, Order, Plan, Tracer, WorkloadSpec, image, is_name,
    missing_program,
};
use crate::store::HeldCell;

use document::{Document, EditKind};
use files::{Purpose, Question, Saved};
pub(in crate::app) use files::{on_thread, typed_path};
use outlook::{Kept, Outlook};
pub(in crate::app) use start::STARTING_PLANS;

/// Width of the cards' scroll bar.
const SCROLL_BAR: f32 = 3.0 * GRID;

/// A command of the Plan screen.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanCommand {
    /// Ask which plan file to open.
    Open,
    /// Open this plan file.
    OpenFile(PathBuf),
    /// Open the starting plan of this name.
    Start(&'static str),
    /// Open the plan of this figure or table of a paper.
    OfPaper(String),
    /// Open the plan that was launched into the open session as the one of this number, from 0.
    OfSession(usize),
    /// Open a plan of defaults.
    New,
    /// Save the plan; asks for a path unless it came from a file.
    Save,
    /// Ask where to save the plan.
    SaveAs,
    /// Save the plan here.
    SaveFile {
        /// The file.
        path: PathBuf,
        /// Whether another existing file may be replaced.
        replace: bool,
    },
    /// Close the question for a path.
    CloseQuestion,
    /// Open the plan that was asked for although typed text is lost, or stay.
    AnswerReplace(bool),
    /// Undo the last edit.
    Undo,
    /// Redo it.
    Redo,
    /// Tick or untick a level of a factor.
    Toggle {
        /// The factor.
        key: Key,
        /// The level.
        level: Level,
    },
    /// Tick more levels of a factor.
    AddLevels {
        /// The factor.
        key: Key,
        /// The levels.
        levels: Vec<Level>,
    },
    /// Rename the plan.
    Name(String),
    /// Set the number of runs per cell.
    Repeats(u32),
    /// Set the seed of the order of runs, the weights and the order of samples.
    Seed(u64),
    /// Set the order of runs.
    Order(Order),
    /// Set the time limit of a run, in seconds.
    RunTimeLimit(Option<f64>),
    /// Set the memory limit of a rank on its device, in GB.
    MemoryLimit(Option<f64>),
    /// Run one run at a time, or pack small runs side by side.
    Exclusive(bool),
    /// Set the number of steps at the start that are excluded from statistics.
    WarmUpSteps(u64),
    /// Trace runs with this tracer too, or no longer.
    ToggleTracer(Tracer),
    /// Set which part of traced runs is recorded.
    TracedPart(Capture),
    /// Set how far runs go.
    Mode(Mode),
    /// Set the texts of the plan's own program.
    Texts(Box<CommandTexts>),
    /// Run the first cell for some seconds and show what is read of it.
    TryOnce,
    /// End that.
    StopTrial,
    /// Turn to this workload, with its defaults.
    Workload(Arc<WorkloadSpec>),
    /// Set the data set.
    Data(Data),
    /// Keep finished repeats of the session, or run everything again.
    OnlyMissing(bool),
    /// Launch the plan.
    Launch,
}

/// State of the Plan screen.
pub struct PlanState {
    document: Document,
    outlook: Option<Arc<Outlook>>,
    /// The next outlook while it is computed; never more than one.
    pending: Option<Promise<Outlook>>,
    opening: Option<Promise<Result<(Plan, PathBuf), String>>>,
    saving: Option<Promise<Saved>>,
    question: Option<Question>,
    questions: u64,
    only_missing: bool,
    launch: Launch,
    /// Spread of the repeats in the open session, by workload.
    spreads: Arc<BTreeMap<Key, SpreadSeen>>,
    /// The cells of the open session.
    held: Arc<HashMap<Identity, HeldCell>>,
    /// How many of the outlook's runs the session holds.
    kept: Option<Kept>,
    /// The plan that the screen shows by itself; another one is the user's.
    unchosen: Arc<Plan>,
    /// The plan of a session that was just opened is not known yet.
    awaits_plan: bool,
    /// The form of the plan's own program.
    program: command::Form,
    /// The plan that would replace this one, while its loss of typed text is asked about.
    replacing: Option<(Plan, Option<PathBuf>)>,
}

/// Progress of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Launch {
    /// Not requested.
    #[default]
    Idle,
    /// Requested; sent as soon as the outlook is known.
    Wanted,
    /// Sent and not yet answered; another request now would launch twice.
    Sent,
}

impl Default for PlanState {
    fn default() -> Self {
        let document = Document::new(start::first_plan());
        Self {
            unchosen: document.plan().clone(),
            document,
            outlook: None,
            pending: None,
            opening: None,
            saving: None,
            question: None,
            questions: 0,
            only_missing: false,
            launch: Launch::Idle,
            spreads: Arc::default(),
            held: Arc::default(),
            kept: None,
            awaits_plan: false,
            program: command::Form::default(),
            replacing: None,
        }
    }
}

impl PlanState {
    /// The machine was read.
    pub fn node_changed(&mut self) {
        // The outlook names its machine; `poll_plan` notices the change.
    }

    /// Another session was opened, whose plan is shown once it is known, or not.
    pub fn session_changed(&mut self, brings_plan: bool) {
        self.held = Arc::default();
        self.spreads = Arc::default();
        self.awaits_plan = brings_plan;
    }

    /// The open session has other runs. The first ones since it was opened bring its latest plan, unless the user chose or
    /// edited one.
    pub fn records_changed(&mut self, records: &Records) {
        self.spreads = Arc::clone(&records.spreads);
        self.held = Arc::clone(&records.held);
        let Some(last) = records.plans.last() else { return };
        if std::mem::take(&mut self.awaits_plan)
            && Arc::ptr_eq(self.document.plan(), &self.unchosen)
            && let Ok(plan) = last.plan()
            && plan != **self.document.plan()
        {
            self.document.open(plan, None);
            self.unchosen = self.document.plan().clone();
        }
    }

    /// Whether closing the window would lose edits: they are neither in a file nor launched, or are in no plan yet.
    pub fn has_unsaved_edits(&self, records: &Records) -> bool {
        let is_nowhere = || {
            let text = self.plan().to_toml();
            !records.plans.iter().any(|plan| plan.toml == text)
        };
        self.form_error().is_some() || (self.document.is_unsaved() && is_nowhere())
    }

    /// Whether saving asks for a path, or writes.
    pub fn is_saving(&self) -> bool {
        self.question.is_some() || self.saving.is_some()
    }

    fn poll_kept(&mut self) {
        let Some(outlook) = &self.outlook else { return };
        if !self.kept.as_ref().is_some_and(|kept| kept.is_of(outlook, &self.held)) {
            self.kept = Some(Kept::new(outlook, &self.held));
        }
    }

    /// Time of all runs of the outlook one after the other, in seconds.
    fn duration_s(&self, outlook: &Outlook) -> f64 {
        self.kept.as_ref().map_or(outlook.duration_s, |kept| kept.duration_s)
    }

    /// How many of the outlook's runs the open session holds already.
    fn kept_runs(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.runs)
    }

    /// The session answered a launch, with success or not.
    pub fn launch_answered(&mut self) {
        self.launch = Launch::Idle;
    }

    /// The plan's file, if it holds the plan as it stands.
    pub(super) fn saved_file(&self) -> Option<&std::path::Path> {
        self.document.path().filter(|_| !self.document.is_unsaved() && self.form_error().is_none())
    }

    /// Whether a launch keeps finished repeats of the session.
    pub(super) fn keeps_finished(&self) -> bool {
        self.only_missing
    }

    /// The plan that is edited.
    pub fn plan(&self) -> &Plan {
        self.document.plan()
    }

    /// Edits another plan, which has no file yet.
    pub fn edit_plan(&mut self, plan: Plan) {
        self.open(plan, None);
    }

    /// Opens a plan in place of this one. Undo returns to this one, but not to text that is in no plan yet: that is asked about.
    fn open(&mut self, plan: Plan, path: Option<PathBuf>) {
        if self.form_error().is_some() {
            self.replacing = Some((plan, path));
        } else {
            self.document.open(plan, path);
        }
    }

    fn edit(&mut self, merge: Option<EditKind>, change: impl FnOnce(&mut Plan)) {
        let mut plan = self.plan().clone();
        change(&mut plan);
        self.document.edit(plan, merge);
    }

    fn ask(&mut self, purpose: Purpose, context: &Context) {
        let path = self.document.path().map(PathBuf::from);
        let path = path.unwrap_or_else(|| files::suggested_path(self.plan()));
        let suggestion = match (purpose, path.parent()) {
            (Purpose::Open, Some(folder)) => format!("{}/", folder.display()),
            _ => path.display().to_string(),
        };
        self.questions += 1;
        self.question = Some(Question {
            number: self.questions,
            purpose,
            suggestion,
            dialog: Some(files::dialog(purpose, &path, context)),
            note: None,
            replace: None,
        });
    }

    fn save(&mut self, path: PathBuf, replace: bool, context: &Context) {
        let own = self.document.path() == Some(path.as_path());
        let from = self.document.path().map(PathBuf::from);
        self.saving = Some(files::write(self.document.plan().clone(), from, path, replace || own, context));
    }

    fn poll_question(&mut self, context: &Context) {
        let Some(question) = &mut self.question else { return };
        let Some(chosen) = question.dialog.take_if(|dialog| dialog.ready().is_some()) else { return };
        match (chosen.block_and_take(), question.purpose) {
            (Some(path), Purpose::Open) => {
                self.question = None;
                self.opening = Some(files::read(path, context));
            }
            (Some(path), Purpose::Save) => {
                self.question = None;
                // The dialog has already asked whether to replace an existing file.
                self.save(path, true, context);
            }
            (None, _) => {
                question.note = Some("No file was chosen. If no dialog appeared, type the path here.".to_owned());
            }
        }
    }

    /// The file that was saved just now, if any.
    fn poll_saving(&mut self) -> Result<Option<PathBuf>, String> {
        let Some(saved) = self.saving.take_if(|saving| saving.ready().is_some()) else { return Ok(None) };
        match saved.block_and_take() {
            Saved::Done(plan, path) => {
                let before = Arc::clone(self.document.plan());
                self.document.saved(plan, path.clone());
                self.program.saved(&before, self.document.plan());
                self.question = None;
                Ok(Some(path))
            }
            Saved::Exists(path) => match &mut self.question {
                Some(question) => {
                    question.note = Some(format!("{} exists: press Replace to overwrite it.", path.display()));
                    question.replace = Some(path);
                    Ok(None)
                }
                None => Err(format!("{} exists and was not replaced: choose another name", path.display())),
            },
            Saved::Failed(message) => Err(message),
        }
    }
}

impl State {
    /// Executes a command of the Plan screen.
    pub fn execute_plan(&mut self, command: PlanCommand, context: &Context, requests: &mut Vec<Request>) {
        let plan = &mut self.plan;
        match command {
            PlanCommand::Open => plan.ask(Purpose::Open, context),
            PlanCommand::OpenFile(path) => {
                self.screen = Screen::Plan;
                plan.opening = Some(files::read(path, context));
            }
            PlanCommand::Start(name) => {
                if let Some(start) = start::starting_plan(name) {
                    plan.open(start, None);
                }
            }
            PlanCommand::OfPaper(id) => {
                if let Some(of_paper) = papers::artefact(&id).ok().and_then(papers::Artefact::plan) {
                    plan.open(of_paper.clone(), None);
                }
            }
            PlanCommand::OfSession(number) => {
                if let Some(of_session) = self.records.plans.get(number) {
                    match of_session.plan() {
                        Ok(of_session) => plan.open(of_session, None),
                        Err(error) => self.problem(Screen::Plan, error.to_string()),
                    }
                }
            }
            PlanCommand::New => plan.open(Plan::new("untitled", image::spec()), None),
            PlanCommand::Save => match plan.document.path().map(PathBuf::from) {
                Some(path) => plan.save(path, true, context),
                None => plan.ask(Purpose::Save, context),
            },
            PlanCommand::SaveAs => plan.ask(Purpose::Save, context),
            PlanCommand::SaveFile { path, replace } => plan.save(path, replace, context),
            PlanCommand::CloseQuestion => plan.question = None,
            PlanCommand::AnswerReplace(yes) => {
                if let (Some((other, path)), true) = (plan.replacing.take(), yes) {
                    plan.document.open(other, path);
                }
            }
            PlanCommand::Undo => plan.document.undo(),
            PlanCommand::Redo => plan.document.redo(),
            PlanCommand::Toggle { key, level } => {
                let spec = plan.plan().first.spec.clone();
                let factor = spec.factor(&key);
                // The last level stays: each factor needs one.
                if let Some(edited) = factor.and_then(|factor| edit::toggled(plan.plan(), factor, &level)) {
                    plan.document.edit(edited, None);
                }
            }
            PlanCommand::AddLevels { key, levels } => {
                let spec = plan.plan().first.spec.clone();
                if let Some(factor) = spec.factor(&key) {
                    plan.document.edit(edit::with_levels(plan.plan(), factor, &levels), None);
                }
            }
            PlanCommand::Name(name) => {
                let name: String = name.trim().chars().filter(|c| !c.is_control()).collect();
                if is_name(&name) {
                    plan.edit(None, |plan| plan.name = name);
                }
            }
            PlanCommand::Repeats(repeats) => plan.edit(Some("repeats"), |plan| plan.repeats = repeats.clamp(1, 1000)),
            PlanCommand::Seed(seed) => plan.edit(Some("seed"), |plan| plan.seed = seed),
            PlanCommand::Order(order) => plan.edit(None, |plan| plan.order = order),
            PlanCommand::RunTimeLimit(limit) => plan.edit(Some("run time"), |plan| plan.limits.run_time_s = limit),
            PlanCommand::MemoryLimit(limit) => plan.edit(Some("memory"), |plan| plan.limits.memory_limit_gb = limit),
            PlanCommand::Exclusive(exclusive) => plan.edit(None, |plan| plan.limits.exclusive = exclusive),
            PlanCommand::WarmUpSteps(steps) => plan.edit(Some("warm-up"), |plan| plan.warm_up_steps = steps),
            PlanCommand::Mode(mode) => plan.edit(Some("mode"), |plan| plan.mode = mode),
            PlanCommand::ToggleTracer(tracer) => plan.edit(None, |plan| plan.tracing = plan.tracing.toggled(tracer)),
            PlanCommand::TracedPart(part) => {
                plan.edit(Some("traced part"), |plan| plan.tracing = plan.tracing.with_capture(part));
            }
            PlanCommand::Texts(texts) => plan.type_texts(*texts),
            PlanCommand::TryOnce => {
                if self.trial_refusal().is_none() {
                    let plan = self.plan.plan().clone();
                    self.plan.program.try_once(plan, context);
                }
            }
            PlanCommand::StopTrial => {
                plan.program.stop_trial();
            }
            PlanCommand::Workload(spec) => plan.edit(None, |plan| plan.first = Block::new(spec)),
            PlanCommand::Data(data) => plan.edit(None, |plan| plan.first.set_data(data)),
            PlanCommand::OnlyMissing(only_missing) => plan.only_missing = only_missing,
            PlanCommand::Launch => self.launch_plan(requests),
        }
    }

    /// Takes over the results of background work.
    pub fn poll_plan(&mut self, context: &Context, requests: &mut Vec<Request>) {
        let plan = &mut self.plan;
        plan.poll_question(context);
        plan.program.poll_trial();
        match plan.poll_saving() {
            Ok(Some(path)) => self.settings.used_plan(&path),
            Ok(None) => {}
            Err(message) => self.problem(Screen::Plan, message),
        }
        let plan = &mut self.plan;
        if let Some(opened) = plan.opening.take_if(|opening| opening.ready().is_some()) {
            match opened.block_and_take() {
                Ok((opened, path)) => {
                    plan.question = None;
                    // Errors of the file are obsolete.
                    let about_it = format!("{}:", path.display());
                    self.problems.retain(|problem| !problem.message.starts_with(&about_it));
                    self.settings.used_plan(&path);
                    plan.open(opened, Some(path));
                }
                Err(message) => self.problem(Screen::Plan, message),
            }
        }
        self.poll_outlook(context);
        self.plan.poll_kept();
        if self.plan.launch == Launch::Wanted && self.outlook().is_some() {
            self.launch_plan(requests);
        }
    }

    fn poll_outlook(&mut self, context: &Context) {
        let plan = &mut self.plan;
        if let Some(outlook) = plan.pending.take_if(|pending| pending.ready().is_some()) {
            plan.outlook = Some(Arc::new(outlook.block_and_take()));
        }
        let Some(node) = self.node.clone() else { return };
        if self.plan.pending.is_none() && self.outlook().is_none() {
            let plan = self.plan.document.plan().clone();
            // What is installed on another machine is not known here.
            let is_here = self.session.as_ref().is_none_or(|session| session.host().is_none());
            self.plan.pending = Some(on_thread("plan outlook", context, move || {
                let missing = if is_here { missing_program(&plan) } else { None };
                let mut outlook = Outlook::new(plan, node);
                outlook.remarks.splice(0..0, missing);
                outlook
            }));
        }
    }

    /// The outlook of the current plan on the current machine, once known.
    fn outlook(&self) -> Option<&Arc<Outlook>> {
        let node = self.node.as_ref()?;
        let outlook = self.plan.outlook.as_ref()?;
        let current = Arc::ptr_eq(&outlook.plan, self.plan.document.plan()) && Arc::ptr_eq(&outlook.node, node);
        current.then_some(outlook)
    }

    /// Why nothing can be launched now; none if it can, or if that is not known yet.
    fn launch_refusal(&self) -> Option<String> {
        let session = self.session.as_ref().filter(|session| !session.is_sample());
        if let Some(reason) = session.and_then(|session| session.read_only.as_ref()) {
            return Some(reason.clone());
        }
        let Some(node) = &self.node else { return Some("Reading this machine …".to_owned()) };
        if let Some(error) = self.plan.form_error() {
            return Some(format!("The program is not complete: {error}"));
        }
        if self.plan.program.is_trying() {
            return Some("A trial is running.".to_owned());
        }
        if let (true, Err(reason)) = (self.plan.document.plan().needs_worker(), &node.worker) {
            return Some(format!("Runs need the worker: {reason}"));
        }
        let outlook = self.outlook()?;
        if outlook.runs > 0 {
            let is_all_there = self.plan.only_missing && self.plan.kept_runs() >= outlook.runs;
            return is_all_there.then(|| {
                "Nothing is missing: the session holds all of these runs. Untick \"keep finished repeats\" to run them again."
                    .to_owned()
            });
        }
        let reason = outlook.matrix.invalid.first().map_or("no cell", |cell| cell.reason.as_str());
        Some(format!("No cell can run here: {reason}"))
    }

    fn launch_plan(&mut self, requests: &mut Vec<Request>) {
        if self.plan.launch == Launch::Sent {
            return;
        }
        self.plan.launch = Launch::Idle;
        if let Some(reason) = self.launch_refusal() {
            return self.problem(Screen::Plan, format!("Nothing was launched. {reason}"));
        }
        if self.outlook().is_none() {
            self.plan.launch = Launch::Wanted;
            return;
        }
        self.plan.launch = Launch::Sent;
        requests
            .push(Request::Launch { plan: Box::new(self.plan.plan().clone()), only_missing: self.plan.only_missing });
    }
}

/// Draws the Plan screen.
pub fn plan_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    fields_on_cards(ui);
    let width = ui.available_width();
    let frame = Frame::new().inner_margin(Margin { left: (3.0 * GRID) as i8, ..Margin::ZERO });
    Panel::right("plan-matrix")
        .frame(frame)
        .resizable(true)
        .default_size((width * 0.45).max(300.0))
        .size_range(280.0..=(width * 0.55).max(280.0))
        .show(ui, |ui| {
            ui.take_available_width();
            matrix::matrix_panel_ui(ui, state, commands);
        });
    CentralPanel::no_frame().show(ui, |ui| {
        bar::bar_ui(ui, state, commands);
        ScrollArea::vertical().id_salt("plan-cards").auto_shrink(false).show(ui, |ui| {
            // The scroll bar is next to the cards.
            ui.set_max_width(ui.available_width() - SCROLL_BAR);
            about::about_ui(ui, state, commands);
            ui.add_space(GRID);
            if state.plan.plan().first.spec.command.is_some() {
                command::command_ui(ui, state, commands);
            } else {
                card::cards_ui(ui, state, commands);
            }
        });
    });
}
