//! Controls of one part of a figure: its title, an axis, a level, the legend, the line below, what an author added. The side has them
//! all; pointing at a part of the preview opens its own.

use eframe::egui::text::{CCursor, CCursorRange};
use eframe::egui::text_edit::TextEditState;
use eframe::egui::{Button, Context, DragValue, Grid, Id, Key, Response, Role, Ui, WidgetInfo};
use strum::{EnumMessage, VariantArray};

use super::FiguresCommand;
use crate::analysis::CellKey;
use crate::app::command::{Command, edit};
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{check_ui, choice, muted, named, text_field};
use crate::figure::{
    Annotation, AnnotationKind, Axis, AxisName, COLOUR_NAMES, DashKind, Figure, Geometry, Hatch, LegendPlace,
    LevelOverride, Marker, Nth, Overrides, Study, colour_of, level_name, units_of,
};
use crate::plan::Level;

/// When what is typed counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typing {
    /// With each letter.
    Live,
    /// Once Enter, Tab or a click elsewhere ends it; Esc leaves what was there.
    Kept,
}

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

    fn level(&self, key: &str) -> LevelOverride {
        self.study.overrides.levels.iter().find(|one| one.level == key).cloned().unwrap_or_default()
    }
}

/// The field that is to have the focus in the next frame, by its name.
fn focus_id() -> Id {
    Id::unique("figures-focus")
}

/// Whether what was typed last is no value of its field.
fn refused_id() -> Id {
    Id::unique("figures-refused")
}

/// Gives a field of this name the focus, with all of its text selected.
pub(super) fn focus(context: &Context, name: &str) {
    context.data_mut(|data| data.insert_temp(focus_id(), name.to_owned()));
}

/// Whether a field was left with something that is no value of it; asked once.
pub(super) fn was_refused(context: &Context) -> bool {
    context.data_mut(|data| data.remove_temp::<bool>(refused_id())).is_some()
}

/// A field with its accessible name and what it says where it is empty.
#[derive(Clone, Copy)]
struct Field<'a> {
    name: &'a str,
    hint: &'a str,
    width: f32,
}

/// Shows a text; what was typed, where it counts and differs. `check` says what is wrong with it: that is kept while it is typed.
fn field(
    ui: &mut Ui,
    typing: Typing,
    Field { name, hint, width }: Field<'_>,
    text: &str,
    check: impl Fn(&str) -> Result<(), String>,
) -> Option<String> {
    let id = ui.scope_id().with(name);
    let now = ui.ctx().cumulative_pass_nr();
    // The same field of the side is typed in live; while a popup is measured nothing has the focus.
    let is_asked = typing == Typing::Kept
        && !ui.is_sizing_pass()
        && ui.data(|data| data.get_temp::<String>(focus_id())).is_some_and(|asked| asked == name);
    let draft = ui.data(|data| data.get_temp::<(String, u64)>(id)).filter(|(_, seen)| seen + 2 >= now && !is_asked);
    let had_draft = draft.is_some();
    let mut typed = draft.map_or_else(|| text.to_owned(), |(draft, _)| draft);
    let wrong = check(&typed).err();
    let colour = wrong.is_some().then(|| palette(ui.visuals()).bad);
    let mut response = ui.add(text_field(&mut typed, hint, width).id(id).text_color_opt(colour));
    response.widget_info(|| {
        let mut info = WidgetInfo::labeled(Role::TextInput, true, name);
        info.current_text_value = Some(typed.clone());
        info
    });
    if is_asked {
        ui.data_mut(|data| data.remove_temp::<String>(focus_id()));
        select(ui, &response, &typed);
    }
    let is_dropped = ui.input(|input| input.key_pressed(Key::Escape));
    let is_entered = ui.input(|input| input.key_pressed(Key::Enter));
    // A press elsewhere ends it before what is pressed does something.
    let is_pressed_elsewhere = ui.input(|input| {
        let press = input.pointer.interact_pos().filter(|_| input.pointer.any_pressed());
        press.is_some_and(|place| !response.rect.contains(place))
    });
    let is_left = had_draft && (!response.has_focus() || is_pressed_elsewhere);
    let wrong = check(&typed).err();
    if let Some(message) = &wrong {
        if is_left && is_entered {
            response.request_focus();
            ui.data_mut(|data| data.insert_temp(refused_id(), true));
        }
        response = response.on_hover_text(message);
        response.show_tooltip_text(message);
    }
    if response.has_focus() && !is_dropped {
        ui.data_mut(|data| data.insert_temp(id, (typed.clone(), now)));
    } else {
        ui.data_mut(|data| data.remove_temp::<(String, u64)>(id));
    }
    let counts = match typing {
        Typing::Live => response.changed(),
        Typing::Kept => is_left && !is_dropped,
    };
    (counts && wrong.is_none() && typed != text).then_some(typed)
}

fn select(ui: &Ui, response: &Response, text: &str) {
    response.request_focus();
    let mut state = TextEditState::load(ui.ctx(), response.id).unwrap_or_default();
    let all = CCursorRange::two(CCursor::new(0), CCursor::new(text.chars().count()));
    state.cursor.set_char_range(Some(all));
    state.store(ui.ctx(), response.id);
}

