//! The tables below the rows: the selected event, time by part of all runs, steps, and idle gaps.

use std::collections::BTreeSet;

use eframe::egui::{Align, Color32, Grid, Label, Layout, Role, ScrollArea, TextStyle, Ui, WidgetInfo};
use strum::IntoEnumIterator;

use super::layout::time_text;
use super::{Anchor, Shown, Tab, TimelineCommand, TimelineScreen, canvas, controls, flow};
use crate::app::theme::palette;
use crate::app::widgets::{muted, right, strong};
use crate::app::words::bytes_text;
use crate::figure::{counted, significant};
use crate::plan::groups;
use crate::trace::{Class, CriticalPath, NoSize, Part, PartTime, Split, StepSplit, StepsFrom, over_repeats};

/// The most lines of a table that are drawn.
const MOST_LINES: usize = 200;
/// A coloured square of the legend.
const SQUARE: &str = "■";

/// Draws the tabs and the table of the chosen one.
pub fn tables_ui(ui: &mut Ui, state: &TimelineScreen, commands: &mut Vec<TimelineCommand>) {
    controls::work_ui(ui, state, commands);
    let classes = told_apart(state);
    let beside_tabs = ui.horizontal(|ui| {
        for tab in Tab::iter() {
            let chosen = state.tab == tab;
            let response = ui.selectable_label(chosen, tab.name());
            response.widget_info(|| WidgetInfo::selected(Role::Tab, true, chosen, tab.name()));
            if response.clicked() {
                commands.push(TimelineCommand::Tab(tab));
            }
        }
        let has_room = ui.available_width() >= legend_width(ui, &classes);
        if has_room {
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| legend_ui(ui, &classes));
        }
        has_room
    });
    if !beside_tabs.inner {
        ui.horizontal_wrapped(|ui| legend_ui(ui, &classes));
    }
    ScrollArea::both().id_salt("timeline-table").auto_shrink(false).show(ui, |ui| match state.tab {
        Tab::Event => event_ui(ui, state, commands),
        Tab::Parts => parts_ui(ui, state, commands),
        Tab::Steps => steps_ui(ui, state, commands),
        Tab::Gaps => gaps_ui(ui, state, commands),
        Tab::Communication => communication_ui(ui, state, commands),
        Tab::Path => path_ui(ui, state, commands),
    });
}

/// The classes that occur in the rows and have different colours.
fn told_apart(state: &TimelineScreen) -> Vec<Class> {
    let has_gpus = state.runs.iter().any(|run| run.timeline.rows().iter().any(crate::trace::TimelineRow::is_on_gpu));
    let has_attention = state.runs.iter().any(|run| run.timeline.has(Class::Attention));
    let everywhere = [Class::Load, Class::Communication];
    let on_gpus =
        [Class::Copy, Class::Optimizer, Class::Elementwise, Class::Normalisation, Class::Matrix, Class::Convolution];
    let attention = has_attention.then_some(Class::Attention);
    everywhere.into_iter().chain(on_gpus.into_iter().filter(|_| has_gpus)).chain(attention).collect()
}

/// Width of the legend on one line.
fn legend_width(ui: &Ui, classes: &[Class]) -> f32 {
    let width = |text: &str, style: TextStyle| {
        ui.painter().layout_no_wrap(text.to_owned(), style.resolve(ui.style()), Color32::WHITE).size().x
    };
    let square = width(SQUARE, TextStyle::Body);
    let gaps = 2.0 * ui.spacing().item_spacing.x;
    classes.iter().map(|class| square + width(class.name(), TextStyle::Small) + gaps).sum()
}

/// Draws the colours of classes.
fn legend_ui(ui: &mut Ui, classes: &[Class]) {
    let from_right = ui.layout().prefer_right_to_left();
    let mut classes = classes.to_vec();
    if from_right {
        classes.reverse();
    }
    for class in classes {
        // The square is to the left of its name.
        let color = super::layout::colour(class, ui.visuals());
        if !from_right {
            ui.colored_label(color, SQUARE);
        }
        ui.label(muted(ui, class.name()).small());
        if from_right {
            ui.colored_label(color, SQUARE);
        }
    }
}

