//! The settings in which cells differ, and those that are the same in all of them.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Cell, distinct_workloads, finished};
use crate::analysis::circumstances::OF_SESSIONS;
use crate::analysis::setting::{
    CELL, COMMAND, DATA, MADE_WITH, MODE, RANKS, SESSION, Setting, TRACE, WORKLOAD, setting_key, setting_name,
};
use crate::analysis::{Recording, RunSummary};
use crate::plan::{GPUS, Level, Mode, Tracer, WorkloadSpec, places_of};

/// The facts about sessions (machine, commit, date) in which cells of several sessions differ. The name of the session already implies
/// these facts, so names of cells and effects leave them out.
pub fn session_facts(cells: &[Cell]) -> Vec<Setting> {
    if cells.windows(2).all(|pair| pair[0].session == pair[1].session) { Vec::new() } else { history_facts(cells) }
}

/// The facts of [`session_facts`] for a history, in which cells of one session may have different facts, too.
pub fn history_facts(cells: &[Cell]) -> Vec<Setting> {
    let differs = |key: &str| cells.iter().any(|cell| cell.level(key) != cells[0].level(key));
    // A factor of a user's program may have the key of such a fact.
    let facts = OF_SESSIONS.into_iter().filter(|(key, _)| !means_factor(cells, key) && differs(key));
    facts.map(|(key, name)| Setting { is_fact: true, ..Setting::without_unit(key, name) }).collect()
}

/// The settings whose level differs between cells.
pub fn varying(cells: &[Cell]) -> Vec<Setting> {
    // A standalone report has no levels, which does not count as a difference.
    let planned: Vec<&Cell> = cells.iter().filter(|cell| cell.recording() != Recording::Report).collect();
    let differs = |setting: &Setting| match (&*setting.key, setting_key(&setting.key)) {
        (_, CELL) if !setting.is_factor => true,
        (_, TRACE) if !setting.is_factor => planned.iter().any(|cell| cell.recording() != planned[0].recording()),
        (key, SESSION | MODE | MADE_WITH) if !setting.is_factor => {
            cells.iter().any(|cell| cell.level(key) != cells[0].level(key))
        }
        (key, _) => {
            // A level without effect is not a difference: fp64 cells have no tf32, and a program's cells no loader. A factor that is
            // unknown to every workload here is always shown.
            let is_known = planned.iter().any(|cell| cell.workload.factor(key).is_some());
            let lacks = |cell: &Cell| {
                let knows = cell.workload.factors.is_empty() || cell.workload.factor(key).is_some();
                is_known && !knows && cell.level(key).is_none()
            };
            let mut meant = planned.iter().filter(|cell| cell.workload.has_meaning(key, cell.levels) && !lacks(cell));
            let first = meant.next().map(|cell| cell.level(key));
            meant.any(|cell| Some(cell.level(key)) != first)
        }
    };
    let mut varying: Vec<Setting> = settings(cells).into_iter().filter(differs).collect();
    let described = |cell: &Cell| -> Vec<Option<Level>> {
        varying.iter().filter(|setting| !setting.is(CELL)).map(|setting| cell.level(&setting.key)).collect()
    };
    let descriptions: HashSet<_> = cells.iter().map(described).collect();
    if descriptions.len() == cells.len() {
        varying.retain(|setting| !setting.is(CELL));
    }
    varying
}

/// The settings whose level is the same in all cells, with that level.
pub fn held(cells: &[Cell]) -> Vec<(Setting, Level)> {
    let same = |setting: Setting| {
        let level = cells[0].level(&setting.key)?;
        let shared = cells.iter().all(|cell| cell.level(&setting.key).as_ref() == Some(&level));
        // The defaults are not mentioned: no tracer, the usual workload, full runs.
        let unsaid = match setting_key(&setting.key) {
            _ if setting.is_factor => false,
            CELL => true,
            TRACE | WORKLOAD => true,
            MODE => level.as_text() == Some(Mode::Full.name()),
            _ => false,
        };
        (shared && !unsaid).then_some((setting, level))
    };
    settings(cells).into_iter().filter_map(same).collect()
}

