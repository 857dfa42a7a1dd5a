//! Controls above the charts of the Compare screen: form, arrangement, measure, baseline, limits.

use std::ops::RangeInclusive;

use eframe::egui::{Button, DragValue, Role, Ui, WidgetInfo, containers::menu::MenuButton};

use super::measures_menu::measures_menu_ui;
use super::picture::Picture;
use super::study_menu::study_menu_ui;
use super::{CompareCommand, metrics, recorded};
use crate::analysis::{Setting, measure};
use crate::app::command::{Command, edit};
use crate::app::screens::compare::View;
use crate::app::theme::GRID;
use crate::app::widgets::{check_ui, choice, lasting_menu, muted, text_width, tick_ui, together_ui};
use crate::figure::{
    Along, Comparison, Form, Law, Limits, Over, Place, Scale, SettingLevels, Study, baseline_name, share_of,
};

/// Width of the arrow of a drop-down list, and of its widest text.
const ARROW: f32 = 36.0;
const MOST_CHOICE: f32 = 340.0;

/// Draws the rows above the chart: kind; arrangement, measure, baseline.
pub fn top_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    let study = &view.own.study;
    ui.horizontal(|ui| {
        study_menu_ui(ui, view, commands);
        forms_ui(ui, view, commands);
    });
    if view.own.claims {
        return;
    }
    arrangement_ui(ui, view, picture, commands);
    let baseline = picture.comparison.baseline.as_ref().filter(|_| study.form.has_baseline());
    if let Some((_, name)) = baseline.filter(|(_, name)| text_width(ui, name) + ARROW > MOST_CHOICE) {
        // The list is too narrow for the whole text.
        ui.label(muted(ui, format!("Baseline: {name}")));
    }
}

fn arrangement_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    let study = &view.own.study;
    ui.horizontal_wrapped(|ui| {
        if study.form == Form::Metrics {
            metrics::metrics_ui(ui, study, commands);
            return;
        }
        if picture.comparison.traced > 0 {
            metrics::traced_ui(ui, study, commands);
        }
        if study.form.has_measure() {
            measure_ui(ui, view, picture, commands);
            recorded::recorded_ui(ui, study, &picture.comparison.recorded, commands);
            measures_menu_ui(ui, view, commands);
        }
        if study.form == Form::Scatter {
            across_ui(ui, study, picture, commands);
        }
        if study.form == Form::History {
            along_ui(ui, study, commands);
        }
        if study.form == Form::Loss {
            over_ui(ui, study, commands);
        }
        if study.form.has_baseline() {
            baseline_ui(ui, picture, commands);
        }
        if study.form.has_measure() {
            limits_ui(ui, study, commands);
            log_ui(ui, study, picture, commands);
        }
        let arrangement = &picture.comparison.arrangement;
        let name =
            |setting: &Option<Setting>| setting.as_ref().map_or("nothing".into(), |setting| setting.name.clone());
        if matches!(study.form, Form::Bars | Form::Memory | Form::Repeats | Form::Interactions) {
            place_ui(
                ui,
                ("Rows", &study.rows, &name(&arrangement.rows)),
                picture,
                |study, place| study.rows = place,
                (study, commands),
            );
        }
        if matches!(study.form, Form::Effects | Form::Tornado | Form::Map | Form::Parts | Form::Activity | Form::Pareto)
        {
            return;
        }
        if study.form == Form::Interactions {
            let now = name(&arrangement.colour);
            place_ui(
                ui,
                ("Colour", &study.colour, &now),
                picture,
                |study, place| study.colour = place,
                (study, commands),
            );
            return;
        }
        place_ui(
            ui,
            ("Columns", &study.columns, &name(&arrangement.columns)),
            picture,
            |study, place| study.columns = place,
            (study, commands),
        );
        if study.form != Form::Memory {
            place_ui(
                ui,
                ("Colour", &study.colour, &name(&arrangement.colour)),
                picture,
                |study, place| study.colour = place,
                (study, commands),
            );
        }
    });
}