fn event_ui(ui: &mut Ui, state: &TimelineScreen, commands: &mut Vec<TimelineCommand>) {
    let Some(pick) = state.selected else {
        ui.label(muted(
            ui,
            "Click an event, or choose a row with ↑ ↓ and step through it with ← →. W S zoom, A D move, Enter shows the selected event, M marks, G aligns, H folds.",
        ));
        return;
    };
    let mut lines = canvas::about(state, &pick).into_iter();
    if let Some(name) = lines.next() {
        ui.add(Label::new(strong(name)).wrap().selectable(true));
    }
    for line in lines {
        ui.add(Label::new(line).selectable(true));
    }
    flow::buttons_ui(ui, state, &pick, commands);
    if let Some(run) = state.runs.get(pick.run).filter(|_| pick.event.item.events == 1) {
        let hover = "Divides this recording into steps: each event of this name begins a step. If it is a range, it is a step itself. The \
                     caveats of the recording say which events divide it.";
        if ui.button("Steps begin at this event").on_hover_text(hover).clicked() {
            let name = run.timeline.name(pick.event.item.label).to_owned();
            commands.push(TimelineCommand::Divide(pick.run, StepsFrom::Named(name)));
        }
    }
    if state.runs.len() > 1 && pick.event.item.events == 1 {
        let hover =
            "Places this event at time 0, and the first event of the same name in each other recording as well (X)";
        if ui.button("Align runs at this event").on_hover_text(hover).clicked() {
            commands.push(TimelineCommand::AlignAtSelected);
        }
    }
}

/// The splits of all runs; `None`, with a message drawn, if there are none yet.
fn splits<'a>(ui: &mut Ui, state: &'a TimelineScreen) -> Option<Vec<(&'a Shown, &'a Split)>> {
    let run_splits: Option<Vec<_>> =
        state.runs.iter().map(|run| Some((run, run.split.as_ref()?.as_ref().ok()?))).collect();
    if run_splits.is_none() {
        ui.label(muted(ui, "Adding up where the time went …"));
    }
    run_splits
}

/// The splits of all runs, if a run has steps; `None`, with a message drawn, if no recording marks steps.
fn splits_of_steps<'a>(ui: &mut Ui, state: &'a TimelineScreen) -> Option<Vec<(&'a Shown, &'a Split)>> {
    let splits = splits(ui, state)?;
    if splits.iter().any(|(_, split)| split.has_steps) {
        return Some(splits);
    }
    ui.label(muted(
        ui,
        "These recordings mark no steps: ranges named step, iteration or ProfilerStep would mark them.",
    ));
    None
}

/// A heading that sorts by its column.
fn heading(ui: &mut Ui, state: &TimelineScreen, column: usize, text: &str, commands: &mut Vec<TimelineCommand>) {
    let arrow = match state.sort {
        (known, up) if known == column => {
            if up {
                " ▲"
            } else {
                " ▼"
            }
        }
        _ => "",
    };
    let response = ui.button(muted(ui, format!("{text}{arrow}")));
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Sort by {text}")));
    if response.clicked() {
        commands.push(TimelineCommand::Sort(column));
    }
}

/// The headings of the columns of all runs, and of their differences from the first one.
fn headings(ui: &mut Ui, state: &TimelineScreen, splits: &[(&Shown, &Split)], commands: &mut Vec<TimelineCommand>) {
    for (place, (run, _)) in splits.iter().enumerate() {
        heading(ui, state, place, &run.name, commands);
    }
    for (place, (run, _)) in splits.iter().enumerate().skip(1) {
        let difference = format!("{} − {}", run.name, splits[0].0.name);
        heading(ui, state, splits.len() + place - 1, &difference, commands);
    }
}

/// A line of a table: its key, and a number for each column.
struct Line<T> {
    key: T,
    numbers: Vec<Option<f64>>,
}

/// Sorts lines by the chosen column, or else by `usual`, in descending order.
fn sort<T>(lines: &mut [Line<T>], sort: (usize, bool), usual: usize) {
    let (column, up) = if sort.0 == usize::MAX { (usual, false) } else { sort };
    let value = |line: &Line<T>| line.numbers.get(column).copied().flatten().map_or(f64::NEG_INFINITY, f64::abs);
    lines.sort_by(|a, b| value(b).total_cmp(&value(a)));
    if up {
        lines.reverse();
    }
}

