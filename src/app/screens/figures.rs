//! The Figures screen: a study set for paper. The preview is exactly the picture that is exported.

mod appearance;
mod composing;
mod controls;
mod drawn;
mod editor;
mod export;
mod level;
mod open;
mod pointing;
mod preview;
#[cfg(test)]
mod tests;
mod typed;

use std::path::PathBuf;

use eframe::egui::{
    CentralPanel, Context, Frame, Id, Key, Margin, Modifiers, Panel, TextureHandle, TextureOptions, Ui,
};
use poll_promise::Promise;

use crate::analysis::CellKey;
use crate::app::cell_table::{Sort, copies, next_sort};
use crate::app::command::{Command, EditKind, Edits, ScreenCommand, ScreenName};
use crate::app::command_line::{of_compared, study_words, style_words};
use crate::app::desk::{Desk, Intent, News, Source};
use crate::app::history::History;
use crate::app::screen::{self, Executes, Keys, Screen};
use crate::app::task::{on_thread, taken};
use crate::app::words::{path_word, shell_word};
use crate::figure::paper::{Part, Provenance, ReadError, Vision};
use crate::figure::{
    Annotation, AnnotationKind, Composition, Figure, Format, Nth, Overrides, Study, Table, override_words, preset,
};
use composing::Composing;
use drawn::{Drawn, Page};
use export::Exported;

/// Endings of the files of figures.
const ENDINGS: [&str; 3] = ["pdf", "svg", "png"];

/// A command of the Figures screen.
#[derive(Clone, Debug, PartialEq)]
pub enum FiguresCommand {
    /// Switch to another study of the same cells.
    Study(Box<Study>),
    /// Show the edited study. Consecutive edits of one kind are undone together.
    Edit(Box<Study>, Option<EditKind>),
    /// Add the shown figure to the composed figure as a panel.
    AddPanel,
    /// Change the composed figure. Consecutive edits of one kind are undone together.
    Compose(Box<Composition>, Option<EditKind>),
    /// Show the composed figure, or the figure.
    ShowPanels(bool),
    /// Undo the last change of the figure or of the composed one.
    Undo,
    /// Do it again.
    Redo,
    /// Open the editor of a part of the preview beside it, or close it.
    Point(Option<Part>),
    /// Choose a cell for a bracket: the second one sets it, in this chart or the first that draws both. The same one again is left.
    Pick(CellKey, Option<usize>),
    /// Focus the filter field.
    FocusFilter,
    /// Set the resolution of a PNG in dpi.
    Dpi(u32),
    /// Set the resolution of the preview in pixels per point.
    Resolution(f64),
    /// Preview the figure as people with a kind of vision see it.
    Vision(Vision),
    /// Sort the table by the column with this key: first ascending, then descending, then in its own order.
    Sort(String),
    /// Copy the table as shown.
    Copy(Format),
    /// Save the table as shown in a file.
    SaveTable,
    /// Set the path to export to; empty means the suggested one.
    Path(String),
    /// Choose the path in the system's dialog.
    Choose,
    /// Write the file. A file that is no figure is not replaced.
    Export,
    /// Write the file in place of any other.
    Replace,
    /// Copy a paragraph on how the figure's numbers were measured.
    CopyMethods,
    /// Open a figure file.
    Open(PathBuf),
}

impl ScreenCommand for FiguresCommand {
    const SCREEN: ScreenName = ScreenName::FIGURES;
}

