//! Rates: the measured rates of the machine's devices, and the button that measures them.

use std::sync::Arc;

use eframe::egui::{Align, Button, Grid, Label, Layout, Response, RichText, Role, ScrollArea, Ui, WidgetInfo};

use super::NodeCommand;
use super::View;
use super::live::{self, Line};
use crate::app::command::Command;
use crate::app::deliberate;
use crate::app::desk::Desk;
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{muted, prose};
use crate::figure::{capitalised, counted, duration_text, significant};
use crate::plan::Node;
use crate::protocol::{DeviceRates, PASSES, PRODUCTS, Rate, throttle_words};
use crate::session::{Measurement, Stage, USUAL_MEASURE_S, measured_gpus};

/// Why the machine cannot be measured from this window; `None` if it can.
pub fn refusal(desk: &Desk) -> Option<String> {
    match (&desk.session, &desk.node) {
        (_, None) => Some("The machine is being read.".to_owned()),
        (None, _) => Some("Rates are stored in a session: open or create one first.".to_owned()),
        (Some(session), _) if session.is_sample() => {
            Some("The sample session was recorded on another machine: open or create a session of your own.".to_owned())
        }
        (Some(session), Some(node)) => {
            let no_worker = || node.worker.is_err().then(|| "There is no worker to measure with.".to_owned());
            session.read_only.clone().or_else(no_worker)
        }
    }
}

/// Draws the rates, and the controls for measuring them.
pub fn rates_ui(ui: &mut Ui, view: View<'_>, node: &Node, commands: &mut Vec<Command>) {
    let rates = &view.records.rates;
    if !rates.is_empty() {
        if view.session.as_ref().is_some_and(|session| session.is_sample()) {
            ui.add(Label::new(muted(ui, "Measured on the machine of the sample, not on this one:")).wrap());
        }
        table_ui(ui, node, rates);
        ui.add_space(GRID);
    }
    let measurement = view.queue.measurement.as_ref();
    match measurement.filter(|_| view.queue.is_measuring()) {
        Some(measurement) => progress_ui(ui, view, measurement, commands),
        None => button_ui(ui, view, node, commands),
    }
    if let Some(measurement) = measurement {
        for left in &measurement.left {
            ui.add(Label::new(muted(ui, left)).wrap());
        }
        outcome_ui(ui, measurement);
    }
}

fn button_ui(ui: &mut Ui, view: View<'_>, node: &Node, commands: &mut Vec<Command>) {
    let (devices, count) = match measured_gpus(node).len() {
        0 => ("the CPUs".to_owned(), 1),
        1 => ("the GPU".to_owned(), 1),
        count => (format!("{count} GPUs, one after another"), count),
    };
    // A number stays with its unit.
    let duration = duration_text(USUAL_MEASURE_S * count as f64).replace(' ', "\u{a0}");
    let what = format!(
        "Times matrix products in each precision and passes over memory on {devices}: {duration} plus the worker's start. Active runs \
             end first, queued runs wait. Afterwards runs also give shares of these rates, and Compare draws its roofline with them."
    );
    ui.add(Label::new(muted(ui, what)).wrap());
    ui.add_space(GRID / 2.0);
    let refusal = refusal(view.desk);
    let can = refusal.is_none() && !view.own.measuring_asked;
    let text = if view.records.rates.is_empty() { "Measure rates" } else { "Measure rates again" };
    let button = ui.add_enabled(can, Button::new(text));
    if deliberate::clicked(&button, "measure rates") {
        commands.push(Command::from(NodeCommand::MeasureRates));
    }
    // The details are shown for the host and for each GPU. The warning is below the button, so that the button does not move.
    if refusal.is_none() && view.use_by_others().is_some() {
        let text = "⚠ Other programs use this machine: rates measured now would be too low";
        ui.add(Label::new(RichText::new(text).color(palette(ui.visuals()).warning)).wrap());
    }
    if let Some(reason) = refusal {
        ui.add(Label::new(muted(ui, reason)).wrap());
    }
}

fn progress_ui(ui: &mut Ui, view: View<'_>, measurement: &Measurement, commands: &mut Vec<Command>) {
    ui.horizontal_wrapped(|ui| {
        if measurement.stage != Stage::Waits {
            let (share, text) = (Some(measurement.fraction()), Some(measurement.doing()));
            live::bar_ui(ui, &Line { owner: "Rates", name: "measured", share, text, warns: false, hover: "" });
        }
        let cancel = ui.add_enabled(!view.own.measuring_asked, Button::new("Cancel measuring"));
        if deliberate::clicked(&cancel, "cancel measuring rates") {
            commands.push(Command::from(NodeCommand::CancelMeasuring));
        }
    });
    ui.add(Label::new(capitalised(&measurement.doing())).wrap());
}

