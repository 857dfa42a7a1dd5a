//! The Plan screen: tick levels, see the runs they give, launch them.

mod about;
mod bar;
mod card;
mod command;
mod constraints;
mod design;
mod document;
mod edit;
mod files;
mod grid;
mod launch;
mod limit;
mod list;
mod matrix;
mod new_line;
mod outlook;
mod search;
mod start;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use eframe::egui::{CentralPanel, Context, Frame, Id, Key as KeyPress, Margin, Modifiers, Panel, ScrollArea, Ui};
use poll_promise::Promise;

use crate::analysis::SpreadSeen;
use crate::app::command::{Command, EditKind, Edits, ScreenCommand, ScreenName};
use crate::app::desk::{Desk, Intent, News};
use crate::app::engine::{Records, Sampling, SessionPlan};
use crate::app::screen::{self, Executes, KeyHelp, Keys, Screen, Unsaved};
use crate::app::theme::GRID;
use crate::app::words::{path_word, shell_word};
use crate::plan::{CommandTexts, Identity, Key, Plan, Tracer};
use crate::store::HeldCell;

use document::{Document, FileText};
use files::{Purpose, Question, Saved};
use launch::Launch;
use list::{FormList, NewLine};
use outlook::{Kept, Outlook};
use search::SearchTexts;
use start::STARTING_PLANS;

/// Width of the cards' scroll bar.
const SCROLL_BAR: f32 = 3.0 * GRID;
/// The matrix's share of the width unless the user moves its boundary, and its largest share.
const MATRIX_SHARE: f32 = 0.45;
const MOST_MATRIX_SHARE: f32 = 0.55;
/// The least width of the matrix, in points.
const LEAST_MATRIX: f32 = 280.0;

/// A command of the Plan screen.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanCommand {
    /// Ask the user which plan file to open.
    Open,
    /// Open this plan file.
    OpenFile(PathBuf),
    /// Open the starting plan with this name.
    Start(&'static str),
    /// Open this plan, which has no file yet.
    Begin(Box<Plan>),
    /// Open a plan that was launched into the open session, by its number from 0.
    OfSession(usize),
    /// Save the plan; asks for a path unless it came from a file.
    Save,
    /// Ask the user where to save the plan.
    SaveAs,
    /// Save the plan to this file.
    SaveFile {
        /// The file.
        path: PathBuf,
        /// Whether another existing file may be replaced.
        replace: bool,
    },
    /// Close the question for a path, and the one about a file that another program changed.
    CloseQuestion,
    /// Open the requested plan even though typed text is lost, or stay.
    AnswerReplace(bool),
    /// Undo the last edit.
    Undo,
    /// Redo the last undone edit.
    Redo,
    /// Choose the block at this index, from 0: it is shown as the plan's first.
    Block(usize),
    /// Add a block after the chosen one and choose it: one cell with all defaults of the same workload.
    AddBlock,
    /// Add a copy of the chosen block after it and choose the copy.
    CopyBlock,
    /// Remove the chosen block.
    RemoveBlock,
    /// Replace the plan by the edited plan, whose first block is the chosen one. Consecutive edits of one kind are undone together.
    Edit(Box<Plan>, Option<EditKind>),
    /// Set the texts of the plan's own program.
    Texts(Box<CommandTexts>),
    /// Set the texts of the plan's constraints: the excluded cells, and the reasons.
    Constraints(Vec<(String, String)>),
    /// Keep what was typed into the line for a new item of a list.
    TypeLine(FormList, NewLine),
    /// Add the item of that line, if it is complete.
    AddLine(FormList),
    /// Set the texts of the plan's search.
    Search(SearchTexts),
    /// Run the first cell for some seconds and show the readings that are found.
    TryOnce,
    /// End the trial.
    StopTrial,
    /// Keep finished repeats of the session, or run everything again.
    OnlyMissing(bool),
    /// Launch the plan; asks first if all runs of the session were imported.
    Launch,
    /// Launch it into the session of imported runs, or not.
    AnswerLaunch(bool),
}

impl PlanCommand {
    /// Whether complete lines for new items are first added to the plan: it runs, or another of its blocks is edited.
    fn uses_new_lines(&self) -> bool {
        let of_blocks = matches!(self, Self::Block(_) | Self::AddBlock | Self::CopyBlock | Self::RemoveBlock);
        of_blocks || matches!(self, Self::Launch | Self::TryOnce)
    }
}

impl ScreenCommand for PlanCommand {
    const SCREEN: ScreenName = ScreenName::PLAN;
}