/// Draws the forms of charts as tabs, with a menu for those without room, and the claims of the papers.
fn forms_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    ui.spacing_mut().item_spacing.x = 2.0;
    let form_now = (!view.own.claims).then_some(view.own.study.form);
    let needed = |ui: &Ui, text: &str| text_width(ui, text) + 2.0 * ui.spacing().button_padding.x + 2.0;
    let widths: Vec<f32> = Form::ALL.iter().map(|form| needed(ui, &form.name())).collect();
    let mut room = ui.available_width() - needed(ui, "Claims");
    if widths.iter().sum::<f32>() > room {
        // The menu's name is the chosen form.
        room -= widths.iter().copied().fold(0.0, f32::max) + 2.0 * GRID;
    }
    let mut end = 0.0;
    let fit = widths.iter().take_while(|width| {
        end += **width;
        end <= room
    });
    let (shown, hidden) = Form::ALL.split_at(fit.count());
    let offer = |ui: &mut Ui, form: Form, commands: &mut Vec<Command>| {
        let chosen = form_now == Some(form);
        let tab = ui.selectable_label(chosen, form.name()).on_hover_text(form.help());
        tab.widget_info(|| WidgetInfo::selected(Role::Tab, true, chosen, format!("Chart {}", form.name())));
        if tab.clicked() {
            commands.push(Command::from(CompareCommand::Form(form)));
        }
    };
    shown.iter().for_each(|form| offer(ui, *form, commands));
    if !hidden.is_empty() {
        let chosen = hidden.iter().find(|form| form_now == Some(**form));
        let button = Button::selectable(chosen.is_some(), chosen.map_or("More …".to_owned(), |form| form.name()));
        let (response, _) = MenuButton::from_button(button).ui(ui, |ui| {
            hidden.iter().for_each(|form| offer(ui, *form, commands));
        });
        let name = chosen.map_or("More charts".to_owned(), |form| format!("Chart {}", form.name()));
        response.widget_info(|| WidgetInfo::selected(Role::Tab, true, chosen.is_some(), &name));
    }
    let tab = ui.selectable_label(view.own.claims, "Claims");
    let tab = tab.on_hover_text("The verdicts of the runs on the claims of both papers");
    tab.widget_info(|| WidgetInfo::selected(Role::Tab, true, view.own.claims, "Claims of the papers"));
    if tab.clicked() {
        commands.push(Command::from(CompareCommand::Claims(true)));
    }
}

fn place_ui(
    ui: &mut Ui,
    (name, chosen, used): (&str, &Place, &str),
    picture: &Picture,
    change: fn(&mut Study, Place),
    (study, commands): (&Study, &mut Vec<Command>),
) {
    let mut options = vec![(Place::Auto, "automatic".to_owned()), (Place::Nothing, "nothing".to_owned())];
    let settings = &picture.comparison.settings;
    options.extend(settings.iter().map(|levels| {
        let setting = &levels.setting;
        (Place::Setting(setting.key.clone()), setting.name.to_string())
    }));
    choice_ui(ui, name, used, |ui| {
        for (place, text) in options {
            if ui.selectable_label(*chosen == place, text).clicked() {
                edit::<CompareCommand>(commands, study, None, |study| change(study, place));
            }
        }
    });
}

fn measure_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    let study = &view.own.study;
    let measures = &picture.comparison.measures;
    let name = |key: &str| match (measures.iter().find(|(known, _)| *known == *key), measure(key)) {
        (Some((_, name)), _) => name.clone(),
        (None, measure) => measure.map_or(key.to_owned(), |measure| measure.name.clone()),
    };
    let is_loss = study.form == Form::Loss;
    let all = "losses and accuracy".to_owned();
    // If the cells lack the measure that a study names, or if it names none, another one is drawn.
    let requested = study.measure.as_ref().filter(|_| view.own.is_updating());
    let shown = requested.unwrap_or(&picture.comparison.measure);
    let now = if is_loss && study.measure.is_none() { all.clone() } else { name(shown) };
    choice_ui(ui, if is_loss { "Shows" } else { "Measure" }, &now, |ui| {
        let none = (None, &all);
        let named = measures.iter().map(|(key, name)| (Some(key.clone()), name));
        for (key, name) in is_loss.then_some(none).into_iter().chain(named) {
            let chosen = if is_loss { study.measure == key } else { key.as_ref() == Some(shown) };
            if ui.selectable_label(chosen, name).clicked() {
                edit::<CompareCommand>(commands, study, None, |study| study.show_measure(key));
            }
        }
    });
}

