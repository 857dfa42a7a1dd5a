//! Effects of levels on a measure, averaged over all other settings: as dots in rows, as a tornado with interactions of two factors, as
//! lines that are parallel if there is no interaction, and as a table with each effect in words.

use super::arrange::place_of;
use super::colours::Colours;
use super::crowded::MOST_PLACES;
use super::{Scene, level_name, shown_measure};
use crate::analysis::{
    Cell, Change, Effect, Effects, Intervals, Level, MOST_INTERACTIONS, Measure, Mixed, Reading, Setting, Value,
    Verdict, counted, effects, mean_cells, measure_of,
};
use crate::figure::baseline::Baseline;
use crate::figure::chart::{Axis, Chart, Geometry, Look, Point, Scale, Series, panel_of};
use crate::figure::notes::notes;
use crate::figure::number::{capitalised, significant};
use crate::figure::ratio::{by_repeat, scaled};
use crate::figure::study::{Place, RATIO, Study, VERDICT};
use crate::figure::table::{CellValue, Column, Row, Table};
use crate::figure::verdict_notes::verdict_notes;
use crate::plan::groups;

/// Maximum number of rows of a tornado.
const ROWS: usize = 20;
/// Maximum number of pairs of factors whose interaction is drawn.
const PAIRS: usize = 4;
/// The note in place of a plot of interactions.
const NO_PLOT: &str = "No plot: it needs cells for all four combinations of two levels of two factors, with the other factors at the \
                       same levels. Run such cells, or see the table.";
/// Maximum number of effects that are named after the effect that they are mixed with.
const NAMED: usize = 3;
/// Maximum number of effects that are named because they could not be computed.
const NAMED_WITHOUT: usize = 8;

/// The effects on a study's measure in `cells`, which are a part of `all`. Effects in cells that a filter hides were tested, too, so the
/// correction for the number of tests counts them.
fn effects_of(study: &Study, cells: &[Cell], all: &[Cell], intervals: Intervals) -> Effects {
    let key = study.own_measure();
    let measure = measure_of(cells, key);
    let reading = Reading {
        measure: key,
        inverse: measure.is_some_and(Measure::is_time),
        of_speed: measure.is_some_and(Measure::is_speed),
        equal_within: study.equal_within,
        intervals,
        others: 0,
    };
    let values = |cell: &Cell| by_repeat(cell, key);
    let shown = effects(cells, &values, reading);
    if cells.len() == all.len() {
        return shown;
    }
    let others = effects(all, &values, reading).computed.len().saturating_sub(shown.computed.len());
    effects(cells, &values, Reading { others, ..reading })
}

/// The effects sorted by size, regardless of their direction; those without a value come last.
fn ranked(mut effects: Vec<Effect>) -> Vec<Effect> {
    let size = |effect: &Effect| effect.value.map_or(f64::NEG_INFINITY, |value| value.median.ln().abs());
    effects.sort_by(|a, b| size(b).total_cmp(&size(a)));
    effects
}

fn change_name(change: &Change) -> String {
    format!("{} over {}", level_name(&change.setting, &change.level), change.base)
}

/// The name of changes: `fp16 over fp32`, or `fp16 over fp32 × 2 GPUs over 1`.
fn changes_name(changes: &[Change]) -> String {
    changes.iter().map(change_name).collect::<Vec<_>>().join(" × ")
}

/// The name of an effect: that of its changes; with ` + Layout × GPUs` if a design does not separate it from that.
fn name(effect: &Effect) -> String {
    changes_name(&effect.changes) + &mixed_name(effect)
}

/// The note on effects that could not be computed, given by their changes, with the reason and what to do; `None` if there are none.
fn without_value(effects: &[&[Change]], reason: &str, advice: &str) -> Option<String> {
    let mut names: Vec<String> = effects.iter().take(NAMED_WITHOUT).map(|one| changes_name(one)).collect();
    match effects.len().saturating_sub(NAMED_WITHOUT) {
        0 => {}
        more => names.push(format!("{more} more")),
    }
    (!names.is_empty()).then(|| {
        let count = counted(effects.len(), "effect");
        format!("without a value, because {reason}: {count} ({}); {advice}", names.join(", "))
    })
}

