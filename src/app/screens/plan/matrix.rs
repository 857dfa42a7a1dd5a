//! The matrix: all cells with estimated time and memory, and the launch button.

use eframe::egui::{
    Align, Context, Frame, Id, Label, Layout, Margin, Panel, RichText, ScrollArea, TextStyle, Ui, vec2,
};
use egui_table::{CellInfo, Column, HeaderCellInfo, HeaderRow, TableDelegate};

use super::outlook::{Outlook, WORKLOAD, time_of};
use super::{PlanCommand, PlanScreen};
use crate::app::asking::ask_ui;
use crate::app::command::Command;
use crate::app::deliberate;
use crate::app::desk::OpenSession;
use crate::app::screens::plan::View;
use crate::app::theme::{SMALL, palette};
use crate::app::widgets::{main_button, muted, prose, strong, tick_ui};
use crate::app::words::{bytes_text, runs_text};
use crate::figure::{counted, duration_text, grouped, significant};
use crate::plan::{AA_COPY, Key, Levels, Remark, Tracer};

const ROW_HEIGHT: f32 = 22.0;
/// The least width of the column of notes.
const LEAST_NOTE_WIDTH: f32 = 240.0;
/// Room for the scroll bar beside the columns.
const SCROLL_BAR: f32 = 16.0;
/// Margin on both sides of a cell's text.
const CELL_MARGIN: i8 = 6;
/// Width that the controls next to the launch button need to fit on its line.
const LAUNCH_LINE_WIDTH: f32 = 440.0;
/// The question before runs go into a session of imported runs.
const IMPORTED: &str = "All runs of this session were imported from results of other programs, and are not judged against runs that are made \
                        here. For a session of its own, type a name under “New session” in the session menu before you launch the plan.";
/// The most of the height that remarks get, as a share.
const REMARKS_SHARE: f32 = 0.4;

/// Draws the panel: heading and totals, the cells, the buttons.
pub(super) fn matrix_panel_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    Panel::bottom("launch").frame(Frame::new().inner_margin(Margin::symmetric(0, 4))).show(ui, |ui| {
        launch_ui(ui, view, commands);
    });
    heading_ui(ui, view);
    if let Some(outlook) = &view.own.outlook {
        let only_id = Id::unique("show only cells that cannot run");
        let mut only_invalid: bool = ui.data(|data| data.get_temp(only_id)).unwrap_or_default();
        let invalid = outlook.matrix.invalid.len();
        if invalid > 0 {
            let text = format!("{} cannot run", counted(grouped(&invalid.to_string()), "cell"));
            ui.horizontal(|ui| {
                ui.colored_label(palette(ui.visuals()).warning, text);
                if tick_ui(ui, only_invalid, true, "show only these").clicked() {
                    only_invalid = !only_invalid;
                }
            });
            ui.data_mut(|data| data.insert_temp(only_id, only_invalid));
        }
        if let Some(text) = memory_by_kind(outlook) {
            ui.add(Label::new(muted(ui, text).size(SMALL)).wrap());
        }
        remarks_ui(ui, &outlook.remarks);
        // The warning depends on other programs; its two lines always exist, so that the table does not move.
        let line = vec2(ui.available_width(), (2.0 * ui.text_style_height(&TextStyle::Small)).ceil());
        ui.allocate_ui_with_layout(line, Layout::left_to_right(Align::Center), |ui| {
            ui.set_min_size(line);
            let Some(others) = view.use_by_others() else { return };
            let text = format!("⚠ {others}: runs launched now will be slower and will be marked");
            let colour = palette(ui.visuals()).warning;
            ui.add(Label::new(RichText::new(text).color(colour).size(SMALL)).wrap());
        });
        table_ui(ui, view.own, outlook, only_invalid && invalid > 0);
    }
}

