//! The card of the settings that all cells share: name, repeats, data set, limits, order.

use std::sync::Arc;

use eframe::egui::{
    Button, CollapsingHeader, DragValue, Grid, Id, Response, RichText, Role, Ui, Widget as _, WidgetInfo,
};

use super::PlanCommand;
use super::design::design_ui;
use super::limit::{Limit, limit_ui};
use super::search::search_ui;
use crate::analysis::{SpreadSeen, repeats_remark};
use crate::app::command::{Command, edit};
use crate::app::deliberate;
use crate::app::screens::plan::View;
use crate::app::theme::{SMALL, palette};
use crate::app::widgets::{card, check_ui, muted, radio_ui, text_field, text_width, tick_ui};
use crate::plan::{
    Block, Capture, Domain, Level, MAX_REPEATS, Mode, Node, Order, Plan, Tracer, Tracing, is_name, starting_command,
    workloads,
};

/// The name of the workload that is a program of the user's own.
const OWN_PROGRAM: &str = "Own program";
/// Run-time and memory limits that the first tick sets.
const FIRST_RUN_TIME_S: f64 = 3600.0;
/// The precision in the remark about repeats.
const REMARKED_PRECISION: f64 = 0.01;
const FIRST_MEMORY_GB: f64 = 80.0;
/// Width of the names of details next to their values.
const NAMES_WIDTH: f32 = 122.0;

/// Draws the card.
pub(super) fn about_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let plan = view.own.plan();
    card(ui).show(ui, |ui| {
        ui.take_available_width();
        ui.horizontal_wrapped(|ui| {
            let label = ui.label("Name");
            // The number of repeats stays on this line.
            let digits = text_width(ui, &plan.repeats.to_string()) - text_width(ui, "100");
            let width = (ui.available_width() - 160.0 - digits.max(0.0)).clamp(120.0, 420.0);
            let named = text_ui(ui, "plan name", &plan.name, width, "");
            named.0.labelled_by(label.id);
            // An invalid name is not applied.
            let name = named.1.map(|name| name.trim().chars().filter(|c| !c.is_control()).collect::<String>());
            if let Some(name) = name.filter(|name| is_name(name)) {
                edit::<PlanCommand>(commands, plan, None, |plan| plan.name = name);
            }
            let label = ui.label("Repeats");
            let mut repeats = plan.repeats;
            let field = DragValue::new(&mut repeats).range(1..=MAX_REPEATS).speed(0.05).ui(ui).labelled_by(label.id);
            if field.on_hover_text("Runs of each cell. From six on, tables have confidence intervals.").changed() {
                edit::<PlanCommand>(commands, plan, Some("repeats"), |plan| plan.repeats = repeats);
            }
            if let Some(spread) = SpreadSeen::of_plan(&view.own.spreads, plan) {
                ui.label(muted(ui, repeats_remark(&spread, REMARKED_PRECISION)));
            }
        });
        blocks_ui(ui, view, commands);
        workload_ui(ui, plan, commands);
        data_ui(ui, view, commands);
        where_ui(ui, view, commands);
        design_ui(ui, view, commands);
        search_ui(ui, view, commands);
        CollapsingHeader::new("Details")
            .id_salt("plan details")
            .show(ui, |ui| details_ui(ui, plan, view.node.as_deref(), commands));
    });
}