/// The note on effects without a value that could be compared, given by their changes; `None` if there are none.
fn not_computed(without_repeats: &[Vec<Change>]) -> Option<String> {
    let effects: Vec<&[Change]> = without_repeats.iter().map(Vec::as_slice).collect();
    let reason = "no repeat has finished in all cells that the effect compares";
    without_value(&effects, reason, "run the missing repeats")
}

/// The notes of a chart on the effects that it cannot draw, as sentences: those that [`not_computed`] names, and those that are not comparable,
/// one note for each reason.
fn not_drawn(without_repeats: &[Vec<Change>], incomparable: &[Effect]) -> Vec<String> {
    let reasons = incomparable.iter().filter_map(|effect| Some((effect.judgement.reason.as_ref()?, effect)));
    let reasons = reasons.map(|(why, effect)| ((why.name(), why.advice()), (why, effect.changes.as_slice())));
    let mut notes: Vec<String> = not_computed(without_repeats).into_iter().collect();
    for ((_, advice), effects) in groups(reasons) {
        let (reasons, changes): (Vec<_>, Vec<_>) = effects.into_iter().unzip();
        notes.extend(without_value(&changes, &reasons[0].to_string(), advice));
    }
    notes.iter().map(|note| capitalised(note) + ".").collect()
}

/// The effects that have a value, and the others.
fn with_values(effects: Vec<Effect>) -> (Vec<Effect>, Vec<Effect>) {
    effects.into_iter().partition(|effect| effect.value.is_some())
}

/// The effects that an effect is mixed with, as a part of its name: ` + Layout × GPUs − 0.33 Precision × GPUs + 4 more`.
fn mixed_name(effect: &Effect) -> String {
    let mixed = effect.fitted.as_ref().map_or(&[][..], |fitted| &fitted.mixed);
    let one = |mixed: &Mixed| {
        let sign = if mixed.share < 0.0 { "−" } else { "+" };
        let share = if is_whole(mixed) { String::new() } else { format!("{:.2} ", mixed.share.abs()) };
        format!(" {sign} {share}{}", settings_name(mixed))
    };
    let more = match mixed.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" + {more} more"),
    };
    mixed.iter().take(NAMED).map(one).collect::<String>() + &more
}

/// Whether the two effects cannot be separated at all.
fn is_whole(mixed: &Mixed) -> bool {
    mixed.share.abs() > 0.995
}

fn settings_name(mixed: &Mixed) -> String {
    mixed.settings.iter().map(|setting| &*setting.name).collect::<Vec<_>>().join(" × ")
}

/// The name of an effect's row in a chart, which is shorter for interactions.
fn row_name(effect: &Effect) -> String {
    match effect.changes.as_slice() {
        [_] => name(effect),
        changes => {
            let levels: Vec<String> = changes.iter().map(|one| level_name(&one.setting, &one.level)).collect();
            levels.join(" × ") + &mixed_name(effect)
        }
    }
}

/// An effect as a part of a sentence.
fn words(effect: &Effect, value: Value, measure: &str) -> String {
    let times = format!("{} times", significant(value.median));
    let of_speed = measure.is_empty();
    let undecided = if effect.judgement.verdict == Verdict::Undecided {
        "; these repeats do not decide whether that is so"
    } else {
        ""
    };
    let equal = effect.judgement.verdict == Verdict::Equal;
    let level = |change: &Change| level_name(&change.setting, &change.level);
    let base = |change: &Change| level_name(&change.setting, &change.base);
    let text = match effect.changes.as_slice() {
        [one] if equal && of_speed => format!("{} is as fast as {}", level(one), base(one)),
        [one] if equal => format!("{} has the {measure} of {}", level(one), base(one)),
        [one] if of_speed => format!("{} is {times} as fast as {}", level(one), base(one)),
        [one] => format!("{} has {times} the {measure} of {}", level(one), base(one)),
        [first, second, ..] => {
            let (effect, with) = (format!("the effect of {}", change_name(first)), level(second));
            if equal {
                format!("{effect} is the same with {with} as with {}", base(second))
            } else {
                format!("with {with}, {effect} is {times} that with {}", base(second))
            }
        }
        [] => String::new(),
    };
    let mixed = effect.fitted.as_ref().map_or(&[][..], |fitted| &fitted.mixed);
    let mixture = match mixed {
        [] => String::new(),
        [one, ..] if is_whole(one) => {
            let names: Vec<String> = mixed.iter().filter(|one| is_whole(one)).take(NAMED).map(settings_name).collect();
            format!(", if nothing of this is due to {}: the design does not tell them apart", names.join(" or "))
        }
        several => format!(", apart from shares of {} other effects that the design mixes in", several.len()),
    };
    text + &mixture + undecided
}