/// All settings of the cells: session, workload and data set, then the factors in the order of their registry, what tells commands apart,
/// and the cell's id last.
pub(super) fn settings(cells: &[Cell]) -> Vec<Setting> {
    let own = |key: &'static str, name: &str| {
        let setting = Setting::without_unit(key, name);
        match means_factor(cells, key) {
            true => Setting { key: setting_name(key).into(), name: format!("{name} (setting)").into(), ..setting },
            false => setting,
        }
    };
    let mut settings = vec![
        own(SESSION, "Session"),
        own(WORKLOAD, "Workload"),
        own(DATA, "Data"),
        Setting { offered: places_of(Tracer::NAMES.map(Level::text)).into(), ..own(TRACE, "Trace") },
        own(MODE, "Mode"),
    ];
    let workloads = distinct_workloads(cells.iter().map(|cell| cell.workload));
    let mut offering: Vec<&Arc<Vec<&Arc<WorkloadSpec>>>> = cells.iter().map(|cell| &cell.offering).collect();
    offering.dedup_by(|a, b| Arc::ptr_eq(a, b));
    // Cells that were not made of runs have only their own workload.
    let offering = distinct_workloads(offering.into_iter().flat_map(|list| list.iter()).chain(&workloads).copied());
    let offering: Vec<&WorkloadSpec> = offering.into_iter().map(|spec| &**spec).collect();
    let workloads: Vec<&WorkloadSpec> = workloads.into_iter().map(|spec| &**spec).collect();
    for (key, _) in cells.iter().flat_map(|cell| cell.levels.iter()) {
        if settings.iter().all(|setting| setting.key != *key) {
            settings.push(Setting::of_factors(&workloads, &offering, key));
        }
    }
    settings.push(own(COMMAND, "Command"));
    // In the order of first use.
    let started_s = |cell: &&Cell| finished(cell).filter_map(|run| run.started_s).fold(f64::MAX, f64::min);
    let mut parts: Vec<&Cell> = cells.iter().filter(|cell| !cell.made_with.is_empty()).collect();
    parts.sort_by(|a, b| started_s(a).total_cmp(&started_s(b)));
    let made_with = places_of(parts.iter().map(|cell| Level::text(&cell.made_with)));
    settings.push(Setting { offered: made_with.into(), ..own(MADE_WITH, "Made with") });
    if are_on_cpus(cells) {
        settings.iter_mut().filter(|setting| *setting.key == *GPUS).for_each(|setting| setting.name = RANKS.into());
    }
    settings.push(own(CELL, "Cell"));
    settings
}

/// Whether the key of a setting means a factor of the cells, or of other cells of their sources.
fn means_factor(cells: &[Cell], key: &str) -> bool {
    // Cells that were not made of runs know only their own levels.
    cells.iter().any(|cell| cell.shadowed_settings.contains(&key) || cell.levels.get(key).is_some())
}

