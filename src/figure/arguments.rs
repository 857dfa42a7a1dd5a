//! Studies as arguments of the command line, so that what is on screen can be asked for in a terminal or a script.

use strum::EnumMessage;

use super::saved::{SavedStudy, find_study};
use super::study::{Limits, Runs, Study};
use crate::plan::Key;
use crate::plan::filter::quoted;

/// The arguments of `multicard table` and `multicard figure` that ask for a study of a session with these saved ones. Style is not
/// among them.
///
/// # Errors
/// The study differs from what arguments can name: it has to be saved first.
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
        add("min-accuracy", (100.0 * share).to_string());
        asked.limits.accuracy = accuracy;
    }
    if study.equal_within != asked.equal_within {
        add("equal-within", (100.0 * study.equal_within).to_string());
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
    if study.over != asked.over {
        add("over", variant(&study.over));
        asked.over = study.over;
    }
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
    let Study { name, about, style, .. } = study.clone();
    if (Study { name, about, style, ..asked }) == *study {
        Ok(arguments)
    } else {
        Err("no command can say all of this: save what is shown as a study first".to_owned())
    }
}

/// The filter of a study with its held factors and hidden levels in it.
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