/// The effects as rows, the largest first.
pub(super) fn table(study: &Study, cells: &[Cell], baseline: &Baseline) -> Table {
    let text = |key: &str, name: &str| Column::plain(key, name, "");
    let measure = measure_of(cells, study.own_measure());
    let of_speed = measure.is_some_and(Measure::is_speed);
    let name_of_measure = measure.map_or(String::new(), |measure| measure.name.clone());
    let ratio =
        if of_speed { format!("{name_of_measure}: times as fast") } else { format!("{name_of_measure}: ratio") };
    let Effects { computed, without_repeats } = effects_of(study, cells, baseline.among, Intervals::ByCount);
    let (ranked_effects, without) = (ranked(computed), not_computed(&without_repeats));
    let is_fitted = ranked_effects.iter().any(|effect| effect.fitted.is_some());
    let columns = vec![
        text("effect", "Effect of"),
        text("change", "Change"),
        Column { is_measure: true, ..Column::plain(RATIO, &ratio, "×") },
        text(VERDICT, "Verdict"),
        text("groups", if is_fitted { "Cells" } else { "Groups of cells" }),
        text("words", "In words"),
    ];
    let in_words = if of_speed { String::new() } else { name_of_measure.to_lowercase() };
    let row = |effect: Effect| {
        let settings: Vec<&str> = effect.changes.iter().map(|change| &*change.setting.name).collect();
        let settings = settings.join(" × ") + &mixed_name(&effect);
        let values = vec![
            CellValue::Text(settings),
            CellValue::Text(name(&effect)),
            effect.value.map_or(CellValue::Missing, CellValue::Measure),
            CellValue::Verdict(Box::new(effect.judgement.clone())),
            CellValue::Count(effect.groups as u64),
            effect.value.map_or(CellValue::Missing, |value| CellValue::Text(words(&effect, value, &in_words))),
        ];
        Row::of_no_cell(effect.value.map_or(0, |value| value.n), values)
    };
    let effects: Vec<(usize, usize)> =
        ranked_effects.iter().filter_map(|effect| Some((effect.value?.n, effect.repeats_seen))).collect();
    let rows: Vec<Row> = ranked_effects.into_iter().map(row).collect();
    let mut notes = notes(study, cells, &[], &rows, baseline);
    if rows.is_empty() {
        notes.push(without.unwrap_or_else(nothing));
    } else {
        // First of all but what is held.
        let place = notes.iter().position(|note| note.starts_with("held: ")).map_or(0, |held| held + 1);
        notes.insert(place, how(is_fitted));
        let incomplete = effects.iter().filter(|effect| effect.0 < effect.1).count();
        let blocks = (incomplete > 0).then(|| {
            format!(
                "{} on fewer repeats than were run: only repeats that all cells of all groups have are used",
                match incomplete {
                    1 => "1 effect rests".to_owned(),
                    count => format!("{count} effects rest"),
                }
            )
        });
        let rest = verdict_notes(cells, &columns, &rows).into_iter().chain(blocks).chain(without);
        notes.splice(place + 1..place + 1, rest);
        if rows.len() >= MOST_INTERACTIONS {
            notes.push(format!("interactions beyond the first {MOST_INTERACTIONS} are left out: filter to see others"));
        }
    }
    Table { study: study.name.clone(), columns, rows, lead: notes.clone(), notes }
}

