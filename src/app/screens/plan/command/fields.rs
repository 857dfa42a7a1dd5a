//! The fields of the form: the command with its placeholders, factors, measures, readings, environment.

use std::ops::Range;
use std::sync::Arc;

use eframe::egui::text::{LayoutJob, TextFormat};
use eframe::egui::{Color32, FontId, Galley, Label, Role, TextBuffer, TextEdit, TextStyle, Ui, WidgetInfo};

use super::trial::trial_ui;
use crate::app::command::Command;
use crate::app::screens::plan::PlanCommand;
use crate::app::screens::plan::View;
use crate::app::screens::plan::list::{
    Asked, Column, Field, FormList, List, NewLine, error_ui, lines_ui, named, part_ui,
};
use crate::app::theme::{GRID, SMALL, palette};
use crate::app::widgets::{card, check_ui, cut_middle, muted, radio_ui, strong, text_field, text_width};
use crate::plan::{Better, Block, CommandTexts, GPUS, Key, Plan};

/// Width of short fields.
const SHORT: f32 = 120.0;
/// Width of the field of a folder, in which its hint fits.
const FOLDER: f32 = 300.0;

/// If less width is left beside that field, its path's beginning is on a line of its own.
const LEAST_BEGIN: f32 = 180.0;

/// Draws the form.
pub(in crate::app::screens::plan) fn command_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let Some(texts) = view.own.texts() else { return };
    let mut asked = Vec::new();
    card(ui).show(ui, |ui| {
        ui.take_available_width();
        ui.horizontal_wrapped(|ui| {
            ui.label(strong("Program"));
            ui.label(
                muted(
                    ui,
                    "{factor} stands for the level of a cell; {switch:--text} adds the text where the switch is on",
                )
                .size(SMALL),
            );
        });
        if let Some(text) = beside_others(view.own.plan()) {
            ui.label(muted(ui, text).size(SMALL));
        }
        let mut edited = texts.clone();
        let known: Vec<&str> = texts.factors.iter().map(|factor| factor.key.as_str()).collect();
        run_ui(ui, &mut edited.run, &known);
        error_ui(ui, view.own.program_error());
        folder_ui(ui, view.own.plan().folder(), &mut edited);
        let [factor, measure] = [FormList::Factors, FormList::Measures].map(|list| view.own.new_line(list));
        let mut of_new_lines = factors_ui(ui, &mut edited, factor);
        part_ui(ui, "Measures", texts.measures.len(), |ui| of_new_lines.extend(measures_ui(ui, &mut edited, measure)));
        let readings = [&texts.patterns, &texts.files, &texts.names].map(|text| text.lines().count());
        part_ui(ui, "Readings", readings.iter().sum(), |ui| readings_ui(ui, &mut edited));
        let set = [&texts.setup, &texts.variables, &texts.time_limit_s, &texts.unit, &texts.step];
        let set = set.map(|text| text.lines().count());
        part_ui(ui, "Set-up, variables and limit", set.iter().sum(), |ui| surroundings_ui(ui, &mut edited));
        if edited != texts {
            asked.push(PlanCommand::Texts(Box::new(edited)));
        }
        // A new item is added to the edited texts.
        asked.extend(of_new_lines);
        ui.add_space(GRID);
        trial_ui(ui, view, &mut asked);
    });
    commands.extend(asked.into_iter().map(Command::from));
}

/// The name of the program of a plan's first block if other blocks have programs, too, and the effect of editing that program.
fn beside_others(plan: &Plan) -> Option<String> {
    let key = |block: &Block| block.spec.command.as_ref().map(|command| command.name.clone());
    let (own, mut others) = (key(&plan.first)?, plan.further.iter().filter_map(key).collect::<Vec<_>>());
    others.sort();
    others.dedup();
    if others.contains(&own) {
        return Some(format!(
            "Other blocks run this program, {own}, too. A change gives this block a program of its own; the others keep theirs."
        ));
    }
    let others = others.iter().map(Key::as_str).collect::<Vec<_>>().join(", ");
    (!others.is_empty()).then(|| format!("This block's program is called {own}. Other blocks run {others}."))
}

/// The command, with its placeholders in colour.
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
    let field = ui
        .add(field)
        .on_hover_text("The program and its arguments. They are not passed to a shell; quotes keep words together.");
    named(&field, "Command", run);
}

fn append(job: &mut LayoutJob, text: &str, font: &FontId, colour: Color32) {
    job.append(text, 0.0, TextFormat::simple(font.clone(), colour));
}

