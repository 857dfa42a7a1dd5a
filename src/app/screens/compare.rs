//! The Compare screen: cells side by side, as bars, curves and a table.

mod charts;
mod claims;
mod controls;
mod effect_rows;
mod empty;
mod layout;
mod levels_menu;
mod lines;
mod marks;
mod measures_menu;
mod metrics;
mod next_step;
mod paper;
mod picture;
mod recorded;
mod side;
mod status;
mod study_menu;
mod table;
#[cfg(test)]
mod tests;
mod to_history;

use std::collections::BTreeMap;
use std::path::PathBuf;

use eframe::egui::{Context, Id, Key as KeyPress, Modifiers, Ui};
use poll_promise::Promise;

use crate::analysis::{CellKey, SESSION, is_of_session, setting_key};
use crate::app::cell_table::{Sort, copies, next_sort};
use crate::app::command::{Command, EditKind, Edits, ScreenCommand, ScreenName};
use crate::app::command_line::{of_compared, study_words};
use crate::app::desk::{Desk, Intent, Looks, News, Source};
use crate::app::engine::Request;
use crate::app::history::History;
use crate::app::screen::{self, Executes, KeyHelp, Keys, Screen};
use crate::app::task::{choose_session, on_thread, taken};
use crate::figure::{Chart, Comparison, Form, Format, Study, Table, baseline_name, study_groups};
use crate::plan::{Key, OwnMeasure};
use picture::Picture;

/// A command of the Compare screen.
#[derive(Clone, Debug, PartialEq)]
pub enum CompareCommand {
    /// Focus the filter field.
    FocusFilter,
    /// Show the edited study. Consecutive edits of one kind are undone together.
    Edit(Box<Study>, Option<EditKind>),
    /// Set the baseline of ratios, in the form that studies use; `None` means the first cell that has the measure.
    Baseline(Option<String>),
    /// Make the next cell the baseline.
    NextBaseline,
    /// Switch to a study.
    Study(Box<Study>),
    /// Save what is shown as a study with this name in the session.
    SaveStudy(String),
    /// Delete the saved study with this name.
    DeleteStudy(String),
    /// Save a user-defined measure in the session.
    SaveMeasure(Box<OwnMeasure>),
    /// Delete the user-defined measure that has this key.
    DeleteMeasure(Key),
    /// Show this kind of chart.
    Form(Form),
    /// Show the verdicts on the papers' claims in place of charts and table, or not.
    Claims(bool),
    /// Queue the runs that the session lacks for the displayed table or figure of a paper.
    QueueMissing,
    /// Queue more repeats of the cells whose verdicts are undecided.
    QueueRepeats,
    /// Queue runs for cells without a finished run.
    QueueLacking,
    /// Open a plan with full runs of the displayed quick cells.
    PlanFullRuns,
    /// Choose a profiler report in the system's dialog.
    ChooseReport,
    /// Sort the table by the column with this key: ascending, then descending, then not at all.
    Sort(String),
    /// Select a cell, or no cell.
    Select(Option<CellKey>),
    /// Select an effect by the name of its change, or none.
    Effect(Option<String>),
    /// Add the session in a folder to the comparison.
    Add(PathBuf),
    /// Choose the folder of a session to add in the system's dialog.
    Choose,
    /// Remove the session in a folder from the comparison.
    Remove(PathBuf),
    /// Remember the table's share of the height.
    TableShare(f32),
    /// Copy the table as shown.
    Copy(Format),
    /// Save the table as shown in a file.
    SaveTable,
    /// Show the runs of a cell.
    Open(CellKey),
    /// Undo the last change of what is shown.
    Undo,
    /// Redo the last undone change.
    Redo,
}

impl ScreenCommand for CompareCommand {
    const SCREEN: ScreenName = ScreenName::COMPARE;
}

impl Edits for CompareCommand {
    type Value = Study;

    fn edit(study: Study, kind: Option<EditKind>) -> Self {
        Self::Edit(Box::new(study), kind)
    }

    fn edited(&self) -> Option<&Study> {
        match self {
            Self::Edit(study, _) => Some(study),
            _ => None,
        }
    }
}

/// The data that the screen is drawn from.
type View<'a> = screen::View<'a, CompareScreen>;