/// Draws the x axis of two measures, and the law that is fitted.
fn across_ui(ui: &mut Ui, study: &Study, picture: &Picture, commands: &mut Vec<Command>) {
    let Comparison { measures, settings, across, .. } = &picture.comparison;
    let is_number = |levels: &&SettingLevels| levels.levels.iter().all(|(level, _)| level.as_number().is_some());
    let factors =
        settings.iter().filter(is_number).map(|levels| (&levels.setting.key, levels.setting.name.to_string()));
    let mut options: Vec<(&str, String)> = factors.map(|(key, name)| (&**key, name)).collect();
    options.extend(measures.iter().map(|(key, name)| (&**key, name.clone())));
    let now = options.iter().find(|(key, _)| **across == **key).map_or(&**across, |(_, name)| name);
    choice_ui(ui, "Over", now, |ui| {
        for (key, name) in &options {
            if ui.selectable_label(**across == **key, name).clicked() {
                edit::<CompareCommand>(commands, study, None, |study| study.across = Some((*key).into()));
            }
        }
    });
    choice_ui(ui, "Law", study.law.name(), |ui| {
        for &law in Law::ALL {
            if ui.selectable_label(study.law == law, law.name()).on_hover_text(law.help()).clicked() {
                edit::<CompareCommand>(commands, study, None, |study| study.law = law);
            }
        }
    });
}

/// Draws the choice of the horizontal axis of losses.
fn over_ui(ui: &mut Ui, study: &Study, commands: &mut Vec<Command>) {
    choice_ui(ui, "Over", study.over.name(), |ui| {
        for &over in Over::ALL {
            if ui.selectable_label(study.over == over, over.name()).clicked() {
                edit::<CompareCommand>(commands, study, None, |study| study.over = over);
            }
        }
    });
}

/// Draws the choice of the order of sessions in a history.
fn along_ui(ui: &mut Ui, study: &Study, commands: &mut Vec<Command>) {
    choice_ui(ui, "Along", study.along.name(), |ui| {
        for &along in Along::ALL {
            if ui.selectable_label(study.along == along, along.name()).on_hover_text(along.help()).clicked() {
                edit::<CompareCommand>(commands, study, None, |study| study.along = along);
            }
        }
    });
}

fn baseline_ui(ui: &mut Ui, picture: &Picture, commands: &mut Vec<Command>) {
    let now = picture.comparison.baseline.as_ref();
    let text = now.map_or("none", |(_, name)| name);
    choice_ui(ui, "Baseline", text, |ui| {
        let mut offer = |ui: &mut Ui, baseline: Option<String>, chosen: bool, name: &str| {
            if ui.selectable_label(chosen, name).clicked() {
                commands.push(Command::from(CompareCommand::Baseline(baseline)));
            }
        };
        offer(ui, None, false, "the first row");
        for (key, levels) in siblings(picture) {
            let each = format!("{key} = {levels}");
            let chosen = now.is_some_and(|now| now.0.is_none() && now.1 == each);
            offer(ui, Some(format!("each {key}={levels}")), chosen, &format!("for each cell, the one with {each}"));
        }
        for (key, name) in &picture.comparison.cells {
            let chosen = now.is_some_and(|now| now.0.as_ref() == Some(key));
            offer(ui, Some(baseline_name(key)), chosen, name);
        }
    });
}

/// Levels that can serve as a baseline for each cell: levels of a setting that several cells share.
fn siblings(picture: &Picture) -> impl Iterator<Item = (&str, String)> {
    const MOST_LEVELS: usize = 6;
    let settings =
        picture.comparison.settings.iter().filter(|setting| (2..=MOST_LEVELS).contains(&setting.levels.len()));
    settings.flat_map(|setting| {
        let shared = setting.levels.iter().filter(|(_, cells)| *cells > 1);
        shared.map(|(level, _)| (&*setting.setting.key, level.to_string()))
    })
}