fn any_text(_: &str) -> Result<(), String> {
    Ok(())
}

fn number(text: &str) -> Result<Option<f64>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.map(Some).ok_or_else(|| format!("{text:?} is not a number"))
}

/// A field for a number, or nothing.
fn number_field(ui: &mut Ui, typing: Typing, name: &str, value: Option<f64>) -> Option<Option<f64>> {
    let shown = value.map_or(String::new(), |value| value.to_string());
    let input = Field { name, hint: "auto", width: 52.0 };
    let typed = field(ui, typing, input, &shown, |text| number(text).map(drop))?;
    number(&typed).ok().filter(|asked| *asked != value)
}

/// Letters of the choices of a row at most, each with the room around it, and how wide a letter is about.
const LETTERS: usize = 30;
const LETTER_WIDTH: f32 = 7.5;

/// Choices beside each other, with what they are about.
fn one_of<T: PartialEq>(ui: &mut Ui, about: &str, now: &T, choices: Vec<(T, String)>) -> Option<T> {
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

const USUAL: &str = "as usual";

/// All of a kind by their names, with the usual one in front.
fn kinds<T: VariantArray + EnumMessage + Copy>() -> Vec<(Option<T>, String)> {
    let name = |one: &T| one.get_serializations().first().copied().unwrap_or_default().to_owned();
    std::iter::once((None, USUAL.to_owned())).chain(T::VARIANTS.iter().map(|one| (Some(*one), name(one)))).collect()
}

fn grid(id: &str) -> Grid {
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
        if let Some(text) = field(ui, typing, input, &shown.join(", "), |text| numbers(text).map(drop))
            && let Ok(ticks) = numbers(&text)
        {
            editing.change("ticks", |one| one.axis_mut(axis, nth).ticks = ticks);
        }
        let (least, most) = Overrides::TICKS;
        let count = |text: &str| -> Result<Option<usize>, String> {
            let text = text.trim();
            if text.is_empty() {
                return Ok(None);
            }
            let count = text.parse().ok().filter(|count| (least..=most).contains(count));
            count.map(Some).ok_or_else(|| format!("{text:?} is not a whole number from {least} to {most}"))
        };
        let shown = now.tick_count.map_or(String::new(), |count| count.to_string());
        let name = format!("Count of ticks of {about}");
        let number = Field { name: &name, hint: "count", width: 64.0 };
        if let Some(text) = field(ui, typing, number, &shown, |text| count(text).map(drop))
            && let Ok(count) = count(&text)
        {
            editing.change("tick count", |one| one.axis_mut(axis, nth).tick_count = count);
        }
    });
    ui.end_row();
}

/// Where the legend stands, and how many of its entries stand beside each other.
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
        let shown = columns.map_or(String::new(), |columns| columns.to_string());
        let read = |text: &str| -> Result<Option<usize>, String> {
            let text = text.trim();
            if text.is_empty() {
                return Ok(None);
            }
            let columns = text.parse().ok().filter(|columns| (1..=255).contains(columns));
            columns.map(Some).ok_or_else(|| format!("{text:?} is not a whole number from 1 to 255"))
        };
        let input = Field { name: "Columns of the legend", hint: "auto", width: 52.0 };
        if let Some(text) = field(ui, editing.typing, input, &shown, |text| read(text).map(drop))
            && let Ok(columns) = read(&text)
        {
            editing.change("legend columns", |one| one.legend_columns = columns);
        }
        ui.end_row();
    });
}

/// What is said below the figure, and what is drawn beside its values.
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
    /// Name, usual number, limits, unit, and where it is kept.
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

/// The name of a level, or of what else an override is of, and its setting's place among those of the figure.
fn level_of<'a>(figure: &'a Figure, key: &'a str) -> (String, Option<(usize, &'a Level)>) {
    for (place, settings) in figure.settings.iter().enumerate() {
        let setting = &settings.setting;
        let is_asked = |level: &&(Level, usize)| {
            let name = level_name(setting, &level.0);
            key == format!("{}={}", setting.key, level.0) || key == name || key == level.0.to_string()
        };
        if let Some((level, _)) = settings.levels.iter().find(is_asked) {
            return (level_name(setting, level), Some((place, level)));
        }
    }
    (key.to_owned(), None)
}

/// The field that has the focus first where a level is pointed at.
pub(super) fn name_of_level(figure: &Figure, key: &str) -> String {
    format!("Name of {}", level_of(figure, key).0)
}

/// The field of a level's name.
pub(super) fn level_name_ui(ui: &mut Ui, editing: &mut Editing<'_>, figure: &Figure, key: &str, width: f32) {
    let (usual, _) = level_of(figure, key);
    let label = editing.level(key).label;
    let text = label.unwrap_or(if editing.typing == Typing::Kept { usual.clone() } else { String::new() });
    let name = name_of_level(figure, key);
    if let Some(text) = field(ui, editing.typing, Field { name: &name, hint: &usual, width }, &text, any_text) {
        let label = Some(text).filter(|text| !text.is_empty() && *text != usual);
        editing.change("label", |one| one.level_mut(key).label = label);
    }
}

