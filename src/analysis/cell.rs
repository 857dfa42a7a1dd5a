//! Joins runs into cells, and finds the settings that distinguish cells.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::circumstances::{COMMIT, DATE, MACHINE, OF_SESSIONS};
use super::commands::Commands;
use super::made_with::Split;
use super::setting::{
    CELL, COMMAND, DATA, MADE_WITH, MODE, OF_SETTINGS, RANKS, SESSION, Setting, TRACE, WORKLOAD, level_rank,
    setting_key, setting_name,
};
use super::shared_units::SharedUnits;
use super::{Circumstances, Measure, Recording, RunSummary, measure};
use crate::plan::{GPUS, Identity, Key, Level, Levels, Mode, RunState, Tracer, USUAL_STEP, WorkloadSpec, places_of};

/// The runs of one session.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The session's name; empty if there is only one session, so that it is not a setting.
    pub session: &'a str,
    /// Its runs.
    pub runs: &'a [RunSummary],
    /// Standalone reports.
    pub reports: &'a [RunSummary],
}

/// Identifies one cell among the cells of several sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CellKey {
    /// The session's name; empty if there is only one.
    pub session: String,
    /// The cell's id.
    pub cell: String,
    /// The environment of its runs; empty if no cell is split by environments.
    pub made_with: String,
}

/// The repeats of one cell.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    /// The session in which it was measured; empty if there is only one.
    pub session: &'a str,
    /// Its id, which is the id of its first run.
    pub id: &'a str,
    /// Its workload; for a standalone report, a workload without a key.
    pub workload: &'a Arc<WorkloadSpec>,
    /// The level of every factor.
    pub levels: &'a Levels,
    /// Its data set, in words.
    pub data: &'a str,
    /// What tells its command from others of its name in the session; empty if there are no others.
    pub command: Arc<str>,
    /// The environment in which its runs were made, by the facts by which cells are split; empty if no cell is split by environments.
    pub made_with: Arc<str>,
    /// The machine, the date and the git commit of its runs.
    pub circumstances: Arc<Circumstances>,
    /// Its runs, finished or not, by repeat.
    pub runs: Vec<&'a RunSummary>,
    /// The units of measures that plans declare with different ones.
    units: Arc<SharedUnits<'a>>,
    /// The workloads of all cells of its sources, in the order of their first runs. They decide the order and the colours of levels,
    /// whichever of the cells are shown.
    offering: Arc<Vec<&'a Arc<WorkloadSpec>>>,
    /// The keys of settings that a cell of its sources has as keys of factors: they mean the factors.
    of_factors: Arc<Vec<&'static str>>,
}

impl<'a> Cell<'a> {
    /// A cell without runs.
    pub fn new(
        session: &'a str,
        id: &'a str,
        workload: &'a Arc<WorkloadSpec>,
        levels: &'a Levels,
        data: &'a str,
    ) -> Self {
        let (command, made_with) = (Arc::default(), Arc::default());
        let (circumstances, units, offering) = (Arc::default(), Arc::default(), Arc::default());
        let (runs, of_factors) = (Vec::new(), Arc::new(keys_of_factors([levels])));
        Self {
            session,
            id,
            workload,
            levels,
            data,
            command,
            made_with,
            circumstances,
            runs,
            units,
            offering,
            of_factors,
        }
    }

    /// The parts of the cell; the repeats of each part were made in the same environment.
    fn parts(&self, split: &Split<'a>) -> Vec<Self> {
        let parts = split.parts(&self.runs).into_iter();
        parts.map(|(made_with, runs)| Self { made_with, runs, ..self.clone() }).collect()
    }

    /// Whether a profiler recorded its runs: all of them or none.
    pub fn recording(&self) -> Recording {
        self.runs.first().map_or(Recording::Plain, |run| run.recording)
    }

    /// Whether its runs were imported from a file of another program.
    pub fn is_imported(&self) -> bool {
        self.runs.iter().any(|run| run.is_imported())
    }

    /// Whether a repeat has a partner in another cell: the repeat with the same number. If an imported file numbers no repeats, the numbers are
    /// the places of rows, and mean something only if they are the order in which the runs were started: rows that were sorted by their values
    /// would look as if they had partners.
    pub(super) fn has_partners(&self) -> bool {
        let is_later = |pair: &[&RunSummary]| {
            pair[0].started_s.zip(pair[1].started_s).is_some_and(|(earlier, later)| earlier < later)
        };
        !self.runs.iter().any(|run| run.counts_rows) || self.runs.windows(2).all(is_later)
    }

    /// Whether repeats of two cells with the same number are partners.
    pub fn pairs_with(&self, other: &Cell) -> bool {
        self.has_partners() && other.has_partners()
    }

    /// The mode of all of its runs.
    pub fn mode(&self) -> Mode {
        self.runs.first().map_or(Mode::Full, |run| run.mode)
    }