/// The median time of each part in a step, in milliseconds, and how it differs from the first run's.
fn parts_ui(ui: &mut Ui, state: &TimelineScreen, commands: &mut Vec<TimelineCommand>) {
    let Some(splits) = splits(ui, state) else { return };
    let runs = splits.len();
    let mut lines: Vec<Line<Part>> = Part::iter()
        .map(|part| {
            let times: Vec<Option<f64>> = splits
                .iter()
                .map(|(_, split)| Some(split.part(part).map_or(0.0, |part| part.median_s * 1e3)))
                .collect();
            let first = times.first().copied().flatten();
            let differences = times.iter().skip(1).map(|time| Some(time.as_ref()? - first?));
            let numbers = times.iter().copied().chain(differences).collect();
            Line { key: part, numbers }
        })
        .filter(|line| line.numbers.iter().flatten().any(|number| *number > 0.0))
        .collect();
    sort(&mut lines, state.sort, if runs > 1 { runs } else { 0 });
    let unit = if splits.iter().any(|(_, split)| split.has_steps) { "step" } else { "recording" };
    ui.label(
        muted(
            ui,
            format!(
                "Median time in a {unit}, in ms, over ranks and steps after the warm-up. The parts of a single step add up to its time; \
                     their medians need not."
            ),
        )
        .small(),
    );
    Grid::new("timeline-parts").num_columns(2 * runs + 2).spacing([20.0, 3.0]).striped(true).show(ui, |ui| {
        ui.label(muted(ui, "Part"));
        headings(ui, state, &splits, commands);
        if runs == 1 {
            ui.label(muted(ui, "Share of a step [interval of the median]"))
                .on_hover_text("With six steps or more, the 95 % interval of the median; with fewer, the smallest and the largest share.");
        }
        ui.end_row();
        for line in &lines {
            ui.label(line.key.name());
            for (place, number) in line.numbers.iter().enumerate() {
                number_ui(ui, *number, place >= runs);
            }
            if let (1, Some(time)) = (runs, splits[0].1.part(line.key)) {
                let [share, low, high] =
                    [time.share, time.interval.0, time.interval.1].map(|share| significant(100.0 * share));
                ui.label(format!("{share} % [{low}, {high}]"));
            }
            ui.end_row();
        }
    });
    repeats_ui(ui, &splits);
}

/// Draws the parts over repeats, for each cell with several shown runs.
fn repeats_ui(ui: &mut Ui, splits: &[(&Shown, &Split)]) {
    let with_steps = splits.iter().filter(|(_, split)| split.has_steps);
    let cells = groups(with_steps.filter_map(|(run, split)| Some((run.cell.as_deref()?, *split))));
    for (cell, splits_of_cell) in cells.iter().filter(|(_, splits_of_cell)| splits_of_cell.len() > 1) {
        ui.add_space(6.0);
        ui.label(muted(ui, format!("Over {} repeats of cell {cell}: median of the runs' medians", splits_of_cell.len())).small())
            .on_hover_text(
                "The interval covers 95 % from six repeats on; with fewer repeats it is the range from the smallest to the largest run.",
            );
        let mut parts: Vec<PartTime> = over_repeats(splits_of_cell);
        parts.sort_by(|a, b| b.share.total_cmp(&a.share));
        Grid::new(("timeline-repeats", *cell)).num_columns(3).spacing([20.0, 3.0]).striped(true).show(ui, |ui| {
            for title in ["Part", "ms", "Share of a step [interval]"] {
                ui.label(muted(ui, title));
            }
            ui.end_row();
            for part in &parts {
                ui.label(part.part.name());
                right(ui, significant(part.median_s * 1e3));
                let [share, low, high] =
                    [part.share, part.interval.0, part.interval.1].map(|share| significant(100.0 * share));
                ui.label(format!("{share} % [{low}, {high}]"));
                ui.end_row();
            }
        });
    }
}