/// Draws the choice between this machine and the user's sites; nothing if there are none.
fn where_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let plan = view.own.plan();
    // It is unknown here which sites another machine has.
    let is_here = view.session.as_ref().is_none_or(|session| session.host().is_none());
    let known = if is_here { &view.sites[..] } else { &[] };
    let unknown = plan.site.iter().filter(|site| !known.contains(*site));
    let sites: Vec<&String> = known.iter().chain(unknown).collect();
    if sites.is_empty() {
        return;
    }
    ui.horizontal_wrapped(|ui| {
        ui.label("Where");
        for site in std::iter::once(None).chain(sites.into_iter().map(Some)) {
            let chosen = plan.site.as_ref() == site;
            let (text, help) = match site {
                None => ("this machine", "Runs start on this machine"),
                Some(site) => (site.as_str(), "Each run is a job of this cluster's scheduler, Slurm"),
            };
            let radio = radio_ui(ui, chosen, true, text).on_hover_text(help);
            radio.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, chosen, format!("Where {text}")));
            if radio.clicked() && !chosen {
                edit::<PlanCommand>(commands, plan, None, |plan| plan.site = site.cloned());
            }
        }
        if plan.site.is_some() {
            let mut shared = plan.one_allocation;
            let help = "One job of Slurm, in which the runs are steps one after the other. Otherwise each run is a job";
            if check_ui(ui, &mut shared, "One allocation").on_hover_text(help).changed() {
                edit::<PlanCommand>(commands, plan, None, |plan| plan.one_allocation = shared);
            }
        }
    });
}

/// A block's name: its workload, or the name of its own program, which is `command` unless the plan gives one.
pub(super) fn block_name(block: &Block) -> &str {
    match &*block.spec.name {
        crate::plan::command::KEY => OWN_PROGRAM,
        name => name,
    }
}

/// Draws the choice of the block, each with its own cells, and the buttons that add and remove blocks.
fn blocks_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let document = &view.own.document;
    ui.horizontal_wrapped(|ui| {
        ui.label("Blocks")
            .on_hover_text("The plan's cells are the cells of all its blocks. The chosen block is shown below.");
        for (place, block) in document.plan().blocks().enumerate() {
            let chosen = place == document.block();
            let tab = ui.selectable_label(chosen, format!("{}: {}", place + 1, block_name(block)));
            let name = format!("Block {}: {}", place + 1, block_name(block));
            tab.widget_info(|| WidgetInfo::selected(Role::Tab, true, chosen, &name));
            if tab.clicked() && !chosen {
                commands.push(PlanCommand::Block(place).into());
            }
        }
        let is_one_of_several = !document.plan().further.is_empty();
        let mut button = |text: &str, name: &str, help: &str, enabled: bool| {
            let button = ui.add_enabled(enabled, Button::new(text)).on_hover_text(help);
            button.widget_info(|| WidgetInfo::labeled(Role::Button, enabled, name));
            button
        };
        let help = "Adds a block of this workload, with one cell: every factor has its default";
        if button("Add", "Add a block", help, true).clicked() {
            commands.push(PlanCommand::AddBlock.into());
        }
        if button("Copy", "Copy this block", "One more block with the same levels", true).clicked() {
            commands.push(PlanCommand::CopyBlock.into());
        }
        let remove = button("Remove", "Remove this block", "Undo brings it back", is_one_of_several);
        if deliberate::clicked(&remove, ("remove block", document.block())) {
            commands.push(PlanCommand::RemoveBlock.into());
        }
    });
}

/// Draws the choice of the workload, each with its own cards.
fn workload_ui(ui: &mut Ui, plan: &Plan, commands: &mut Vec<Command>) {
    let own = &plan.first.spec;
    // A plan may come with its own workload; otherwise a program can be chosen.
    let is_brought = workloads().iter().all(|spec| spec.key != own.key);
    let other = || plan.brought_workloads().first().map_or_else(starting_command, |spec| Arc::clone(spec));
    let brought = if is_brought { Arc::clone(own) } else { other() };
    ui.horizontal_wrapped(|ui| {
        ui.label("Workload");
        for spec in workloads().iter().chain([&brought]) {
            let chosen = spec.key == own.key;
            let name = if spec.command.is_some() { OWN_PROGRAM } else { &*spec.name };
            let radio = radio_ui(ui, chosen, true, name);
            radio.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, chosen, format!("Workload {name}")));
            if radio.clicked() && !chosen {
                edit::<PlanCommand>(commands, plan, None, |plan| plan.first = Block::new(Arc::clone(spec)));
            }
        }
    });
}