impl Edits for PlanCommand {
    type Value = Plan;

    fn edit(plan: Plan, kind: Option<EditKind>) -> Self {
        Self::Edit(Box::new(plan), kind)
    }

    fn edited(&self) -> Option<&Plan> {
        match self {
            Self::Edit(plan, _) => Some(plan),
            _ => None,
        }
    }
}

/// The data that the screen is drawn from.
type View<'a> = screen::View<'a, PlanScreen>;

/// The Plan screen.
pub struct PlanScreen {
    document: Document,
    outlook: Option<Arc<Outlook>>,
    /// The next outlook while it is computed; never more than one.
    pending: Option<Promise<Outlook>>,
    opening: Option<Promise<Result<(Plan, FileText), String>>>,
    saving: Option<Promise<Saved>>,
    /// The plan's file that another program changed, while the user is asked whether to replace it.
    changed: Option<PathBuf>,
    question: Option<Question>,
    questions: u64,
    only_missing: bool,
    launch: Launch,
    /// Whether the user is asked if runs go into a session of imported runs.
    asking_launch: bool,
    /// Spread of the repeats in the open session, by workload.
    spreads: Arc<BTreeMap<Key, SpreadSeen>>,
    /// The cells of the open session.
    held: Arc<HashMap<Identity, HeldCell>>,
    /// How many of the outlook's runs the session already has.
    kept: Option<Kept>,
    /// The plan that the screen chose by itself; any other plan is the user's choice.
    unchosen: Arc<Plan>,
    /// Whether the plan of a session that was just opened is still unknown.
    awaits_plan: bool,
    /// The form of the plan's own program.
    program: command::Form,
    /// The constraints as typed texts.
    constraints: Option<constraints::Typed>,
    /// The search as typed texts.
    search: Option<search::Typed>,
    /// The plan that would replace this one, while the user is asked about the loss of typed text.
    replacing: Option<(Plan, Option<FileText>)>,
    /// The control that had the focus when this was last looked at.
    focused: Option<Id>,
}

impl Default for PlanScreen {
    fn default() -> Self {
        let document = Document::new(start::first_plan());
        Self {
            unchosen: document.plan().clone(),
            document,
            outlook: None,
            pending: None,
            opening: None,
            saving: None,
            changed: None,
            question: None,
            questions: 0,
            only_missing: false,
            launch: Launch::Idle,
            asking_launch: false,
            spreads: Arc::default(),
            held: Arc::default(),
            kept: None,
            awaits_plan: false,
            program: command::Form::default(),
            constraints: None,
            search: None,
            replacing: None,
            focused: None,
        }
    }
}

impl PlanScreen {
    /// Another session was opened. If `brings_plan`, its plan is shown once it is known.
    fn session_changed(&mut self, brings_plan: bool) {
        self.held = Arc::default();
        self.spreads = Arc::default();
        self.awaits_plan = brings_plan;
        self.asking_launch = false;
    }

    /// The runs of the open session changed. The first runs since it was opened bring its latest plan, unless the user chose or edited one.
    /// Nothing of the user's is replaced, so there is nothing to undo.
    fn records_changed(&mut self, records: &Records) {
        self.spreads = Arc::clone(&records.spreads);
        self.held = Arc::clone(&records.held);
        let Some(last) = records.plans.last() else { return };
        if std::mem::take(&mut self.awaits_plan)
            && Arc::ptr_eq(self.document.plan(), &self.unchosen)
            && !self.has_loose_text()
            && let Ok(plan) = last.plan()
            && plan != **self.document.plan()
        {
            self.document = Document::new(plan);
            self.unchosen = self.document.plan().clone();
        }
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

    /// Whether the time of some cell is unknown.
    fn lacks_times(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.lacks_times)
    }

