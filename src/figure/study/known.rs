//! Compares the measures, factors and levels that a study names with those of the cells. If one is missing, a line names it, and something
//! else is shown.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::{
    CHANGE, CHANGE_PLACE, COST_NAME, DECLARED, FRONT, Form, Law, MEMORY, OF_STEPS, Place, RATIO, SPEEDUP, SPEEDUP_NAME,
    STEP_COST, Study, USUAL_MEASURE, is_verdict,
};
use crate::analysis::{
    Cell, Key, Level, Measures, MetricUnit, SETTINGS, Source, TraceList, is_of_session, measure_of, metric_measure,
    setting_key, why_absent,
};
use crate::figure::ratio::by_repeat;
use crate::figure::sibling::Against;
use crate::plan::command::{CPU_TIME, PEAK_RESIDENT, PROGRAM_TIME};
use crate::plan::{Filter, suggestion};

/// The times of a whole program, which are shown if it reports neither steps nor the measures that its plan declares.
const OF_WHOLE: [&str; 2] = [PROGRAM_TIME, "total_time_s"];

impl Study {
    /// The usual x axis of the form `scatter` for cells: GPUs or bytes for a law, else the first of some measures that cells have.
    fn usual_across(&self, cells: &[Cell]) -> Option<Key> {
        const USUAL: &[&str] =
            &["peak_device_bytes", MEMORY[0], PEAK_RESIDENT, "power_w", "load_wait_s", "total_time_s", "gpus"];
        let candidates: &[&str] = match self.law {
            Law::Amdahl => &["gpus"],
            Law::AlphaBeta => &["received_bytes", "copied_bytes", "peak_device_bytes"],
            Law::Nothing => USUAL,
        };
        let has = |key: &&&str| **key != self.own_measure() && (is_measured(cells, key) || is_number(cells, key));
        candidates.iter().find(has).map(|key| (*key).into())
    }

    /// The study without unknown measures and metrics, and one line for each thing that it names and the cells do not have. The note on
    /// baselines is separate.
    pub(in crate::figure) fn known(&self, cells: &[Cell]) -> (Self, Vec<String>) {
        let mut known = self.clone();
        if cells.is_empty() {
            return (known, Vec::new());
        }
        let mut lines = self.missing(cells);
        let runs = || cells.iter().flat_map(|cell| cell.runs.iter().copied());
        lines.extend(known.named_measures().into_iter().filter_map(|key| why_absent(runs(), key)));
        if let Some(key) = known.measure.take_if(|key| !is_measure(cells, key)) {
            lines.push(format!("measure {key} is not known: {USUAL_MEASURE} is shown"));
        }
        // Programs that do not report their training lack the usual measure: for them it is the step time, or the time of the whole
        // program.
        if known.measure.as_deref().is_none_or(|key| key == USUAL_MEASURE) && known.form != Form::Loss {
            known.measure = known.opening_measure(cells).or(known.measure);
        }
        if known.form == Form::Scatter {
            let is_across = |key: &Key| is_measure(cells, key) || is_number(cells, key);
            if let Some(key) = known.across.take_if(|key| !is_across(key)) {
                lines.push(format!("{key} is neither a measure nor a factor with numbers: another x axis is shown"));
            }
            known.across = known.across.take().or_else(|| known.usual_across(cells));
            let is_same = |key: &Key| cells.windows(2).all(|pair| pair[0].level(key) == pair[1].level(key));
            let is_one_place = |key: &Key| cells.len() > 1 && !is_measure(cells, key) && is_same(key);
            if let Some(key) = known.across.take_if(|key| is_one_place(key)) {
                lines.push(format!("all cells have the same {key}: another x axis is shown, and no law"));
                known.law = Law::Nothing;
                known.across = known.usual_across(cells).filter(|key| !is_one_place(key));
            }
        }
        for key in known.measures.extract_if(.., |key| !is_column(cells, key)) {
            lines.push(format!("measure {key} is not known: its column is left out"));
        }
        for key in known.metrics.extract_if(.., |key| metric_measure(key, MetricUnit::Seconds).is_none()) {
            lines.push(format!("metric {key} is not known: it is left out"));
        }
        (known, lines)
    }

    /// The measure to show for cells without [`USUAL_MEASURE`]; `None` if they have it, or have no values at all.
    fn opening_measure(&self, cells: &[Cell]) -> Option<Key> {
        let has = |key: &Key| cells.iter().any(|cell| self.admits(cell) && !by_repeat(cell, key).is_empty());
        if has(&USUAL_MEASURE.into()) {
            return None;
        }
        std::iter::once(OF_STEPS.into()).chain(declared(cells)).chain(OF_WHOLE.map(Key::from)).find(has)
    }