/// Draws the remarks. If they are longer than their share of the height, they scroll, so that the cells below them keep their room.
fn remarks_ui(ui: &mut Ui, remarks: &[Remark]) {
    if remarks.is_empty() {
        return;
    }
    let palette = palette(ui.visuals());
    let height = REMARKS_SHARE * ui.available_height();
    ScrollArea::vertical().id_salt("remarks").max_height(height).auto_shrink([false, true]).show(ui, |ui| {
        for remark in remarks {
            let text = match remark.is_warning {
                true => prose(ui, &format!("⚠ {remark}"), palette.warning),
                false => prose(ui, &remark.text, palette.muted),
            };
            ui.add(Label::new(text).wrap());
        }
    });
}

fn heading_ui(ui: &mut Ui, view: View<'_>) {
    ui.horizontal_wrapped(|ui| {
        ui.heading("Matrix");
        let text = match (&view.own.outlook, &view.node) {
            (_, None) => "reading this machine …".to_owned(),
            (None, _) => counting(view),
            (Some(outlook), _) => sums(outlook, view.own.duration_s(outlook), view.own.lacks_times()),
        };
        let help = "Time: all runs one after the other. For cells with a finished run in this session it is the time that run took, for \
             others a rough estimate. Peak: the highest memory use of any rank on its device, a rough estimate.";
        ui.label(text).on_hover_text(help);
        if view.node.is_some() && view.own.outlook.is_some() && view.outlook().is_none() {
            ui.label(muted(ui, counting(view)));
        }
    });
}

/// The memory of the largest cell by kind, if its workload knows it: `peak: weights 32.1 GB, logits 0.3 GB`.
fn memory_by_kind(outlook: &Outlook) -> Option<String> {
    let largest = outlook.matrix.cells.iter().max_by_key(|cell| cell.estimate.peak_bytes)?;
    let kinds = largest.estimate.memory_kinds().filter(|(_, bytes)| *bytes > largest.estimate.peak_bytes / 1000);
    let kinds: Vec<_> = kinds.map(|(name, bytes)| format!("{name} {}", bytes_text(bytes as f64))).collect();
    (!kinds.is_empty()).then(|| format!("peak: {}", kinds.join(", ")))
}

/// `36 runs · 12 cells × 3 · about 9 min · 0.6 node-hours · peak 24.0 GB`; unknown values are left out. If the time of some cell is unknown,
/// the sum is the least time: `at least 9 min`.
fn sums(outlook: &Outlook, duration_s: f64, lacks_times: bool) -> String {
    let cells = outlook.matrix.cells.len();
    if cells == 0 {
        return "nothing can run".to_owned();
    }
    let nearly = if lacks_times { "at least" } else { "about" };
    let time = if duration_s > 0.0 { format!(" · {nearly} {}", about(duration_s)) } else { String::new() };
    let hours = outlook.node_hours.map_or(String::new(), |(hours, is_most)| {
        format!(" · {}{}\u{a0}node-hours", if is_most { "at most " } else { "" }, significant(hours))
    });
    let peak = match outlook.peak_bytes {
        0 => String::new(),
        // A number and its unit stay on one line.
        bytes => format!(" · peak {}", bytes_text(bytes as f64).replace(' ', "\u{a0}")),
    };
    let number = |count: u64| grouped(&count.to_string());
    let runs = counted(number(outlook.runs), "run");
    // A search drops cells long before they have all repeats.
    let most = if outlook.plan.search.is_some() { "at most " } else { "" };
    let some = counted(number(cells as u64), "cell");
    format!("{most}{runs} · {some} × {}{time}{hours}{peak}", outlook.plan.repeats)
}

/// An estimated duration without false precision: whole minutes from three on.
fn about(duration_s: f64) -> String {
    match duration_s {
        ..180.0 => duration_text(duration_s),
        180.0..5400.0 => format!("{:.0} min", duration_s / 60.0),
        5400.0..172_800.0 => duration_text((duration_s / 60.0).round() * 60.0),
        _ => format!("{} days", grouped(&format!("{:.0}", duration_s / 86_400.0))),
    }
}

fn counting(view: View<'_>) -> String {
    let combinations = view.own.plan().combinations();
    format!("computing {} …", counted(grouped(&combinations.to_string()), "cell"))
}