/// The Compare screen.
#[derive(Default)]
pub struct CompareScreen {
    /// What is shown and how.
    pub study: Study,
    /// Whether the runs of the open session may still choose what is shown first.
    is_first_view: bool,
    /// The folder of the open session, and what was shown of sessions that were open before.
    folder: Option<PathBuf>,
    studies: BTreeMap<PathBuf, Study>,
    /// The cell that the default baseline was resolved to. It stays the baseline when runs are added or filtered and when another measure
    /// is chosen, as long as it has that measure.
    held: Option<CellKey>,
    /// Earlier studies, and undone ones; the last one is the nearest.
    history: History<Study>,
    /// Whether claims are shown in place of charts and table.
    pub claims: bool,
    /// The table's order: a column's key, and whether it is descending.
    pub sort: Sort,
    /// The selected cell.
    pub selected: Option<CellKey>,
    /// The selected effect, by the name of its change.
    effect: Option<String>,
    /// The drawn picture.
    picture: Option<Picture>,
    /// Rows of its table in the displayed order.
    order: Vec<usize>,
    work: Option<Promise<Picture>>,
    /// Dialog for a session's folder or a report's file.
    dialog: Option<Promise<Option<PathBuf>>>,
    /// Whether runs or study have changed since the work started.
    stale: bool,
}

impl CompareScreen {
    /// Another session was opened. A study names cells and factors of its session, so each session keeps its own.
    fn session_changed(&mut self, folder: Option<PathBuf>) {
        if let Some(left) = std::mem::replace(&mut self.folder, folder) {
            let opened = self.folder.as_ref().and_then(|folder| self.studies.get(folder)).cloned();
            self.studies.insert(left, std::mem::replace(&mut self.study, opened.unwrap_or_default()));
            (self.selected, self.effect) = (None, None);
        }
        (self.held, self.stale) = (None, true);
        self.history = History::default();
        self.await_first_view();
    }

    /// Whether the picture is out of date.
    pub fn is_updating(&self) -> bool {
        self.stale || self.work.is_some()
    }

    /// Whether no chart is drawn.
    pub fn is_blank(&self) -> bool {
        self.picture.as_ref().is_none_or(|picture| picture.comparison.charts.iter().all(Chart::is_empty))
    }

    /// The table with its rows and columns as they are shown.
    fn shown_table(&self, desk: &Desk) -> Option<Table> {
        Some(table::copied_table(self.picture.as_ref()?, &self.order, &desk.settings))
    }

    fn sort_rows(&mut self) {
        self.order = self.picture.as_ref().map_or(Vec::new(), |picture| picture.order(&self.sort));
    }

    /// The study with the resolved baseline.
    fn held_study(&self) -> Study {
        let held = || self.held.as_ref().map(baseline_name);
        Study { baseline: self.study.baseline.clone().or_else(held), ..self.study.clone() }
    }

    /// The study that has the same baseline outside this screen, in commands and on Figures. It names a baseline that is kept only if it
    /// would have another one without the name.
    fn shared_study(&self) -> Study {
        let is_usual = |picture: &Picture| !self.is_updating() && picture.comparison.has_usual_baseline;
        if self.picture.as_ref().is_some_and(is_usual) { self.study.clone() } else { self.held_study() }
    }

    /// Keeps the baseline that was found, as long as there are ratios to it: filters, forms and new runs do not change it.
    fn hold_baseline(&mut self, comparison: &Comparison) {
        if self.study.baseline.is_some() || self.stale {
            return;
        }
        let was_held = self.held.take().is_some();
        if comparison.has_ratios {
            // The name leaves out the environment of the runs: otherwise, one part of the cell would become the baseline of all cells.
            let of_any_making = |cell: &CellKey| CellKey { made_with: String::new(), ..cell.clone() };
            self.held = comparison.baseline.as_ref().and_then(|(cell, _)| cell.as_ref()).map(of_any_making);
        }
        // Another cell may have the measure.
        self.stale = was_held && self.held.is_none();
    }