impl Edits for FiguresCommand {
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

/// The data from which the screen is drawn.
type View<'a> = screen::View<'a, FiguresScreen>;

/// The Figures screen.
pub struct FiguresScreen {
    /// The shown study.
    pub study: Study,
    /// Resolution of a PNG in dpi.
    dpi: u32,
    /// Typed path to export to; empty means the suggested one.
    path: String,
    /// The table's order.
    sort: Sort,
    /// Rows of the table in the displayed order.
    order: Vec<usize>,
    /// Outcome of the last export or opening: a message, and whether it succeeded.
    outcome: Option<(String, bool)>,
    /// The message about the figure file that was opened last. It names the file's session, and stays when another session is opened.
    opened_message: Option<String>,
    /// Pixels per point.
    resolution: f64,
    /// Who looks at the preview.
    vision: Vision,
    /// The composed figure, which the shown one can join as a panel.
    composing: Composing,
    /// The earlier states and the undone states of the screen; the last one of each is the nearest.
    history: History<Edited>,
    /// The part of the preview whose editor is open.
    open: Option<Part>,
    /// The cell that a bracket is to begin at.
    picked: Option<CellKey>,
    drawn: Option<Drawn>,
    texture: Option<TextureHandle>,
    work: Option<Promise<Drawn>>,
    stale: bool,
    exporting: Option<Promise<Exported>>,
    /// The file that the last export did not replace.
    replaceable: Option<PathBuf>,
    describing: Option<Promise<Result<String, String>>>,
    choosing: Option<Promise<Option<PathBuf>>>,
    opening: Option<(PathBuf, Promise<Result<Provenance, ReadError>>)>,
}

/// The parts of the screen that edits change and that undo restores.
#[derive(Clone)]
struct Edited {
    study: Study,
    composition: Composition,
    /// The sessions of its panels. Without these, undo could not draw the panels again.
    known: Vec<Source>,
}

/// Sessions that are read again are no edit.
impl PartialEq for Edited {
    fn eq(&self, other: &Self) -> bool {
        (&self.study, &self.composition) == (&other.study, &other.composition)
    }
}

impl Default for FiguresScreen {
    fn default() -> Self {
        Self {
            study: preset("times").unwrap_or_default(),
            dpi: 300,
            path: String::new(),
            sort: None,
            order: Vec::new(),
            outcome: None,
            opened_message: None,
            resolution: 2.0,
            vision: Vision::Usual,
            composing: Composing::default(),
            history: History::default(),
            open: None,
            picked: None,
            drawn: None,
            texture: None,
            work: None,
            stale: true,
            exporting: None,
            replaceable: None,
            describing: None,
            choosing: None,
            opening: None,
        }
    }
}

impl FiguresScreen {
    /// The figure, if one is drawn.
    fn figure(&self) -> Option<&Figure> {
        self.drawn.as_ref()?.figure.as_ref().ok().map(|tabled| &tabled.figure)
    }

    /// The page of the preview, or why there is none; nothing before the first one is drawn.
    fn page(&self) -> Option<&Result<Page, String>> {
        self.drawn.as_ref().map(|drawn| &drawn.page)
    }

    /// The table with its rows in the displayed order.
    fn shown_table(&self) -> Option<Table> {
        let table = &self.figure()?.table;
        let rows = self.order.iter().filter_map(|place| table.rows.get(*place)).cloned();
        Some(Table { rows: rows.collect(), ..table.clone() })
    }

    /// Another study of the same cells. A built-in one does not say which cells, baseline and style: those stay, and so do the order,
    /// names and looks of levels.
    fn switched(&self, study: Study) -> Study {
        if preset(&study.name).is_err() {
            return study;
        }
        let Study { filter, hidden, held, baseline, log, style, order, colours, overrides, .. } = self.study.clone();
        // A series that is not a level of a factor belongs to this figure only.
        let levels = overrides.levels.into_iter().filter(|change| change.level.contains('=')).collect();
        let overrides = Overrides { levels, ..Overrides::default() };
        Study { filter, hidden, held, baseline, log, style, order, colours, overrides, ..study }
    }

    /// Takes a cell for a bracket; the second one sets it.
    fn pick(&mut self, cell: CellKey, chart: Option<usize>) {
        let Some(first) = self.picked.take() else {
            self.picked = Some(cell);
            return;
        };
        if first == cell {
            return;
        }
        let Some(figure) = self.figure() else { return };
        let words = |key: &CellKey| {
            let place = figure.cells.iter().position(|(known, _)| known == key)?;
            figure.words.get(place).cloned()
        };
        let draws = |chart: &crate::figure::Chart| {
            let has = |key: &CellKey| {
                chart.series().flat_map(|series| &series.points).any(|point| point.cell.as_ref() == Some(key))
            };
            has(&first) && has(&cell)
        };
        let chart = chart.or_else(|| figure.charts.iter().position(draws)).unwrap_or(0);
        if let (Some(from), Some(to)) = (words(&first), words(&cell)) {
            let kind = AnnotationKind::Bracket;
            let bracket = Annotation { kind, chart: Nth(chart + 1), from, to, ..Annotation::default() };
            self.study.overrides.annotations.push(bracket);
        }
    }

    fn undo(&mut self, redo: bool) {
        let before = self.edited();
        let mut now = before.clone();
        self.stale |= if redo { self.history.redo(&mut now) } else { self.history.undo(&mut now) };
        (self.study, self.composing.composition) = (now.study, now.composition);
        self.restore_sources(now.known);
        self.show_what_changed(&before);
    }

    /// After a change of the composed figure, shows the composed figure. After a change of the single figure, shows that figure. Both have
    /// the same style.
    fn show_what_changed(&mut self, before: &Edited) {
        if self.composing.composition != before.composition {
            self.composing.is_shown = true;
        } else if (Study { style: before.study.style, ..self.study.clone() }) != before.study {
            self.composing.is_shown = false;
        }
    }

    /// The parts of the screen that edits change and that undo restores.
    fn edited(&self) -> Edited {
        let Composing { composition, known, .. } = &self.composing;
        Edited { study: self.study.clone(), composition: composition.clone(), known: known.clone() }
    }

