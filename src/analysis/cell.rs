//! Joins runs into cells.

mod differing;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::circumstances::{COMMIT, DATE, MACHINE, OF_SESSIONS};
use super::commands::Commands;
use super::made_with::Split;
use super::setting::{
    CELL, COMMAND, DATA, MADE_WITH, MODE, OF_MAKING, OF_MODE, SESSION, SETTINGS, Setting, TRACE, WORKLOAD, level_rank,
    setting_key,
};
use super::shared_units::SharedUnits;
use super::{Circumstances, Measure, Recording, RunSummary, measure};
use crate::plan::{Identity, Key, Level, Levels, Mode, RunState, Tracer, USUAL_STEP, WorkloadSpec};

use differing::settings;
pub use differing::{held, history_facts, session_facts, varying};

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
    /// The keys of settings that a cell of its sources has as keys of factors, too: they mean the factors.
    shadowed_settings: Arc<[&'static str]>,
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
        Self {
            session,
            id,
            workload,
            levels,
            data,
            command: Arc::default(),
            made_with: Arc::default(),
            circumstances: Arc::default(),
            runs: Vec::new(),
            units: Arc::default(),
            offering: Arc::default(),
            shadowed_settings: Arc::default(),
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
        // Most pairs of cells are compared in vain: what is cheap to compare comes first.
        let meant = || but.iter().filter_map(move |key| self.setting_meant(key));
        let may_differ = |setting: &str| meant().any(|key| key == setting);
        let same = |key: &Key| {
            let (own, others) = (self.levels.get(key), other.levels.get(key));
            own == others
                || but.contains(&&**key)
                || (own.is_none() || others.is_none()) && may_differ(WORKLOAD)
                || !self.workload.has_meaning(key, self.levels)
                || !other.workload.has_meaning(key, other.levels)
        };
        // Machine, commit and date are facts of a session: cells that may differ in one of them may come from different
        // sessions.
        (self.session == other.session || meant().any(is_of_session))
            && (self.made_with == other.made_with || may_differ(MADE_WITH))
            && (self.recording() == other.recording() || may_differ(TRACE))
            && (self.mode() == other.mode() || may_differ(MODE))
            && (self.data == other.data && self.has_program_of(other, || may_differ(COMMAND)) || may_differ(WORKLOAD))
            && self.levels.iter().chain(other.levels.iter()).all(|(key, _)| same(key))
    }

    /// Whether two cells differ only in the environments in which their runs were made.
    pub fn is_part_with(&self, other: &Cell) -> bool {
        self.is_like(other, &[OF_MAKING])
    }

    /// Whether two cells differ at most in the mode of their runs.
    pub fn is_like_but_for_mode(&self, other: &Cell) -> bool {
        self.is_like(other, &[OF_MODE])
    }

    /// Whether its program is that of another cell, or, if commands may differ, another one of the same name.
    fn has_program_of(&self, other: &Cell, commands_may_differ: impl Fn() -> bool) -> bool {
        self.workload.runs_as(other.workload) || self.workload.key == other.workload.key && commands_may_differ()
    }

    /// The setting that a name means, if it means no factor of this cell or of another cell of its sources.
    fn setting_meant<'k>(&self, name: &'k str) -> Option<&'k str> {
        let is_factor = self.levels.named(name).is_some() || self.shadowed_settings.contains(&name);
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

/// The keys of settings that cells with these levels have as keys of factors, too.
fn shadowed_settings(cells: &[Cell]) -> Arc<[&'static str]> {
    let is_shadowed = |key: &&str| cells.iter().any(|cell| cell.levels.get(key).is_some());
    SETTINGS.into_iter().filter(is_shadowed).collect()
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
    let offering = Arc::new(distinct_workloads(cells.iter().map(|cell| cell.workload)));
    let shadowed = shadowed_settings(&cells);
    let commands = Commands::of(cells.iter().map(|cell| (cell.session, &**cell.workload)));
    for cell in &mut cells {
        cell.command = commands.text(cell.workload);
        cell.units = Arc::clone(&units);
        cell.offering = Arc::clone(&offering);
        cell.shadowed_settings = Arc::clone(&shadowed);
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

/// Workloads without those that occurred before: runs of one plan share theirs.
fn distinct_workloads<'a>(workloads: impl Iterator<Item = &'a Arc<WorkloadSpec>>) -> Vec<&'a Arc<WorkloadSpec>> {
    let mut known: HashSet<*const WorkloadSpec> = HashSet::new();
    workloads.filter(|workload| known.insert(Arc::as_ptr(workload))).collect()
}

/// Whether a setting is the session, or a fact about the session such as its machine.
pub fn is_of_session(key: &str) -> bool {
    let key = setting_key(key);
    key == SESSION || OF_SESSIONS.iter().any(|(known, _)| *known == key)
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::setting::setting_name;
    use crate::analysis::{fixture, summarise_run};
    use crate::plan::Filter;
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
    fn each_workload_offers_its_levels_once_however_its_cells_are_mixed_with_others() {
        let workloads = ["a", "b"].map(|key| Arc::new(WorkloadSpec::unknown(key)));
        let run = |place: usize| {
            let workload = Arc::clone(&workloads[place % 2]);
            summarise_run(&RunRecord {
                workload,
                cell: place.to_string(),
                levels: Levels::new(vec![("size", Level::Integer(place as i64))]),
                ..fixture::finished()
            })
        };
        let runs: Vec<_> = (0..6).map(run).collect();
        let cells = cells(&runs);
        assert_eq!((cells.len(), cells[0].offering.len()), (6, 2));
    }

    #[test]
    fn a_factor_of_a_program_may_have_the_key_of_a_setting() {
        for key in SETTINGS {
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
}