/// The parts of a command: text, and placeholders with whether their names are known.
fn pieces(text: &str, known: &[&str]) -> Vec<(Range<usize>, Option<bool>)> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    while let Some(open) = text[at..].find('{').map(|open| at + open) {
        let Some(close) = text[open..].find('}').map(|close| open + close + 1) else { break };
        // `{{` is a literal brace.
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

/// The first placeholder in the command that names no factor of the program.
pub(super) fn unknown_placeholder(texts: &CommandTexts) -> Option<String> {
    let known: Vec<&str> = texts.factors.iter().map(|factor| factor.key.as_str()).collect();
    let (range, _) = pieces(&texts.run, &known).into_iter().find(|(_, is_known)| *is_known == Some(false))?;
    Some(texts.run[range].trim_matches(['{', '}']).split(':').next().unwrap_or("").to_owned())
}

/// A field of one line with its label.
fn field_ui(ui: &mut Ui, label: &str, name: &str, text: &mut String, hint: &str, width: f32, help: &str) {
    let label = ui.label(label);
    let field = ui.add(text_field(text, hint, width)).labelled_by(label.id);
    named(&field, name, text);
    if !help.is_empty() {
        field.on_hover_text(help);
    }
}

fn folder_ui(ui: &mut Ui, base: Option<&str>, texts: &mut CommandTexts) {
    ui.horizontal_wrapped(|ui| {
        let hint = if base.is_some() { "the folder of the plan" } else { "the folder where multicard was started" };
        field_ui(ui, "Folder", "Folder of the program", &mut texts.folder, hint, FOLDER, "");
        begin_ui(ui, base);
    });
}

/// Says in one line where a relative path of the program's folder begins.
fn begin_ui(ui: &mut Ui, base: Option<&str>) {
    let left = ui.available_size_before_wrap().x;
    let line = if left < LEAST_BEGIN { ui.max_rect().width() } else { left };
    let (text, whole) = match base {
        Some(base) => {
            let base_shown = cut_middle(ui, base, line - text_width(ui, "relative to "));
            (format!("relative to {base_shown}"), format!("A relative path begins at {base}"))
        }
        None => (
            "relative to the plan's folder".to_owned(),
            "Once the plan is saved, a relative path begins at the plan's folder".to_owned(),
        ),
    };
    let label = ui.add(Label::new(muted(ui, text).size(SMALL)).extend()).on_hover_text(whole.as_str());
    label.widget_info(|| WidgetInfo::labeled(Role::Label, true, &whole));
}

/// The factors with their levels, and a line for a new one.
fn factors_ui(ui: &mut Ui, texts: &mut CommandTexts, new: NewLine) -> Vec<PlanCommand> {
    let list = List::growing(FormList::Factors, new);
    let lines = texts
        .factors
        .iter_mut()
        .map(|factor| (factor.key.clone(), vec![Field::Fixed(&factor.key), Field::Text(&mut factor.levels)]));
    let lines = lines.collect();
    let Asked { removed, commands } = list.ui(ui, lines, |_, _| {});
    if let Some(place) = removed {
        *texts = std::mem::take(texts).without_factor(place);
    }
    if texts.uses_no_gpu() || !texts.has_gpus() {
        let mut uses_none = texts.uses_no_gpu();
        let help = "gpus = 0: runs of the program get no GPU, even if the machine has some. Otherwise a run gets one GPU, or as many as \
             the factor gpus says.";
        if check_ui(ui, &mut uses_none, "uses no GPU").on_hover_text(help).changed() {
            let place = texts.factors.iter().position(|factor| factor.key == GPUS);
            *texts = match place {
                Some(place) => std::mem::take(texts).without_factor(place),
                None => std::mem::take(texts).with_factor(GPUS, "0"),
            };
        }
    }
    if !texts.factors.is_empty() {
        part_ui(ui, "Names, units and help of factors", 0, |ui| factor_names_ui(ui, texts));
    }
    commands
}

/// Draws the names, units and help of the factors.
fn factor_names_ui(ui: &mut Ui, texts: &mut CommandTexts) {
    let column = |name, share| Column { name, head: name, share, hint: "", required: false };
    let columns = [
        Column { head: "Factor", ..column("Factor", 0.2) },
        column("Name", 0.3),
        column("Unit", 0.15),
        Column { head: "Help: what the factor changes", ..column("Help", 0.35) },
    ];
    let lines = texts.factors.iter_mut().map(|factor| {
        let fields = [&mut factor.name, &mut factor.unit, &mut factor.help].map(Field::Text);
        (factor.key.clone(), std::iter::once(Field::Fixed(&factor.key)).chain(fields).collect())
    });
    let lines = lines.collect();
    List::fixed(&columns).ui(ui, lines, |_, _| {});
}

/// Draws the measures that readings belong to.
fn measures_ui(ui: &mut Ui, texts: &mut CommandTexts, new: NewLine) -> Vec<PlanCommand> {
    let list = List::growing(FormList::Measures, new);
    let mut kinds: Vec<(String, Better, bool)> =
        texts.measures.iter().map(|measure| (measure.key.clone(), measure.better, measure.on_speed)).collect();
    let lines = texts.measures.iter_mut().map(|measure| {
        let fields = [&mut measure.name, &mut measure.unit].map(Field::Text);
        (measure.key.clone(), std::iter::once(Field::Fixed(&measure.key)).chain(fields).collect())
    });
    let lines = lines.collect();
    let Asked { removed, commands } = list.ui(ui, lines, |ui, place| {
        let (key, better, on_speed) = &mut kinds[place];
        ui.horizontal_wrapped(|ui| {
            ui.label(muted(ui, "better").size(SMALL));
            for (one, name) in [(Better::Lower, "lower"), (Better::Higher, "higher"), (Better::Neither, "neither")] {
                let chosen = *better == one;
                let radio = radio_ui(ui, chosen, true, name);
                let name = format!("Better {name} {key}");
                radio.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, chosen, &name));
                if radio.clicked() {
                    *better = one;
                }
            }
            let help = "If ticked, runs that were throttled or shared the machine are left out of this measure, as they are left out of \
                 rates";
            check_ui(ui, on_speed, "depends on the speed of the machine").on_hover_text(help);
        });
    });
    for (measure, (_, better, on_speed)) in texts.measures.iter_mut().zip(kinds) {
        (measure.better, measure.on_speed) = (better, on_speed);
    }
    if let Some(place) = removed {
        texts.measures.remove(place);
    }
    commands
}

