//! Controls of one part of a figure: its title, an axis, the legend, the line below, an annotation. The side panel has the controls of all
//! parts; pointing at a part of the preview opens the controls of that part.

use eframe::egui::{DragValue, Grid, Role, Ui, WidgetInfo};
use strum::{EnumMessage, VariantArray};

use super::FiguresCommand;
use super::typed::{Field, Typing, any_text, field, number, number_field, read_field, whole_field};
use crate::analysis::CellKey;
use crate::app::command::{Command, edit};
use crate::app::deliberate;
use crate::app::theme::GRID;
use crate::app::widgets::{check_ui, choice, muted, named};
use crate::figure::{
    Annotation, AnnotationKind, Axis, AxisName, Figure, LegendPlace, LevelOverride, Nth, Overrides, Study, units_of,
};

/// A study that controls change.
pub(super) struct Editing<'a> {
    pub study: &'a Study,
    pub typing: Typing,
    pub commands: &'a mut Vec<Command>,
}

impl Editing<'_> {
    /// Changes what differs in the figure. Letters of one kind are undone together.
    pub fn change(&mut self, kind: &'static str, change: impl FnOnce(&mut Overrides)) {
        let kind = Some(kind).filter(|_| self.typing == Typing::Live);
        edit::<FiguresCommand>(self.commands, self.study, kind, |study| {
            change(&mut study.overrides);
            study.overrides.tidy();
        });
    }

    /// The author's changes to a level.
    pub fn level(&self, key: &str) -> LevelOverride {
        self.study.overrides.levels.iter().find(|one| one.level == key).cloned().unwrap_or_default()
    }
}

/// The largest number of letters in a row of choices, counting two for the room around each choice, and the approximate width of a letter.
const LETTERS: usize = 30;
const LETTER_WIDTH: f32 = 7.5;

/// Draws choices beside each other. `about` is the name of the group in their accessible names.
pub(super) fn one_of<T: PartialEq>(ui: &mut Ui, about: &str, now: &T, choices: Vec<(T, String)>) -> Option<T> {
    let mut asked = None;
    // A grid does not know how high rows become that wrap by themselves.
    let most = LETTERS.min((ui.available_width() / LETTER_WIDTH) as usize);
    let (mut rows, mut letters): (Vec<Vec<(T, String)>>, usize) = (Vec::new(), 0);
    for choice in choices {
        letters += choice.1.chars().count() + 2;
        match rows.last_mut().filter(|_| letters <= most) {
            Some(row) => row.push(choice),
            None => {
                letters = choice.1.chars().count() + 2;
                rows.push(vec![choice]);
            }
        }
    }
    ui.vertical(|ui| {
        ui.spacing_mut().item_spacing = [2.0, 2.0].into();
        for row in rows {
            ui.horizontal(|ui| {
                for (choice, name) in row {
                    let is_now = choice == *now;
                    let response = ui.selectable_label(is_now, &name);
                    let name = format!("{about}: {name}");
                    response.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, is_now, &name));
                    if response.clicked() && !is_now {
                        asked = Some(choice);
                    }
                }
            });
        }
    });
    asked
}

/// The name of the choice that changes nothing.
pub(super) const USUAL: &str = "as usual";

/// All of a kind by their names, with the usual one in front.
pub(super) fn kinds<T: VariantArray + EnumMessage + Copy>() -> Vec<(Option<T>, String)> {
    let name = |one: &T| one.get_serializations().first().copied().unwrap_or_default().to_owned();
    std::iter::once((None, USUAL.to_owned())).chain(T::VARIANTS.iter().map(|one| (Some(*one), name(one)))).collect()
}

/// Rows of a name and its control.
pub(super) fn grid(id: &str) -> Grid {
    Grid::new(id.to_owned()).num_columns(2).spacing([8.0, GRID])
}