fn nothing() -> String {
    "No two cells with finished runs differ in only one setting: tick two levels of a factor.".to_owned()
}

fn how(is_fitted: bool) -> String {
    if is_fitted {
        return "the plan's design chose some of all combinations: effects are fitted to the logarithms of its cells by least squares, \
                their intervals are over repeats; effects that are joined by + or − are not told apart by these cells, and the ratio is \
                that of the first if the others are 1"
            .to_owned();
    }
    "an effect compares cells that differ in one setting only: it is the geometric mean of their ratios, with an interval over repeats; \
     an interaction compares one change's effect with and without the other change; 1 means that neither influences the other"
        .to_owned()
}

/// The main effects by factor, as dots; or all effects and interactions, the largest first, as bars from 1.
pub(super) fn chart(scene: &Scene, with_interactions: bool) -> Chart {
    let metric = scene.study.own_measure();
    let measure = shown_measure(scene, metric).0;
    let of_speed = measure_of(scene.cells, metric).is_some_and(Measure::is_speed);
    let geometry = if with_interactions { Geometry::Tornado } else { Geometry::Effects };
    let y = Axis::new(if of_speed { format!("{measure}: times as fast") } else { format!("{measure}: ratio") }, "×");
    let title = format!("Effects on {}", measure.to_lowercase());
    let mut chart = Chart::new(title, geometry, Axis::new("Level", ""), y);
    let panel = panel_of(&mut chart.panels, String::new());
    let Effects { computed, mut without_repeats } = effects_of(scene.study, scene.cells, scene.all, scene.intervals);
    let (mut effects, mut incomparable) = with_values(computed);
    if with_interactions {
        effects = ranked(effects);
        if effects.len() > ROWS {
            chart.notes.push(format!("The {ROWS} largest of {} effects are drawn; the table has all.", effects.len()));
            effects.truncate(ROWS);
        }
    } else {
        effects.retain(|effect| effect.changes.len() == 1);
        incomparable.retain(|effect| effect.changes.len() == 1);
        without_repeats.retain(|changes| changes.len() == 1);
        if effects.len() > MOST_PLACES {
            let why = format!(
                "{} effects are more than can be shown next to each other ({MOST_PLACES} at most): --form tornado (\"Tornado\" in the window) \
                 shows the largest; the table has all",
                effects.len()
            );
            let notes = vec![capitalised(&why) + "."];
            return Chart { panels: Vec::new(), notes, crowded: Some(why), ..chart };
        }
    }
    let mut ends = (1.0_f64, 1.0_f64);
    for (effect, value) in effects.iter().filter_map(|effect| Some((effect, effect.value?))) {
        let row = place_of(&mut chart.x.categories, row_name(effect));
        let interval = value.interval.map_or([value.median; 2], |ends| [ends.low, ends.high]);
        ends = (ends.0.min(interval[0]), ends.1.max(interval[1]));
        let points = vec![Point { x: row as f64, across: None, value, ratio: None, cell: None }];
        // The same name as in the table. Grey, because levels of different factors share colours, and each row has its name.
        panel.series.push(Series { points, ..Series::measured(name(effect), Look::Grey) });
    }
    // On this axis, twice and half are equally far from 1.
    if with_interactions || ends.0 > 0.0 && ends.1 / ends.0 > 1.5 {
        chart.y.scale = Scale::Log;
    }
    let without = not_drawn(&without_repeats, &incomparable);
    if !effects.is_empty() {
        let is_fitted = effects.iter().any(|effect| effect.fitted.is_some());
        chart.notes.push(capitalised(&how(is_fitted)) + ".");
    } else if without.is_empty() {
        chart.notes.push(nothing());
    }
    chart.notes.extend(without);
    chart
}

