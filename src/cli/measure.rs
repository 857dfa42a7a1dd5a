//! `multicard measure`: lists the measures of a session; saves and deletes user-defined measures.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::conduct::ordered_or;
use super::material::Material;
use super::{Format, OK, Outcome, print, say, session_folder};
use crate::analysis::{
    Better, Measure, Measures, RunState, RunSummary, check_edit, counted, needs_measure, with_measure,
};
use crate::conduct::Order;
use crate::plan::{Key, OwnMeasure, suggestion};
use crate::store::{Decision, Store};
use crate::text_table::TextTable;

#[derive(Args)]
pub(super) struct Arguments {
    /// Session folder, or the name of a session in the default folder.
    session: PathBuf,
    /// Save a measure of your own under this key, replacing one of the same key.
    #[arg(long, value_name = "KEY", requires = "formula", conflicts_with = "delete")]
    save: Option<String>,
    /// How it is computed from other measures and from factors that are numbers, such as "throughput / power_w" or
    /// "24 GB - peak_device_bytes"; see `multicard help plan`.
    #[arg(long, value_name = "FORMULA", requires = "save")]
    formula: Option<String>,
    /// Its name on paper and on screen. Default: made from the key.
    #[arg(long, value_name = "NAME", requires = "save")]
    name: Option<String>,
    /// The unit in which it is shown, such as MiB. Default: the unit that its formula has.
    #[arg(long, value_name = "UNIT", requires = "save")]
    unit: Option<String>,
    /// Which values are good: lower, higher or neither. Default: neither, and no verdicts on which cell is better.
    #[arg(long, value_name = "VALUES", requires = "save", value_parser = better)]
    better: Option<Better>,
    /// Delete the measure of your own that has this key.
    #[arg(long, value_name = "KEY")]
    delete: Option<String>,
    /// Output format of the list.
    #[arg(long, value_enum, default_value_t = Format::Md)]
    format: Format,
}

fn better(text: &str) -> Result<Better, String> {
    text.parse().map_err(|_| format!("unknown {text:?}{}", suggestion(text, Better::NAMES)))
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let folder = session_folder(&arguments.session)?;
    let material = Material::read(&folder)?;
    if let (Some(key), Some(formula)) = (&arguments.save, &arguments.formula) {
        let measure = OwnMeasure {
            name: arguments.name.clone(),
            unit: arguments.unit.clone(),
            better: arguments.better.unwrap_or_default(),
            ..OwnMeasure::new(key, formula)
        };
        return save(&folder, &material, &measure);
    }
    match &arguments.delete {
        Some(key) => delete(&folder, &material, key),
        None => list(&material, arguments.format),
    }
}

fn save(folder: &Path, material: &Material, measure: &OwnMeasure) -> Outcome {
    let key = measure.key.clone();
    let outcome = check_edit(&material.runs, &material.own_measures, measure)
        .map_err(|error| format!("--formula {:?}: {error}", measure.formula))?;
    ordered_or(folder, &Order::SaveMeasure(measure.clone()), || {
        Ok(Store::open(folder)?.decide(Decision::MeasureSaved { measure: measure.clone() })?)
    })?;
    let mut runs = material.runs.clone();
    let list = with_measure(&material.own_measures, measure);
    runs.iter_mut().for_each(|run| run.set_own(&list));
    let unit = if outcome.measure.unit.is_empty() { "no unit".to_owned() } else { outcome.measure.unit };
    say(format_args!("saved measure {key}: {unit}; {}", having(&runs, &key)));
    for (run, reason) in runs.iter().flat_map(|run| run.marks.iter().map(move |mark| (run, mark.to_string()))) {
        if reason.starts_with(&format!("{key} has no value")) {
            say(format_args!("{}: {reason}", run.run));
        }
    }
    Ok(OK)
}

fn delete(folder: &Path, material: &Material, key: &str) -> Outcome {
    let own = &material.own_measures;
    let Some(known) = own.iter().find(|known| *known.key == *key) else {
        let keys: Vec<&str> = own.iter().map(|known| &*known.key).collect();
        let known = if keys.is_empty() { "; it has none".to_owned() } else { suggestion(key, &keys) };
        return Err(format!("--delete: the session has no measure of your own {key:?}{known}").into());
    };
    if let Some(other) = needs_measure(own, key) {
        return Err(format!("--delete {key}: {} is computed from it: change or delete that first", other.key).into());
    }
    let key = known.key.clone();
    ordered_or(folder, &Order::DeleteMeasure(key.clone()), || {
        Ok(Store::open(folder)?.decide(Decision::MeasureDeleted { key: key.clone() })?)
    })?;
    say(format_args!("deleted measure {key}"));
    Ok(OK)
}

/// How many finished runs have a measure.
fn having(runs: &[RunSummary], key: &Key) -> String {
    let finished = || runs.iter().filter(|run| run.state == RunState::Finished);
    let having = finished().filter(|run| run.value(key).is_some()).count();
    format!("{having} of {} have a value", counted(finished().count(), "finished run"))
}

/// The measures that runs of the session have, and all user-defined measures.
fn list(material: &Material, format: Format) -> Outcome {
    let own = &material.own_measures;
    let mut registries: Vec<&Arc<Measures>> = Vec::new();
    for run in &material.runs {
        if !registries.iter().any(|known| Arc::ptr_eq(known, &run.measures)) {
            registries.push(&run.measures);
        }
    }
    let mut known: Vec<(&Measure, Option<&OwnMeasure>)> = Vec::new();
    for measure in registries.into_iter().flat_map(|registry| registry.iter()) {
        let own = own.iter().find(|own| own.key == measure.key);
        let is_new = known.iter().all(|(other, _)| other.key != measure.key);
        if is_new && (own.is_some() || material.runs.iter().any(|run| run.value(&measure.key).is_some())) {
            known.push((measure, own));
        }
    }
    let lacking = own.iter().filter(|own| !known.iter().any(|(measure, _)| measure.key == own.key));
    let wrong: Vec<(&OwnMeasure, String)> = lacking
        .map(|own| {
            let reason = check_edit(&material.runs, &material.own_measures, own).err();
            (own, reason.unwrap_or_else(|| "no run has it yet".to_owned()))
        })
        .collect();
    if format == Format::Json {
        let known = known.iter().map(|(measure, own)| {
            serde_json::json!({ "key": measure.key, "name": measure.name, "unit": measure.unit, "own_measure": own })
        });
        let wrong = wrong
            .iter()
            .map(|(own, reason)| serde_json::json!({ "key": own.key, "own_measure": own, "problem": reason }));
        print(&serde_json::to_string_pretty(&known.chain(wrong).collect::<Vec<_>>())?)?;
        return Ok(OK);
    }
    let mut table = TextTable::new("lllll", ["Key", "Measure", "Unit", "Runs", "Formula"]);
    for (measure, own) in &known {
        let formula = own.map_or("", |own| own.formula.as_str());
        let runs = having(&material.runs, &measure.key);
        table.row([
            (&*measure.key).into(),
            measure.name.as_str().into(),
            measure.unit.as_str().into(),
            runs.into(),
            formula.into(),
        ]);
    }
    for (own, reason) in &wrong {
        table.row([
            (&*own.key).into(),
            own.name.clone().unwrap_or_default().into(),
            "".into(),
            reason.as_str().into(),
            own.formula.as_str().into(),
        ]);
    }
    print(&table.markdown())?;
    Ok(OK)
}