/// Draws the sources of readings.
fn readings_ui(ui: &mut Ui, texts: &mut CommandTexts) {
    lines_ui(
        ui,
        "Patterns for the output",
        &mut texts.patterns,
        r"step (?<step>\d+) loss (?<loss>\S+)",
        "Regular expressions with named groups, one a line: step, loss, units, duration_s; other names are readings",
    );
    lines_ui(
        ui,
        "Files that the program writes",
        &mut texts.files,
        "{run_folder}/metrics.csv",
        "CSV, JSON Lines, or a folder of TensorBoard's event files with / at its end; one on each line",
    );
    lines_ui(
        ui,
        "What the program's names mean",
        &mut texts.names,
        "train/loss = loss",
        "NAME = MEANING, one on each line: a name that the program uses in these files, and the measure or the field \
         (loss, step, …) that it stands for",
    );
    let help = "If this is off, the number of warm-up steps in Details is left out of statistics";
    check_ui(ui, &mut texts.finds_warm_up, "warm-up ends when step times have settled").on_hover_text(help);
    ui.label(
        muted(ui, "Without patterns and files, multicard searches the output for readings. multicard help readings")
            .size(SMALL),
    );
}

/// Draws the set-up, the environment variables, the time limit, and the words for units and steps.
fn surroundings_ui(ui: &mut Ui, texts: &mut CommandTexts) {
    lines_ui(
        ui,
        "Set-up, before runs",
        &mut texts.setup,
        "make",
        "A program that runs before the first run of a session, and again before a run if the last set-up of its folder was \
         another one; if it fails, the run fails",
    );
    lines_ui(
        ui,
        "Variables",
        &mut texts.variables,
        "NAME=text",
        "Environment variables for the program, one on each line; placeholders are filled",
    );
    ui.horizontal_wrapped(|ui| {
        let help = "A run that takes longer is ended and counts as failed";
        field_ui(ui, "Time limit", "Time limit of the program", &mut texts.time_limit_s, "none", SHORT, help);
        ui.label("s");
    });
    ui.horizontal_wrapped(|ui| {
        field_ui(ui, "Counts", "Unit of the program", &mut texts.unit, "units", SHORT, "images, tokens, rows");
        field_ui(ui, "in each", "Step of the program", &mut texts.step, "step", SHORT, "step, iteration, pass");
    });
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