    /// A measure of its runs, by its key. If plans declare the measure with different units, it is that of the plan whose unit all cells of
    /// these sources share.
    pub fn measure(&self, key: &str) -> Option<&'a Measure> {
        let own = self.runs.first()?.measures.find(key)?;
        Some(self.units.measure(&self.workload.key, own))
    }

    /// Identifies it among cells of several sessions.
    pub fn key(&self) -> CellKey {
        CellKey { session: self.session.to_owned(), cell: self.id.to_owned(), made_with: self.made_with.to_string() }
    }

    /// Whether two cells differ only in the given settings, and in levels that have no effect in one of them: the fp64 cell that
    /// corresponds to an fp32 cell with `tf32 = conv` has `tf32 = off`. If the workload may differ, only the factors that both have are
    /// compared.
    pub fn is_like(&self, other: &Cell, but: &[&str]) -> bool {
        let may_differ = |setting: &str| but.iter().any(|key| self.setting_meant(key) == Some(setting));
        let any_workload = may_differ(WORKLOAD);
        let same = |key: &Key| {
            let (own, others) = (self.levels.get(key), other.levels.get(key));
            but.contains(&&**key)
                || own == others
                || any_workload && (own.is_none() || others.is_none())
                || !self.workload.has_meaning(key, self.levels)
                || !other.workload.has_meaning(key, other.levels)
        };
        // Machine, commit and date are facts of a session: cells that may differ in one of them may come from different
        // sessions.
        let any_session = but.iter().filter_map(|key| self.setting_meant(key)).any(is_of_session);
        (any_session || self.session == other.session)
            && (may_differ(MADE_WITH) || self.made_with == other.made_with)
            && (any_workload || self.data == other.data && self.has_program_of(other, may_differ(COMMAND)))
            && (may_differ(TRACE) || self.recording() == other.recording())
            && (may_differ(MODE) || self.mode() == other.mode())
            && self.levels.iter().chain(other.levels.iter()).all(|(key, _)| same(key))
    }

    /// Whether two cells differ only in the environments in which their runs were made.
    pub fn is_part_with(&self, other: &Cell) -> bool {
        self.is_like(other, &[&setting_name(MADE_WITH)])
    }

    /// Whether its program is that of another cell, or, if commands may differ, another one of the same name.
    fn has_program_of(&self, other: &Cell, commands_may_differ: bool) -> bool {
        self.workload.runs_as(other.workload) || commands_may_differ && self.workload.key == other.workload.key
    }

    /// The setting that a name means, if it means no factor of this cell or of another cell of its sources.
    fn setting_meant<'k>(&self, name: &'k str) -> Option<&'k str> {
        let is_factor = self.levels.named(name).is_some() || self.of_factors.contains(&name);
        (!is_factor).then(|| setting_key(name))
    }

    /// Whether a condition holds for the level of a setting, or for the name that earlier versions used for it.
    pub fn any_level(&self, key: &str, meets: &mut dyn FnMut(&Level) -> bool) -> bool {
        let is_recorded = || matches!(self.recording(), Recording::Traced | Recording::Report);
        let was_on = self.setting_meant(key) == Some(TRACE) && is_recorded();
        self.level(key).is_some_and(|level| meets(&level)) || was_on && meets(&Level::text(Tracer::EARLIER_NSYS))
    }

    /// The level of a setting. A factor of a user's program may have the key of another setting: the key means the factor then, and
    /// `setting_<key>` the setting.
    pub fn level(&self, key: &str) -> Option<Level> {
        self.levels.named(key).cloned().or_else(|| match self.setting_meant(key)? {
            SESSION => (!self.session.is_empty()).then(|| Level::text(self.session)),
            MADE_WITH => (!self.made_with.is_empty()).then(|| Level::text(&self.made_with)),
            CELL => Some(Level::text(self.id)),
            WORKLOAD => (!self.workload.key.is_empty()).then(|| Level::text(&self.workload.key)),
            DATA => (!self.data.is_empty()).then(|| Level::text(self.data)),
            TRACE => self.recording().tracer().map(|tracer| Level::text(tracer.name())),
            MODE => Some(Level::text(&self.mode().to_string())),
            COMMAND => (!self.command.is_empty()).then(|| Level::text(&self.command)),
            MACHINE => self.circumstances.machine.as_deref().map(Level::text),
            COMMIT => self.circumstances.commit.as_deref().map(Level::text),
            DATE => self.circumstances.date().map(|date| Level::text(&date)),
            _ => None,
        })
    }
}

