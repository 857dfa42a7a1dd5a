//! Controls for what differs from the defaults in the figure: names, axes, legend, sizes, names of levels, annotations.

use eframe::egui::{DragValue, Grid, Role, Ui, WidgetInfo};
use strum::{EnumMessage, VariantArray};

use super::FiguresCommand;
use crate::app::command::{Command, edit};
use crate::app::screens::figures::View;
use crate::app::theme::GRID;
use crate::app::widgets::{check_ui, choice, muted, named, text_field};
use crate::figure::paper::{Vision, Width};
use crate::figure::{
    Annotation, AnnotationKind, AxisName, COLOUR_NAMES, LegendPlace, Nth, Overrides, Study, level_name,
};

/// Draws the controls.
pub(super) fn edit_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let study = &view.own.study;
    ui.horizontal(|ui| {
        for (name, command, ready) in [
            ("Undo", FiguresCommand::Undo, view.own.history.can_undo()),
            ("Redo", FiguresCommand::Redo, view.own.history.can_redo()),
        ] {
            if ui.add_enabled(ready, eframe::egui::Button::new(name)).clicked() {
                commands.push(command.into());
            }
        }
        if !study.overrides.is_empty() && ui.button("All as usual").clicked() {
            edit::<FiguresCommand>(commands, study, None, |study| study.overrides = Overrides::default());
        }
    });
    ui.add_space(GRID);
    page_ui(ui, view, commands);
    words_ui(ui, study, commands);
    sizes_ui(ui, study, commands);
    levels_ui(ui, view, commands);
    annotations_ui(ui, study, commands);
}

/// A field that shows a text; what is typed, where it changed.
fn field(ui: &mut Ui, name: &str, hint: &str, text: &str) -> Option<String> {
    let mut typed = text.to_owned();
    let response = ui.add(text_field(&mut typed, hint, 140.0));
    response.widget_info(|| WidgetInfo::labeled(Role::TextInput, true, name));
    (typed != text).then_some(typed)
}

/// A field that shows a number, or nothing; what was typed, where it is one. Text that is not a number yet stays while it is typed.
fn number_field(ui: &mut Ui, name: &str, value: Option<f64>) -> Option<Option<f64>> {
    let id = ui.scope_id().with(name);
    let shown = value.map_or(String::new(), |value| value.to_string());
    let is_typing = ui.memory(|memory| memory.has_focus(id));
    let kept = ui.data(|data| data.get_temp::<String>(id)).filter(|_| is_typing);
    let mut typed = kept.unwrap_or(shown);
    let response = ui.add(text_field(&mut typed, "auto", 52.0).id(id));
    response.widget_info(|| WidgetInfo::labeled(Role::TextInput, true, name));
    let is_changed = response.changed();
    let asked = typed.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let is_read = asked.is_some() || typed.trim().is_empty();
    ui.data_mut(|data| data.insert_temp(id, typed));
    (is_changed && is_read && asked != value).then_some(asked)
}

/// Changes what differs in the figure.
fn change(commands: &mut Vec<Command>, study: &Study, kind: &'static str, change: impl FnOnce(&mut Overrides)) {
    edit::<FiguresCommand>(commands, study, Some(kind), |study| {
        change(&mut study.overrides);
        study.overrides.tidy();
    });
}

/// Title, and names and ends of axes of the first chart.
fn words_ui(ui: &mut Ui, study: &Study, commands: &mut Vec<Command>) {
    let overrides = &study.overrides;
    Grid::new("figures-words").num_columns(2).spacing([8.0, GRID]).show(ui, |ui| {
        ui.label("Title");
        if let Some(text) = field(ui, "Title of the figure", "none", overrides.title.as_deref().unwrap_or_default()) {
            change(commands, study, "title", |one| one.title = Some(text).filter(|text| !text.is_empty()));
        }
        ui.end_row();
        for (axis, label, kinds) in [
            (AxisName::Y, "Values", ["y name", "y unit", "y low", "y high"]),
            (AxisName::X, "x axis", ["x name", "x unit", "x low", "x high"]),
        ] {
            let now = overrides.axis(axis, Nth(1));
            ui.label(label);
            if let Some(text) =
                field(ui, &format!("Name of the {axis} axis"), "usual name", now.name.as_deref().unwrap_or_default())
            {
                change(commands, study, kinds[0], |one| {
                    one.axis_mut(axis, Nth(1)).name = Some(text).filter(|text| !text.is_empty());
                });
            }
            ui.end_row();
            ui.label(muted(ui, "from, to"));
            ui.horizontal(|ui| {
                for (end, name, kind) in [(now.low, "Lower", kinds[2]), (now.high, "Upper", kinds[3])] {
                    if let Some(asked) = number_field(ui, &format!("{name} end of the {axis} axis"), end) {
                        change(commands, study, kind, |one| {
                            let one = one.axis_mut(axis, Nth(1));
                            *(if name == "Lower" { &mut one.low } else { &mut one.high }) = asked;
                        });
                    }
                }
            });
            ui.end_row();
        }
    });
}

/// The width of a venue or one's own, and as whom the preview shows the figure.
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

