//! The table below the charts.

use eframe::egui::Ui;

use super::CompareCommand;
use super::picture::Picture;
use crate::app::cell_table::{Asked, CellTable};
use crate::app::columns::Listed;
use crate::app::command::Command;
use crate::app::screens::compare::View;
use crate::app::settings::Settings;
use crate::app::widgets::muted;
use crate::figure::{Form, Runs, Table};

/// Draws the table; a click on a row selects its cell, a double click shows its runs.
pub fn table_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    let compare = view.own;
    let comparison = &picture.comparison;
    if compare.order.is_empty() {
        let study = &compare.study;
        let reason = match (study.form == Form::Metrics, study.runs != Runs::Plain) {
            _ if comparison.all_cells > 0 => "No cell matches the filter. Show all, or tick a level.",
            (true, _) => "No run here has a recording with work of GPUs.",
            _ if comparison.traced == 0 => "No run here has the measures of this study.",
            (false, false) => {
                "All runs here are traced, which costs time. Tick “Traced runs”, or choose the form Metrics."
            }
            (false, true) => {
                "There are only profiler reports here, which do not have these measures. Choose the form Metrics."
            }
        };
        ui.label(muted(ui, reason));
        return;
    }
    let has_baseline = compare.study.form.has_baseline();
    let table = CellTable {
        id: "compare",
        table: &comparison.table,
        texts: &picture.texts,
        places: &shown_columns(picture, &view.settings),
        order: &compare.order,
        sort: &compare.sort,
        cells: &comparison.cells,
        charts: &comparison.charts,
        swatched: picture.coloured(compare.study.form),
        baseline: comparison.baseline.as_ref().and_then(|baseline| baseline.0.as_ref()).filter(|_| has_baseline),
        is_choosable: true,
        selected: compare.selected.as_ref(),
        effect: compare.effect.as_deref(),
    };
    commands.extend(table.ui(ui).map(|asked| {
        Command::from(match asked {
            Asked::Sort(key) => CompareCommand::Sort(key),
            Asked::Select(cell) => CompareCommand::Select(cell),
            Asked::Open(cell) => CompareCommand::Open(cell),
            Asked::Effect(effect) => CompareCommand::Effect(effect),
        })
    }));
}

/// The table for copying: with the displayed rows and columns. Unless the user ordered the columns, they have the order of files.
pub fn copied_table(picture: &Picture, order: &[usize], settings: &Settings) -> Table {
    let mut columns = shown_columns(picture, settings);
    if settings.columns_of(Listed::Compare).order.is_empty() {
        columns.sort_by_key(|column| picture.texts.value(*column));
    }
    picture.texts.shown_table(&picture.comparison.table, order, &columns)
}

/// The indexes of the displayed columns, in order.
pub fn shown_columns(picture: &Picture, settings: &Settings) -> Vec<usize> {
    let named = picture.texts.named(&picture.comparison.table);
    let keys: Vec<String> = named.into_iter().map(|(key, _)| key).collect();
    settings.columns_of(Listed::Compare).shown(&keys, &picture.empty_columns())
}