    /// Factors and levels that the study names and no cell has.
    fn missing(&self, cells: &[Cell]) -> Vec<String> {
        // Settings that only some sessions have are not reported as missing.
        let is_setting = |key: &str| SETTINGS.contains(&setting_key(key));
        let is_there = |key: &str| is_setting(key) || cells.iter().any(|cell| cell.level(key).is_some());
        let keys: BTreeSet<&str> = SETTINGS
            .into_iter()
            .chain(cells.iter().flat_map(|cell| cell.levels.iter().map(|(key, _)| &**key)))
            .collect();
        let keys: Vec<&str> = keys.into_iter().collect();
        let mut lines = Vec::new();
        for (name, place) in [("rows", &self.rows), ("columns", &self.columns), ("colour", &self.colour)] {
            if let Place::Setting(key) = place
                && !is_there(key)
            {
                lines.push(format!("{name} = {key}: no cell has this factor"));
            }
        }
        let filter = Filter::typed(&self.filter).unwrap_or_default();
        let levels = |key: &str| {
            let mut levels: Vec<Level> = cells.iter().filter_map(|cell| cell.level(key)).collect();
            levels.sort();
            levels.dedup();
            levels
        };
        for (key, value) in filter.unmet(levels) {
            let known: Vec<String> = levels(key).iter().map(ToString::to_string).collect();
            if !known.is_empty() && !is_setting(key) {
                lines.push(format!("filter: no cell has {key} = {value}{}", suggestion(value, &known)));
            }
        }
        for key in filter.keys() {
            if !is_there(key) && !is_there(&key.to_lowercase()) && key != "gpu" {
                lines.push(format!("filter: no cell has {key}{}", suggestion(key, &keys)));
            }
        }
        let is_fact = |key: &str| is_of_session(key) && cells.iter().all(|cell| cell.levels.get(key).is_none());
        for (key, level) in self.hidden.iter().filter(|(key, _)| !is_fact(key)) {
            if !cells.iter().any(|cell| cell.level(key).as_ref() == Some(level)) {
                lines.push(format!("hidden {key} = {level}: no cell has it"));
            }
        }
        for (key, level) in &self.held {
            if !cells.iter().any(|cell| cell.level(key).as_ref() == Some(level)) {
                lines.push(format!("held at {key} = {level}: no cell has it, so all levels are shown"));
            }
        }
        lines
    }
}

/// The measures that plans declare for their programs, each once.
pub(in crate::figure) fn declared(cells: &[Cell]) -> Vec<Key> {
    let own = [PROGRAM_TIME, CPU_TIME, PEAK_RESIDENT];
    let programs = cells.iter().filter(|cell| cell.workload.command.is_some() || cell.is_imported());
    let keys = programs.flat_map(|cell| &cell.workload.measures).map(|measure| &measure.key);
    let mut declared: Vec<Key> = Vec::new();
    for key in keys.filter(|key| !own.contains(&&***key)) {
        if !declared.contains(key) {
            declared.push(key.clone());
        }
    }
    declared
}

/// Whether some cell has a measure.
pub(in crate::figure) fn is_measured(cells: &[Cell], key: &str) -> bool {
    cells.iter().any(|cell| !by_repeat(cell, key).is_empty())
}

/// Whether some cell has a level of a factor that is a number.
pub(in crate::figure) fn is_number(cells: &[Cell], key: &str) -> bool {
    cells.iter().any(|cell| cell.level(key).is_some_and(|level| level.as_number().is_some()))
}

/// Whether a measure can be drawn.
pub(in crate::figure) fn is_measure(cells: &[Cell], key: &str) -> bool {
    [SPEEDUP, STEP_COST].contains(&key) || measure_of(cells, key).is_some()
}

/// Whether a table can have a column with this key.
fn is_column(cells: &[Cell], key: &str) -> bool {
    [RATIO, FRONT, DECLARED, CHANGE, CHANGE_PLACE].contains(&key)
        || is_verdict(key)
        || is_measure(cells, key)
        || Against::find(key).is_some()
}

/// The measures of these runs that can be drawn: their keys and names, in the order of columns.
pub fn known_measures(sources: &[Source]) -> Vec<(Key, String)> {
    let runs = || sources.iter().flat_map(|source| source.runs);
    let mut registries: Vec<&Arc<Measures>> = Vec::new();
    for run in runs() {
        if !registries.iter().any(|known| Arc::ptr_eq(known, &run.measures)) {
            registries.push(&run.measures);
        }
    }
    if registries.is_empty() {
        registries.push(Measures::built_in());
    }
    let mut measures: Vec<(Key, String)> = Vec::new();
    for measure in registries.into_iter().flat_map(|registry| registry.iter()) {
        if measures.iter().all(|(key, _)| *key != measure.key) {
            measures.push((measure.key.clone(), measure.name.clone()));
        }
    }
    measures.extend([(SPEEDUP, SPEEDUP_NAME), (STEP_COST, COST_NAME)].map(|(key, name)| (key.into(), name.to_owned())));
    measures
}

/// The names in the recordings of these runs, by list; in each list those with the most time first.
pub fn recorded_names(sources: &[Source]) -> Vec<(TraceList, String)> {
    let runs = sources.iter().flat_map(|source| source.runs.iter().chain(source.reports));
    let recordings: Vec<_> = runs.filter_map(|run| run.trace_summary()?.lists.as_ref()).collect();
    let of_list = |list: &TraceList| {
        let mut times: HashMap<&str, f64> = HashMap::new();
        for entry in recordings.iter().flat_map(|lists| lists.of(*list)) {
            *times.entry(&entry.name).or_default() += entry.seconds;
        }
        let mut names: Vec<(&str, f64)> = times.into_iter().collect();
        names.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        names.into_iter().map(|(name, _)| (*list, name.to_owned())).collect::<Vec<_>>()
    };
    TraceList::ALL.iter().flat_map(of_list).collect()
}
