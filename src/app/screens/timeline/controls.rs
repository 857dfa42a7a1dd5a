//! The bar above the rows, and the content of an empty screen.

use eframe::egui::{Button, Id, Key, ProgressBar, Ui, vec2};
use strum::VariantArray;

use super::{Anchor, Arrangement, TimelineCommand, TimelineScreen, layout, search_id};
use crate::app::deliberate;
use crate::app::screens::timeline::View;
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{choice, lasting_menu, main_button, muted, named_text, path_ui, strong, text_field};
use crate::trace::{MarkKind, StepsFrom};

/// The field for a recording's path.
const PATH: &str = "Path of a recording";
/// Epochs or steps offered in the list.
const MOST_ANCHORS: usize = 200;

/// Draws the bar.
pub fn bar_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<TimelineCommand>) {
    let timeline = view.own;
    ui.horizontal_wrapped(|ui| {
        open_ui(ui, view, commands);
        if !timeline.runs.is_empty() {
            anchor_ui(ui, view, commands);
            if timeline.runs.len() > 1 {
                arrangement_ui(ui, timeline.arrangement, commands);
            }
            let mut button = |ui: &mut Ui, text: &str, hover: &str, command: TimelineCommand| {
                let response = ui.button(text).on_hover_text(hover);
                response.widget_info(|| crate::app::widgets::named(hover));
                if response.clicked() {
                    commands.push(command);
                }
            };
            button(ui, "+", "Zoom in (W, Ctrl wheel)", TimelineCommand::Zoom(super::keys::ZOOM, None));
            button(ui, "−", "Zoom out (S)", TimelineCommand::Zoom(1.0 / super::keys::ZOOM, None));
            button(ui, "All", "Show everything (F)", TimelineCommand::Fit);
            button(
                ui,
                "Figure",
                "Write this view as a figure: into the session's figures, or beside the recording (P)",
                TimelineCommand::Figure,
            );
            let copy = "Copy the command that shows these recordings";
            button(ui, "Copy as command", copy, TimelineCommand::CopyCommand);
            search_ui(ui, view, commands);
            marks_ui(ui, view, commands);
        }
    });
    if timeline.runs.is_empty() {
        work_ui(ui, timeline, commands);
    }
    ui.add_space(GRID);
}

/// Draws running work and the last message. With recordings on screen they are above the tables, where they do not move the rows.
pub fn work_ui(ui: &mut Ui, timeline: &TimelineScreen, commands: &mut Vec<TimelineCommand>) {
    for opening in &timeline.opening {
        let label = format!("Opening {}", opening.name);
        task_ui(ui, &label, "Cancel opening", opening.task.done(), TimelineCommand::Cancel, commands);
    }
    for (place, run) in timeline.runs.iter().enumerate() {
        if let Some(splitting) = &run.splitting {
            let label = format!("Adding up where the time of {} went", run.name);
            let cancel = TimelineCommand::CancelSplit(place);
            task_ui(ui, &label, "Cancel adding up", splitting.done(), cancel, commands);
        }
    }
    if let Some(exporting) = &timeline.exporting {
        let cancel = TimelineCommand::CancelExport;
        task_ui(ui, "Writing", "Cancel writing", exporting.done(), cancel, commands);
    }
    if let Some((message, good)) = &timeline.outcome {
        let palette = palette(ui.visuals());
        ui.colored_label(if *good { palette.good } else { palette.bad }, message);
    }
}

/// Draws running work with the button that cancels it.
fn task_ui(
    ui: &mut Ui,
    task: &str,
    cancel: &str,
    done: f32,
    command: TimelineCommand,
    commands: &mut Vec<TimelineCommand>,
) {
    ui.horizontal(|ui| {
        ui.label(task);
        ui.add(ProgressBar::new(done).desired_width(200.0).show_percentage());
        if deliberate::clicked(&ui.button(cancel), cancel) {
            commands.push(command);
        }
    });
}

/// The button that opens a recording, and the list of traced runs.
fn open_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<TimelineCommand>) {
    let traced = traced(view);
    lasting_menu(ui, Button::new("Open …"), |ui| {
        if let Some(file) = path_ui(ui, Id::unique("recording-path"), PATH, "Open this file", 280.0) {
            commands.push(TimelineCommand::file(file));
            ui.close();
        }
        if ui.button("Choose a file …").clicked() {
            commands.push(TimelineCommand::Choose);
            ui.close();
        }
        if !traced.is_empty() {
            ui.separator();
        }
        eframe::egui::ScrollArea::vertical().max_height(320.0).show(ui, |ui| {
            for (name, command) in traced {
                if ui.button(name).clicked() {
                    commands.push(command);
                    ui.close();
                }
            }
        });
    });
}

/// Runs of the session that have a trace, with the commands that open it.
fn traced(view: View<'_>) -> Vec<(String, TimelineCommand)> {
    let folder = &view.records.folder;
    let recorded_runs = view.records.summaries.iter().filter_map(|summary| {
        let trace = summary.trace_summary()?;
        let file = folder.join("runs").join(&summary.run).join(&trace.file);
        // Its number and its distinguishing name, as in the list of runs.
        let row = view.runs.row(&summary.run);
        let name = row.map_or_else(|| summary.run.clone(), |row| format!("{} · {}", row.number, row.name));
        Some((name.clone(), TimelineCommand::Open(file, name)))
    });
    recorded_runs.collect()
}