    /// How many of the outlook's runs the open session already has.
    fn kept_runs(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.runs)
    }

    /// The plan's file, if its contents equal the plan.
    fn saved_file(&self) -> Option<&std::path::Path> {
        self.document.path().filter(|_| !self.is_unsaved())
    }

    /// Whether the plan differs from its file or, without one, from its start, or typed text is not part of it yet.
    fn is_unsaved(&self) -> bool {
        self.document.is_unsaved() || self.has_loose_text()
    }

    /// Whether typed text is not part of the plan yet.
    fn has_loose_text(&self) -> bool {
        self.form_error().is_some() || self.has_new_lines()
    }

    /// What is wrong with typed text that is not part of the plan yet.
    pub fn form_error(&self) -> Option<String> {
        let of_program = self.document.text_error().map(|error| format!("The program is not complete: {error}"));
        let of_lists = || self.constraint_error().or_else(|| self.new_line_error());
        of_program.or_else(of_lists).or_else(|| self.search_error())
    }

    /// The error of [`Self::form_error`] for places away from the form. It does not repeat the text below the command.
    fn short_form_error(&self) -> Option<String> {
        let error = self.form_error()?;
        if self.program_error().is_none() {
            return Some(error);
        }
        Some(match self.lacking_factor() {
            Some(factor) => format!("Add the factor {factor} first."),
            None => "The program is not complete: the text below its command says what it lacks.".to_owned(),
        })
    }

    /// The edited plan, with the chosen block as its first.
    pub fn plan(&self) -> &Plan {
        self.document.shown()
    }

    /// Ends the current step of undo if the focus has left a field: edits in one field are undone together.
    fn part_where_focus_moved(&mut self, context: &Context) {
        let focused = context.memory(|memory| memory.focused());
        if std::mem::replace(&mut self.focused, focused) != focused {
            self.document.part();
        }
    }

    /// Opens another plan in place of the present one. Undo returns to the present plan, but not to typed constraints, a typed search or
    /// lines for new items that are not part of a plan yet; the user is asked whether such text may be lost.
    fn open(&mut self, plan: Plan, file: Option<FileText>) {
        self.add_lines();
        if self.form_error().is_some() {
            self.replacing = Some((plan, file));
        } else {
            self.replace(plan, file);
        }
    }

    /// Applies typed texts that are valid by now: another factor may have made them valid.
    fn settle_texts(&mut self) {
        if let Some(typed) = &mut self.search {
            typed.settle(&mut self.document);
        }
        if let Some(typed) = &mut self.constraints {
            typed.settle(&mut self.document);
        }
    }

    fn replace(&mut self, plan: Plan, file: Option<FileText>) {
        (self.constraints, self.search) = (None, None);
        self.document.open(plan, file);
    }
}

impl Executes for PlanScreen {
    type Command = PlanCommand;

    fn execute(&mut self, command: PlanCommand, desk: &mut Desk, context: &Context) {
        self.part_where_focus_moved(context);
        if command.uses_new_lines() {
            self.add_lines();
        }
        match command {
            PlanCommand::Open => self.ask(Purpose::Open, desk, context),
            PlanCommand::OpenFile(path) => {
                desk.screen = ScreenName::PLAN;
                self.begin_opening(path, context);
            }
            PlanCommand::Start(name) => {
                if let Some(plan) = start::starting_plan(name) {
                    self.open(plan, None);
                }
            }
            PlanCommand::Begin(plan) => self.open(*plan, None),
            PlanCommand::OfSession(number) => match desk.records.plans.get(number).map(SessionPlan::plan) {
                Some(Ok(plan)) => self.open(plan, None),
                Some(Err(error)) => desk.problem(ScreenName::PLAN, error.to_string()),
                None => {}
            },
            PlanCommand::Save => match self.document.path().map(PathBuf::from) {
                Some(path) => self.save(path, false, desk, context),
                None => self.ask(Purpose::Save, desk, context),
            },
            PlanCommand::SaveAs => self.ask(Purpose::Save, desk, context),
            PlanCommand::SaveFile { path, replace } => self.save(path, replace, desk, context),
            PlanCommand::CloseQuestion => (self.question, self.changed) = (None, None),
            PlanCommand::AnswerReplace(yes) => {
                if let (Some((other, file)), true) = (self.replacing.take(), yes) {
                    self.replace(other, file);
                }
            }
            PlanCommand::Undo => self.document.undo(),
            PlanCommand::Redo => self.document.redo(),
            PlanCommand::Block(place) => self.document.choose(place),
            PlanCommand::AddBlock => self.document.add_block(false),
            PlanCommand::CopyBlock => self.document.add_block(true),
            PlanCommand::RemoveBlock => self.document.remove_block(),
            PlanCommand::Edit(plan, kind) => self.document.edit_shown(&plan, kind),
            PlanCommand::Texts(texts) => self.type_texts(*texts),
            PlanCommand::Search(texts) => self.search = Some(search::Typed::new(texts, self.document.plan())),
            PlanCommand::Constraints(texts) => self.type_constraints(texts),
            PlanCommand::TypeLine(list, line) => self.document.set_new_line(list, Some(line)),
            PlanCommand::AddLine(list) => self.add_line(list),
            PlanCommand::TryOnce => {
                if (View { own: self, desk }).trial_refusal().is_none() {
                    let plan = self.plan().clone();
                    self.program.try_once(plan, context);
                }
            }
            PlanCommand::StopTrial => {
                self.program.stop_trial();
            }
            PlanCommand::OnlyMissing(only_missing) => self.only_missing = only_missing,
            PlanCommand::Launch => {
                let view = View { own: self, desk };
                if let Some(error) = card::refused_text(context, self.plan()) {
                    desk.problem(ScreenName::PLAN, format!("Nothing was launched. {error}"));
                } else if view.is_of_imported_runs() && view.launch_refusal().is_none() {
                    self.asking_launch = true;
                    desk.screen = ScreenName::PLAN;
                } else {
                    self.launch_plan(desk);
                }
            }
            PlanCommand::AnswerLaunch(yes) => {
                self.asking_launch = false;
                if yes {
                    self.launch_plan(desk);
                }
            }
        }
        self.settle_texts();
    }
}

