//! Pointing at the preview: the part of the figure that is under the pointer, or that has the focus of the keyboard, is outlined. Each part
//! has a name, and a click opens its editor beside it. A click on one point and one with Shift on another set a bracket over both.

use eframe::egui::{
    CursorIcon, Id, Key, Popup, PopupCloseBehavior, Pos2, Rect, Response, Role, Sense, Stroke, StrokeKind, Ui, Vec2,
    WidgetInfo, vec2,
};

use super::editor::{self, Editing};
use super::level::{level_ui, name_of_level};
use super::typed::{Typing, focus, was_refused};
use super::{FiguresCommand, FiguresScreen};
use crate::app::command::Command;
use crate::app::theme::palette;
use crate::app::value_text;
use crate::app::widgets::strong;
use crate::figure::paper::{Area, Part, Scene};
use crate::figure::{Chart, Figure, Panel, Point, Series};

/// The smallest width and height of an area that can be pointed at.
const LEAST_TARGET: f32 = 10.0;
/// If a figure has more points than this, they cannot be pointed at one by one; titles, axes and other parts still can.
const MOST_POINTS: usize = 1000;

/// The place of the preview on screen.
#[derive(Clone, Copy)]
pub(super) struct Sheet {
    pub corner: Pos2,
    /// Points of the screen per point of paper.
    pub scale: f32,
}

impl Sheet {
    fn rect(self, area: &Area) -> Rect {
        let at = |x: f64, y: f64| self.corner + vec2(x as f32, y as f32) * self.scale;
        Rect::from_min_max(at(area.left, area.top), at(area.right(), area.bottom()))
    }
}

/// Makes the parts of the drawn figure answer the pointer and the keys, and draws the editor of the part that is open.
pub(super) fn parts_ui(
    ui: &mut Ui,
    figures: &FiguresScreen,
    (figure, scene): (&Figure, &Scene),
    sheet: Sheet,
    commands: &mut Vec<Command>,
) {
    let all = scene.pointed(MOST_POINTS);
    if figures.open.is_none() {
        ui.data_mut(|data| data.remove::<Part>(known_id()));
    }
    let opened = ui.data(|data| data.get_temp::<usize>(opened_id()));
    for (place, (part, area)) in all.enumerate() {
        let Some(name) = name_of(&part, figure, figures) else { continue };
        let rect = sheet.rect(&area);
        let missing = (Vec2::splat(LEAST_TARGET) - rect.size()).max(Vec2::ZERO);
        let response = ui.interact(rect.expand2(missing / 2.0), ui.scope_id().with((place, &part)), Sense::click());
        let is_open = figures.open.as_ref() == Some(&part);
        response.widget_info(|| WidgetInfo::selected(Role::Button, true, is_open, &name));
        let cell = shown(figure, &part).and_then(|(.., point)| point.cell.clone());
        let is_picked = cell.is_some() && cell == figures.picked;
        outline(ui, &response, rect, is_open || is_picked);
        if response.clicked() {
            ui.data_mut(|data| data.insert_temp(opened_id(), place));
            let with_shift = ui.input(|input| input.modifiers.shift);
            commands.push(match (cell, &part) {
                (Some(cell), Part::Point([chart, ..])) if with_shift => FiguresCommand::Pick(cell, Some(*chart)).into(),
                _ => FiguresCommand::Point(Some(part.clone())).into(),
            });
        }
        // The axes of several panels are one part: its editor appears next to the place that was clicked.
        if is_open && opened == Some(place) {
            editor_ui(ui, figures, figure, (&part, &name), &response, commands);
        }
        response.on_hover_cursor(CursorIcon::PointingHand).on_hover_text(name);
    }
}

/// The index of the part that was clicked, among all parts.
fn opened_id() -> Id {
    Id::unique("figures-opened")
}

/// The part whose editor was drawn in the last frame: the editor's first field has got the focus already.
fn known_id() -> Id {
    Id::unique("figures-open-part")
}

fn outline(ui: &Ui, response: &Response, rect: Rect, is_chosen: bool) {
    let palette = palette(ui.visuals());
    // The sheet is white in both themes.
    let stroke = match () {
        () if response.has_focus() => Stroke::new(2.0, palette.accent),
        () if is_chosen => Stroke::new(1.5, palette.accent),
        () if response.hovered() => Stroke::new(1.0, palette.accent),
        () => return,
    };
    ui.painter().rect_stroke(rect.expand(2.0), 2.0, stroke, StrokeKind::Outside);
}

/// Draws the editor of a part beside it.
fn editor_ui(
    ui: &Ui,
    figures: &FiguresScreen,
    figure: &Figure,
    (part, name): (&Part, &str),
    response: &Response,
    commands: &mut Vec<Command>,
) {
    let context = ui.ctx();
    if context.data(|data| data.get_temp::<Part>(known_id())).as_ref() != Some(part) {
        context.data_mut(|data| data.insert_temp(known_id(), part.clone()));
        if let Some(field) = first_field(part, figure) {
            focus(context, &field);
        }
    }
    let had_popup = Popup::is_any_open(context);
    let popup = Popup::new(Id::unique("figures-part"), context.clone(), response.rect, ui.layer_id())
        .close_behavior(PopupCloseBehavior::IgnoreClicks)
        .accessible_name(format!("Edit {name}"))
        .open(true)
        .show(|ui| {
            ui.set_max_width(320.0);
            ui.label(strong(name));
            let mut editing = Editing { study: &figures.study, typing: Typing::Kept, commands };
            part_ui(ui, &mut editing, part, figure);
        });
    let is_refused = was_refused(context);
    let keys = context.input(|input| [Key::Escape, Key::Enter].map(|key| input.key_pressed(key)));
    let is_left_by_key = (keys[0] || keys[1] && !response.has_focus() && !is_refused) && !had_popup;
    let is_pressed_elsewhere = popup.is_some_and(|popup| {
        let press = context.input(|input| input.pointer.interact_pos().filter(|_| input.pointer.any_pressed()));
        press.is_some_and(|place| !popup.response.rect.contains(place))
    });
    if is_left_by_key {
        response.request_focus();
    }
    if is_left_by_key || is_pressed_elsewhere {
        commands.push(FiguresCommand::Point(None).into());
    }
}