fn outcome_ui(ui: &mut Ui, measurement: &Measurement) {
    match &measurement.stage {
        Stage::Cancelled => {
            ui.add(Label::new(muted(ui, capitalised(&measurement.doing()))).wrap());
        }
        Stage::Failed(reason) => {
            let text = prose(ui, &format!("⚠ Measuring failed: {reason}"), palette(ui.visuals()).bad);
            ui.add(Label::new(text).wrap().selectable(true));
        }
        _ => {}
    }
}

/// One row for each device.
fn table_ui(ui: &mut Ui, node: &Node, all: &[Arc<DeviceRates>]) {
    let is_measured = |key: &&&str| all.iter().any(|rates| rates.find(key).is_some());
    let keys: Vec<&str> = PRODUCTS.iter().chain(&PASSES).filter(is_measured).copied().collect();
    ScrollArea::horizontal().id_salt("node-rates-scroll").show(ui, |ui| {
        Grid::new("node-rates").spacing([2.0 * GRID, GRID]).min_row_height(14.0).show(ui, |ui| {
            ui.label("");
            for key in &keys {
                right(ui, |ui| ui.label(muted(ui, *key)));
            }
            ui.label(muted(ui, "measured").small());
            ui.end_row();
            ui.label("");
            for key in &keys {
                right(ui, |ui| ui.label(muted(ui, unit(key).0).small()));
            }
            ui.end_row();
            for rates in all {
                let name = name(node, rates);
                ui.label(&name).on_hover_text(software(rates));
                for key in &keys {
                    right(ui, |ui| rate_ui(ui, &name, key, rates.find(key)));
                }
                ui.label(muted(ui, time_text(rates)).small());
                ui.end_row();
            }
        });
        // The scroll bar floats over what it scrolls.
        ui.add_space(2.0 * GRID);
    });
    for rates in all.iter().filter(|rates| !rates.throttle_reasons.is_empty()) {
        let text = format!(
            "⚠ The clocks of {} were limited by {}",
            name(node, rates),
            throttle_words(&rates.throttle_reasons)
        );
        ui.add(Label::new(RichText::new(text).color(palette(ui.visuals()).warning)).wrap());
    }
}

fn rate_ui(ui: &mut Ui, device: &str, key: &str, rate: Option<&Rate>) -> Response {
    let Some(rate) = rate else { return ui.label("–").on_hover_text("It cannot be measured on this device") };
    let (unit, factor) = unit(key);
    let [median, low, high] = [rate.per_s, rate.low_per_s, rate.high_per_s].map(|rate| significant(rate * factor));
    let response = ui.label(&median);
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{key} of {device}: {median} {unit}")));
    let size =
        if PASSES.contains(&key) { format!("{} MiB", rate.size >> 20) } else { format!("{0} × {0}", rate.size) };
    response.on_hover_text(format!("{low} to {high} {unit}, {}, {size}", counted(rate.samples, "sample")))
}

fn right(ui: &mut Ui, add: impl FnOnce(&mut Ui) -> Response) {
    ui.with_layout(Layout::right_to_left(Align::Center), add);
}

/// The unit of a rate, and the factor from FLOP or bytes per second.
fn unit(key: &str) -> (&'static str, f64) {
    if PASSES.contains(&key) { ("GB/s", 1e-9) } else { ("TFLOP/s", 1e-12) }
}

/// The name of a device on this screen.
fn name(node: &Node, rates: &DeviceRates) -> String {
    let gpu = rates.device.gpu_uuid.as_ref().and_then(|uuid| node.gpus.iter().find(|gpu| gpu.uuid == **uuid));
    match gpu {
        Some(gpu) => format!("GPU {}", gpu.index),
        None if rates.device.gpu_uuid.is_none() => "CPUs".to_owned(),
        None => rates.device.name.clone(),
    }
}

/// The software that measured a device.
fn software(rates: &DeviceRates) -> String {
    let threads = rates.threads.map_or(String::new(), |threads| format!(", {}", counted(threads, "thread")));
    let clock = rates.sm_clock_mhz.map_or(String::new(), |clock| format!(", SM clock {clock:.0} MHz"));
    let others = rates.others_cpus.filter(|_| rates.is_contended());
    let others = others.map_or(String::new(), |others| {
        format!(", other programs kept {others:.2} CPUs busy: the rates are too low, and no run is compared with them; measure again \
             when nothing else runs")
    });
    format!("{}{threads}, libtorch {}{clock}{others}", rates.device.name, rates.torch_version)
}

fn time_text(rates: &DeviceRates) -> String {
    let time = rates.time_s.and_then(|time_s| jiff::Timestamp::from_millisecond((time_s * 1e3) as i64).ok());
    let text =
        |time: jiff::Timestamp| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string();
    time.map_or_else(|| "earlier version".to_owned(), text)
}
