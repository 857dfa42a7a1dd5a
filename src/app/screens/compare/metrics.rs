//! Controls for profiler reports on the Compare screen: metrics, their unit, and attaching reports.

use std::path::PathBuf;

use eframe::egui::{Button, Id, Key, ProgressBar, Role, Ui, WidgetInfo};

use super::CompareCommand;
use crate::analysis::{MetricUnit, TRACE_METRICS};
use crate::app::command::{Command, edit};
use crate::app::deliberate;
use crate::app::screens::compare::View;
use crate::app::widgets::{check_ui, lasting_menu, muted, named, text_field};
use crate::figure::{Runs, Study};

/// Draws the choice of metrics and of their unit.
pub fn metrics_ui(ui: &mut Ui, study: &Study, commands: &mut Vec<Command>) {
    for &unit in MetricUnit::ALL {
        let chosen = study.metric_unit == unit;
        let label = ui.selectable_label(chosen, unit.name()).on_hover_text(unit.help());
        label.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, chosen, format!("In {}", unit.name())));
        if label.clicked() {
            edit::<CompareCommand>(commands, study, None, |study| study.metric_unit = unit);
        }
    }
    ui.separator();
    let button = Button::new(format!("{} of {} metrics", study.metrics.len(), TRACE_METRICS.len()));
    lasting_menu(ui, button, |ui| {
        for kind in &TRACE_METRICS {
            let mut show = study.metrics.iter().any(|key| key == kind.key);
            let check = check_ui(ui, &mut show, kind.name).on_hover_text(kind.help);
            check.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, show, format!("Metric {}", kind.name)));
            if check.changed() {
                edit::<CompareCommand>(commands, study, None, |study| {
                    study.metrics.retain(|key| key != kind.key);
                    study.metrics.extend(show.then(|| kind.key.into()));
                });
            }
        }
    });
}

/// Draws the choice whether traced runs are shown among the other runs.
pub fn traced_ui(ui: &mut Ui, study: &Study, commands: &mut Vec<Command>) {
    let mut traced = study.runs != Runs::Plain;
    let check = check_ui(ui, &mut traced, "Traced runs")
        .on_hover_text("Tracing costs time, so times of traced runs are not comparable");
    if check.changed() {
        let runs = if traced { Runs::All } else { Runs::Plain };
        edit::<CompareCommand>(commands, study, None, |study| study.runs = runs);
    }
}

/// The name of the menu that attaches a report.
pub const ATTACH: &str = "Attach a report";

/// Draws the menu that attaches a report to the open session, or the progress of an import.
pub fn attach_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    if let Some((name, fraction)) = &view.importing {
        ui.add(ProgressBar::new(*fraction as f32).desired_width(180.0).text(format!("importing {name}")));
        let stop = ui.small_button("Cancel import");
        stop.widget_info(|| named("Cancel import"));
        if deliberate::clicked(&stop, ("cancel import", name)) {
            commands.push(Command::CancelImports);
        }
        return;
    }
    let menu = lasting_menu(ui, Button::new(ATTACH), |ui| {
        ui.set_min_width(300.0);
        let accepted = "An .nsys-rep or .sqlite file of Nsight Systems, or a .json or .json.gz of PyTorch's profiler. You can also drop \
                        it on the window.";
        ui.label(muted(ui, accepted));
        // Typed text is local state, stored in egui's memory.
        let id = Id::unique("compare-report");
        let mut text: String = ui.data(|data| data.get_temp(id)).unwrap_or_default();
        let field = ui.add(text_field(&mut text, "Path of a report", 280.0));
        field.widget_info(|| WidgetInfo::labeled(Role::TextInput, true, "Path of a report"));
        let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
        let ready = !text.trim().is_empty();
        if (ui.add_enabled(ready, Button::new("Attach this report")).clicked() || entered) && ready {
            commands.push(Command::Attach(PathBuf::from(text.trim()), None));
            text.clear();
            ui.close();
        }
        if ui.button("Choose a file …").clicked() {
            commands.push(Command::from(CompareCommand::ChooseReport));
            ui.close();
        }
        ui.data_mut(|data| data.insert_temp(id, text));
    });
    menu.response.on_hover_text("Compare the metrics of a report recorded elsewhere");
}
