//! Controls for the changes to a figure's defaults: names, axes, legend, sizes, names of levels, annotations.

use eframe::egui::{Button, DragValue, Grid, Id, Role, Ui, UiBuilder, WidgetInfo};
use strum::VariantArray;

use super::FiguresCommand;
use super::editor::{Editing, annotation_ui, axis_ui, bracket_ui, legend_ui, sizes_ui, switches_ui, title_ui};
use super::level::{level_name_ui, level_ui, order_ui};
use super::typed::Typing;
use crate::app::command::{Command, edit};
use crate::app::screens::figures::View;
use crate::app::theme::GRID;
use crate::app::widgets::{choice, lasting_menu, left_out_ui, listed, muted, named, text_field};
use crate::figure::paper::{Vision, Width};
use crate::figure::{Annotation, AnnotationKind, AxisName, COLOUR_NAMES, Figure, Overrides, Study, level_name};

/// Draws the controls.
pub(super) fn edit_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let study = &view.own.study;
    ui.horizontal(|ui| {
        for (name, command, ready) in [
            ("Undo", FiguresCommand::Undo, view.own.history.can_undo()),
            ("Redo", FiguresCommand::Redo, view.own.history.can_redo()),
        ] {
            if ui.add_enabled(ready, Button::new(name)).clicked() {
                commands.push(command.into());
            }
        }
        if !study.overrides.is_empty() && ui.button("All as usual").clicked() {
            edit::<FiguresCommand>(commands, study, None, |study| study.overrides = Overrides::default());
        }
    });
    ui.label(muted(ui, "Or click on a part of the figure; Shift and a click on two bars set a bracket."));
    ui.add_space(GRID);
    page_ui(ui, view, commands);
    let mut editing = Editing { study, typing: Typing::Live, commands };
    ui.horizontal(|ui| {
        ui.label("Title");
        title_ui(ui, &mut editing);
    });
    let figure = view.own.figure();
    if let Some(figure) = figure {
        axes_ui(ui, &mut editing, figure);
    }
    ui.add_space(GRID);
    legend_ui(ui, &mut editing);
    sizes_ui(ui, &mut editing);
    switches_ui(ui, &mut editing);
    if let Some(figure) = figure {
        levels_ui(ui, &mut editing, figure);
    }
    annotations_ui(ui, &mut editing, view);
}

/// The axes of each chart that is drawn.
fn axes_ui(ui: &mut Ui, editing: &mut Editing<'_>, figure: &Figure) {
    let charts = figure.charts.iter().enumerate().filter(|(_, chart)| !chart.is_empty());
    for (place, chart) in charts {
        if figure.charts.len() > 1 {
            ui.add_space(GRID);
            ui.label(muted(ui, &chart.title));
        }
        ui.push_id(place, |ui| {
            for axis in [AxisName::Y, AxisName::X] {
                axis_ui(ui, editing, figure, place, axis);
            }
        });
    }
}

/// The width of a venue or a custom width, and the kind of vision that the preview simulates.
fn page_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let study = &view.own.study;
    let style = &study.style;
    Grid::new("figures-page").num_columns(2).spacing([8.0, GRID]).show(ui, |ui| {
        ui.label("Venue");
        let name = |width: Width| format!("{width}, {} mm", width.mm());
        choice(ui, "Width of a venue", &name(style.width), ui.available_width().min(150.0), |ui| {
            for width in Width::named() {
                if ui.selectable_label(style.width == width, name(width)).clicked() {
                    edit::<FiguresCommand>(commands, study, None, |study| study.style.width = width);
                }
            }
        });
        ui.end_row();
        let label = ui.label("Own width");
        let (least, most) = Width::LIMITS_MM;
        let mut mm = style.width.mm();
        let drag = DragValue::new(&mut mm).range(least..=most).speed(0.5).max_decimals(1).suffix(" mm");
        if ui.add(drag).labelled_by(label.id).changed()
            && let Ok(width) = Width::of_mm(mm)
        {
            edit::<FiguresCommand>(commands, study, Some("width"), |study| study.style.width = width);
        }
        ui.end_row();
        ui.label("Preview");
        let vision = view.own.vision;
        choice(ui, "Preview as seen", vision.name(), 150.0, |ui| {
            for seen in Vision::VARIANTS {
                if ui.selectable_label(vision == *seen, seen.name()).clicked() {
                    commands.push(FiguresCommand::Vision(*seen).into());
                }
            }
        });
        ui.end_row();
    });
}