fn launch_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let refusal = view.launch_refusal();
    if let Some(reason) = &refusal {
        ui.label(RichText::new(reason).size(SMALL).color(palette(ui.visuals()).warning));
    }
    ui.add(Label::new(muted(ui, target(view)).size(SMALL)).wrap());
    if view.is_of_imported_runs() {
        let text = RichText::new(format!("⚠ {IMPORTED}")).size(SMALL).color(palette(ui.visuals()).warning);
        ui.add(Label::new(text).wrap());
    }
    if view.own.asking_launch {
        let name = view.session.as_ref().map_or(String::new(), OpenSession::name);
        let (question, yes) = (format!("Launch into {name}?"), format!("Launch into {name}"));
        let answer = ask_ui(ui.ctx(), "launch beside imported runs", &question, IMPORTED, &yes, "Stay");
        commands.extend(answer.map(|yes| Command::from(PlanCommand::AnswerLaunch(yes))));
    }
    if ui.available_width() < LAUNCH_LINE_WIDTH {
        only_missing_ui(ui, view, commands);
        ui.horizontal(|ui| buttons_ui(ui, view, refusal.is_none(), commands));
    } else {
        ui.horizontal(|ui| {
            only_missing_ui(ui, view, commands);
            buttons_ui(ui, view, refusal.is_none(), commands);
        });
    }
}

/// The target session of the runs, and how many of them it already has: `into session study, which has 8 of these 16 runs`.
fn target(view: View<'_>) -> String {
    let Some(session) = view.session.as_ref().filter(|session| !session.is_sample()) else {
        return "into a new session".to_owned();
    };
    let name = session.name();
    let kept_runs = view.own.kept_runs();
    let all = view.own.outlook.as_ref().map_or(0, |outlook| outlook.runs);
    let number = |count: u64| grouped(&count.to_string());
    match (view.records.held.is_empty(), kept_runs) {
        (true, _) => format!("into session {name}, which is empty"),
        (_, 0) => {
            let present_runs = runs_text(view.records.runs.len());
            format!("into session {name}, which has {present_runs} of other cells")
        }
        _ if view.own.only_missing => {
            format!("into session {name}, which has {} of these {}", number(kept_runs), counted(number(all), "run"))
        }
        _ => format!(
            "into session {name}, which has {} of these {}. All run again, as further repeats",
            number(kept_runs),
            counted(number(all), "run")
        ),
    }
}

fn only_missing_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let only_missing = view.own.only_missing;
    let help = "Keeps finished repeats of the open session and runs only the missing ones. \
    Otherwise everything runs again, as further repeats.";
    if tick_ui(ui, only_missing, true, "keep finished repeats").on_hover_text(help).clicked() {
        commands.push(Command::from(PlanCommand::OnlyMissing(!only_missing)));
    }
}

fn buttons_ui(ui: &mut Ui, view: View<'_>, can_launch: bool, commands: &mut Vec<Command>) {
    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
        let all = view.own.outlook.as_ref().map_or(0, |outlook| outlook.runs);
        let runs = if view.own.only_missing { all - view.own.kept_runs().min(all) } else { all };
        let number = |count: u64| grouped(&count.to_string());
        let text = match runs {
            _ if view.own.plan().search.is_some() => "Launch the search".to_owned(),
            _ if runs < all => format!("Launch {} of {}", number(runs), counted(number(all), "run")),
            _ => format!("Launch {}", counted(number(runs), "run")),
        };
        let sent = view.own.launch == super::Launch::Sent;
        let button = main_button(ui, can_launch && !sent && (runs > 0 || all == 0), text);
        if deliberate::clicked(&button, "launch") {
            commands.push(Command::from(PlanCommand::Launch));
        }
        button.on_hover_text("Launch (Ctrl Enter)");
        if ui.button("Save plan").on_hover_text("Save the plan as a file (Ctrl S)").clicked() {
            commands.push(Command::from(PlanCommand::Save));
        }
    });
}

