//! Controls of the Figures screen: preset, cells, style, export.

use eframe::egui::{DragValue, Grid, Id, Role, ScrollArea, Ui, WidgetInfo};

use super::{FiguresCommand, appearance, composing, filter_id};
use crate::analysis::{Key, counted};
use crate::app::command::{Command, edit};
use crate::app::desk::Looks;
use crate::app::screens::figures::View;
use crate::app::study_list::{built_in_ui, search_ui};
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{
    card, check_ui, choice, filter_field, left_out_ui, listed, main_button, muted, named, searched_choice, strong,
    text_field,
};
use crate::figure::paper::{Family, Palette, Style, Width};
use crate::figure::{Study, find_study, level_name};

/// Draws the left column.
pub fn side_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    ScrollArea::vertical().id_salt("figures-side").auto_shrink([false, false]).show(ui, |ui| {
        type Part = fn(&mut Ui, View<'_>, &mut Vec<Command>);
        let parts: [(&str, Part); 6] = [
            ("Figure", preset_ui),
            ("Export", export_ui),
            ("Style", style_ui),
            ("Cells", cells_ui),
            ("Panels", composing::panels_ui),
            ("Names, axes and marks", appearance::edit_ui),
        ];
        for (title, part) in parts {
            card(ui).show(ui, |ui| {
                ui.take_available_width();
                ui.label(strong(title));
                ui.add_space(GRID);
                part(ui, view, commands);
            });
            ui.add_space(2.0 * GRID);
        }
    });
}

fn preset_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let study = &view.own.study;
    let width = ui.available_width();
    searched_choice(ui, "Preset", &study.name, width, |ui| {
        let mut search = search_ui(ui, Id::unique("preset-search"));
        let saved = view.records.studies.iter().filter_map(|saved| saved.study.as_ref().ok());
        for known in saved {
            if !search.finds(&[&known.name, &known.about]) {
                continue;
            }
            let row = ui.selectable_label(known.name == study.name, &known.name).on_hover_text(&known.about);
            if search.has_chosen(&row) {
                commands.push(Command::from(FiguresCommand::Study(Box::new(known.clone()))));
                ui.close();
            }
        }
        if let Some(known) = built_in_ui(ui, &mut search, &study.name) {
            commands.push(Command::from(FiguresCommand::Study(Box::new(known))));
            ui.close();
        }
    });
    ui.label(muted(ui, if study.about.is_empty() { study.form.help() } else { &study.about }));
    if study.form.has_measure() {
        ui.add_space(GRID);
        let own = find_study(&view.records.studies, &study.name).map_or(None, |known| known.measure);
        let measures = view.own.figure().map(|figure| &figure.measures);
        ui.label(muted(ui, "Measure").small());
        let of_preset = "default of the study".to_owned();
        let known = || measures.into_iter().flatten();
        let name = |key: &str| known().find(|(known, _)| *known == *key).map_or(key, |(_, name)| name).to_owned();
        let now = if study.measure == own { of_preset.clone() } else { name(study.shown_measure()) };
        choice_ui(ui, "Measure", &now, |ui| {
            let mut offer = |ui: &mut Ui, key: Option<Key>, chosen: bool, text: &str| {
                if ui.selectable_label(chosen, text).clicked() {
                    edit::<FiguresCommand>(commands, study, None, |study| study.show_measure(key));
                }
            };
            offer(ui, own.clone(), study.measure == own, &of_preset);
            for (key, name) in known() {
                let chosen = study.measure != own && *key == *study.shown_measure();
                offer(ui, Some(key.clone()), chosen, name);
            }
        });
    }
    let mut log = study.log;
    let check = check_ui(ui, &mut log, "Logarithmic values");
    if check.changed() {
        edit::<FiguresCommand>(commands, study, None, |study| study.log = log);
    }
}