/// A number of a table: a difference with its sign.
fn number_ui(ui: &mut Ui, number: Option<f64>, is_difference: bool) {
    let text = number.map_or("–".to_owned(), significant);
    let sign = if is_difference && number.is_some_and(|number| number > 0.0) { "+" } else { "" };
    right(ui, format!("{sign}{text}"));
}

/// A number about a step: its length in ms in a run, or, in the columns after all runs, its difference from the first run's.
fn step_number(steps: &[&[StepSplit]], step: usize, column: usize) -> Option<f64> {
    let length = |run: usize| steps.get(run)?.get(step).map(|step| step.span.1.abs_diff(step.span.0) as f64 / 1e6);
    match column.checked_sub(steps.len()) {
        None => length(column),
        Some(other) => Some(length(other + 1)? - length(0)?),
    }
}

/// The steps that the table shows: the first ones in the chosen order.
pub fn step_order(state: &TimelineScreen) -> Vec<usize> {
    let run_splits = state.runs.iter().filter_map(|run| run.split.as_ref()?.as_ref().ok());
    let steps: Vec<&[StepSplit]> = run_splits.map(Split::first_rank).collect();
    let usual = if steps.len() > 1 { steps.len() } else { 0 };
    let (column, up) = if state.sort.0 == usize::MAX { (usual, false) } else { state.sort };
    let size = |step: usize| step_number(&steps, step, column).map_or(f64::NEG_INFINITY, f64::abs);
    let most = steps.iter().map(|steps| steps.len()).max().unwrap_or(0);
    let mut all: Vec<(f64, usize)> = (0..most).map(|step| (size(step), step)).collect();
    let order = |a: &(f64, usize), b: &(f64, usize)| if up { a.0.total_cmp(&b.0) } else { b.0.total_cmp(&a.0) };
    if all.len() > MOST_LINES {
        all.select_nth_unstable_by(MOST_LINES, order);
        all.truncate(MOST_LINES);
    }
    all.sort_by(order);
    all.into_iter().map(|(_, step)| step).collect()
}

/// Draws the steps of the first rank of each run next to each other.
fn steps_ui(ui: &mut Ui, state: &TimelineScreen, commands: &mut Vec<TimelineCommand>) {
    let Some(splits) = splits_of_steps(ui, state) else { return };
    let steps: Vec<&[StepSplit]> = splits.iter().map(|(_, split)| split.first_rank()).collect();
    let most = steps.iter().map(|steps_of_rank| steps_of_rank.len()).max().unwrap_or(0);
    let runs = steps.len();
    ui.label(
        muted(ui, "Steps of the first rank, in ms; the steps that differ most come first. A click aligns all runs at the step.")
            .small(),
    );
    let marked = splits.iter().filter_map(|(run, _)| Some((run, run.timeline.steps_by()?)));
    let marked: Vec<String> = marked.map(|(run, by)| format!("of {}: {by}", run.name)).collect();
    ui.label(muted(ui, format!("What marks the steps {}.", marked.join("; "))).small());
    Grid::new("timeline-steps").num_columns(2 * runs + 1).spacing([20.0, 3.0]).striped(true).show(ui, |ui| {
        ui.label(muted(ui, "Step"));
        headings(ui, state, &splits, commands);
        ui.label(muted(ui, if runs == 1 { "Longest part" } else { "Differs most in (last run − first)" }));
        ui.end_row();
        for &step in &state.step_order {
            let button = ui.button((step + 1).to_string());
            button.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Show step {}", step + 1)));
            if button.on_hover_text("Show this step in all runs").clicked() {
                let longest = steps
                    .iter()
                    .filter_map(|steps_of_rank| steps_of_rank.get(step))
                    .map(|step| step.span.1 - step.span.0)
                    .max();
                let longest = longest.unwrap_or(1_000_000);
                commands.push(TimelineCommand::Align(Anchor::Step(step + 1)));
                commands.push(TimelineCommand::View(-longest / 5, longest + longest / 10));
            }
            for place in 0..2 * runs - 1 {
                number_ui(ui, step_number(&steps, step, place), place >= runs);
            }
            ui.label(cause(&steps, step));
            ui.end_row();
        }
    });
    if most > state.step_order.len() {
        ui.label(muted(ui, counted(most - state.step_order.len(), "more step")));
    }
}