/// Height, legend, widths, and what is drawn at all.
fn sizes_ui(ui: &mut Ui, study: &Study, commands: &mut Vec<Command>) {
    let overrides = &study.overrides;
    Grid::new("figures-sizes").num_columns(2).spacing([8.0, GRID]).show(ui, |ui| {
        ui.label("Legend");
        let name = |place: LegendPlace| place.get_serializations().first().copied().unwrap_or_default();
        choice(ui, "Place of the legend", name(overrides.legend), 120.0, |ui| {
            for place in LegendPlace::VARIANTS {
                if ui.selectable_label(overrides.legend == *place, name(*place)).clicked() {
                    change(commands, study, "legend", |one| one.legend = *place);
                }
            }
        });
        ui.end_row();
        /// Name, usual number, limits, unit, and where it is kept.
        type Number = (&'static str, f64, (f64, f64), &'static str, fn(&mut Overrides) -> &mut Option<f64>);
        let numbers: [Number; 3] = [
            ("Height", 60.0, Overrides::HEIGHTS_MM, " mm", |one| &mut one.height_mm),
            ("Bar width", 0.78, Overrides::BARS, "", |one| &mut one.bar_width),
            ("Line width", 1.1, Overrides::LINES_PT, " pt", |one| &mut one.line_width),
        ];
        for (name, usual, (least, most), unit, get) in numbers {
            let mut own = overrides.clone();
            let mut value = *get(&mut own);
            let mut is_own = value.is_some();
            let check = check_ui(ui, &mut is_own, name);
            if check.changed() {
                change(commands, study, name, |one| *get(one) = is_own.then_some(usual));
            }
            if let Some(value) = &mut value {
                let drag = DragValue::new(value).range(least..=most).speed((most - least) / 400.0).suffix(unit);
                let drag = ui.add(drag).labelled_by(check.id);
                if drag.changed() {
                    change(commands, study, name, |one| *get(one) = Some(*value));
                }
            } else {
                ui.label(muted(ui, "as usual"));
            }
            ui.end_row();
        }
    });
    type Switch = fn(&mut Overrides) -> &mut bool;
    let switches: [(&'static str, Switch); 3] = [
        ("Say below what error bars mean", |one| &mut one.caption),
        ("Error bars and bands", |one| &mut one.error_bars),
        ("Values of the paper", |one| &mut one.published),
    ];
    for (name, get) in switches {
        let mut is_on = *get(&mut overrides.clone());
        if check_ui(ui, &mut is_on, name).changed() {
            edit::<FiguresCommand>(commands, study, None, |study| *get(&mut study.overrides) = is_on);
        }
    }
}

/// Names and colours of levels.
fn levels_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let study = &view.own.study;
    let Some(Ok(drawn)) = view.own.drawn() else { return };
    for settings in &drawn.figure.settings {
        ui.add_space(GRID);
        ui.label(muted(ui, &*settings.setting.name));
        for (level, _) in &settings.levels {
            // With its factor: the same level of two factors may be called two things.
            let key = format!("{}={level}", settings.setting.key);
            let name = level_name(&settings.setting, level);
            let known = study.overrides.levels.iter().find(|one| one.level == key);
            let now = known.cloned().unwrap_or_default();
            ui.horizontal(|ui| {
                if let Some(text) =
                    field(ui, &format!("Name of {name}"), &name, now.label.as_deref().unwrap_or_default())
                {
                    change(commands, study, "label", |one| {
                        one.level_mut(&key).label = Some(text).filter(|text| !text.is_empty());
                    });
                }
                let colour = now.colour.as_deref().unwrap_or("colour");
                choice(ui, &format!("Colour of {name}"), colour, 72.0, |ui| {
                    let offered = COLOUR_NAMES.iter().map(|name| Some(*name)).chain([Some("grey"), None]);
                    for asked in offered {
                        let is_now = now.colour.as_deref() == asked;
                        if ui.selectable_label(is_now, asked.unwrap_or("as usual")).clicked() {
                            change(commands, study, "level colour", |one| {
                                one.level_mut(&key).colour = asked.map(str::to_owned);
                            });
                        }
                    }
                });
            });
        }
    }
}

/// What is written and drawn into charts: each as the words of the command line.
fn annotations_ui(ui: &mut Ui, study: &Study, commands: &mut Vec<Command>) {
    ui.add_space(GRID);
    ui.label(muted(ui, "Marks"));
    for (nth, annotation) in study.overrides.annotations.iter().enumerate() {
        ui.horizontal(|ui| {
            let words = annotation.words().unwrap_or_else(|| annotation.text.clone());
            let remove = ui.small_button("×");
            remove.widget_info(|| named(&format!("Remove {words}")));
            if remove.clicked() {
                edit::<FiguresCommand>(commands, study, None, |study| drop(study.overrides.annotations.remove(nth)));
            }
            ui.label(words);
        });
    }
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
            let add = ui.add_enabled(read.is_ok(), eframe::egui::Button::new(name));
            add.widget_info(|| named(&format!("Add {}", name.to_lowercase())));
            if let (true, Ok(annotation)) = (add.clicked(), read) {
                edit::<FiguresCommand>(commands, study, None, |study| study.overrides.annotations.push(annotation));
                typed.clear();
            }
        });
        ui.data_mut(|data| data.insert_temp(id, typed));
    }
}