fn data_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let plan = view.own.plan();
    let block = &plan.first;
    let outlook = view.own.outlook.as_ref();
    if block.spec.data_sets.is_empty() {
        return;
    }
    ui.horizontal_wrapped(|ui| {
        ui.label(&*block.spec.data_name);
        for rule in &block.spec.data_sets {
            let set = &*rule.key;
            let chosen = block.data.set == set;
            let refusal = outlook.and_then(|outlook| outlook.data_refusal(set));
            let enabled = chosen || refusal.is_none();
            let radio = radio_ui(ui, chosen, enabled, set);
            let name = match refusal {
                Some(reason) => format!("Data set {set} cannot be used: {reason}"),
                None => format!("Data set {set}"),
            };
            radio.widget_info(|| WidgetInfo::selected(Role::RadioButton, enabled, chosen, &name));
            if radio.clicked() && enabled && !chosen {
                edit::<PlanCommand>(commands, plan, None, |plan| plan.first.set_data(rule.chosen()));
            }
            if let Some(reason) = refusal {
                radio.on_hover_text(format!("Cannot be used here: {reason}"));
            }
        }
    });
    let Some(rule) = block.spec.data_set(&block.data.set) else { return };
    for key in rule.keys.iter().filter(|key| key.domain == Domain::Path) {
        let now = block.data.get(&key.key).and_then(Level::as_text).unwrap_or_default();
        ui.horizontal_wrapped(|ui| {
            let label = ui.label(&*key.name);
            let (field, typed) = text_ui(ui, &key.name, now, 260.0, &key.help);
            field.labelled_by(label.id);
            let typed = typed.map(|typed| typed.trim().to_owned());
            let can_be_empty = !rule.required.contains(&key.key);
            if let Some(typed) = typed.filter(|typed| can_be_empty || !typed.is_empty()) {
                let data = block.data.clone().with_path(&key.key, &typed);
                edit::<PlanCommand>(commands, plan, None, |plan| plan.first.set_data(data));
            }
        });
    }
    let palette = palette(ui.visuals());
    let host = view.session.as_ref().and_then(|session| session.host());
    let where_checked = host.map(|host| format!("Checked on {host} when the plan is launched."));
    let (text, colour) = match (&where_checked, outlook.and_then(|outlook| outlook.data.as_ref())) {
        (Some(where_checked), Some(_)) => (where_checked, palette.muted),
        (_, None) => (&rule.help, palette.muted),
        (None, Some(Ok(checked))) => (checked, palette.muted),
        (None, Some(Err(missing))) => (missing, palette.warning),
    };
    ui.label(RichText::new(text).size(SMALL).color(colour));
}