impl Screen for PlanScreen {
    fn ui(&self, desk: &Desk, ui: &mut Ui, commands: &mut Vec<Command>) {
        plan_ui(ui, View { own: self, desk }, commands);
    }

    fn poll(&mut self, desk: &mut Desk, context: &Context) {
        self.part_where_focus_moved(context);
        self.poll_question(desk, context);
        self.program.poll_trial();
        self.poll_saving(desk);
        self.poll_opening(desk);
        self.poll_outlook(desk, context);
        self.poll_kept();
        if self.launch == Launch::Wanted && (View { own: self, desk }).outlook().is_some() {
            self.launch_plan(desk);
        }
    }

    fn receive_news(&mut self, news: News, desk: &mut Desk) {
        let is_own = desk.session.as_ref().is_some_and(|session| !session.is_sample());
        match news {
            // The sample's plan and cells do not concern the edited plan.
            News::Session => self.session_changed(is_own),
            News::Records if is_own => self.records_changed(&desk.records),
            News::Launched | News::Failed => self.launch = Launch::Idle,
            _ => {}
        }
    }

    fn receive_request(&mut self, intent: Intent, desk: &mut Desk, context: &Context) {
        match intent {
            Intent::Open(path) => self.execute(PlanCommand::OpenFile(path), desk, context),
            Intent::Edit(plan) => self.open(*plan, None),
            Intent::Save => self.execute(PlanCommand::Save, desk, context),
            Intent::Look => {}
        }
    }

    fn shortcuts(&self, desk: &Desk, keys: &mut Keys<'_>) {
        keys.on(Modifiers::COMMAND, KeyPress::O, PlanCommand::Open);
        keys.on(Modifiers::COMMAND, KeyPress::S, PlanCommand::Save);
        // On another screen, the key would change something invisible.
        if desk.screen == ScreenName::PLAN {
            keys.history(PlanCommand::Undo, PlanCommand::Redo);
            if !keys.is_covered {
                keys.on(Modifiers::COMMAND, KeyPress::Enter, PlanCommand::Launch);
            }
        }
    }

    fn key_help(&self) -> KeyHelp {
        &[
            ("Ctrl Enter", "launch the plan (Plan)"),
            ("Ctrl O, Ctrl S", "open, save a plan"),
            ("Ctrl Z, Ctrl Y", "undo, redo (Plan, Runs, Compare, Figures); Ctrl Shift Z redoes, too"),
        ]
    }

    fn palette(&self, desk: &Desk) -> Vec<(String, Command)> {
        let mut entries = Vec::new();
        let mut add = |name: String, command: PlanCommand| entries.push((name, command.into()));
        add("Launch the plan".to_owned(), PlanCommand::Launch);
        add("Open a plan …".to_owned(), PlanCommand::Open);
        add("Save the plan …".to_owned(), PlanCommand::Save);
        for start in STARTING_PLANS {
            add(format!("Open the starting plan {}", start.name), PlanCommand::Start(start.name));
        }
        for path in &desk.settings.recent_plans {
            add(format!("Open plan {}", path.display()), PlanCommand::OpenFile(path.clone()));
        }
        let programs = self.plan().blocks().any(|block| block.spec.command.is_some());
        for tracer in Tracer::KINDS {
            let has = self.plan().tracing.has(tracer);
            if !has && about::tracer_refusal(tracer, programs, desk.node.as_deref()).is_some() {
                continue;
            }
            let verb = if has { "Untick" } else { "Tick" };
            let mut edited = self.plan().clone();
            edited.toggle(tracer);
            let name = format!("{verb} trace {} in the plan", tracer.name());
            add(name, PlanCommand::Edit(Box::new(edited), None));
        }
        add("Add a block to the plan".to_owned(), PlanCommand::AddBlock);
        add("Copy the block of the plan".to_owned(), PlanCommand::CopyBlock);
        if !self.document.plan().further.is_empty() {
            add("Remove the block from the plan".to_owned(), PlanCommand::RemoveBlock);
        }
        for (place, block) in self.document.plan().blocks().enumerate() {
            add(format!("Edit block {}: {}", place + 1, about::block_name(block)), PlanCommand::Block(place));
        }
        if self.document.can_undo() {
            add("Undo the last plan edit".to_owned(), PlanCommand::Undo);
        }
        if self.document.can_redo() {
            add("Redo the plan edit".to_owned(), PlanCommand::Redo);
        }
        entries
    }

