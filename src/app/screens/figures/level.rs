//! Controls of a level in a figure: its name, colour, hatch, marker and dash, and its place in the order of its
//! factor's levels.

use eframe::egui::{Button, Role, Ui, WidgetInfo};

use super::FiguresCommand;
use super::editor::{Editing, USUAL, grid, kinds, one_of};
use super::typed::{Field, Typing, any_text, field};
use crate::app::command::edit;
use crate::figure::{COLOUR_NAMES, DashKind, Figure, Geometry, Hatch, LevelOverride, Marker, colour_of, level_name};
use crate::plan::Level;

/// The name of the level with this `key`, with the place of its setting in the figure and the level itself. If the
/// figure has no such level, the key alone.
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

/// The name of the field that gets the focus when the user selects a level in the figure.
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

/// Draws the controls of a level.
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
        // Only the signs that the figure draws are offered: a marker would not change a bar.
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

/// Moves a level in the order of its factor's levels.
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
                    // The figure may have the order from Compare; this change is added to it.
                    study.order.clone_from(&figure.study.order);
                    study.put_in_order(setting_levels.setting.key.clone(), levels);
                });
            }
            button.on_hover_text(about);
        }
    });
}