fn details_ui(ui: &mut Ui, plan: &Plan, node: Option<&Node>, commands: &mut Vec<Command>) {
    let width = (ui.available_width() - NAMES_WIDTH).max(NAMES_WIDTH);
    Grid::new("plan details grid").num_columns(2).spacing([16.0, 6.0]).show(ui, |ui| {
        ui.label("Order of runs");
        ui.horizontal(|ui| {
            for (order, help) in [
                (Order::Interleaved, "Each repeat shuffles all cells, so that drift affects all of them alike"),
                (Order::Sequential, "All repeats of one cell, then all repeats of the next"),
            ] {
                let chosen = plan.order == order;
                let radio = radio_ui(ui, chosen, true, order.name()).on_hover_text(help);
                let name = format!("Order of runs {}", order.name());
                radio.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, chosen, &name));
                if radio.clicked() {
                    edit::<PlanCommand>(commands, plan, None, |plan| plan.order = order);
                }
            }
        });
        ui.end_row();

        let label = ui.label("Seed");
        let mut seed = plan.seed;
        let field = DragValue::new(&mut seed).speed(0.1).ui(ui).labelled_by(label.id);
        if field.on_hover_text("Seed of the order of runs, the weights and the order of samples").changed() {
            edit::<PlanCommand>(commands, plan, Some("seed"), |plan| plan.seed = seed);
        }
        ui.end_row();

        let label = ui.label("Warm-up steps");
        let mut steps = plan.warm_up_steps;
        let field = DragValue::new(&mut steps).range(0..=1_000_000_000_u64).speed(0.1).ui(ui).labelled_by(label.id);
        if field.on_hover_text("Steps at the start of a run that are excluded from statistics").changed() {
            edit::<PlanCommand>(commands, plan, Some("warm-up"), |plan| plan.warm_up_steps = steps);
        }
        ui.end_row();

        if let Some(mode) = mode_ui(ui, plan.mode) {
            edit::<PlanCommand>(commands, plan, Some("mode"), |plan| plan.mode = mode);
        }
        ui.end_row();

        let programs = plan.blocks().any(|block| block.spec.command.is_some());
        if let Some(tracer) = tracers_ui(ui, width, &plan.tracing, (programs, node)) {
            edit::<PlanCommand>(commands, plan, None, |plan| plan.toggle(tracer));
        }
        ui.end_row();
        if let Some(part) = plan.tracing.capture() {
            if let Some(part) = traced_part_ui(ui, width, part, (programs, plan.can_record_windows())) {
                edit::<PlanCommand>(commands, plan, Some("traced part"), |plan| plan.tracing = plan.tracing.with_capture(part));
            }
            ui.end_row();
        }

        let limit = Limit { name: "Run-time limit", unit: " s", first: FIRST_RUN_TIME_S, max: 1e9 };
        if let Some(limit) = limit_ui(ui, &limit, plan, width, plan.limits.run_time_s) {
            edit::<PlanCommand>(commands, plan, Some("run time"), |plan| plan.limits.run_time_s = limit);
        }
        let limit = Limit { name: "Memory limit", unit: " GB per rank", first: FIRST_MEMORY_GB, max: 1e6 };
        if let Some(limit) = limit_ui(ui, &limit, plan, width, plan.limits.memory_limit_gb) {
            edit::<PlanCommand>(commands, plan, Some("memory"), |plan| plan.limits.memory_limit_gb = limit);
        }

        ui.label("Control");
        let help = "Runs an identical copy of the first cell as well. Tables then say whether the two seem to differ: if they do, \
             this session reports differences where there are none.";
        if tick_ui(ui, plan.aa, true, "A/A copy of the first cell").on_hover_text(help).clicked() {
            edit::<PlanCommand>(commands, plan, None, |plan| plan.aa = !plan.aa);
        }
        ui.end_row();

        ui.label("Machine");
        let exclusive = plan.limits.exclusive;
        let help = "Each run has the machine to itself, so that no other run affects its times. Otherwise several runs share the \
             machine, each on its own GPUs and CPUs, and their times are left out of tables.";
        if tick_ui(ui, exclusive, true, "one run at a time").on_hover_text(help).clicked() {
            edit::<PlanCommand>(commands, plan, None, |plan| plan.limits.exclusive = !exclusive);
        }
        ui.end_row();
    });
}

/// Draws the choice between full and quick runs.
fn mode_ui(ui: &mut Ui, now: Mode) -> Option<Mode> {
    let mut choice = None;
    ui.label("Runs");
    ui.horizontal(|ui| {
        let choices = [
            (Mode::Full, "Runs all epochs, with accuracy and losses"),
            (
                Mode::Quick { step_precision: Mode::STEP_PRECISION },
                "Runs until the mean step is known; the training time is extrapolated, and there is no accuracy",
            ),
        ];
        for (mode, help) in choices {
            let chosen = now.name() == mode.name();
            let radio = radio_ui(ui, chosen, true, mode.name()).on_hover_text(help);
            radio
                .widget_info(|| WidgetInfo::selected(Role::RadioButton, true, chosen, format!("Runs {}", mode.name())));
            if radio.clicked() && !chosen {
                choice = Some(mode);
            }
        }
        if let Some(precision) = now.step_precision() {
            let mut percent = precision * 100.0;
            let (least, most) = Mode::STEP_PRECISIONS;
            let field = DragValue::new(&mut percent).range(100.0 * least..=100.0 * most).max_decimals(2).speed(0.05);
            let field = ui.add(field.prefix("±").suffix(" %"));
            field.widget_info(|| WidgetInfo::labeled(Role::SpinButton, true, "Precision of the mean step"));
            if field.changed() {
                choice = Some(Mode::Quick { step_precision: (percent / 100.0).clamp(least, most) });
            }
        }
    });
    choice
}