    fn command_line(&self, desk: &Desk) -> Result<String, String> {
        let file = self.saved_file().ok_or("no file contains the plan as it is on screen: save it first")?;
        let session = desk.session.as_ref().filter(|session| !session.is_sample());
        let session = session.map_or(String::new(), |session| format!(" --session {}", shell_word(&session.place())));
        let resume = if self.only_missing { " --resume" } else { "" };
        Ok(format!("multicard run {}{session}{resume}", path_word(file)))
    }

    fn sampling(&self) -> Option<Sampling> {
        Some(Sampling { interval: Duration::from_secs(5), only_use: true })
    }

    /// Edits that are neither in a file nor launched, or not part of the plan yet.
    fn unsaved(&self, desk: &Desk) -> Option<Unsaved> {
        let is_nowhere = || {
            let text = self.document.plan().to_toml();
            !desk.records.plans.iter().any(|plan| plan.toml == text)
        };
        let has_edits = self.has_loose_text() || (self.document.is_unsaved() && is_nowhere());
        has_edits.then(|| Unsaved {
            screen: ScreenName::PLAN,
            name: self.plan().name.clone(),
            refusal: self.save_refusal(),
            is_saving: self.question.is_some() || self.changed.is_some() || self.saving.is_some(),
        })
    }
}

/// Draws the Plan screen.
fn plan_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let frame = Frame::new().inner_margin(Margin { left: (3.0 * GRID) as i8, ..Margin::ZERO });
    matrix_beside(ui, Panel::right("plan-matrix").frame(frame).resizable(true), |ui| {
        ui.take_available_width();
        matrix::matrix_panel_ui(ui, view, commands);
    });
    CentralPanel::no_frame().show(ui, |ui| {
        bar::bar_ui(ui, view, commands);
        ScrollArea::vertical().id_salt("plan-cards").auto_shrink(false).show(ui, |ui| {
            // The scroll bar is next to the cards.
            ui.set_max_width(ui.available_width() - SCROLL_BAR);
            about::about_ui(ui, view, commands);
            ui.add_space(GRID);
            if view.own.plan().first.spec.command.is_some() {
                command::command_ui(ui, view, commands);
            } else {
                card::cards_ui(ui, view, commands);
            }
            ui.add_space(2.0 * GRID);
            constraints::constraints_ui(ui, view, commands);
        });
    });
}

/// Draws the matrix in a panel that keeps its share of the width when the window's width changes. The user sets the share by moving the
/// boundary.
fn matrix_beside(ui: &mut Ui, panel: Panel, content: impl FnOnce(&mut Ui)) {
    let id = Id::unique("share of the matrix");
    let width = ui.available_width();
    let known: Option<(f32, f32)> = ui.data(|data| data.get_temp(id));
    let (share, width_before) = known.unwrap_or((MATRIX_SHARE, 0.0));
    let most = (MOST_MATRIX_SHARE * width).max(LEAST_MATRIX);
    let size = (share * width).clamp(LEAST_MATRIX, most);
    let is_same_width = (width - width_before).abs() < 0.5;
    let panel = if is_same_width { panel.size_range(LEAST_MATRIX..=most) } else { panel.exact_size(size) };
    let shown = panel.show(ui, content).response.rect.width();
    let is_moved = is_same_width && ui.input(|input| input.pointer.any_down() || input.pointer.any_released());
    let share = if is_moved && (shown - size).abs() > 1.0 { shown / width } else { share };
    ui.data_mut(|data| data.insert_temp(id, (share, width)));
}