    fn sort_rows(&mut self) {
        let tabled = self.drawn.as_ref().and_then(|drawn| drawn.figure.as_ref().ok());
        self.order = tabled.map_or(Vec::new(), |tabled| tabled.order(&self.sort));
    }

    /// Whether a figure is being drawn, exported, opened or chosen.
    pub fn is_busy(&self) -> bool {
        self.stale
            || self.work.is_some()
            || self.exporting.is_some()
            || self.describing.is_some()
            || self.opening.is_some()
            || self.composing.is_busy()
    }
}

impl Executes for FiguresScreen {
    type Command = FiguresCommand;

    fn execute(&mut self, command: FiguresCommand, desk: &mut Desk, context: &Context) {
        let before = (self.edited(), self.resolution);
        let mut kind = None;
        match command {
            FiguresCommand::Undo => return self.undo(false),
            FiguresCommand::Redo => return self.undo(true),
            FiguresCommand::Study(study) => {
                self.study = self.switched(*study);
                (self.open, self.picked) = (None, None);
            }
            FiguresCommand::Edit(study, of_kind) => (self.study, kind) = (*study, of_kind),
            FiguresCommand::Point(part) => self.open = part,
            FiguresCommand::Pick(cell, chart) => self.pick(cell, chart),
            FiguresCommand::AddPanel => self.outcome = self.add_panel(desk).err().map(|message| (message, false)),
            FiguresCommand::Compose(composition, of_kind) => {
                (self.composing.composition, kind) = (*composition, of_kind);
            }
            FiguresCommand::ShowPanels(shows) => (self.composing.is_shown, self.stale) = (shows, true),
            FiguresCommand::FocusFilter => context.memory_mut(|memory| memory.request_focus(filter_id())),
            FiguresCommand::Dpi(dpi) => self.dpi = dpi,
            FiguresCommand::Resolution(resolution) => self.resolution = resolution,
            FiguresCommand::Vision(vision) => (self.vision, self.stale) = (vision, true),
            FiguresCommand::Sort(column) => {
                self.sort = next_sort(&self.sort, column);
                self.sort_rows();
            }
            FiguresCommand::Copy(format) => {
                self.shown_table().iter().for_each(|table| desk.copy_table(table, format, context));
            }
            FiguresCommand::SaveTable => {
                let table = self.shown_table();
                table.into_iter().for_each(|table| desk.save_table(table, &self.study.file_name(), context));
            }
            FiguresCommand::Path(text) => self.path = text,
            FiguresCommand::Choose => self.choose_export(desk, context),
            FiguresCommand::Export => self.export(false, desk, context),
            FiguresCommand::Replace => self.export(true, desk, context),
            FiguresCommand::CopyMethods => self.describe(desk, context),
            FiguresCommand::Open(file) => self.open(file, desk, context),
        }
        let now = (self.edited(), self.resolution);
        self.stale |= before != now;
        if before.0 != now.0 {
            self.show_what_changed(&before.0);
            self.history.edited(before.0, kind);
        }
    }
}

impl Screen for FiguresScreen {
    fn ui(&self, desk: &Desk, ui: &mut Ui, commands: &mut Vec<Command>) {
        figures_ui(ui, View { own: self, desk }, commands);
    }

    /// Takes over the results of background work, and starts it if something has changed.
    fn poll(&mut self, desk: &mut Desk, context: &Context) {
        if let Some(drawn) = taken(&mut self.work) {
            if let Ok(page) = &drawn.page {
                self.texture = Some(context.load_texture("figure", page.image.clone(), TextureOptions::LINEAR));
            }
            self.drawn = Some(drawn);
            self.sort_rows();
        }
        self.poll_export(desk, context);
        self.poll_open(desk, context);
        self.poll_composing();
        // One at a time, and only while the screen is shown; later changes start another one.
        if self.stale && self.work.is_none() && desk.screen == ScreenName::FIGURES {
            self.stale = false;
            let (sources, study) = (desk.sources(), self.drawn_study(desk));
            let (resolution, vision, composed) = (self.resolution, self.vision, self.asked_composition(desk));
            let draw = move || Drawn::new(&sources, &study, composed, (resolution, vision));
            self.work = Some(on_thread("figure", context, draw));
        }
    }

    fn receive_news(&mut self, news: News, desk: &mut Desk) {
        self.keep_sources(desk);
        let is_of_file =
            || self.outcome.as_ref().is_some_and(|(message, _)| Some(message) == self.opened_message.as_ref());
        if news == News::Session && !is_of_file() {
            // It was about the session before.
            (self.outcome, self.replaceable) = (None, None);
        }
        self.stale |= matches!(news, News::Session | News::Records | News::Compared | News::Looks);
    }

