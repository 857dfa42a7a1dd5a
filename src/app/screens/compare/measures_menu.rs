//! The menu of user-defined measures: a list to edit and delete, and a field for a formula, which is checked as it is typed.

use eframe::egui::{
    Align, Button, Grid, Id, Key as Pressed, Layout, Role, ScrollArea, TextEdit, Ui, WidgetInfo,
    text::{CCursor, CCursorRange},
};

use super::study_menu::cannot_save;
use super::{CompareCommand, View};
use crate::analysis::{Better, FormulaName, check_edit, formula_names, needs_measure};
use crate::app::command::{Command, ScreenName};
use crate::app::deliberate;
use crate::app::desk::{Deed, Desk, Inverse};
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{lasting_menu, muted, named, radio_ui, text_field};
use crate::conduct::Order;
use crate::plan::{Key, OwnMeasure};

/// The name of the search field.
const SEARCH: &str = "Search names for the formula";
/// How many of the newest runs tell which names have values.
const NEWEST_RUNS: usize = 100;

/// A measure that is being typed, and what came of its last check.
#[derive(Clone, Debug, Default, PartialEq)]
struct Draft {
    key: String,
    formula: String,
    name: String,
    unit: String,
    better: Better,
    /// What was typed to find a name for the formula.
    search: String,
    /// The unit of its values, or what is wrong with it; `None` before the first check.
    checked: Option<Result<String, String>>,
}

impl Draft {
    fn of(measure: &OwnMeasure) -> Self {
        Self {
            key: measure.key.to_string(),
            formula: measure.formula.clone(),
            name: measure.name.clone().unwrap_or_default(),
            unit: measure.unit.clone().unwrap_or_default(),
            better: measure.better,
            search: String::new(),
            checked: None,
        }
    }

    fn measure(&self) -> OwnMeasure {
        let some = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let (name, unit) = (some(&self.name), some(&self.unit));
        OwnMeasure { name, unit, better: self.better, ..OwnMeasure::new(self.key.trim(), self.formula.trim()) }
    }
}

/// Saves a user-defined measure in the session; this can be undone.
pub(super) fn save_measure(measure: OwnMeasure, desk: &mut Desk) {
    if let Err(reason) = check_edit(&desk.records.summaries, &desk.records.own_measures, &measure) {
        return desk.problem(ScreenName::COMPARE, format!("saving the measure {}: {reason}", measure.key));
    }
    let before = desk.records.own_measures.iter().find(|known| known.key == measure.key).cloned();
    let inverse = before.map_or_else(|| Order::DeleteMeasure(measure.key.clone()), Order::SaveMeasure);
    let what = format!("The measure {:?} was saved", &*measure.key);
    desk.order_to_undo(Deed {
        what,
        orders: vec![Order::SaveMeasure(measure)],
        inverse: vec![Inverse::Order(inverse)],
    });
}

/// Deletes a user-defined measure; this can be undone.
pub(super) fn delete_measure(key: &Key, desk: &mut Desk) {
    let Some(before) = desk.records.own_measures.iter().find(|known| known.key == *key).cloned() else { return };
    if let Some(other) = needs_measure(&desk.records.own_measures, key) {
        let message =
            format!("deleting the measure {key}: {} is computed from it: change or delete that first", other.key);
        return desk.problem(ScreenName::COMPARE, message);
    }
    let what = format!("The measure {:?} was deleted", &**key);
    let inverse = vec![Inverse::Order(Order::SaveMeasure(before))];
    desk.order_to_undo(Deed { what, orders: vec![Order::DeleteMeasure(key.clone())], inverse });
}