/// Draws the limits for the fastest cell, and the bound for equality.
fn limits_ui(ui: &mut Ui, study: &Study, commands: &mut Vec<Command>) {
    let name = if study.limits.is_set() { "Limits: set" } else { "Limits" };
    let menu = lasting_menu(ui, Button::new(name), |ui| {
        let mut limits = study.limits;
        let Limits { memory_bytes, accuracy } = &mut limits;
        let bytes = |gb: f64| Some(gb * 1e9);
        limit_ui(ui, "Memory per device at most", memory_bytes, (1e9, 16.0), ("GB", 0.0..=10_000.0), bytes);
        limit_ui(ui, "Accuracy at least", accuracy, (0.01, 99.0), ("%", 0.0..=100.0), share);
        if limits != study.limits {
            edit::<CompareCommand>(commands, study, Some("limits"), |study| study.limits = limits);
        }
        ui.separator();
        ui.horizontal(|ui| {
            ui.label("Equal within");
            let mut percent = 100.0 * study.equal_within;
            let field = ui.add(DragValue::new(&mut percent).range(0.0..=50.0).speed(0.1).max_decimals(2).suffix(" %"));
            field.widget_info(|| WidgetInfo::labeled(Role::SpinButton, true, "Equal within"));
            if let Some(share) = share(percent).filter(|_| field.changed()) {
                edit::<CompareCommand>(commands, study, Some("equal within"), |study| study.equal_within = share);
            }
        });
    });
    menu.response.on_hover_text("Mark the fastest cell within limits of memory and accuracy; set what counts as equal");
}

/// The share that a field's percent mean.
fn share(percent: f64) -> Option<f64> {
    share_of(&percent.to_string())
}

/// Draws one limit: whether it is set, and its value in a unit of the given size, which `read` turns into the limit.
fn limit_ui(
    ui: &mut Ui,
    name: &str,
    limit: &mut Option<f64>,
    (of_one, usual): (f64, f64),
    (unit, range): (&str, RangeInclusive<f64>),
    read: impl Fn(f64) -> Option<f64>,
) {
    ui.horizontal(|ui| {
        let mut is_set = limit.is_some();
        let check = check_ui(ui, &mut is_set, name.to_owned());
        check.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, is_set, name));
        if check.changed() {
            *limit = read(usual).filter(|_| is_set);
        }
        if let Some(limit) = limit {
            let mut shown = *limit / of_one;
            let field =
                ui.add(DragValue::new(&mut shown).range(range).speed(0.1).max_decimals(3).suffix(format!(" {unit}")));
            field.widget_info(|| WidgetInfo::labeled(Role::SpinButton, true, format!("{name}, in {unit}")));
            if let Some(read) = read(shown).filter(|_| field.changed()) {
                *limit = read;
            }
        }
    });
}

/// Draws the choice of a logarithmic axis. Effects choose their axis themselves.
fn log_ui(ui: &mut Ui, study: &Study, picture: &Picture, commands: &mut Vec<Command>) {
    let can_choose = !study.form.is_of_effects();
    let is_log = picture.comparison.charts.iter().any(|chart| chart.y.scale == Scale::Log);
    let on = if can_choose { study.log } else { is_log };
    let help = if can_choose {
        "Draw values on a logarithmic axis"
    } else {
        "This chart has a logarithmic axis by itself, unless all ratios in it are close to 1"
    };
    let response = tick_ui(ui, on, can_choose, "Log").on_hover_text(help);
    response.widget_info(|| WidgetInfo::selected(Role::CheckBox, can_choose, on, "Log"));
    if response.clicked() && can_choose {
        edit::<CompareCommand>(commands, study, None, |study| study.log = !on);
    }
}

/// Draws a drop-down list with its name in front, as wide as the chosen text, since names often differ only at their ends.
fn choice_ui(ui: &mut Ui, name: &str, now: &str, content: impl FnOnce(&mut Ui)) {
    // The arrow takes the rest of the width.
    let width = (text_width(ui, now) + ARROW).clamp(72.0, MOST_CHOICE);
    let whole = text_width(ui, name) + 4.0 + width;
    together_ui(ui, whole, |ui| {
        ui.label(muted(ui, name));
        choice(ui, name, now, width, content);
    });
}
