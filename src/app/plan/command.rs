//! The form of a plan's own program: its command with placeholders, its factors, its readings, and a trial of one cell.

use std::ops::Range;
use std::sync::Arc;

use eframe::egui::text::{LayoutJob, TextFormat};
use eframe::egui::{
    CollapsingHeader, Color32, FontId, Galley, Grid, Id, Key as Pressed, Response, RichText, Role, ScrollArea,
    TextBuffer, TextEdit, TextStyle, Ui, WidgetInfo,
};

use super::{PlanCommand, Tried};
use crate::app::theme::{GRID, SMALL, palette};
use crate::app::widgets::{card, muted, strong, text_field};
use crate::app::{Command, State};
use crate::plan::CommandTexts;

/// Most seconds that a trial takes.
pub(super) const TRIAL_S: f64 = 10.0;
/// Width of a factor's name.
const NAME_WIDTH: f32 = 120.0;
/// Height of what a trial read.
const READ_HEIGHT: f32 = 220.0;

/// Draws the form.
pub(super) fn command_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    let Some(texts) = state.plan.texts() else { return };
    let mut asked = Vec::new();
    card(ui).show(ui, |ui| {
        ui.take_available_width();
        ui.horizontal(|ui| {
            ui.label(strong("Program"));
            ui.label(muted(ui, "{factor} is the level of a cell, {switch:--text} a text where it is on").size(SMALL));
        });
        let mut edited = texts.clone();
        let known: Vec<&str> = texts.factors.iter().map(|(key, _)| key.as_str()).collect();
        run_ui(ui, &mut edited.run, &known);
        if let Some(error) = state.plan.form_error() {
            ui.colored_label(palette(ui.visuals()).bad, RichText::new(error).size(SMALL));
        }
        ui.horizontal(|ui| {
            let label = ui.label("Folder");
            let field = text_field(&mut edited.folder, "where multicard was started", 240.0);
            let field = ui.add(field).labelled_by(label.id);
            named(&field, "Folder of the program", &edited.folder);
        });
        factors_ui(ui, &mut edited);
        CollapsingHeader::new("Readings and variables").id_salt("readings of the command").show(ui, |ui| {
            lines_ui(
                ui,
                "Patterns over the output",
                &mut edited.patterns,
                r"step (?<step>\d+) loss (?<loss>\S+)",
                "Regular expressions with named groups, one a line: step, loss, units, duration_s; other names are readings",
            );
            lines_ui(
                ui,
                "Files that it writes",
                &mut edited.files,
                "{run_folder}/metrics.csv",
                "CSV, JSON Lines, or a folder of TensorBoard's event files with / at its end; one a line",
            );
            lines_ui(ui, "Variables", &mut edited.variables, "NAME=text", "Environment variables that are set for it, one a line");
            ui.label(muted(ui, "Without patterns and files, readings are looked for. multicard help readings").size(SMALL));
        });
        if edited != texts {
            asked.push(PlanCommand::Texts(Box::new(edited)));
        }
        ui.add_space(GRID);
        trial_ui(ui, state, &mut asked);
    });
    commands.extend(asked.into_iter().map(Command::Plan));
}

fn named(field: &Response, name: &str, text: &str) {
    field.widget_info(|| {
        let mut info = WidgetInfo::labeled(Role::TextInput, true, name);
        info.current_text_value = Some(text.to_owned());
        info
    });
}

/// The command, its placeholders in colour.
fn run_ui(ui: &mut Ui, run: &mut String, known: &[&str]) {
    let font = TextStyle::Monospace.resolve(ui.style());
    let palette = palette(ui.visuals());
    let (text, good, bad) = (ui.visuals().text_color(), palette.accent, palette.bad);
    let mut layout = |ui: &Ui, buffer: &dyn TextBuffer, width: f32| -> Arc<Galley> {
        let mut job = LayoutJob::default();
        for (range, placeholder) in pieces(buffer.as_str(), known) {
            let colour = match placeholder {
                None => text,
                Some(true) => good,
                Some(false) => bad,
            };
            append(&mut job, &buffer.as_str()[range], &font, colour);
        }
        job.wrap.max_width = width;
        ui.fonts_mut(|fonts| fonts.layout_job(job))
    };
    let field = TextEdit::multiline(run).desired_rows(2).desired_width(f32::INFINITY).layouter(&mut layout);
    let field =
        ui.add(field).on_hover_text("The program and its arguments. No shell reads them; quotes hold words together.");
    named(&field, "Command", run);
}

fn append(job: &mut LayoutJob, text: &str, font: &FontId, colour: Color32) {
    job.append(text, 0.0, TextFormat::simple(font.clone(), colour));
}

/// The parts of a command: text, and placeholders with whether there is one of that name.
fn pieces(text: &str, known: &[&str]) -> Vec<(Range<usize>, Option<bool>)> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    while let Some(open) = text[at..].find('{').map(|open| at + open) {
        let Some(close) = text[open..].find('}').map(|close| open + close + 1) else { break };
        // `{{` is a brace.
        if text[open + 1..].starts_with('{') {
            pieces.push((at..open + 2, None));
            at = open + 2;
            continue;
        }
        let name = text[open + 1..close - 1].split(':').next().unwrap_or_default();
        let is_known =
            known.contains(&name) || crate::plan::command::BUILT_IN.iter().any(|(built_in, _)| *built_in == name);
        pieces.push((at..open, None));
        pieces.push((open..close, Some(is_known)));
        at = close;
    }
    pieces.push((at..text.len(), None));
    pieces.retain(|(range, _)| !range.is_empty());
    pieces
}