fn table_ui(ui: &mut Ui, plan: &PlanScreen, outlook: &Outlook, only_invalid: bool) {
    let matrix = &outlook.matrix;
    let valid = if only_invalid { 0 } else { matrix.cells.len() };
    let rows = valid + matrix.invalid.len();
    let column = |name: &str, width: f32| Column::new(width).range(40.0..=1200.0).id(Id::unique(("cells", name)));
    let mut columns = vec![column("#", 48.0)];
    columns.extend(outlook.varied.iter().map(|key| column(key, 84.0)));
    let has_times = outlook.has_estimates() || plan.duration_s(outlook) > 0.0;
    if has_times {
        columns.extend([column("time", 72.0), column("peak", 72.0)]);
    }
    let mut note_height = ROW_HEIGHT;
    if let Some(longest) = matrix.invalid.iter().max_by_key(|cell| cell.reason.len()) {
        let taken: f32 = columns.iter().map(|column| column.current).sum();
        let width = (ui.available_width() - taken - SCROLL_BAR).max(LEAST_NOTE_WIDTH);
        // The column follows the width of the panel, because its texts are wrapped.
        columns.push(column(&format!("note {width:.0}"), width));
        let room = width - 2.0 * f32::from(CELL_MARGIN);
        let font = TextStyle::Body.resolve(ui.style());
        let text = ui.painter().layout(longest.reason.clone(), font, ui.visuals().text_color(), room);
        note_height = (text.size().y.ceil() + 6.0).max(ROW_HEIGHT);
    }
    let mut cells = Cells { plan, outlook, valid, has_times, note_height };
    // Lines between columns end with the rows; the scroll bar needs room below them.
    let header = ROW_HEIGHT + 2.0;
    let height = (header + cells.top(rows) + 12.0).min(ui.available_height());
    let table = egui_table::Table::new()
        .id_salt("matrix")
        .num_rows(rows as u64)
        .columns(columns)
        .num_sticky_cols(1)
        .headers([HeaderRow::new(header)]);
    ui.allocate_ui([ui.available_width(), height].into(), |ui| {
        ui.set_max_height(height);
        table.show(ui, &mut cells);
    });
}

struct Cells<'a> {
    plan: &'a PlanScreen,
    outlook: &'a Outlook,
    /// Number of cells that can run; the others come after them.
    valid: usize,
    /// Whether time or memory of some cell is known.
    has_times: bool,
    /// The height of rows with notes: that of the longest note.
    note_height: f32,
}

/// Content of a column.
enum Shown {
    Number,
    Level(Key),
    Time,
    Peak,
    Note,
}

impl Cells<'_> {
    /// The distance from the top of the first row to the top of this row.
    fn top(&self, row: usize) -> f32 {
        row.min(self.valid) as f32 * ROW_HEIGHT + row.saturating_sub(self.valid) as f32 * self.note_height
    }

    fn shown(&self, column: usize) -> Shown {
        let varied = &self.outlook.varied;
        match column.checked_sub(1) {
            None => Shown::Number,
            Some(index) => match (varied.get(index), self.has_times) {
                (Some(key), _) => Shown::Level(key.clone()),
                (None, true) if index == varied.len() => Shown::Time,
                (None, true) if index == varied.len() + 1 => Shown::Peak,
                (None, _) => Shown::Note,
            },
        }
    }

    fn level(&self, (workload, tracer): (&Key, Tracer), levels: &Levels, key: &str) -> String {
        // A factor of a program may have the key of a setting.
        match (levels.get(key), key) {
            (Some(level), _) => grouped(&level.to_string()),
            (None, WORKLOAD) => workload.to_string(),
            (None, Tracer::KEY) => tracer.name().to_owned(),
            (None, _) => String::new(),
        }
    }

    fn is_number(&self, key: &str) -> bool {
        let mut levels = self.outlook.plan.blocks().flat_map(|block| block.levels(key)).peekable();
        // Settings and A/A copies have no levels in the plan.
        levels.peek().is_some() && levels.all(|level| level.as_number().is_some())
    }

    /// A cell's text, whether it is a number, and its tooltip.
    fn text(&self, row: usize, shown: &Shown) -> (String, bool, String) {
        let matrix = &self.outlook.matrix;
        if let (true, Some(cell)) = (row < self.valid, matrix.cells.get(row)) {
            let estimate = cell.estimate;
            let (time_s, is_seen) = time_of(cell, &self.plan.held);
            let text = match shown {
                Shown::Number => grouped(&(row + 1).to_string()),
                Shown::Level(key) => self.level((&cell.workload, cell.tracer), &cell.levels, key),
                Shown::Time if time_s == 0.0 => "–".to_owned(),
                Shown::Peak if estimate.peak_bytes == 0 => "–".to_owned(),
                Shown::Time => grouped(&significant(time_s)),
                Shown::Peak => bytes_text(estimate.peak_bytes as f64),
                Shown::Note => String::new(),
            };
            let hover = match shown {
                Shown::Time | Shown::Peak if text == "–" => "Unknown before it runs".to_owned(),
                Shown::Time if is_seen => {
                    format!("{} s: the time of its last run in this session", significant(time_s))
                }
                Shown::Time => format!("{time_s} s per run: a rough estimate from the levels and this machine"),
                Shown::Peak => {
                    format!(
                        "peak memory of {} per rank: a rough estimate from the levels",
                        counted(grouped(&estimate.peak_bytes.to_string()), "byte")
                    )
                }
                _ => format!("cell {}", cell.id),
            };
            let number = match shown {
                Shown::Level(key) => self.is_number(key),
                _ => true,
            };
            return (text, number, hover);
        }
        let Some(cell) = matrix.invalid.get(row - self.valid.min(row)) else { return Default::default() };
        let text = match shown {
            Shown::Number | Shown::Time | Shown::Peak => "–".to_owned(),
            Shown::Level(key) => self.level((&cell.workload, cell.tracer), &cell.levels, key),
            Shown::Note => cell.reason.clone(),
        };
        let number = match shown {
            Shown::Level(key) => self.is_number(key),
            Shown::Note => false,
            _ => true,
        };
        (text, number, format!("Cannot run here: {}", cell.reason))
    }
}