/// The controls of a part.
fn part_ui(ui: &mut Ui, editing: &mut Editing<'_>, part: &Part, figure: &Figure) {
    match part {
        Part::Title => editor::title_ui(ui, editing),
        Part::Legend => editor::legend_ui(ui, editing),
        Part::AxisName(chart, axis) | Part::Ticks(chart, axis) => {
            editor::axis_ui(ui, editing, figure, *chart, *axis);
        }
        Part::Annotation(place) => editor::annotation_ui(ui, editing, *place),
        Part::Caption => editor::switches_ui(ui, editing),
        Part::Entry(_) | Part::Panel(..) | Part::Place(..) | Part::Line(_) | Part::Point(_) => {
            for (place, key) in keys_of(part, figure).iter().enumerate() {
                if place > 0 {
                    ui.separator();
                }
                level_ui(ui, editing, figure, key);
            }
        }
    }
}

/// The field that has the focus once a part is open.
fn first_field(part: &Part, figure: &Figure) -> Option<String> {
    match part {
        Part::Title => Some("Title of the figure".to_owned()),
        Part::AxisName(chart, axis) => Some(editor::name_of_axis(*chart, *axis)),
        Part::Ticks(chart, axis) => Some(editor::low_of_axis(*chart, *axis)),
        Part::Annotation(place) => Some(editor::name_of_annotation(*place)),
        Part::Legend | Part::Caption => None,
        _ => keys_of(part, figure).first().map(|key| name_of_level(figure, key)),
    }
}

/// The point that a part of the figure shows, and its chart, panel and series. `None` if the part shows no point.
fn shown<'a>(figure: &'a Figure, part: &Part) -> Option<(&'a Chart, &'a Panel, &'a Series, &'a Point)> {
    let Part::Point([chart, panel, series, point]) = part else { return None };
    let chart = figure.charts.get(*chart)?;
    let panel = chart.panels.get(*panel)?;
    let series = panel.series.get(*series)?;
    Some((chart, panel, series, series.points.get(*point)?))
}

/// The text that a part shows in the figure, such as a level or a title; empty if it shows none.
fn text_of(part: &Part, figure: &Figure) -> String {
    let chart = |place: &usize| figure.charts.get(*place);
    match part {
        Part::Entry(name) => name.clone(),
        Part::Panel(place, panel) => {
            chart(place).and_then(|chart| chart.panels.get(*panel)).map_or(String::new(), |panel| panel.title.clone())
        }
        Part::Place(place, axis, name) => {
            let axis = |chart: &Chart| match axis {
                crate::figure::AxisName::X => chart.x.categories.get(*name).cloned(),
                crate::figure::AxisName::Y => chart.y.categories.get(*name).cloned(),
            };
            chart(place).and_then(axis).unwrap_or_default()
        }
        Part::Point(_) => shown(figure, part).map_or(String::new(), |(chart, _, series, point)| {
            let of_place = || chart.x.categories.get(point.x.max(0.0) as usize).cloned().unwrap_or_default();
            if series.name.is_empty() { of_place() } else { series.name.clone() }
        }),
        _ => String::new(),
    }
}

/// The thing in the figure that the overrides of a part change.
fn keys_of(part: &Part, figure: &Figure) -> Vec<String> {
    let name = text_of(part, figure);
    if name.is_empty() { Vec::new() } else { figure.keys_of(&name) }
}

/// The name of a part; `None` if the part has nothing that can be changed.
fn name_of(part: &Part, figure: &Figure, figures: &FiguresScreen) -> Option<String> {
    let name = || Some(text_of(part, figure)).filter(|name| !name.is_empty());
    Some(match part {
        Part::Title => format!("Title: {}", figure.study.overrides.title.as_deref().unwrap_or_default()),
        Part::Legend => "Legend".to_owned(),
        Part::Entry(_) => format!("Legend entry {}", name()?),
        Part::Panel(..) => format!("Panel {}", name()?),
        Part::AxisName(place, axis) | Part::Ticks(place, axis) => {
            let chart = figure.charts.get(*place)?;
            let shown = if *axis == crate::figure::AxisName::X { &chart.x } else { &chart.y };
            let what = if matches!(part, Part::Ticks(..)) { "Numbers" } else { "Name" };
            format!("{what} of the {axis} axis: {}", shown.title())
        }
        Part::Place(_, axis, _) => format!("{} on the {axis} axis", name()?),
        Part::Line(_) => return None,
        Part::Point(_) => {
            let (chart, _, _, point) = shown(figure, part)?;
            let of_cell = |cell| figure.cells.iter().find(|(known, _)| known == cell).map(|(_, name)| name.clone());
            let name = point.cell.as_ref().and_then(of_cell).or_else(name)?;
            let value = format!("{} {}", value_text::number(point.value.median), chart.y.unit);
            format!("Mark {name}: {}", value.trim_end())
        }
        Part::Annotation(place) => {
            let annotation = figures.study.overrides.annotations.get(*place)?;
            format!("Mark {}", annotation.words().unwrap_or_else(|| annotation.text.clone()))
        }
        Part::Caption => "Line below the figure".to_owned(),
    })
}