/// The part in which the last run's step differs most from the first's; for a single run, its largest part.
fn cause(steps: &[&[StepSplit]], step: usize) -> String {
    let (Some(first), Some(last)) = (
        steps.first().and_then(|steps_of_run| steps_of_run.get(step)),
        steps.last().and_then(|steps_of_run| steps_of_run.get(step)),
    ) else {
        return String::new();
    };
    let ms = |step: &StepSplit, part: Part| step.parts[part as usize] as f64 / 1e6;
    if steps.len() == 1 {
        let most = Part::iter().max_by_key(|part| first.parts[*part as usize]);
        return most.map_or(String::new(), |part| format!("{} {} ms", part.name(), significant(ms(first, part))));
    }
    let differs = |part: Part| ms(last, part) - ms(first, part);
    let most = Part::iter().max_by(|a, b| differs(*a).abs().total_cmp(&differs(*b).abs()));
    most.map_or(String::new(), |part| {
        let sign = if differs(part) > 0.0 { "+" } else { "" };
        format!("{} {sign}{} ms", part.name(), significant(differs(part)))
    })
}

/// Draws the longest idle times of GPUs with the host's activity during them.
fn gaps_ui(ui: &mut Ui, state: &TimelineScreen, commands: &mut Vec<TimelineCommand>) {
    let Some(splits) = splits(ui, state) else { return };
    if splits.iter().all(|(_, split)| split.gaps.is_empty()) {
        ui.label(muted(ui, "No idle times of GPUs over 50 µs, or no work of GPUs was recorded."));
        return;
    }
    let bad = palette(ui.visuals()).muted;
    Grid::new("timeline-gaps").num_columns(4).spacing([20.0, 3.0]).striped(true).show(ui, |ui| {
        for title in ["Run", "At", "Length", "What the host did longest"] {
            ui.label(muted(ui, title));
        }
        ui.end_row();
        for (run, split) in &splits {
            for gap in split.gaps.iter().take(MOST_LINES / splits.len()) {
                ui.colored_label(bad, &run.name);
                let (start, end) = (gap.span.0 - run.zero, gap.span.1 - run.zero);
                let at = ui.button(time_text(start));
                at.widget_info(|| {
                    WidgetInfo::labeled(Role::Button, true, format!("Show the gap at {}", time_text(start)))
                });
                if at.on_hover_text("Show it").clicked() {
                    let around = (end - start) / 2;
                    commands.push(TimelineCommand::View(start.saturating_sub(around), end.saturating_add(around)));
                }
                right(ui, time_text(end - start));
                ui.label(gap.cause.name());
                ui.end_row();
            }
        }
    });
}

/// Draws the collectives of all runs: how much of their time is hidden, spent waiting, and exposed.
fn communication_ui(ui: &mut Ui, state: &TimelineScreen, commands: &mut Vec<TimelineCommand>) {
    let Some(splits) = splits(ui, state) else { return };
    if splits.iter().all(|(_, split)| split.collectives.is_empty()) {
        ui.label(muted(ui, "No collectives were recorded."));
        return;
    }
    let note = "Time summed over all ranks, in ms. Hidden: other kernels or copies of the rank ran at the same time; without GPUs, the \
         rank did not wait for it. Waiting: nothing else ran, and the last rank had not begun; this is unknown, and part of exposed, \
         where ranks began different numbers of collectives.";
    ui.label(muted(ui, note).small());
    Grid::new("timeline-communication").num_columns(9).spacing([20.0, 3.0]).striped(true).show(ui, |ui| {
        let titles =
            ["Run", "Collective", "Size", "Calls", "Total", "Hidden", "Waiting for the slowest", "Exposed", "Longest"];
        for title in titles {
            ui.label(muted(ui, title));
        }
        ui.end_row();
        for (run, split) in &splits {
            for collective in &split.collectives {
                ui.label(muted(ui, &run.name));
                ui.label(&collective.name);
                let size = collective.bytes.map(|bytes| bytes_text(bytes as f64));
                let cell = right(ui, size.as_deref().unwrap_or("–"));
                if let Some(no_size) = collective.no_size {
                    cell.on_hover_text(no_size.reason());
                }
                right(ui, collective.calls.to_string());
                right(ui, significant(collective.total_ns as f64 / 1e6));
                for ns in [Some(collective.hidden_ns), collective.waiting_ns, Some(collective.exposed_ns)] {
                    let Some(ns) = ns else {
                        right(ui, "not known");
                        continue;
                    };
                    let share = 100.0 * ns as f64 / collective.total_ns.max(1) as f64;
                    right(ui, format!("{} ({share:.0} %)", significant(ns as f64 / 1e6)));
                }
                let (start, end) = (collective.longest.0 - run.zero, collective.longest.1 - run.zero);
                let name = [Some(collective.name.as_str()), size.as_deref()]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join(" of ");
                show_ui(ui, &format!("Show the longest {name}"), (start, end), time_text(end - start), commands);
                ui.end_row();
            }
        }
    });
    let collectives = splits.iter().flat_map(|(_, split)| &split.collectives);
    let reasons: BTreeSet<NoSize> = collectives.filter_map(|collective| collective.no_size).collect();
    for reason in reasons {
        ui.label(muted(ui, format!("No size: {}.", reason.reason())).small());
    }
}