/// The title above the figure.
pub(super) fn title_ui(ui: &mut Ui, editing: &mut Editing<'_>) {
    let now = editing.study.overrides.title.clone().unwrap_or_default();
    let input = Field { name: "Title of the figure", hint: "none", width: 140.0 };
    if let Some(text) = field(ui, editing.typing, input, &now, any_text) {
        editing.change("title", |one| one.title = Some(text).filter(|text| !text.trim().is_empty()));
    }
}

/// The fields that have the focus first where a part is pointed at.
pub(super) fn name_of_axis(chart: usize, axis: AxisName) -> String {
    format!("Name of {}", the_axis(chart, axis))
}

pub(super) fn low_of_axis(chart: usize, axis: AxisName) -> String {
    format!("Lower end of {}", the_axis(chart, axis))
}

fn the_axis(chart: usize, axis: AxisName) -> String {
    if chart == 0 { format!("the {axis} axis") } else { format!("the {axis} axis of chart {}", chart + 1) }
}

/// An axis of a chart, counted from 0: its name, unit, ends, ticks and scale.
pub(super) fn axis_ui(ui: &mut Ui, editing: &mut Editing<'_>, figure: &Figure, chart: usize, axis: AxisName) {
    let Some(drawn) = figure.charts.get(chart) else { return };
    let (nth, is_y, typing) = (Nth(chart + 1), axis == AxisName::Y, editing.typing);
    let about = the_axis(chart, axis);
    let shown: &Axis = if is_y { &drawn.y } else { &drawn.x };
    let now = editing.study.overrides.axis(axis, nth);
    let kind = |name: &'static str, other: &'static str| if is_y { name } else { other };
    grid(&format!("axis {axis} {chart}")).show(ui, |ui| {
        ui.label(if is_y { "Values" } else { "x axis" });
        let usual = if now.name.is_none() && typing == Typing::Kept { &*shown.name } else { "" };
        let text = now.name.as_deref().unwrap_or(usual);
        let name = name_of_axis(chart, axis);
        if let Some(text) = field(ui, typing, Field { name: &name, hint: &shown.name, width: 140.0 }, text, any_text) {
            // The unit follows the name by itself.
            let unit = format!("({})", shown.unit);
            let text = text.strip_suffix(&unit).map_or(&*text, str::trim_end).to_owned();
            editing.change(kind("y name", "x name"), |one| {
                one.axis_mut(axis, nth).name = Some(text).filter(|text| !text.is_empty());
            });
        }
        ui.end_row();
        let has_numbers = if is_y { drawn.has_values() } else { shown.categories.is_empty() };
        if !has_numbers {
            return;
        }
        let units = units_of(&shown.unit);
        if !units.is_empty() {
            ui.label(muted(ui, "unit"));
            let choices = units.into_iter().map(|unit| (Some(unit.to_owned()), unit.to_owned()));
            let choices = std::iter::once((None, USUAL.to_owned())).chain(choices).collect();
            if let Some(unit) = one_of(ui, &format!("Unit of {about}"), &now.unit, choices) {
                editing.change(kind("y unit", "x unit"), |one| one.axis_mut(axis, nth).unit = unit);
            }
            ui.end_row();
        }
        ui.label(muted(ui, "from, to"));
        ui.horizontal(|ui| {
            if let Some(asked) = number_field(ui, typing, &low_of_axis(chart, axis), now.low) {
                editing.change(kind("y low", "x low"), |one| one.axis_mut(axis, nth).low = asked);
            }
            if let Some(asked) = number_field(ui, typing, &format!("Upper end of {about}"), now.high) {
                editing.change(kind("y high", "x high"), |one| one.axis_mut(axis, nth).high = asked);
            }
        });
        ui.end_row();
        ticks_ui(ui, editing, (chart, axis));
        if !is_y || drawn.can_be_log() {
            ui.label(muted(ui, "scale"));
            let choices = [(None, USUAL), (Some(false), "linear"), (Some(true), "log")];
            let choices = choices.map(|(log, name)| (log, name.to_owned())).to_vec();
            if let Some(log) = one_of(ui, &format!("Scale of {about}"), &now.log, choices) {
                editing.change(kind("y scale", "x scale"), |one| one.axis_mut(axis, nth).log = log);
            }
            ui.end_row();
        }
    });
}