fn anchor_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<TimelineCommand>) {
    let timeline = view.own;
    ui.label(muted(ui, "Align at"));
    choice(ui, "Align runs at", &timeline.anchor.name(), 110.0, |ui| {
        let count = |kind| timeline.runs.iter().map(|run| run.timeline.marks(kind).count()).max().unwrap_or(0);
        let (epochs, steps) = (count(MarkKind::Epoch), count(MarkKind::Step));
        let all = std::iter::once(Anchor::Start)
            .chain((1..=epochs.min(MOST_ANCHORS)).map(Anchor::Epoch))
            .chain((1..=steps.min(MOST_ANCHORS)).map(Anchor::Step));
        for anchor in all {
            if ui.selectable_label(timeline.anchor == anchor, anchor.name()).clicked() {
                commands.push(TimelineCommand::Align(anchor));
            }
        }
        if epochs + steps == 0 {
            ui.label(muted(ui, "These recordings contain no marked epochs or steps."));
        }
        let is_event = matches!(timeline.anchor, Anchor::Event(_));
        let at_event = Button::selectable(is_event, "the selected event");
        let hover = "Places the selected event at time 0, and the first event of the same name in each other recording as well (X)";
        if ui.add_enabled(timeline.selected.is_some(), at_event).on_hover_text(hover).clicked() {
            commands.push(TimelineCommand::AlignAtSelected);
        }
    });
}

fn arrangement_ui(ui: &mut Ui, now: Arrangement, commands: &mut Vec<TimelineCommand>) {
    choice(ui, "Arrange recordings (V)", now.name(), 132.0, |ui| {
        for arrangement in Arrangement::VARIANTS {
            if ui.selectable_label(now == *arrangement, arrangement.name()).clicked() {
                commands.push(TimelineCommand::Arrange(*arrangement));
            }
        }
    });
}

fn search_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<TimelineCommand>) {
    let mut text = view.own.search.clone();
    let field = ui.add(text_field(&mut text, "Search names  /", 150.0).id(search_id()));
    field.widget_info(|| named_text("Search names", &text));
    let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
    if field.changed() {
        commands.push(TimelineCommand::Search(text.clone()));
    }
    let next = ui
        .add_enabled(!text.trim().is_empty(), Button::new("Next"))
        .on_hover_text("Show the next event whose name contains this text (Enter)");
    next.widget_info(|| crate::app::widgets::named("Find next"));
    if next.clicked() || entered {
        commands.push(TimelineCommand::Find);
    }
}

fn marks_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<TimelineCommand>) {
    let marks: Vec<i64> = view.own.marks.iter().flatten().copied().collect();
    let hint = "M sets a mark at the selected event, or in the middle of the view; a right click sets one at the pointer; drag with the \
         right button or Shift to measure";
    let text = match marks[..] {
        [] => return drop(ui.label(muted(ui, "no marks")).on_hover_text(hint)),
        [a] => format!("mark at {}", layout::time_text(a)),
        [a, b, ..] => format!("between marks {}", layout::time_text((b - a).abs())),
    };
    ui.label(strong(text)).on_hover_text(hint);
    if let [a, b] = marks[..] {
        let hover = "Divides recordings into steps. A step begins with the event that begins first after the first mark, and contains as many \
                     events of that name as begin between the marks";
        if ui.small_button("Marks are a step").on_hover_text(hover).clicked() {
            for (place, run) in view.own.runs.iter().enumerate() {
                // The times of marks are those of the shown clock.
                let at = |mark: i64| mark.saturating_add(run.zero).saturating_sub(run.timeline.span().0) as f64 / 1e9;
                let (from_s, to_s) = (at(a.min(b)), at(a.max(b)));
                if 0.0 <= from_s && from_s < to_s {
                    commands.push(TimelineCommand::Divide(place, StepsFrom::Between { from_s, to_s }));
                }
            }
        }
    }
    if ui.small_button("Clear").on_hover_text("Remove the marks (Esc)").clicked() {
        commands.push(TimelineCommand::Mark(None));
    }
}

/// The content of the screen before a recording is opened.
pub fn empty_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<TimelineCommand>) {
    if !view.own.opening.is_empty() {
        return;
    }
    ui.add_space(ui.available_height() * 0.25);
    ui.vertical_centered(|ui| {
        ui.set_max_width(560.0);
        ui.label(strong("No recording is open.").size(crate::app::theme::TITLE));
        ui.add_space(2.0 * GRID);
        ui.label(
            "Open a report of Nsight Systems, traces of PyTorch's profiler or a built-in trace, and see what each GPU and thread \
             did, step by step. Open a second one to see where two runs differ.",
        );
        ui.add_space(2.0 * GRID);
        if main_button(ui, true, "Open a recording …").clicked() {
            commands.push(TimelineCommand::Choose);
        }
        ui.add_space(GRID);
        let file = ui.allocate_ui(vec2(440.0, ui.spacing().interact_size.y), |ui| {
            path_ui(ui, Id::unique("first-recording-path"), PATH, "Open this file", 320.0)
        });
        commands.extend(file.inner.map(TimelineCommand::file));
        ui.add_space(2.0 * GRID);
        let traced = traced(view);
        if traced.is_empty() {
            ui.label(muted(
                ui,
                "No run of this session has a trace. In a plan, trace = \"built-in\" under [measure] records phases, loader \
                 waits and parts of steps on any machine, and CUDA calls, kernels and copies where there are GPUs.",
            ));
        } else {
            ui.label(muted(ui, "Traced runs of this session:"));
            eframe::egui::ScrollArea::vertical().max_height(ui.available_height() - 20.0).show(ui, |ui| {
                for (name, command) in traced {
                    if ui.button(name).clicked() {
                        commands.push(command);
                    }
                }
            });
        }
    });
}