/// Draws the menu.
pub(super) fn measures_menu_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let response = lasting_menu(ui, Button::new("fx"), |ui| {
        ui.set_min_width(420.0);
        ui.set_max_width(520.0);
        let id = Id::unique("own-measure");
        // The texts being typed are local and are stored in egui's own memory.
        let mut draft: Draft = ui.data(|data| data.get_temp(id)).unwrap_or_default();
        let own = &view.records.own_measures;
        if own.is_empty() {
            ui.label(muted(ui, "A measure of your own is computed from others, for all runs of the session."));
        }
        ScrollArea::vertical().max_height(220.0).show(ui, |ui| {
            for measure in own.iter() {
                own_ui(ui, view, measure, &mut draft, commands);
            }
        });
        ui.separator();
        draft_ui(ui, view, &mut draft, commands);
        ui.data_mut(|data| data.insert_temp(id, draft));
    })
    .response;
    response.widget_info(|| named("Own measures"));
    response
        .on_hover_text("Add a measure that is computed from others, such as throughput / power_w; edit or delete one");
}

fn own_ui(ui: &mut Ui, view: View<'_>, measure: &OwnMeasure, draft: &mut Draft, commands: &mut Vec<Command>) {
    ui.horizontal(|ui| {
        let delete = ui.add_enabled(cannot_save(view.desk).is_none(), Button::new("✗").small());
        let delete = delete.on_hover_text("Delete this measure; the notice can restore it");
        delete.widget_info(|| named(&format!("Delete measure {}", measure.key)));
        if deliberate::clicked(&delete, ("delete measure", &measure.key)) {
            commands.push(Command::from(CompareCommand::DeleteMeasure(measure.key.clone())));
        }
        let text = format!("{} = {}", measure.key, measure.formula);
        let edit = ui.selectable_label(draft.key == *measure.key, text).on_hover_text("Edit this measure");
        edit.widget_info(|| named(&format!("Edit measure {}", measure.key)));
        if edit.clicked() {
            *draft = Draft::of(measure);
        }
    });
}

fn draft_ui(ui: &mut Ui, view: View<'_>, draft: &mut Draft, commands: &mut Vec<Command>) {
    let before = draft.clone();
    let width = 320.0;
    let mut entered = false;
    Grid::new("own-measure-fields").num_columns(2).spacing([GRID, GRID]).show(ui, |ui| {
        let mut line = |ui: &mut Ui, name: &str, text: &mut String, hint: &str| {
            ui.label(muted(ui, name));
            let field = ui.add(text_field(text, hint, width).id(field_id(name)));
            field.widget_info(|| WidgetInfo::labeled(Role::TextInput, true, format!("{name} of the measure")));
            entered |= field.lost_focus() && ui.input(|input| input.key_pressed(Pressed::Enter));
            ui.end_row();
        };
        line(ui, "Key", &mut draft.key, "tokens_per_joule");
        line(ui, "Formula", &mut draft.formula, "throughput / power_w");
        line(ui, "Name", &mut draft.name, "made from the key");
        line(ui, "Unit", &mut draft.unit, "the one that the formula has");
        ui.label(muted(ui, "Better"));
        ui.horizontal(|ui| {
            for better in [Better::Neither, Better::Higher, Better::Lower] {
                let (chosen, name) = (draft.better == better, better.name());
                let radio = radio_ui(ui, chosen, true, name);
                radio.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, chosen, format!("Better: {name}")));
                if radio.clicked() {
                    draft.better = better;
                }
            }
        });
        ui.end_row();
    });
    let is_empty = draft.key.trim().is_empty() || draft.formula.trim().is_empty();
    let measure = draft.measure();
    if is_empty {
        draft.checked = None;
    } else if draft.checked.is_none() || (Draft { checked: draft.checked.clone(), ..before }) != *draft {
        let checked = check_edit(&view.records.summaries, &view.records.own_measures, &measure);
        draft.checked = Some(checked.map(|outcome| outcome.measure.unit));
    }
    match &draft.checked {
        Some(Err(reason)) => drop(ui.colored_label(palette(ui.visuals()).warning, reason)),
        Some(Ok(unit)) if unit.is_empty() => drop(ui.label(muted(ui, "A number without a unit"))),
        Some(Ok(unit)) => drop(ui.label(muted(ui, format!("Unit: {unit}")))),
        None => {
            let help = "Names of measures and of factors that are numbers, numbers with units (24 GB), + − × ÷ ( ), min, max, sqrt, log2";
            // Menus stretch their lines to the full width, words of a text too.
            ui.with_layout(Layout::top_down(Align::Min), |ui| ui.label(muted(ui, help)));
        }
    }
    names_ui(ui, view, draft);
    let cannot = cannot_save(view.desk);
    let can = cannot.is_none() && matches!(draft.checked, Some(Ok(_)));
    let is_known = view.records.own_measures.iter().any(|known| known.key == measure.key);
    let save = ui.add_enabled(can, Button::new(if is_known { "Replace" } else { "Add" }));
    save.widget_info(|| WidgetInfo::labeled(Role::Button, can, "Save measure"));
    let save = match &cannot {
        Some(reason) => save.on_disabled_hover_text(reason),
        None => save.on_hover_text("Keeps it in the session; all of its runs have it at once"),
    };
    if can && (save.clicked() || entered) {
        commands.push(Command::from(CompareCommand::SaveMeasure(Box::new(measure))));
        *draft = Draft::default();
    }
}