/// A level: its name, colour, hatch, marker and dash, and its place among those of its factor.
pub(super) fn level_ui(ui: &mut Ui, editing: &mut Editing<'_>, figure: &Figure, key: &str) {
    let (name, place) = level_of(figure, key);
    let LevelOverride { colour, hatch, marker, dash, .. } = editing.level(key);
    grid(&format!("level {key}")).show(ui, |ui| {
        ui.label("Name");
        level_name_ui(ui, editing, figure, key, 160.0);
        ui.end_row();
        ui.label("Colour");
        ui.vertical(|ui| {
            let known =
                COLOUR_NAMES.iter().copied().chain(["grey"]).map(|name| (Some(name.to_owned()), name.to_owned()));
            let choices = std::iter::once((None, USUAL.to_owned())).chain(known).collect();
            if let Some(colour) = one_of(ui, &format!("Colour of {name}"), &colour, choices) {
                editing.change("level colour", |one| one.level_mut(key).colour = colour);
            }
            let own = colour.clone().filter(|colour| colour.starts_with('#')).unwrap_or_default();
            let check = |text: &str| if text.is_empty() { Ok(()) } else { colour_of(text).map(drop) };
            let label = format!("Own colour of {name}");
            let input = Field { name: &label, hint: "#rrggbb", width: 72.0 };
            if let Some(text) = field(ui, editing.typing, input, &own, check) {
                editing
                    .change("own colour", |one| one.level_mut(key).colour = Some(text).filter(|text| !text.is_empty()));
            }
        });
        ui.end_row();
        // Only what the figure draws: a marker changes no bar.
        let draws = |is: fn(Geometry) -> bool| figure.charts.iter().any(|chart| is(chart.geometry));
        if hatch.is_some() || draws(Geometry::has_areas) {
            ui.label("Hatch");
            if let Some(asked) = one_of(ui, &format!("Hatch of {name}"), &hatch, kinds::<Hatch>()) {
                editing.change("hatch", |one| one.level_mut(key).hatch = asked);
            }
            ui.end_row();
        }
        if marker.is_some() || draws(|geometry| !geometry.has_areas()) {
            ui.label("Marker");
            if let Some(asked) = one_of(ui, &format!("Marker of {name}"), &marker, kinds::<Marker>()) {
                editing.change("marker", |one| one.level_mut(key).marker = asked);
            }
            ui.end_row();
        }
        if dash.is_some() || draws(Geometry::has_lines) {
            ui.label("Dash");
            if let Some(asked) = one_of(ui, &format!("Dash of {name}"), &dash, kinds::<DashKind>()) {
                editing.change("dash", |one| one.level_mut(key).dash = asked);
            }
            ui.end_row();
        }
        if let Some((setting, level)) = place {
            ui.label("Order");
            order_ui(ui, editing, figure, (setting, level));
            ui.end_row();
        }
    });
}

/// Moves a level among those of its factor.
pub(super) fn order_ui(ui: &mut Ui, editing: &mut Editing<'_>, figure: &Figure, (setting, level): (usize, &Level)) {
    let Some(setting_levels) = figure.settings.get(setting) else { return };
    let levels: Vec<Level> = setting_levels.levels.iter().map(|(level, _)| level.clone()).collect();
    let Some(place) = levels.iter().position(|known| known == level) else { return };
    let name = level_name(&setting_levels.setting, level);
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 2.0;
        for (sign, word, to) in [("⬆", "earlier", place.checked_sub(1)), ("⬇", "later", Some(place + 1))] {
            let to = to.filter(|to| *to < levels.len());
            let button = ui.add_enabled(to.is_some(), Button::new(sign).small());
            let about = format!("Move {name} {word}");
            button.widget_info(|| WidgetInfo::labeled(Role::Button, to.is_some(), &about));
            if let (true, Some(to)) = (button.clicked(), to) {
                let mut levels = levels.clone();
                levels.swap(place, to);
                edit::<FiguresCommand>(editing.commands, editing.study, None, |study| {
                    // What is drawn may have the order of Compare, which this one adds to.
                    study.order.clone_from(&figure.study.order);
                    study.put_in_order(setting_levels.setting.key.clone(), levels);
                });
            }
            button.on_hover_text(about);
        }
    });
}

/// What an author added, by its place: its words as on the command line, and what a bracket says in place of its verdict.
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
        if remove.clicked() {
            edit::<FiguresCommand>(editing.commands, editing.study, None, |study| {
                drop(study.overrides.annotations.remove(place));
            });
            // What is open beside the preview was this one.
            editing.commands.push(FiguresCommand::Point(None).into());
            return;
        }
        let check = |text: &str| Annotation::parse(now.kind, text).map(drop);
        let name = name_of_annotation(place);
        if let Some(text) = field(ui, editing.typing, Field { name: &name, hint: "", width: 190.0 }, &words, check)
            && let Ok(read) = Annotation::parse(now.kind, &text)
        {
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

/// Two cells between which a bracket is to stand: the first is kept until the second is chosen.
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
