//! Arranges a chart: which settings are on rows, columns and colours, and the names of cells.

use std::collections::HashMap;

use super::Scene;
use crate::analysis::{Cell, DATA, Level, MACHINE, MADE_WITH, SESSION, Setting, WORKLOAD, level_name};
use crate::figure::study::{Form, Place, Study};
use crate::plan::{GPUS, GPUS_PER_NODE, NODES};

/// Which settings are on rows, on columns and shown by colour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrangement {
    /// Groups of bars.
    pub rows: Option<Setting>,
    /// Panels next to each other.
    pub columns: Option<Setting>,
    /// Bars within a group, or lines within a panel.
    pub colour: Option<Setting>,
    /// The factor on the x axis, in the form `scatter`.
    pub across: Option<Setting>,
    /// The other settings that differ: they are part of the names of rows or lines, so that all cells stay separate.
    pub rest: Vec<Setting>,
}

/// The name of a cell: its levels of these settings.
pub(super) fn name_of(cell: &Cell, settings: &[Setting]) -> String {
    let levels = settings.iter().filter_map(|setting| Some(level_name(setting, &cell.level(&setting.key)?)));
    let name = levels.collect::<Vec<_>>().join(" · ");
    if name.is_empty() { format!("cell {}", cell.id) } else { name }
}

/// The factors along the horizontal axis of scaling. The first one is the axis: the number of GPUs, or the number of
/// nodes if no run has a number of GPUs. The others say how GPUs are spread over nodes; they are along the axis if each
/// number on the axis has one spread only. Otherwise each spread has a line of its own.
pub(super) fn along_scaling(cells: &[Cell]) -> Vec<&'static str> {
    let axis = if cells.iter().all(|cell| cell.level(GPUS).is_none()) { NODES } else { GPUS };
    let follows = |key: &&str| {
        let mut known: HashMap<Option<i64>, Option<Level>> = HashMap::new();
        let is_same = |cell: &Cell| {
            let (count, level) = (cell.level(axis).and_then(|count| count.as_integer()), cell.level(key));
            *known.entry(count).or_insert_with(|| level.clone()) == level
        };
        *key != axis && cells.iter().all(is_same)
    };
    [axis].into_iter().chain([NODES, GPUS_PER_NODE].into_iter().filter(follows)).collect()
}

/// Arranges settings as the study says, and chooses a suitable arrangement where the study leaves it open. `shown` are the settings that
/// differ among `cells`.
pub(super) fn arrange(study: &Study, all: &[Setting], shown: &[Setting], cells: &[Cell]) -> Arrangement {
    let chosen = |place: &Place| match place {
        Place::Setting(key) => all.iter().find(|setting| setting.key == key.as_str()).cloned(),
        Place::Auto | Place::Nothing => None,
    };
    let is_line = matches!(study.form, Form::Loss | Form::Scaling | Form::Roofline | Form::Scatter | Form::History);
    let mut rows = if is_line { None } else { chosen(&study.rows) };
    let mut columns = chosen(&study.columns);
    let mut colour = if study.form == Form::Memory { None } else { chosen(&study.colour) };
    // The number of GPUs, or of nodes, is the x axis of scaling.
    let along = if study.form == Form::Scaling { along_scaling(cells) } else { Vec::new() };
    let is_x = |setting: &Setting| match study.form {
        Form::Scaling => along.contains(&&*setting.key),
        Form::Scatter => setting.key == study.shown_across(),
        _ => false,
    };
    columns = columns.filter(|setting| !is_x(setting));
    colour = colour.filter(|setting| !is_x(setting));
    let mut free: Vec<Setting> = shown.iter().filter(|setting| !is_x(setting)).cloned().collect();
    // The x axis of a history shows sessions and what they are made with, by date or commit; each machine has a history of its own.
    if study.form == Form::History {
        let is_along = |setting: &Setting| setting.is_fact || setting.is(SESSION) || setting.is(MADE_WITH);
        free.retain(|setting| !is_along(setting) || setting.key == MACHINE);
    }
    drop_repeated_data(&mut free, cells);
    free.retain(|setting| [&rows, &columns, &colour].into_iter().flatten().all(|used| used.key != setting.key));
    let takes_colour = study.form != Form::Memory && study.colour == Place::Auto;
    let mut take = |is_wanted: &dyn Fn(&Setting) -> bool| {
        let place = free.iter().position(is_wanted)?;
        Some(free.remove(place))
    };
    let any = |_: &Setting| true;
    if takes_colour && let Some(session) = take(&|setting: &Setting| setting.is(SESSION)) {
        colour = Some(session);
    }
    if is_line {
        if takes_colour && colour.is_none() {
            colour = take(&any);
        }
    } else {
        // The number of GPUs is on panels rather than on rows.
        let gpus = take(&|setting: &Setting| setting.key == GPUS);
        if rows.is_none() && study.rows == Place::Auto {
            rows = take(&any);
        }
        if takes_colour && colour.is_none() {
            colour = take(&any);
        }
        let mut gpus = gpus;
        if rows.is_none() && study.rows == Place::Auto {
            rows = gpus.take();
        }
        if takes_colour && colour.is_none() {
            // If nothing else differs, colours repeat the rows.
            colour = gpus.take().or_else(|| rows.clone());
        }
        if columns.is_none() && study.columns == Place::Auto {
            columns = gpus.take().or_else(|| take(&any));
        }
        if let Some(gpus) = gpus {
            free.push(gpus);
        }
    }
    let across = all.iter().find(|setting| study.form == Form::Scatter && is_x(setting)).cloned();
    Arrangement { rows, columns, colour, across, rest: free }
}

/// Removes the setting `data` if it only repeats the setting `workload`, because only one workload has data sets.
pub(super) fn drop_repeated_data(settings: &mut Vec<Setting>, cells: &[Cell]) {
    if settings.iter().any(|setting| setting.is(WORKLOAD)) {
        settings.retain(|setting| !setting.is(DATA) || !is_of_one_workload(setting, cells));
    }
}

/// Whether all cells that have a setting have the same level, and other cells lack the setting.
fn is_of_one_workload(setting: &Setting, cells: &[Cell]) -> bool {
    let mut levels: Vec<Option<Level>> = cells.iter().map(|cell| cell.level(&setting.key)).collect();
    levels.sort();
    levels.dedup();
    levels.len() == 2 && levels.contains(&None)
}

impl Scene<'_> {
    /// The cell's level of the panels' setting, in words; empty if there is only one panel.
    pub(super) fn panel_name(&self, cell: &Cell) -> String {
        let columns = self.arrangement.columns.as_ref();
        columns.and_then(|setting| Some(level_name(setting, &cell.level(&setting.key)?))).unwrap_or_default()
    }
}

/// The index of a name in a list; a new name is added to the list.
pub(super) fn place_of(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}