    fn receive_request(&mut self, intent: Intent, desk: &mut Desk, context: &Context) {
        if let Intent::Open(file) = intent {
            self.open(file, desk, context);
        }
    }

    fn shortcuts(&self, desk: &Desk, keys: &mut Keys<'_>) {
        // On another screen, the key would change a figure that is not visible.
        if desk.screen == ScreenName::FIGURES {
            keys.history(FiguresCommand::Undo, FiguresCommand::Redo);
        }
    }

    fn keys(&self, _desk: &Desk, keys: &mut Keys<'_>) {
        keys.on(Modifiers::NONE, Key::E, FiguresCommand::Export);
        keys.on(Modifiers::NONE, Key::Slash, FiguresCommand::FocusFilter);
    }

    fn palette(&self, desk: &Desk) -> Vec<(String, Command)> {
        if desk.screen != ScreenName::FIGURES {
            return vec![("Export a figure: show Figures".to_owned(), Command::Show(ScreenName::FIGURES))];
        }
        let mut entries = vec![
            ("Export the figure".to_owned(), FiguresCommand::Export.into()),
            ("Copy the methods paragraph".to_owned(), FiguresCommand::CopyMethods.into()),
            ("Add the figure to the composed one as a panel".to_owned(), FiguresCommand::AddPanel.into()),
            ("Save the table as a file".to_owned(), FiguresCommand::SaveTable.into()),
        ];
        if self.history.can_undo() {
            entries.push(("Undo the last change of the figure".to_owned(), FiguresCommand::Undo.into()));
        }
        if self.history.can_redo() {
            entries.push(("Redo the last change of the figure".to_owned(), FiguresCommand::Redo.into()));
        }
        entries.extend(copies(|format| FiguresCommand::Copy(format).into()));
        entries
    }

    fn command_line(&self, desk: &Desk) -> Result<String, String> {
        if self.asked_composition(desk).is_some() {
            return Err("no command line can express a composed figure: a file can (multicard help composed). You can also export the \
                        figure; multicard figure --all DIR then draws the exported file again"
                .to_owned());
        }
        let study = self.drawn_study(desk);
        let out = ["--out".to_owned(), path_word(&self.export_path(desk))];
        let overrides: Vec<String> = override_words(&study)?.iter().map(|word| shell_word(word)).collect();
        let words = study_words(desk, &Study { order: Vec::new(), ..study.clone() })?;
        of_compared(desk, "figure", &[words, style_words(&study.style), overrides, out.to_vec()].concat())
    }
}

impl FiguresScreen {
    /// The study that is drawn: the chosen one, with the cells that Compare shows and the order and the colours of levels there, unless it
    /// has its own.
    fn drawn_study(&self, desk: &Desk) -> Study {
        let mut study = self.study.clone();
        if study.order.is_empty() {
            study.order.clone_from(&desk.looks.order);
        }
        if study.colours.is_empty() {
            study.colours.clone_from(&desk.looks.colours);
        }
        if study.shows_all() && !desk.looks.shows_all() {
            study.filter.clone_from(&desk.looks.filter);
            study.hidden.clone_from(&desk.looks.hidden);
            study.held.clone_from(&desk.looks.held);
            // These cells have the same ratios on both screens.
            study.baseline = study.baseline.or_else(|| desk.looks.baseline.clone());
        }
        study
    }
}

/// Id of the filter field, for the key that focuses it.
fn filter_id() -> Id {
    Id::unique("figures-filter")
}

/// Draws the Figures screen.
fn figures_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    if view.records.summaries.is_empty() && view.sources().iter().all(|source| source.records.summaries.is_empty()) {
        preview::empty_ui(ui, view, commands);
        return;
    }
    let side = Frame::new().inner_margin(Margin { right: 12, ..Margin::ZERO });
    Panel::left("figures-side").frame(side).resizable(false).exact_size(296.0).show_separator_line(false).show(
        ui,
        |ui| {
            ui.take_available_width();
            controls::side_ui(ui, view, commands);
        },
    );
    let below = Frame::new().inner_margin(Margin { top: 8, ..Margin::ZERO });
    let height = ui.available_height();
    Panel::bottom("figures-table")
        .frame(below)
        .resizable(true)
        .default_size((height * 0.3).round())
        .size_range(96.0..=(height - 160.0).max(97.0))
        .show(ui, |ui| {
            // A short table would shrink the panel for the next one.
            ui.take_available_height();
            preview::table_ui(ui, view.own, commands);
        });
    let picture = Frame::new().inner_margin(Margin { bottom: 8, ..Margin::ZERO });
    CentralPanel::default().frame(picture).show(ui, |ui| preview::preview_ui(ui, view.own, commands));
}