    /// Keeps the shown measure when a session is added to the open one: without a choice of the user, cells of the added session that have
    /// the usual measure would bring it on screen.
    fn keep_measure(&mut self, desk: &Desk) {
        let is_choice_of_user = self.study.measure.is_some() || self.study.form == Form::Loss;
        let picture = self.picture.as_ref().filter(|picture| !picture.is_of_several && !self.is_updating());
        let Some(picture) = picture.filter(|_| !is_choice_of_user && desk.sources().len() > 1) else { return };
        let shown = &picture.comparison.measure;
        self.study.measure = (*shown != *Study::default().shown_measure()).then(|| shown.clone());
    }

    /// Records a change of what is shown, so that it can be undone.
    fn changed(&mut self, before: Study, kind: Option<EditKind>) {
        self.history.edited(before, kind);
        self.stale = true;
    }

    fn undo(&mut self, redo: bool, desk: &mut Desk) {
        let is_changed = if redo { self.history.redo(&mut self.study) } else { self.history.undo(&mut self.study) };
        if is_changed {
            self.stale = true;
            self.tell_looks(desk);
        }
    }

    fn next_baseline(&mut self) {
        let Some(picture) = &self.picture else { return };
        let cells = &picture.comparison.cells;
        let now = picture.comparison.baseline.as_ref().and_then(|baseline| baseline.0.as_ref());
        let place = cells.iter().position(|(key, _)| Some(key) == now);
        let next = place.map_or(0, |place| (place + 1) % cells.len().max(1));
        self.study.baseline = cells.get(next).map(|(key, _)| baseline_name(key));
    }
}

impl CompareScreen {
    /// Queues runs that are missing in the picture, or opens a plan with them.
    fn run_more(&self, command: &CompareCommand, desk: &mut Desk) {
        let Some(picture) = &self.picture else { return };
        let plans = match command {
            CompareCommand::PlanFullRuns => {
                if let Some((full, _)) = picture.full_runs.clone() {
                    desk.goto(ScreenName::PLAN, Intent::Edit(Box::new(full)));
                }
                return;
            }
            CompareCommand::QueueRepeats => picture.more_repeats.as_ref().map(|step| step.plans.as_slice()),
            CompareCommand::QueueLacking => picture.lacking.as_ref().map(|step| step.plans.as_slice()),
            _ => picture.comparison.of_paper.as_ref().map(|paper| paper.plan_of_missing.as_slice()),
        };
        for plan in plans.into_iter().flatten() {
            desk.ask(Request::Launch { plan: Box::new(plan.clone()), only_missing: true });
        }
    }
}

impl Executes for CompareScreen {
    type Command = CompareCommand;

    fn execute(&mut self, command: CompareCommand, desk: &mut Desk, context: &Context) {
        let before = self.study.clone();
        let mut kind = None;
        if matches!(command, CompareCommand::Study(_) | CompareCommand::Form(_) | CompareCommand::Claims(true)) {
            // The command palette offers them on every screen.
            desk.screen = ScreenName::COMPARE;
        }
        match command {
            CompareCommand::Undo => return self.undo(false, desk),
            CompareCommand::Redo => return self.undo(true, desk),
            CompareCommand::FocusFilter => context.memory_mut(|memory| memory.request_focus(filter_id())),
            CompareCommand::Edit(study, of_kind) => (self.study, kind) = (*study, of_kind),
            CompareCommand::Baseline(baseline) => {
                (self.held, self.stale) = (None, true);
                self.study.baseline = baseline;
            }
            CompareCommand::NextBaseline => self.next_baseline(),
            CompareCommand::Study(study) => (self.held, self.study, self.claims) = (None, *study, false),
            CompareCommand::SaveStudy(name) => self.save_study(&name, desk),
            CompareCommand::DeleteStudy(name) => study_menu::delete_study(&name, desk),
            CompareCommand::SaveMeasure(measure) => measures_menu::save_measure(*measure, desk),
            CompareCommand::DeleteMeasure(key) => measures_menu::delete_measure(&key, desk),
            CompareCommand::Form(form) => (self.claims, self.study.form) = (false, form),
            CompareCommand::Claims(show) => {
                self.stale |= show && !self.claims;
                self.claims = show;
            }
            CompareCommand::QueueMissing
            | CompareCommand::QueueRepeats
            | CompareCommand::QueueLacking
            | CompareCommand::PlanFullRuns => self.run_more(&command, desk),
            CompareCommand::ChooseReport => {
                self.dialog.get_or_insert_with(|| {
                    on_thread("report-dialog", context, || {
                        let dialog = rfd::FileDialog::new().set_title("Attach a profiler's report");
                        dialog.add_filter("reports", &["nsys-rep", "sqlite", "json", "gz"]).pick_file()
                    })
                });
            }
            CompareCommand::Sort(column) => {
                self.sort = next_sort(&self.sort, column);
                self.sort_rows();
            }
            CompareCommand::Select(cell) => {
                let is_line = matches!(self.study.form, Form::Loss | Form::Activity);
                let is_left_out = |picture: &Picture| cell.as_ref().is_some_and(|cell| !picture.draws(cell));
                self.stale |= is_line && self.picture.as_ref().is_some_and(is_left_out);
                self.selected = cell;
            }
            CompareCommand::Effect(effect) => self.effect = effect,
            CompareCommand::Add(folder) => desk.compare_with(folder),
            CompareCommand::Choose => {
                let title = "Add a session: choose its folder";
                self.dialog.get_or_insert_with(|| choose_session(context, title));
            }
            CompareCommand::Remove(folder) => {
                desk.compared.remove(&folder);
                desk.tell(News::Compared);
            }
            CompareCommand::TableShare(share) => {
                desk.settings.compare_table = Some(share);
                desk.settings.save();
            }
            CompareCommand::Copy(format) => {
                self.shown_table(desk).iter().for_each(|table| desk.copy_table(table, format, context));
            }
            CompareCommand::SaveTable => {
                let table = self.shown_table(desk);
                table.into_iter().for_each(|table| desk.save_table(table, &self.study.file_name(), context));
            }
            CompareCommand::Open(cell) => {
                self.selected = Some(cell);
                desk.goto(ScreenName::RUNS, Intent::Look);
            }
        }
        if self.study != before {
            self.changed(before, kind);
            self.tell_looks(desk);
        }
    }
}