/// The keys of settings that are keys of factors, too.
fn keys_of_factors<'l>(levels: impl IntoIterator<Item = &'l Levels>) -> Vec<&'static str> {
    let mut all: Vec<&'static str> = Vec::new();
    for levels in levels {
        all.extend(OF_SETTINGS.into_iter().filter(|key| levels.get(key).is_some()));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// The finished runs of a cell, whose numbers count.
pub fn finished<'c, 'a>(cell: &'c Cell<'a>) -> impl Iterator<Item = &'a RunSummary> + use<'c, 'a> {
    cell.runs.iter().copied().filter(|run| run.state == RunState::Finished)
}

/// A measure of a cell's finished runs, with the number of the repeat.
pub fn by_repeat(cell: &Cell, key: &str) -> Vec<(u32, f64)> {
    let Some(measure) = cell.measure(key) else { return Vec::new() };
    finished(cell).filter_map(|run| Some((run.repeat, run.value_alone(measure)?))).collect()
}

/// A measure by its key: from the first cell that has it, or a built-in one.
pub fn measure_of<'a>(cells: &[Cell<'a>], key: &str) -> Option<&'a Measure> {
    cells.iter().find_map(|cell| cell.measure(key)).or_else(|| measure(key))
}

/// The word for a step in the workloads of these cells; the default word if they differ.
pub fn step_of<'a>(cells: &[Cell<'a>]) -> &'a str {
    let mut words = cells.iter().map(|cell| &*cell.workload.step);
    words.next().filter(|first| words.all(|word| word == *first)).unwrap_or(USUAL_STEP)
}

/// Joins the runs of each cell. Cells are sorted in the order of the registry: the default level first, numbers by value.
pub fn cells(runs: &[RunSummary]) -> Vec<Cell<'_>> {
    cells_of(&[Source { session: "", runs, reports: &[] }])
}

/// Joins the runs of several sessions; the session is then one more setting of the cells.
pub fn cells_of<'a>(sources: &[Source<'a>]) -> Vec<Cell<'a>> {
    cells_pooling(sources, &[])
}

/// Like [`cells_of`], but joins repeats even if they differ in the `pooled` facts of their environments; see [`super::splitting_facts`].
pub fn cells_pooling<'a>(sources: &[Source<'a>], pooled: &[Key]) -> Vec<Cell<'a>> {
    let mut cells: Vec<Cell> = Vec::new();
    // Standalone reports have no identity, so they are joined by name.
    let mut places: HashMap<(&str, Result<Identity, &str>), usize> = HashMap::new();
    for (session, run) in
        sources.iter().flat_map(|source| source.runs.iter().chain(source.reports).map(|run| (source.session, run)))
    {
        let place = *places.entry((session, run.identity.ok_or(&*run.cell))).or_insert(cells.len());
        if place == cells.len() {
            cells.push(Cell::new(session, &run.cell, &run.workload, &run.levels, &run.data));
        }
        cells[place].runs.push(run);
    }
    let runs: Vec<&[&RunSummary]> = cells.iter().map(|cell| cell.runs.as_slice()).collect();
    if let Some(split) = Split::of(&runs, pooled) {
        cells = cells.iter().flat_map(|cell| cell.parts(&split)).collect();
    }
    let units = Arc::new(SharedUnits::of(sources.iter().flat_map(|source| source.runs)));
    let mut offering: Vec<&Arc<WorkloadSpec>> = cells.iter().map(|cell| cell.workload).collect();
    offering.dedup_by(|a, b| Arc::ptr_eq(a, b));
    let offering = Arc::new(offering);
    let of_factors = Arc::new(keys_of_factors(cells.iter().map(|cell| cell.levels)));
    let commands = Commands::of(cells.iter().map(|cell| (cell.session, &**cell.workload)));
    for cell in &mut cells {
        cell.command = commands.text(cell.workload);
        cell.units = Arc::clone(&units);
        cell.offering = Arc::clone(&offering);
        cell.of_factors = Arc::clone(&of_factors);
        cell.circumstances = Circumstances::of(&cell.runs).into();
        cell.runs.sort_by(|a, b| a.repeat.cmp(&b.repeat).then_with(|| a.run.cmp(&b.run)));
    }
    let order = settings(&cells);
    // The session comes last, so that the same cell of two sessions is adjacent.
    cells.sort_by(|a, b| a.session.cmp(b.session));
    let order: Vec<&Setting> = order.iter().filter(|setting| !setting.is(SESSION)).collect();
    sort(&mut cells, &order);
    cells
}

/// Whether a setting is the session, or a fact about the session such as its machine.
pub fn is_of_session(key: &str) -> bool {
    let key = setting_key(key);
    key == SESSION || OF_SESSIONS.iter().any(|(known, _)| *known == key)
}

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

/// The cell of each run, by the names of its session and of the run.
pub fn cell_keys<'a>(cells: &[Cell<'a>]) -> HashMap<(&'a str, &'a str), CellKey> {
    cells.iter().flat_map(|cell| cell.runs.iter().map(|run| ((cell.session, &*run.run), cell.key()))).collect()
}