/// Ticks one by one, or about how many.
fn ticks_ui(ui: &mut Ui, editing: &mut Editing<'_>, (chart, axis): (usize, AxisName)) {
    let (nth, about) = (Nth(chart + 1), the_axis(chart, axis));
    let now = editing.study.overrides.axis(axis, nth);
    let typing = editing.typing;
    ui.label(muted(ui, "ticks"));
    ui.horizontal(|ui| {
        let numbers = |text: &str| -> Result<Vec<f64>, String> {
            text.split(',').filter_map(|part| number(part).transpose()).collect()
        };
        let shown: Vec<String> = now.ticks.iter().map(ToString::to_string).collect();
        let name = format!("Ticks of {about}");
        let input = Field { name: &name, hint: "0, 1, 2", width: 84.0 };
        if let Some(ticks) = read_field(ui, typing, input, &shown.join(", "), numbers) {
            editing.change("ticks", |one| one.axis_mut(axis, nth).ticks = ticks);
        }
        let name = format!("Count of ticks of {about}");
        let input = Field { name: &name, hint: "count", width: 64.0 };
        if let Some(count) = whole_field(ui, typing, input, now.tick_count, Overrides::TICKS) {
            editing.change("tick count", |one| one.axis_mut(axis, nth).tick_count = count);
        }
    });
    ui.end_row();
}

/// The place of the legend, and the number of its entries that are next to each other.
pub(super) fn legend_ui(ui: &mut Ui, editing: &mut Editing<'_>) {
    let overrides = &editing.study.overrides;
    let (place, columns) = (overrides.legend, overrides.legend_columns);
    grid("figures-legend").show(ui, |ui| {
        ui.label("Legend");
        let choices = kinds::<LegendPlace>().into_iter().filter_map(|(place, name)| Some((place?, name))).collect();
        if let Some(place) = one_of(ui, "Place of the legend", &place, choices) {
            editing.change("legend", |one| one.legend = place);
        }
        ui.end_row();
        ui.label(muted(ui, "columns"));
        let input = Field { name: "Columns of the legend", hint: "auto", width: 52.0 };
        if let Some(columns) = whole_field(ui, editing.typing, input, columns, (1, 255)) {
            editing.change("legend columns", |one| one.legend_columns = columns);
        }
        ui.end_row();
    });
}