impl Screen for CompareScreen {
    fn ui(&self, desk: &Desk, ui: &mut Ui, commands: &mut Vec<Command>) {
        layout::compare_ui(ui, View { own: self, desk }, commands);
    }

    /// Takes over the results of background work, and starts it if something has changed.
    fn poll(&mut self, desk: &mut Desk, context: &Context) {
        // Without a path it was cancelled, or the system has no dialog; the path field works without one.
        match taken(&mut self.dialog).flatten() {
            // A session is a folder, a report is a file.
            Some(folder) if folder.is_dir() => desk.compare_with(folder),
            Some(file) => desk.attach(file, None),
            None => {}
        }
        if let Some(picture) = taken(&mut self.work) {
            self.take_picture(picture);
            self.tell_looks(desk);
        }
        // One computation at a time, and only while the screen is shown; later changes start another one.
        if self.stale && self.work.is_none() && desk.screen == ScreenName::COMPARE {
            self.stale = false;
            let sources = desk.sources();
            self.name_cells_for(&sources);
            let study = self.held_study();
            let (with_claims, selected) = (self.claims, self.selected.clone());
            self.work = Some(on_thread("compare", context, move || {
                let picture = Picture::new(&sources, &study, selected.as_ref());
                if with_claims { picture.with_claims(&sources) } else { picture }
            }));
        }
    }

    fn receive_news(&mut self, news: News, desk: &mut Desk) {
        match news {
            News::Session => {
                self.session_changed(desk.session.as_ref().map(|session| session.folder.clone()));
                self.tell_looks(desk);
            }
            News::Records => self.records_read(&desk.records),
            News::Compared => {
                self.keep_measure(desk);
                self.stale = true;
            }
            _ => {}
        }
    }

    fn shortcuts(&self, desk: &Desk, keys: &mut Keys<'_>) {
        // On another screen, the key would change something invisible.
        if desk.screen == ScreenName::COMPARE {
            keys.history(CompareCommand::Undo, CompareCommand::Redo);
        }
    }

    fn keys(&self, _desk: &Desk, keys: &mut Keys<'_>) {
        keys.on(Modifiers::NONE, KeyPress::B, CompareCommand::NextBaseline);
        keys.on(Modifiers::NONE, KeyPress::E, CompareCommand::Copy(Format::Markdown));
        keys.on(Modifiers::NONE, KeyPress::Slash, CompareCommand::FocusFilter);
    }