/// The measure over the levels of one factor, with a line for each level of another, averaged over all other factors: one chart for each
/// of the pairs of factors that interact most, or for the pair that the study puts on rows and colour.
pub(super) fn interactions(scene: &Scene) -> Vec<Chart> {
    let metric = scene.study.own_measure();
    let Effects { computed, mut without_repeats } = effects_of(scene.study, scene.cells, scene.all, scene.intervals);
    let (effects, mut incomparable) = with_values(ranked(computed));
    incomparable.retain(|effect| effect.changes.len() > 1);
    without_repeats.retain(|changes| changes.len() > 1);
    let without = not_drawn(&without_repeats, &incomparable);
    let mut pairs: Vec<(Setting, Setting)> = Vec::new();
    for effect in &effects {
        if let [first, second] = effect.changes.as_slice() {
            let pair = (first.setting.clone(), second.setting.clone());
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
    }
    if let (Place::Setting(rows), Place::Setting(colour)) = (&scene.study.rows, &scene.study.colour) {
        let is_asked = |a: &Setting, b: &Setting| a.key == *rows && b.key == *colour;
        pairs.retain(|(a, b)| is_asked(a, b) || is_asked(b, a));
        pairs.iter_mut().filter(|(a, _)| a.key != *rows).for_each(|pair| std::mem::swap(&mut pair.0, &mut pair.1));
    }
    let count = pairs.len();
    pairs.truncate(PAIRS);
    let mut charts: Vec<Chart> = pairs.iter().map(|pair| interaction(scene, metric, pair)).collect();
    charts.retain(|chart| !chart.is_empty());
    let mut note = "Each point is the geometric mean over all combinations of the other factors that every level has; lines that are \
                    not parallel on a logarithmic axis show an interaction."
        .to_owned();
    if count > PAIRS {
        note += &format!(
            " Drawn are the {PAIRS} of {count} pairs of factors that interact most: choose rows and colour for another."
        );
    }
    match charts.first_mut() {
        Some(chart) => chart.notes.extend(std::iter::once(note).chain(without)),
        None => charts.push(Chart {
            notes: if without.is_empty() { vec![NO_PLOT.to_owned()] } else { without },
            ..Chart::new("Interactions", Geometry::Profile, Axis::default(), Axis::default())
        }),
    }
    charts
}

fn interaction(scene: &Scene, metric: &str, (first, second): &(Setting, Setting)) -> Chart {
    let (measure, unit, factor) = shown_measure(scene, metric);
    let values = |cell: &Cell| by_repeat(cell, metric);
    let y = Axis { scale: Scale::Log, ..Axis::new(measure, unit) };
    let title = format!("{} × {}", first.name, second.name);
    let mut chart = Chart::new(title, Geometry::Profile, Axis::new(&*first.name, &*first.unit), y);
    let panel = panel_of(&mut chart.panels, String::new());
    let colours = Colours::among(Some(scene.study.own(second.clone())), scene.known);
    let mut drawn: [Vec<Level>; 2] = Default::default();
    for mean in mean_cells(scene.cells, &values, (&first.key, &second.key), scene.intervals) {
        drawn[0].push(mean.first.clone());
        drawn[1].push(mean.second.clone());
        let x = place_of(&mut chart.x.categories, level_name(first, &mean.first)) as f64;
        let name = level_name(second, &mean.second);
        let series = panel.series_of(name, |_| colours.look(|_| Some(mean.second.clone())));
        let value: Value = scaled(mean.value, factor);
        series.points.push(Point { x, across: None, value, ratio: None, cell: None });
    }
    let with_values = scene.cells.iter().filter(|cell| !values(cell).is_empty());
    let mut left_out: Vec<String> = Vec::new();
    for cell in with_values {
        for (setting, levels) in [first, second].into_iter().zip(&drawn) {
            let level = cell.level(&setting.key).filter(|level| !levels.contains(level));
            if let Some(name) = level.map(|level| level_name(setting, &level))
                && !left_out.contains(&name)
            {
                left_out.push(name);
            }
        }
    }
    if !chart.is_empty() && !left_out.is_empty() {
        let names = left_out.join(", ");
        chart.notes.push(format!("Without {names}: cells for some levels of the other factor are missing."));
    }
    chart
}