fn style_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let study = &view.own.study;
    let style = &study.style;
    Grid::new("figures-style").num_columns(2).spacing([8.0, GRID]).show(ui, |ui| {
        if let Some(width) = options_ui(ui, "Width", style.width, [(Width::Column, "85 mm"), (Width::Page, "178 mm")]) {
            edit::<FiguresCommand>(commands, study, None, |study| study.style.width = width);
        }
        if let Some(font) = options_ui(ui, "Typeface", style.font, [(Family::Sans, "Sans"), (Family::Serif, "Serif")]) {
            edit::<FiguresCommand>(commands, study, None, |study| study.style.font = font);
        }
        let palettes = [(Palette::Colour, "Colour"), (Palette::Grey, "Grey")];
        if let Some(palette) = options_ui(ui, "Palette", style.palette, palettes) {
            edit::<FiguresCommand>(commands, study, None, |study| study.style.palette = palette);
        }
        let label = ui.label("Type size");
        let mut size = style.size_pt;
        let range = Style::LEAST_PT..=Style::MOST_PT;
        let drag = DragValue::new(&mut size).range(range).speed(0.05).max_decimals(1).suffix(" pt");
        if ui.add(drag).labelled_by(label.id).changed() {
            edit::<FiguresCommand>(commands, study, Some("size"), |study| study.style.size_pt = size);
        }
        ui.end_row();
    });
}

/// Draws a row of a grid with two options; returns the one that was clicked.
fn options_ui<T: Copy + PartialEq>(ui: &mut Ui, about: &str, now: T, options: [(T, &str); 2]) -> Option<T> {
    ui.label(about);
    let clicked = ui.horizontal(|ui| {
        options.map(|(option, name)| option_ui(ui, now == option, name, &format!("{about} {name}")).then_some(option))
    });
    ui.end_row();
    clicked.inner.into_iter().flatten().next()
}

fn option_ui(ui: &mut Ui, chosen: bool, text: &str, name: &str) -> bool {
    let option = ui.selectable_label(chosen, text);
    option.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, chosen, name));
    option.clicked()
}

/// The choice of cells that a study without its own takes over from Compare, in words.
fn parts_of_compare(study: &Study, looks: &Looks) -> Vec<String> {
    if !study.shows_all() || looks.shows_all() {
        return Vec::new();
    }
    let filter = Some(looks.filter.clone()).filter(|filter| !filter.trim().is_empty());
    let held = looks.held.iter().map(|(key, level)| format!("held at {key} = {level}"));
    let hidden = looks.hidden.iter().map(|(key, level)| format!("without {key} = {level}"));
    // The notes of the table name the cell.
    let baseline = looks.baseline.as_ref().filter(|_| study.baseline.is_none()).map(|_| "the baseline".to_owned());
    filter.into_iter().chain(held).chain(hidden).chain(baseline).collect()
}

fn cells_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let study = &view.own.study;
    let hint = "fp16 or gpus>=2 …";
    let (names, keys) = (("Filter cells", hint), view.filter_keys());
    // An order of names is told with what else the cells do not have.
    if let Some(text) = filter_field(ui, filter_id(), names, &study.filter, 224.0, &keys, None) {
        edit::<FiguresCommand>(commands, study, None, |study| study.filter = text);
    }
    let parts = parts_of_compare(study, &view.looks);
    if !parts.is_empty() {
        ui.label(muted(ui, format!("As on Compare: {}", parts.join(", "))));
    }
    for (key, level) in &study.held {
        ui.label(muted(ui, format!("held at {key} = {level}")));
    }
    if !study.shows_all() && ui.small_button("Show all").clicked() {
        edit::<FiguresCommand>(commands, study, None, Study::show_all);
    }
    let Some(figure) = view.own.figure() else { return };
    for levels in &figure.settings {
        ui.add_space(GRID);
        ui.label(muted(ui, &*levels.setting.name));
        ui.horizontal_wrapped(|ui| {
            let (shown, left_out) = listed(&levels.levels);
            for (level, count) in shown {
                let hidden = (levels.setting.key.clone(), level.clone());
                let mut keep = !study.hidden.contains(&hidden);
                let name = level_name(&levels.setting, level);
                let check = check_ui(ui, &mut keep, level.to_string())
                    .on_hover_text(format!("{name}: {}", counted(*count, "cell")));
                check.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, keep, format!("Show {name}")));
                if check.changed() {
                    edit::<FiguresCommand>(commands, study, None, |study| study.keep(hidden, keep));
                }
            }
            left_out_ui(ui, left_out);
        });
    }
}