/// Whether all runs that finished did so on machines without a GPU.
fn are_on_cpus(cells: &[Cell]) -> bool {
    let is_without =
        |run: &RunSummary| run.environment.as_ref().is_some_and(|environment| environment.get("gpus") == Some("none"));
    let mut runs = cells.iter().flat_map(finished).peekable();
    runs.peek().is_some() && runs.all(is_without)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{Environment, cells, fixture, summarise_run};
    use crate::plan::{Data, Factor, Levels};
    use crate::store::RunRecord;

    #[test]
    fn a_factor_and_the_setting_with_its_key_differ_apart_from_each_other() {
        let program = |level: &str| RunRecord {
            workload: WorkloadSpec::unknown("mine").into(),
            levels: Levels::new(vec![("mode", Level::text(level))]),
            cell: level.to_owned(),
            ..fixture::finished()
        };
        let quick = RunRecord {
            mode: Mode::Quick { step_precision: Mode::STEP_PRECISION },
            cell: "quick".to_owned(),
            ..fixture::finished()
        };
        let records = [program("a"), program("b"), fixture::finished(), quick];
        let runs: Vec<_> = records.iter().map(summarise_run).collect();
        let cells = cells(&runs);
        let level = |key: &str, mode: Option<&str>| {
            let is_one = |cell: &&Cell| cell.level(key).as_ref().and_then(|level| level.as_text()) == mode;
            cells.iter().filter(is_one).count()
        };
        assert_eq!([Some("a"), Some("full"), None].map(|mode| level("mode", mode)), [1, 0, 2]);
        assert_eq!(level("setting_mode", Some("full")), 3);
        let settings: Vec<_> = varying(&cells).into_iter().map(|setting| (setting.key, setting.name)).collect();
        let has = |key: &str, name: &str| settings.contains(&(key.into(), name.into()));
        assert!(
            has("setting_mode", "Mode (setting)") && settings.iter().any(|(key, _)| **key == *"mode"),
            "{settings:?}"
        );
    }

    #[test]
    fn runs_on_machines_without_a_gpu_count_ranks() {
        let mut runs: Vec<_> =
            [1, 2].map(|gpus| summarise_run(&fixture::run(&fixture::cell("fp32", gpus, "ddp-ds"), 1, 0.01))).into();
        let name = |runs: &[RunSummary]| varying(&cells(runs))[0].name.to_string();
        let mut environment = Environment::default();
        environment.set("gpus", Some("none"));
        runs[0].environment = Some(Arc::new(environment));
        assert_eq!(name(&runs), "GPUs", "of the second run it is not known");
        runs[1].environment = runs[0].environment.clone();
        assert_eq!(name(&runs), RANKS);
    }

    #[test]
    fn cells_that_no_setting_tells_apart_are_told_apart_by_their_id() {
        let mut records = [fixture::finished(), fixture::finished()];
        for (record, decode) in records.iter_mut().zip(["once", "each_epoch"]) {
            let photos = Data::of_set("folder").with("folder", Level::text("photos"));
            record.data = photos.with("decode", Level::text(decode));
            record.cell = decode.to_owned();
        }
        let runs: Vec<_> = records.iter().map(summarise_run).collect();
        let cells = cells(&runs);
        assert_eq!(varying(&cells).into_iter().map(|setting| setting.key).collect::<Vec<_>>(), ["cell"]);
    }

    #[test]
    fn what_a_later_version_wrote_is_called_unknown_and_stands_among_the_others() {
        let mut future = fixture::finished();
        future.levels = Levels::new(vec![("precision", Level::text("fp4")), ("sparsity", Level::text("2:4"))]);
        let mut video = fixture::finished();
        video.workload = WorkloadSpec::unknown("video").into();
        let runs: Vec<_> = [fixture::finished(), future, video].iter().map(summarise_run).collect();
        let cells = cells(&runs);
        assert_eq!(cells.len(), 3);
        let names: Vec<_> = varying(&cells).into_iter().map(|setting| setting.name.to_string()).collect();
        assert!(names.contains(&"Workload".to_owned()), "{names:?}");
        assert!(names.contains(&"unknown factor sparsity".to_owned()), "{names:?}");
    }

    #[test]
    fn a_factor_that_a_workload_does_not_have_is_no_difference_between_its_cells_and_others() {
        let mut program = fixture::finished();
        let factors = vec![Factor::count("batch_size", "Batch", 1..=1024, 64)];
        program.workload = WorkloadSpec { key: "mine".into(), factors, ..WorkloadSpec::unknown("mine") }.into();
        program.cell = "mine".to_owned();
        program.levels = Levels::new(vec![("batch_size", Level::Integer(64))]);
        let runs: Vec<_> = [fixture::finished(), program].iter().map(summarise_run).collect();
        let keys = |runs: &[RunSummary]| -> Vec<String> {
            varying(&cells(runs)).into_iter().map(|setting| setting.key.to_string()).collect()
        };
        assert_eq!(keys(&runs), ["workload"], "the program has no precision, strategy or GPUs");
        let other = summarise_run(&fixture::run(&fixture::cell("fp16", 2, "ddp-ds"), 1, 0.01));
        assert_eq!(keys(&[runs, vec![other]].concat()), ["workload", "precision"]);
    }
}