/// Switches for the lines below the figure, and for the marks that are drawn next to its values.
pub(super) fn switches_ui(ui: &mut Ui, editing: &mut Editing<'_>) {
    type Switch = fn(&mut Overrides) -> &mut bool;
    let switches: [(&'static str, Switch); 3] = [
        ("Say below what error bars mean", |one| &mut one.caption),
        ("Error bars and bands", |one| &mut one.error_bars),
        ("Values of the paper", |one| &mut one.published),
    ];
    for (name, get) in switches {
        let mut is_on = *get(&mut editing.study.overrides.clone());
        if check_ui(ui, &mut is_on, name).changed() {
            edit::<FiguresCommand>(editing.commands, editing.study, None, |study| *get(&mut study.overrides) = is_on);
        }
    }
}

/// Height of the page, and widths of bars and lines.
pub(super) fn sizes_ui(ui: &mut Ui, editing: &mut Editing<'_>) {
    /// Name, usual number, limits, unit, and the field of the overrides.
    type Number = (&'static str, f64, (f64, f64), &'static str, fn(&mut Overrides) -> &mut Option<f64>);
    let numbers: [Number; 3] = [
        ("Height", 60.0, Overrides::HEIGHTS_MM, " mm", |one| &mut one.height_mm),
        ("Bar width", 0.78, Overrides::BARS, "", |one| &mut one.bar_width),
        ("Line width", 1.1, Overrides::LINES_PT, " pt", |one| &mut one.line_width),
    ];
    grid("figures-sizes").show(ui, |ui| {
        for (name, usual, (least, most), unit, get) in numbers {
            let mut value = *get(&mut editing.study.overrides.clone());
            let mut is_own = value.is_some();
            let check = check_ui(ui, &mut is_own, name);
            if check.changed() {
                editing.change(name, |one| *get(one) = is_own.then_some(usual));
            }
            if let Some(value) = &mut value {
                let drag = DragValue::new(value).range(least..=most).speed((most - least) / 400.0).suffix(unit);
                if ui.add(drag).labelled_by(check.id).changed() {
                    editing.change(name, |one| *get(one) = Some(*value));
                }
            } else {
                ui.label(muted(ui, USUAL));
            }
            ui.end_row();
        }
    });
}

/// Controls of an annotation, given by its place in the list: its words as on the command line, and the text that replaces the verdict of a
/// bracket.
pub(super) fn annotation_ui(ui: &mut Ui, editing: &mut Editing<'_>, place: usize) {
    let Some(now) = editing.study.overrides.annotations.get(place).cloned() else { return };
    let set = |editing: &mut Editing<'_>, annotation: Annotation| {
        editing.change("annotation", |one| {
            one.annotations.get_mut(place).into_iter().for_each(|one| one.clone_from(&annotation));
        });
    };
    ui.horizontal(|ui| {
        let words = Annotation {
            text: if now.kind == AnnotationKind::Bracket { String::new() } else { now.text.clone() },
            ..now.clone()
        };
        let words = Annotation { chart: Nth::default(), panel: None, ..words }.words().unwrap_or_default();
        let remove = ui.small_button("×");
        remove.widget_info(|| named(&format!("Remove {words}")));
        if deliberate::clicked(&remove, ("remove annotation", place, &words)) {
            edit::<FiguresCommand>(editing.commands, editing.study, None, |study| {
                drop(study.overrides.annotations.remove(place));
            });
            // What is open beside the preview was this one.
            editing.commands.push(FiguresCommand::Point(None).into());
            return;
        }
        let name = name_of_annotation(place);
        let input = Field { name: &name, hint: "", width: 190.0 };
        if let Some(read) = read_field(ui, editing.typing, input, &words, |text| Annotation::parse(now.kind, text)) {
            let text = if now.kind == AnnotationKind::Bracket { now.text.clone() } else { read.text.clone() };
            set(editing, Annotation { chart: now.chart, panel: now.panel, text, ..read });
        }
    });
    if now.kind == AnnotationKind::Bracket {
        ui.horizontal(|ui| {
            ui.label(muted(ui, "says"));
            let name = format!("Words of mark {}", place + 1);
            let input = Field { name: &name, hint: "ratio and verdict", width: 160.0 };
            if let Some(text) = field(ui, editing.typing, input, &now.text, any_text) {
                set(editing, Annotation { text, ..now.clone() });
            }
        });
    }
}

/// The field that has the focus first where an addition is pointed at.
pub(super) fn name_of_annotation(place: usize) -> String {
    format!("Mark {}", place + 1)
}

/// Two cells for a bracket: the first cell is kept until the second one is chosen.
pub(super) fn bracket_ui(ui: &mut Ui, figure: &Figure, picked: Option<&CellKey>, commands: &mut Vec<Command>) {
    let offer = |ui: &mut Ui, name: &str, now: Option<&CellKey>, commands: &mut Vec<Command>| {
        let chosen = figure.cells.iter().find(|(cell, _)| Some(cell) == now);
        choice(ui, name, chosen.map_or("a cell", |(_, name)| name), 108.0, |ui| {
            for (cell, name) in &figure.cells {
                if ui.selectable_label(now == Some(cell), name).clicked() {
                    commands.push(FiguresCommand::Pick(cell.clone(), None).into());
                }
            }
        });
    };
    ui.horizontal(|ui| {
        offer(ui, "Bracket from", picked, commands);
        ui.add_enabled_ui(picked.is_some(), |ui| offer(ui, "Bracket to", None, commands));
    });
}