/// Choices next to each other, on several lines if they are too wide.
fn wrapped(ui: &mut Ui, width: f32, content: impl FnOnce(&mut Ui)) {
    ui.vertical(|ui| {
        ui.set_max_width(width);
        ui.horizontal_wrapped(content);
    });
}

/// Gives a choice of tracing its accessible name, and its help or the reason why it cannot be chosen. Returns whether it was clicked; a
/// choice with a reason takes the focus, so that the reason can be read, but no clicks.
fn choice_clicked(
    choice: Response,
    name: &str,
    (chosen, role): (bool, Role),
    help: &str,
    refusal: Option<&str>,
) -> bool {
    let can = refusal.is_none();
    let name =
        refusal.map_or_else(|| format!("Trace {name}"), |reason| format!("Trace {name}, cannot be chosen: {reason}"));
    choice.widget_info(|| WidgetInfo::selected(role, can, chosen, &name));
    let is_clicked = can && choice.clicked();
    choice.on_hover_text(refusal.unwrap_or(help));
    is_clicked
}

/// Why a tracer cannot record on a machine; `None` if it can, or while the machine is unknown. `programs`: whether the plan has programs
/// of the user's own.
pub(super) fn tracer_refusal(tracer: Tracer, programs: bool, node: Option<&Node>) -> Option<String> {
    let node = node?;
    match tracer {
        Tracer::Off => None,
        Tracer::Nsys => node.nsys.as_ref().err().map(|why| format!("nsys cannot record on this machine: {why}")),
        // A program has no phases that could be recorded without CUPTI.
        _ => node
            .tracer
            .as_ref()
            .err()
            .filter(|_| programs)
            .map(|why| format!("programs of your own cannot be recorded on this machine: {why}")),
    }
}

/// Draws the choice of tracers: one or several. Each tracer records separate runs of every cell.
fn tracers_ui(ui: &mut Ui, width: f32, now: &Tracing, (programs, node): (bool, Option<&Node>)) -> Option<Tracer> {
    let mut choice = None;
    ui.label("Trace");
    wrapped(ui, width, |ui| {
        let untraced = node.and_then(|node| node.tracer.as_ref().err());
        let only_phases = untraced.map_or_else(String::new, |why| {
            format!(
                ". On this machine only phases, loader waits and the parts of steps on the host are recorded: {why}"
            )
        });
        let built_in =
            format!("Records CUDA calls, kernels, copies and the ranks' phases, without a profiler{only_phases}");
        for tracer in Tracer::KINDS {
            let help = match tracer {
                Tracer::Off => "Nothing is recorded",
                Tracer::BuiltIn => &*built_in,
                Tracer::BuiltInWithoutCalls | Tracer::InWindows | Tracer::InWindowsWithoutCalls => {
                    "Records what “built-in” records, but no CUDA calls: it costs a quarter to a half less on launch-bound steps"
                }
                Tracer::Nsys => {
                    "Nsight Systems records each run. Since this costs time, traced cells are kept apart from others"
                }
            };
            let chosen = now.has(tracer);
            let reason = tracer_refusal(tracer, programs, node);
            // What the plan already has can always be switched off.
            let refusal = reason.as_deref().filter(|_| !chosen);
            let tick = tick_ui(ui, chosen, refusal.is_none(), tracer.name());
            let help = reason.as_deref().unwrap_or(help);
            if choice_clicked(tick, tracer.name(), (chosen, Role::CheckBox), help, refusal) {
                choice = Some(tracer);
            }
        }
        let count = now.tracers().len();
        if count > 1 {
            let help = "Two copies of each cell, one with and one without the tracer, run one after the other in each repeat. The preset \
                 trace-cost compares them.";
            ui.label(muted(ui, format!("each cell {count} times, once under each"))).on_hover_text(help);
        }
    });
    choice
}