/// The factors with their levels, and a line for one more.
fn factors_ui(ui: &mut Ui, texts: &mut CommandTexts) {
    let ids = [Id::unique("name of a new factor"), Id::unique("levels of a new factor")];
    let typed = |ui: &Ui, id: Id| ui.data(|data| data.get_temp::<String>(id)).unwrap_or_default();
    let (mut name, mut levels) = (typed(ui, ids[0]), typed(ui, ids[1]));
    let mut removed = None;
    Grid::new("factors of the command").num_columns(3).min_col_width(NAME_WIDTH).spacing([2.0 * GRID, GRID]).show(
        ui,
        |ui| {
            ui.label(muted(ui, "Factor").size(SMALL));
            ui.label(muted(ui, "Levels, separated by commas").size(SMALL));
            ui.end_row();
            let width = (ui.available_width() - NAME_WIDTH - 120.0).clamp(120.0, 360.0);
            for (index, (key, levels)) in texts.factors.iter_mut().enumerate() {
                ui.label(key.as_str());
                let field = ui.add(text_field(levels, "", width));
                named(&field, &format!("Levels of {key}"), levels);
                let remove = ui.button("Remove");
                remove.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Remove {key}")));
                if remove.on_hover_text("Remove the factor and its arguments").clicked() {
                    removed = Some(index);
                }
                ui.end_row();
            }
            let field = ui.add(text_field(&mut name, "name", NAME_WIDTH).id(ids[0]));
            named(&field, "Name of a new factor", &name);
            let field = ui.add(text_field(&mut levels, "fp32, bf16", width).id(ids[1]));
            named(&field, "Levels of a new factor", &levels);
            let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Pressed::Enter));
            let can_add = !name.trim().is_empty() && !levels.trim().is_empty();
            let add = ui.add_enabled(can_add, eframe::egui::Button::new("Add factor"));
            if can_add && (add.clicked() || entered) {
                *texts = std::mem::take(texts).with_factor(&name, &levels);
                name.clear();
                levels.clear();
            }
            ui.end_row();
        },
    );
    ui.data_mut(|data| {
        data.insert_temp(ids[0], name);
        data.insert_temp(ids[1], levels);
    });
    if let Some(index) = removed {
        *texts = std::mem::take(texts).without_factor(index);
    }
}

/// A field of several lines.
fn lines_ui(ui: &mut Ui, name: &str, text: &mut String, hint: &str, help: &str) {
    ui.label(name);
    let rows = text.lines().count().clamp(1, 6);
    let field = TextEdit::multiline(text)
        .desired_rows(rows)
        .hint_text(hint.to_owned())
        .desired_width(f32::INFINITY)
        .code_editor();
    let field = ui.add(field.lock_focus(false)).on_hover_text(help);
    named(&field, name, text);
}

/// A trial of one cell, and what was read of it.
fn trial_ui(ui: &mut Ui, state: &State, asked: &mut Vec<PlanCommand>) {
    let refusal = state.trial_refusal();
    ui.horizontal(|ui| match &state.plan.tried {
        Tried::Running { .. } => {
            if ui.button("Stop").clicked() {
                asked.push(PlanCommand::StopTrial);
            }
            ui.spinner();
            ui.label(muted(ui, format!("The first cell runs for {TRIAL_S} s at most")));
        }
        _ => {
            let button = ui.add_enabled(refusal.is_none(), eframe::egui::Button::new("Try once"));
            let help = format!(
                "Runs the first cell for {TRIAL_S} s at most, and shows what is read of it. Nothing is recorded."
            );
            if button.on_hover_text(help).clicked() {
                asked.push(PlanCommand::TryOnce);
            }
            if let Some(reason) = &refusal {
                ui.label(muted(ui, reason).size(SMALL));
            }
        }
    });
    let trial = match &state.plan.tried {
        Tried::Done(Ok(trial)) => trial,
        Tried::Done(Err(error)) => {
            ui.colored_label(palette(ui.visuals()).bad, RichText::new(error).size(SMALL));
            return;
        }
        Tried::Not | Tried::Running { .. } => return,
    };
    let keys: Vec<&str> = trial.keys.iter().map(|key| key.as_str()).collect();
    let readings = if keys.is_empty() { "no readings".to_owned() } else { format!("readings: {}", keys.join(", ")) };
    let end = trial.end.as_deref().unwrap_or("It was ended after its time.");
    ui.label(format!("{} steps, {readings}. {end}", trial.steps));
    for warning in &trial.warnings {
        ui.colored_label(palette(ui.visuals()).warning, RichText::new(warning).size(SMALL));
    }
    ScrollArea::vertical().id_salt("what a trial read").max_height(READ_HEIGHT).auto_shrink([false, true]).show(
        ui,
        |ui| {
            for (line, found) in &trial.read {
                ui.horizontal_wrapped(|ui| {
                    ui.label(RichText::new(line.trim()).monospace().size(SMALL));
                    ui.label(RichText::new(format!("→ {found}")).size(SMALL).color(palette(ui.visuals()).accent));
                });
            }
            if trial.read.is_empty() && !trial.output.is_empty() {
                ui.label(muted(ui, "Nothing was read from its output. The last lines:").size(SMALL));
                for line in &trial.output {
                    ui.label(RichText::new(line).monospace().size(SMALL));
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_of_a_command_are_told_apart() {
        let text = "a --x={x} {{b}} {on:--on} {y} {seed} {z";
        let placeholders: Vec<_> =
            pieces(text, &["x", "on"]).into_iter().filter_map(|(range, known)| Some((&text[range], known?))).collect();
        assert_eq!(placeholders, [("{x}", true), ("{on:--on}", true), ("{y}", false), ("{seed}", true)]);
        assert_eq!(pieces(text, &[]).iter().map(|(range, _)| range.len()).sum::<usize>(), text.len());
    }
}