fn export_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let figures = view.own;
    let suggestion = view.own.suggested_path(view.desk).display().to_string();
    let mut text = figures.path.clone();
    let field = ui.add(text_field(&mut text, &suggestion, 224.0));
    let hint = format!("A file that ends in .pdf, .svg or .png. Default: {suggestion}");
    field.on_hover_text(hint).widget_info(|| WidgetInfo::labeled(Role::TextInput, true, "File to export to"));
    if text != figures.path {
        commands.push(Command::from(FiguresCommand::Path(text)));
    }
    let path = view.own.export_path(view.desk);
    ui.horizontal(|ui| {
        for ending in super::ENDINGS {
            let chosen = path.extension().is_some_and(|own| own.eq_ignore_ascii_case(ending));
            let name = ending.to_uppercase();
            if option_ui(ui, chosen, &name, &format!("Format {name}")) {
                let path = path.with_extension(ending).display().to_string();
                commands.push(Command::from(FiguresCommand::Path(path)));
            }
        }
    });
    ui.add_space(GRID);
    ui.horizontal(|ui| {
        let is_drawn = figures.page().is_some_and(|page| page.as_ref().is_ok_and(|page| !page.is_empty));
        let ready = figures.exporting.is_none() && is_drawn;
        let (name, hint, command) = if figures.exporting.is_some() {
            ("Exporting …", "Write the file (E)", FiguresCommand::Export)
        } else if figures.replaceable.as_ref() == Some(&path) {
            ("Replace", "Overwrite the file", FiguresCommand::Replace)
        } else {
            ("Export", "Write the file (E)", FiguresCommand::Export)
        };
        if main_button(ui, ready, name).on_hover_text(hint).clicked() {
            commands.push(Command::from(command));
        }
        let choose = ui.add_enabled(figures.choosing.is_none(), eframe::egui::Button::new("Choose …"));
        choose.widget_info(|| named("Choose the file to export to"));
        if choose.clicked() {
            commands.push(Command::from(FiguresCommand::Choose));
        }
    });
    // A row of its own, as the card is too narrow for it next to the buttons.
    ui.horizontal(|ui| {
        ui.label(muted(ui, "PNG"));
        for dpi in [300, 600] {
            let name = format!("{dpi} dpi");
            if option_ui(ui, figures.dpi == dpi, &dpi.to_string(), &name) {
                commands.push(Command::from(FiguresCommand::Dpi(dpi)));
            }
        }
        ui.label(muted(ui, "dpi"));
    });
    let copy = ui.add_enabled(figures.describing.is_none(), eframe::egui::Button::new("Copy methods"));
    let hint = "Copy a paragraph for a paper: how these numbers were measured, from what the session recorded";
    copy.widget_info(|| named("Copy the methods paragraph"));
    if copy.on_hover_text(hint).clicked() {
        commands.push(Command::from(FiguresCommand::CopyMethods));
    }
    if let Some((message, good)) = &figures.outcome {
        let palette = palette(ui.visuals());
        ui.add_space(GRID);
        ui.colored_label(if *good { palette.good } else { palette.bad }, message);
    }
}

fn choice_ui(ui: &mut Ui, name: &str, now: &str, content: impl FnOnce(&mut Ui)) {
    let width = ui.available_width();
    choice(ui, name, now, width, content);
}