    fn key_help(&self) -> KeyHelp {
        &[("B", "next baseline (Compare)"), ("E", "copy the table (Compare), export (Figures, Timeline)")]
    }

    fn palette(&self, desk: &Desk) -> Vec<(String, Command)> {
        let view = |name: String, command: CompareCommand| (name, Command::from(command));
        let claims = view("Show the verdicts on the papers' claims".to_owned(), CompareCommand::Claims(true));
        let forms = Form::ALL.iter().map(|form| view(format!("Compare: {}", form.name()), CompareCommand::Form(*form)));
        let studies = study_groups().into_iter().flat_map(|group| group.studies).map(|titled| {
            let command = CompareCommand::Study(Box::new(titled.study.clone()));
            view(format!("Study: {}", titled.title), command)
        });
        let views = std::iter::once(claims).chain(forms).chain(studies);
        if desk.screen != ScreenName::COMPARE {
            return views.collect();
        }
        let others = [
            self.history.can_undo().then_some(("Undo the last change of what is shown", CompareCommand::Undo)),
            self.history.can_redo().then_some(("Redo the change of what is shown", CompareCommand::Redo)),
            Some(("Make the next cell the baseline", CompareCommand::NextBaseline)),
            Some(("Save the table as a file", CompareCommand::SaveTable)),
        ];
        let next = self.picture.as_ref().filter(|picture| picture.waiting == 0 && desk.locked().is_none());
        let next = next.map_or([None, None], |picture| {
            let repeats = ("Queue more repeats of the undecided cells", CompareCommand::QueueRepeats);
            let lacking = ("Queue the cells without a value", CompareCommand::QueueLacking);
            [picture.more_repeats.is_some().then_some(repeats), picture.lacking.is_some().then_some(lacking)]
        });
        let others = others.into_iter().chain(next).flatten();
        let others = others.map(|(name, command)| (name.to_owned(), command.into()));
        copies(|format| CompareCommand::Copy(format).into()).chain(others).chain(views).collect()
    }

    fn command_line(&self, desk: &Desk) -> Result<String, String> {
        of_compared(desk, "table", &study_words(desk, &self.shared_study())?)
    }
}

impl CompareScreen {
    /// Live and figures use the order and the colours of this screen, and figures its cells and its baseline.
    fn tell_looks(&self, desk: &mut Desk) {
        let Study { order, colours, colour, filter, hidden, held, baseline, .. } = self.shared_study();
        let looks = Looks { order, colours, colour, filter, hidden, held, baseline };
        if looks != desk.looks {
            desk.looks = looks;
            desk.tell(News::Looks);
        }
    }

    fn take_picture(&mut self, picture: Picture) {
        self.hold_baseline(&picture.comparison);
        self.picture = Some(picture);
        self.sort_rows();
    }

    /// Adapts the selected cells: cells contain the name of their session only while there are several sessions.
    fn name_cells_for(&mut self, sources: &[Source]) {
        let Some(open) = sources.first() else { return };
        let rename = |key: &mut CellKey| {
            let several = sources.len() > 1;
            if several == key.session.is_empty() {
                key.session = open.name.clone();
            }
        };
        self.held.iter_mut().for_each(rename);
        self.selected.iter_mut().for_each(rename);
        // A baseline without a session belongs to the open one.
        if let Some(baseline) =
            self.study.baseline.as_mut().filter(|baseline| !baseline.contains('=') && sources.len() > 1)
        {
            *baseline =
                baseline_name(&CellKey { session: open.name.clone(), cell: baseline.clone(), ..CellKey::default() });
        }
        // Levels of removed sessions must not stay hidden.
        let names = |name: &str| sources.iter().any(|source| source.name == name);
        let is_factor = |key: &str| {
            sources.iter().any(|source| source.records.summaries.iter().any(|run| run.levels.get(key).is_some()))
        };
        self.study.hidden.retain(|(key, level)| match &**key {
            key if setting_key(key) == SESSION && !is_factor(key) => level.as_text().is_some_and(names),
            // Machine, commit and date distinguish cells only if there are several sessions.
            key => sources.len() > 1 || !is_of_session(key) || is_factor(key),
        });
    }
}

/// Id of the filter field, for the key that focuses it.
fn filter_id() -> Id {
    Id::unique("compare-filter")
}