fn aligned(ui: &mut Ui, right: bool, content: impl FnOnce(&mut Ui)) {
    Frame::new().inner_margin(Margin::symmetric(CELL_MARGIN, 0)).show(ui, |ui| {
        if right && !ui.is_sizing_pass() {
            ui.with_layout(Layout::right_to_left(Align::Center), content);
        } else {
            content(ui);
        }
    });
}

impl TableDelegate for Cells<'_> {
    fn header_cell_ui(&mut self, ui: &mut Ui, cell: &HeaderCellInfo) {
        let shown = self.shown(cell.col_range.start);
        let (text, right) = match shown {
            Shown::Number => ("#".to_owned(), true),
            Shown::Level(key) => {
                let factor = self.outlook.plan.blocks().find_map(|block| block.spec.factor(&key));
                let name = match factor {
                    Some(factor) => &*factor.name,
                    None if *key == *Tracer::KEY => "Trace",
                    None if *key == *AA_COPY => "A/A",
                    None => &*key,
                };
                (name.to_owned(), self.is_number(&key))
            }
            Shown::Time => ("time s".to_owned(), true),
            Shown::Peak => ("peak".to_owned(), true),
            Shown::Note => ("note".to_owned(), false),
        };
        aligned(ui, right, |ui| {
            ui.label(strong(text).size(SMALL));
        });
    }

    fn row_ui(&mut self, ui: &mut Ui, row: u64) {
        if row % 2 == 1 {
            ui.painter().rect_filled(ui.max_rect(), 0.0, ui.visuals().faint_bg_color);
        }
    }

    fn cell_ui(&mut self, ui: &mut Ui, cell: &CellInfo) {
        let shown = self.shown(cell.col_nr);
        let row = cell.row_nr as usize;
        let (text, right, hover) = self.text(row, &shown);
        let valid = row < self.valid;
        aligned(ui, right, |ui| {
            let text = if valid { RichText::new(text) } else { muted(ui, text) };
            ui.add(if let Shown::Note = shown { Label::new(text).wrap() } else { Label::new(text) })
                .on_hover_text(hover);
        });
    }

    fn row_top_offset(&self, _ctx: &Context, _table_id: Id, row: u64) -> f32 {
        self.top(usize::try_from(row).unwrap_or(usize::MAX))
    }

    fn default_row_height(&self) -> f32 {
        ROW_HEIGHT
    }
}