/// A button that shows a span of time.
fn show_ui(ui: &mut Ui, name: &str, (start, end): (i64, i64), text: String, commands: &mut Vec<TimelineCommand>) {
    let button = ui.button(text);
    button.widget_info(|| WidgetInfo::labeled(Role::Button, true, name));
    if button.on_hover_text("Show it").clicked() {
        let around = (end - start) / 2 + 1;
        commands.push(TimelineCommand::View(start.saturating_sub(around), end.saturating_add(around)));
    }
}

/// Draws the critical path of a step of each run: its parts, and its longest segments.
fn path_ui(ui: &mut Ui, state: &TimelineScreen, commands: &mut Vec<TimelineCommand>) {
    let Some(splits) = splits_of_steps(ui, state) else { return };
    ui.label(
        muted(
            ui,
            "What the end of a step waited for, traced back to the step's beginning. The step is the one at which runs are aligned, or \
                 else the step of median length.",
        )
        .small(),
    );
    for (run, split) in &splits {
        let Some(step) = state.step_of_path(run) else { continue };
        let path = match run.path.as_ref().filter(|(known, _)| *known == step) {
            Some((_, Ok(path))) => path,
            Some((_, Err(error))) => {
                ui.label(error);
                continue;
            }
            None => {
                ui.label(muted(ui, "Following the path …"));
                continue;
            }
        };
        let length: u64 = path.parts.iter().sum();
        let mut parts: Vec<(Part, u64)> = Part::iter().map(|part| (part, path.parts[part as usize])).collect();
        parts.retain(|(_, ns)| *ns > 0);
        parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let share = |ns: u64| 100.0 * ns as f64 / length.max(1) as f64;
        let shares: Vec<String> =
            parts.iter().map(|(part, ns)| format!("{} {:.0} %", CriticalPath::name(*part), share(*ns))).collect();
        let begin = split.first_rank().get(step).map_or(0, |step| step.span.0);
        ui.label(strong(format!("{}, step {}, {}", run.name, step + 1, time_text(length as i64))));
        ui.label(shares.join(", "));
        let mut longest = path.segments.clone();
        longest.sort_by_key(|segment| segment.span.0 - segment.span.1);
        Grid::new(("timeline-path", &run.name)).num_columns(4).spacing([20.0, 3.0]).striped(true).show(ui, |ui| {
            for title in ["In the step at", "Length", "What", "Where"] {
                ui.label(muted(ui, title));
            }
            ui.end_row();
            for segment in longest.iter().take(MOST_LINES / splits.len()) {
                let (start, end) = (segment.span.0 - run.zero, segment.span.1 - run.zero);
                let at = time_text(segment.span.0 - begin);
                show_ui(ui, &format!("Show the stretch at {at}"), (start, end), at, commands);
                right(ui, time_text(end - start));
                ui.label(CriticalPath::name(segment.part));
                ui.label(run.timeline.process_name(segment.process));
                ui.end_row();
            }
        });
    }
}
