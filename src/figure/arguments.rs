//! Command-line arguments for a study, so that what is on screen can be repeated in a terminal or a script.

use strum::EnumMessage;

use super::overrides::{AxisOverride, LegendPlace, LevelOverride};
use super::percent::percent_of;
use super::saved::{SavedStudy, find_study};
use super::study::{Limits, Runs, Study};
use crate::plan::Key;
use crate::plan::filter::quoted;

/// The arguments of `multicard table` and `multicard figure` that select a study of a session; `saved` are the studies that the session
/// stores. Style and changes to the figure are not included: see [`override_words`].
///
/// # Errors
/// The arguments cannot express the study, so it must be saved first.
pub fn arguments(study: &Study, saved: &[SavedStudy]) -> Result<Vec<String>, String> {
    let mut arguments = Vec::new();
    let mut add = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
    let named = Some(&study.name).filter(|name| !name.is_empty()).and_then(|name| find_study(saved, name).ok());
    let is_named = named.is_some();
    let mut asked = named.unwrap_or_default();
    if is_named {
        add("study", study.name.clone());
    }
    if !is_named || study.form != asked.form {
        add("form", variant(&study.form));
        asked.form = study.form;
    }
    let filter = filter_of(study);
    if filter != filter_of(&asked) && !filter.is_empty() {
        add("filter", filter);
        (asked.filter, asked.hidden, asked.held) = (study.filter.clone(), study.hidden.clone(), study.held.clone());
    }
    if let Some(measure) = study.measure.clone().filter(|_| study.measure != asked.measure) {
        add("measure", measure.to_string());
        asked.measure = Some(measure);
    }
    if let Some(baseline) = study.baseline.clone().filter(|_| study.baseline != asked.baseline) {
        add("baseline", baseline.clone());
        asked.baseline = Some(baseline);
    }
    let Limits { memory_bytes, accuracy } = study.limits;
    if let Some(bytes) = memory_bytes.filter(|_| memory_bytes != asked.limits.memory_bytes) {
        add("max-memory", (bytes / 1e9).to_string());
        asked.limits.memory_bytes = memory_bytes;
    }
    if let Some(share) = accuracy.filter(|_| accuracy != asked.limits.accuracy) {
        add("min-accuracy", format!("{}%", percent_of(share)));
        asked.limits.accuracy = accuracy;
    }
    if study.equal_within != asked.equal_within {
        add("equal-within", format!("{}%", percent_of(study.equal_within)));
        asked.equal_within = study.equal_within;
    }
    if study.pool != asked.pool {
        add("pool", study.pool.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        asked.pool.clone_from(&study.pool);
    }
    for (name, place, known) in [
        ("rows", &study.rows, &mut asked.rows),
        ("columns", &study.columns, &mut asked.columns),
        ("colour", &study.colour, &mut asked.colour),
    ] {
        if place != known {
            add(name, Key::from(place.clone()).to_string());
            known.clone_from(place);
        }
    }
    of_axes(study, &mut asked).into_iter().for_each(|(name, word)| add(name, word));
    if study.metrics != asked.metrics && !study.metrics.is_empty() {
        add("metrics", study.metrics.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        asked.metrics.clone_from(&study.metrics);
    }
    if study.metric_unit != asked.metric_unit {
        add("metric-unit", variant(&study.metric_unit));
        asked.metric_unit = study.metric_unit;
    }
    if study.runs == Runs::All && asked.runs == Runs::Plain {
        arguments.push("--traced".to_owned());
        asked.runs = Runs::All;
    }
    if study.log && !asked.log {
        arguments.push("--log".to_owned());
        asked.log = true;
    }
    let Study { name, about, style, overrides, .. } = study.clone();
    if (Study { name, about, style, overrides, ..asked }) == *study {
        Ok(arguments)
    } else {
        Err("no command line can express all of this: save it as a study first".to_owned())
    }
}

/// The arguments of the horizontal axes of losses, of `scatter` and of `history`, as names and values. `asked` then has these axes.
fn of_axes(study: &Study, asked: &mut Study) -> Vec<(&'static str, String)> {
    let mut words = Vec::new();
    if study.over != asked.over {
        words.push(("over", variant(&study.over)));
        asked.over = study.over;
    }
    if let Some(across) = study.across.clone().filter(|_| study.across != asked.across) {
        words.push(("across", across.to_string()));
        asked.across = Some(across);
    }
    if study.law != asked.law {
        words.push(("law", variant(&study.law)));
        asked.law = study.law;
    }
    if study.along != asked.along {
        words.push(("along", variant(&study.along)));
        asked.along = study.along;
    }
    words
}

/// The arguments of `multicard figure` for an author's changes to a study's figure, including the order of levels.
///
/// # Errors
/// The arguments cannot express all changes; the figure's file contains them.
pub fn override_words(study: &Study) -> Result<Vec<String>, String> {
    let overrides = &study.overrides;
    let mut words: Vec<String> = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        words.extend(value.into_iter().flat_map(|value| [format!("--{name}"), value]));
    };
    for (key, levels) in &study.order {
        let levels: Vec<String> = levels.iter().map(ToString::to_string).collect();
        add("order", Some(format!("{key}={}", levels.join(","))));
    }
    for LevelOverride { level, label, colour, hatch, marker, dash } in &overrides.levels {
        let of_level = |value: Option<String>| value.map(|value| format!("{level}={value}"));
        add("label", of_level(label.clone()));
        add("level-colour", of_level(colour.clone()));
        add("hatch", of_level(hatch.as_ref().map(variant)));
        add("marker", of_level(marker.as_ref().map(variant)));
        add("dash", of_level(dash.as_ref().map(variant)));
    }
    for AxisOverride { axis, chart, name, unit, low, high, ticks, tick_count, log } in &overrides.axes {
        let of_chart = |value: Option<String>| {
            value.map(|value| if chart.0 == 1 { value } else { format!("{}:{value}", chart.0) })
        };
        let number = |end: &Option<f64>| end.map_or(String::new(), |end| end.to_string());
        let ends = (low.is_some() || high.is_some()).then(|| format!("{},{}", number(low), number(high)));
        let ticks: Vec<String> = ticks.iter().map(ToString::to_string).collect();
        add(&format!("{axis}-name"), of_chart(name.clone()));
        add(&format!("{axis}-unit"), of_chart(unit.clone()));
        add(&format!("{axis}-limits"), of_chart(ends));
        add(&format!("{axis}-ticks"), of_chart(Some(ticks.join(",")).filter(|ticks| !ticks.is_empty())));
        add(&format!("{axis}-tick-count"), of_chart(tick_count.map(|count| count.to_string())));
        add(&format!("{axis}-scale"), of_chart(log.map(|log| if log { "log" } else { "linear" }.to_owned())));
    }
    add("title", overrides.title.clone());
    add("height", overrides.height_mm.map(|mm| format!("{mm}mm")));
    add("legend", (overrides.legend != LegendPlace::Above).then(|| variant(&overrides.legend)));
    add("legend-columns", overrides.legend_columns.map(|columns| columns.to_string()));
    add("bar-width", overrides.bar_width.map(|share| share.to_string()));
    add("line-width", overrides.line_width.map(|width| width.to_string()));
    for (name, is_on) in
        [("caption", overrides.caption), ("error-bars", overrides.error_bars), ("published", overrides.published)]
    {
        add(name, (!is_on).then(|| "off".to_owned()));
    }
    for annotation in &overrides.annotations {
        let words = annotation
            .words()
            .ok_or("no command line can express this figure's annotations: open the figure's file")?;
        add(&variant(&annotation.kind), Some(words));
    }
    Ok(words)
}

/// The filter of a study, including its held factors and hidden levels.
pub fn filter_of(study: &Study) -> String {
    let mut terms: Vec<String> = Vec::new();
    if !study.filter.trim().is_empty() {
        let is_alone = study.hidden.is_empty() && study.held.is_empty();
        terms.push(if is_alone { study.filter.clone() } else { format!("({})", study.filter) });
    }
    let held = study.held.iter().map(|(key, level)| format!("{}={}", quoted(key), quoted(&level.to_string())));
    terms.extend(held);
    let hidden = study.hidden.iter().map(|(key, level)| format!("not {}={}", quoted(key), quoted(&level.to_string())));
    terms.extend(hidden);
    terms.join(" and ")
}

/// The name of a variant on the command line.
fn variant(variant: &impl EnumMessage) -> String {
    variant.get_serializations().first().copied().unwrap_or_default().to_owned()
}