/// Sorts cells by their levels of settings, the first of which counts most; equal ones keep their order.
pub fn sort(cells: &mut [Cell], settings: &[&Setting]) {
    cells.sort_by_cached_key(|cell| {
        settings.iter().map(|setting| level_rank(setting, cell.level(&setting.key))).collect::<Vec<_>>()
    });
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
fn settings(cells: &[Cell]) -> Vec<Setting> {
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
    let mut workloads: Vec<&Arc<WorkloadSpec>> = Vec::new();
    let mut offering: Vec<&Arc<Vec<&Arc<WorkloadSpec>>>> = Vec::new();
    for cell in cells {
        if !workloads.iter().any(|known| Arc::ptr_eq(known, cell.workload)) {
            workloads.push(cell.workload);
        }
        if offering.last().is_none_or(|last| !Arc::ptr_eq(last, &cell.offering)) {
            offering.push(&cell.offering);
        }
    }
    // Cells that were not made of runs have only their own workload.
    let offering: Vec<&WorkloadSpec> =
        offering.iter().flat_map(|list| list.iter()).chain(&workloads).map(|spec| &***spec).collect();
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
    cells.iter().any(|cell| cell.of_factors.contains(&key))
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
    use crate::analysis::{Environment, fixture, summarise_run};
    use crate::plan::{Data, Factor, Filter};
    use crate::store::RunRecord;

    #[test]
    fn cells_stand_with_default_levels_first_and_numbers_by_value() {
        let cell = |precision: &str, gpus: i64| fixture::cell(precision, gpus, "ddp-ds");
        let records = [cell("fp16", 4), cell("fp16", 1), cell("fp32", 10), cell("fp32", 2)];
        let runs: Vec<_> = records.iter().map(|cell| summarise_run(&fixture::run(cell, 1, 0.01))).collect();
        let cells = cells(&runs);
        let order: Vec<_> = cells.iter().map(|cell| cell.id).collect();
        assert_eq!(order, ["fp32-2-ddp-ds", "fp32-10-ddp-ds", "fp16-1-ddp-ds", "fp16-4-ddp-ds"]);
        let keys: Vec<_> = varying(&cells).into_iter().map(|setting| setting.key).collect();
        assert_eq!(keys, ["precision", "gpus"]);
        let held: Vec<_> = held(&cells).iter().map(|(setting, level)| format!("{}={level}", setting.key)).collect();
        assert_eq!(held, ["data=digits", "strategy=ddp-ds", "batch_size=64"]);
    }

    #[test]
    fn a_factor_of_a_program_may_have_the_key_of_a_setting() {
        for key in OF_SETTINGS {
            let run = |level: &str| {
                let levels = Levels::new(vec![(Key::from(key), Level::text(level))]);
                summarise_run(&RunRecord { levels, cell: level.to_owned(), ..fixture::finished() })
            };
            let runs = ["slow", "quick"].map(run);
            let cells = cells(&runs);
            let mut levels: Vec<String> = cells.iter().filter_map(|cell| Some(cell.level(key)?.to_string())).collect();
            levels.sort();
            assert_eq!(levels, ["quick", "slow"], "{key}");
            let keys: Vec<_> = varying(&cells).into_iter().map(|setting| (setting.key, setting.is_fact)).collect();
            assert_eq!(keys, [(key.into(), false)]);
            let held: Vec<_> = held(&cells[..1]).into_iter().map(|(setting, level)| (setting.key, level)).collect();
            assert!(held.contains(&(key.into(), cells[0].level(key).unwrap())), "{held:?}");
            let filter = Filter::parse(&format!("{key}=quick")).unwrap();
            assert_eq!(cells.iter().filter(|cell| filter.admits(*cell)).count(), 1, "{key}");
            assert!(
                cells[0].is_like(&cells[1], &[key]) && !cells[0].is_like(&cells[1], &[&setting_name(key)]),
                "{key}"
            );
            assert_eq!(cells[0].level(&setting_name(CELL)), Some(Level::text(cells[0].id)), "{key}");
        }
    }

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
    fn runs_of_one_cell_are_joined_whatever_id_their_version_gave_it() {
        let mut later = fixture::finished();
        later.cell = "0123abcd".to_owned();
        later.levels = Levels::new(
            later
                .levels
                .iter()
                .map(|(key, level)| (key.clone(), level.clone()))
                .chain([("tf32".into(), Level::text("off"))])
                .collect::<Vec<_>>(),
        );
        let runs: Vec<_> = [fixture::finished(), later].iter().map(summarise_run).collect();
        let cells = cells(&runs);
        assert_eq!((cells.len(), cells[0].runs.len(), cells[0].id), (1, 2, &*runs[0].cell));
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