/// Levels in the order in which they are drawn: the name and the colour of each, and all else in a menu.
fn levels_ui(ui: &mut Ui, editing: &mut Editing<'_>, figure: &Figure) {
    for (place, settings) in figure.settings.iter().enumerate() {
        ui.add_space(GRID);
        ui.label(muted(ui, &*settings.setting.name));
        let (shown, left_out) = listed(&settings.levels);
        for (level, _) in shown {
            // With its factor: the same level of two factors may be called two things.
            let key = format!("{}={level}", settings.setting.key);
            let name = level_name(&settings.setting, level);
            ui.horizontal(|ui| {
                ui.spacing_mut().item_spacing.x = 4.0;
                level_name_ui(ui, editing, figure, &key, 84.0);
                colour_ui(ui, editing, &key, &name);
                order_ui(ui, editing, figure, (place, level));
                // The menu moves with its level when the order changes.
                let builder = UiBuilder::new().scope_id(Id::unique(("more of a level", &key)));
                ui.scope_builder(builder, |ui| {
                    let more = lasting_menu(ui, Button::new("…"), |ui| {
                        ui.set_max_width(300.0);
                        level_ui(ui, editing, figure, &key);
                    });
                    let about = format!("Hatch, marker, dash of {name}");
                    more.response.widget_info(|| named(&about));
                    more.response.on_hover_text(about);
                });
            });
        }
        left_out_ui(ui, left_out);
    }
}

fn colour_ui(ui: &mut Ui, editing: &mut Editing<'_>, key: &str, name: &str) {
    let now = editing.study.overrides.levels.iter().find(|one| one.level == key).and_then(|one| one.colour.clone());
    choice(ui, &format!("Colour of {name}"), now.as_deref().unwrap_or("colour"), 58.0, |ui| {
        for asked in COLOUR_NAMES.iter().map(|name| Some(*name)).chain([Some("grey"), None]) {
            if ui.selectable_label(now.as_deref() == asked, asked.unwrap_or("as usual")).clicked() {
                editing.change("level colour", |one| one.level_mut(key).colour = asked.map(str::to_owned));
            }
        }
    });
}

/// The annotations of charts, each in the words of the command line.
fn annotations_ui(ui: &mut Ui, editing: &mut Editing<'_>, view: View<'_>) {
    ui.add_space(GRID);
    ui.label(muted(ui, "Marks"));
    for place in 0..editing.study.overrides.annotations.len() {
        ui.push_id(("annotation", place), |ui| annotation_ui(ui, editing, place));
    }
    if let Some(figure) = view.own.figure()
        && figure.study.form.has_measure()
    {
        bracket_ui(ui, figure, view.own.picked.as_ref(), editing.commands);
    }
    new_annotations_ui(ui, editing.study, editing.commands);
}

fn new_annotations_ui(ui: &mut Ui, study: &Study, commands: &mut Vec<Command>) {
    let offered: [(AnnotationKind, &str, &str); 4] = [
        (AnnotationKind::Line, "Line", "y=1.5,words"),
        (AnnotationKind::Region, "Region", "y=1..2,words"),
        (AnnotationKind::Text, "Text", "place,1.5,words"),
        (AnnotationKind::Bracket, "Bracket", "gpus=1 to gpus=2"),
    ];
    for (kind, name, form) in offered {
        let id = ui.scope_id().with(("annotation", name));
        let mut typed = ui.data(|data| data.get_temp::<String>(id)).unwrap_or_default();
        ui.horizontal(|ui| {
            let field = ui.add(text_field(&mut typed, form, 150.0));
            field.widget_info(|| WidgetInfo::labeled(Role::TextInput, true, format!("{name} to add")));
            let read = Annotation::parse(kind, &typed);
            let add = ui.add_enabled(read.is_ok(), Button::new(name));
            add.widget_info(|| named(&format!("Add {}", name.to_lowercase())));
            if let (true, Ok(annotation)) = (add.clicked(), read) {
                edit::<FiguresCommand>(commands, study, None, |study| study.overrides.annotations.push(annotation));
                typed.clear();
            }
        });
        ui.data_mut(|data| data.insert_temp(id, typed));
    }
}