/// Draws the choice of the part of traced runs that is recorded. Runs of programs are always recorded as a whole, and
/// only the built-in tracer records windows.
fn traced_part_ui(ui: &mut Ui, width: f32, part: Capture, (programs, windows): (bool, bool)) -> Option<Capture> {
    let mut choice = None;
    ui.label("Traced part");
    wrapped(ui, width, |ui| {
        for (capture, name, help) in [
            (
                Capture::USUAL,
                "windows",
                "A few steps in each period are recorded: times are those of the other steps, and the run shows what recording costs. Programs \
                 of your own, runs under nsys, and runs with less than two periods of steady steps are recorded as a whole",
            ),
            (Capture::Whole, "whole run", "Records each run from its start to its end"),
            (
                Capture::First { seconds: 720.0 },
                "first seconds",
                "Recording ends after these seconds; the run continues",
            ),
            (
                Capture::Steps { first: 20, last: 60 },
                "steps",
                "Only these steps are recorded; if at least ten steady steps come before them, the run also shows what recording costs",
            ),
        ] {
            let refusal = match capture {
                Capture::Windows { .. } if !windows => {
                    Some("Only the built-in tracer records windows, and only for built-in workloads")
                }
                Capture::First { .. } | Capture::Steps { .. } if programs => {
                    Some("Programs of your own are always recorded as a whole")
                }
                _ => None,
            };
            let kind = |capture: Capture| std::mem::discriminant(&capture);
            let chosen = kind(part) == kind(capture);
            let radio = radio_ui(ui, chosen, refusal.is_none(), name);
            if choice_clicked(radio, name, (chosen, Role::RadioButton), help, refusal) && !chosen {
                choice = Some(capture);
            }
        }
        let number = |ui: &mut Ui, name: &str, value: &mut u64, least: u64| {
            let field = ui.add(DragValue::new(value).range(least..=1_000_000_000).speed(0.5));
            field.widget_info(|| WidgetInfo::labeled(Role::SpinButton, true, name));
            field.changed()
        };
        match part {
            Capture::First { seconds } => {
                let mut whole_s = seconds.round() as u64;
                if number(ui, "Seconds that are recorded", &mut whole_s, 1) {
                    choice = Some(Capture::First { seconds: whole_s as f64 });
                }
            }
            Capture::Steps { mut first, mut last } => {
                let changed = number(ui, "First step that is recorded", &mut first, 1);
                if number(ui, "Last step that is recorded", &mut last, first) || changed {
                    choice = Some(Capture::Steps { first, last: last.max(first) });
                }
            }
            Capture::Windows { mut recorded, mut period } => {
                let changed = number(ui, "Steps that are recorded in a period", &mut recorded, 2);
                let least = recorded.saturating_add(Capture::LEAST_REST);
                if number(ui, "Steps in a period", &mut period, least) || changed {
                    choice = Some(Capture::Windows { recorded, period: period.max(least) });
                }
            }
            Capture::Whole => {}
        }
    });
    choice
}

/// A text field that applies its text when it loses the focus. Returns the field, and the text if it changed.
fn text_ui(ui: &mut Ui, name: &str, now: &str, width: f32, hint: &str) -> (Response, Option<String>) {
    let id = Id::unique(("text of the plan", name));
    let mut text = ui.data(|data| data.get_temp(id)).unwrap_or_else(|| now.to_owned());
    let field = ui.add(text_field(&mut text, hint, width).id(id));
    if field.has_focus() {
        ui.data_mut(|data| data.insert_temp(id, text));
        return (field, None);
    }
    ui.data_mut(|data| data.remove::<String>(id));
    let typed = (field.lost_focus() && text != now).then_some(text);
    (field, typed)
}