/// The id of a field of the measure that is being typed.
fn field_id(name: &str) -> Id {
    Id::unique(("own-measure", name))
}

/// Draws the names that a formula can use, with a search field; a click on a name inserts it into the formula.
fn names_ui(ui: &mut Ui, view: View<'_>, draft: &mut Draft) {
    let runs = &view.records.summaries;
    let newest = &runs[runs.len().saturating_sub(NEWEST_RUNS)..];
    let names = formula_names(newest, &view.records.own_measures);
    let search = ui.add(text_field(&mut draft.search, SEARCH, 320.0));
    search.widget_info(|| WidgetInfo::labeled(Role::TextInput, true, SEARCH));
    let text = draft.search.trim().to_lowercase();
    let is_found = |name: &&FormulaName| name.key.contains(&text) || name.name.to_lowercase().contains(&text);
    let found: Vec<&FormulaName> = names.iter().filter(is_found).collect();
    if found.is_empty() {
        ui.label(muted(ui, "No measure and no factor with numbers has this name."));
    }
    ScrollArea::vertical().id_salt("names of formulas").max_height(140.0).auto_shrink([false, true]).show(ui, |ui| {
        for name in found {
            let unit = if name.unit.is_empty() { String::new() } else { format!(" ({})", name.unit) };
            let button = ui.add(Button::selectable(false, format!("{}: {}{unit}", name.key, name.name)).truncate());
            button.widget_info(|| named(&format!("Insert {}", name.key)));
            if button.on_hover_text("Inserts this name into the formula").clicked() {
                insert(ui, &mut draft.formula, &name.key);
                draft.checked = None;
            }
        }
    });
}

/// Inserts a name into the formula at its cursor, or at its end, and goes on typing behind the name.
fn insert(ui: &Ui, formula: &mut String, name: &str) {
    let id = field_id("Formula");
    let mut state = TextEdit::load_state(ui.ctx(), id).unwrap_or_default();
    let end = formula.chars().count();
    let at = state.cursor.char_range().map_or(end, |range| usize::from(range.primary.index).min(end));
    let (before, after): (String, String) = (formula.chars().take(at).collect(), formula.chars().skip(at).collect());
    let blank = if before.is_empty() || before.ends_with([' ', '(']) { "" } else { " " };
    *formula = format!("{before}{blank}{name}{after}");
    let behind = CCursor::new(at + blank.len() + name.chars().count());
    state.cursor.set_char_range(Some(CCursorRange::one(behind)));
    state.store(ui.ctx(), id);
    ui.memory_mut(|memory| memory.request_focus(id));
}
