//! Reads runs from their rows, their plans and the logs of their ranks, and finds what is missing in these logs.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rusqlite::{Result as SqlResult, Row};

use super::Reader;
use super::columns::{damage_text, json, number, optional_json, optional_shared, shared, unsigned};
use crate::plan::command::PROGRAM_TIME;
use crate::plan::{Block, Data, Design, Key, Levels, Mode, Plan, RunState, WarmUp, WorkloadSpec, workload_or_unknown};
use crate::protocol::{Environment, IMPORTED_FROM, rank_log};
use crate::store::index::WORLD_SIZE;
use crate::store::record::tracer;
use crate::store::telemetry::TelemetryFold;
use crate::store::{RankRecord, ReadingRecord, RunRecord, folder, mapping};

/// The most ranks of a run whose ends are looked for in its logs.
const MOST_MISSING: usize = 64;

/// Selects the files in the folder of the run ?1 by their paths, which are indexed.
const IN_FOLDER: &str = "path > 'runs/' || ?1 || '/' AND path < 'runs/' || ?1 || '0'";

/// What a plan asks for in its runs: designs and the warm-up.
#[derive(Default)]
pub(super) struct Wishes {
    /// Whether it is the mapping of an imported file with a column that numbers repeats.
    numbers_repeats: bool,
    /// `None` for the mapping of an imported file, and for a text that cannot be read.
    warm_up_steps: Option<u64>,
    /// The designs of its blocks, by the workloads of the blocks.
    designs: Vec<(Key, Arc<Design>)>,
}

/// The warm-up steps that the text of a plan asks for; `None` if it cannot be read.
fn warm_up_steps(toml: &str) -> Option<u64> {
    // Most plans do not state them, and need not be parsed.
    if !toml.contains("warm_up_steps") {
        return Some(Plan::WARM_UP_STEPS);
    }
    let table: toml::Table = toml.parse().ok()?;
    let stated = table.get("measure").and_then(|measure| measure.get("warm_up_steps"));
    stated.map_or(Some(Plan::WARM_UP_STEPS), |steps| steps.as_integer()?.try_into().ok())
}

impl Wishes {
    fn of(plan: &Plan) -> Self {
        let design = |block: &Block| Some((block.spec.key.clone(), Arc::new(block.design.clone()?)));
        let designs = plan.blocks().filter_map(design).collect();
        Self { designs, ..Self::default() }
    }

    /// The warm-up of a run; `None` if it is unknown, and for a quick run, which finds the end of its warm-up.
    fn warm_up_of(&self, workload: &WorkloadSpec, mode: Mode) -> Option<WarmUp> {
        self.warm_up_steps.filter(|_| mode.is_full()).map(|steps| WarmUp::of(workload, steps))
    }

    fn design_of(&self, workload: &Key) -> Option<Arc<Design>> {
        self.designs.iter().find(|(known, _)| known == workload).map(|(_, design)| Arc::clone(design))
    }
}

impl Reader {
    pub(super) fn collect(&self, run: Option<&str>) -> SqlResult<Vec<RunRecord>> {
        let snapshot = self.connection.unchecked_transaction()?;
        let records = self.collect_in_snapshot(run, true)?;
        snapshot.finish()?;
        Ok(records)
    }

    /// All runs or one. The caller's transaction gives the queries one snapshot.
    pub(super) fn collect_in_snapshot(&self, run: Option<&str>, with_ranks: bool) -> SqlResult<Vec<RunRecord>> {
        let mut ranks = if with_ranks { self.ranks(run)? } else { HashMap::new() };
        let (mut beside, mut harms) = (self.beside(run)?, self.harms(run)?);
        let (rates, own_measures) = (self.read_rates()?, self.read_own_measures()?);
        self.refresh_judged()?;
        let mut unknown: HashMap<Key, Arc<WorkloadSpec>> = HashMap::new();
        // The plan's own workload, this version's, or an unknown one.
        let mut workload_of = |plan: &str, key: &str| -> SqlResult<Arc<WorkloadSpec>> {
            if let Some(own) = self.judged_workloads(plan)?.iter().find(|spec| *spec.key == *key) {
                return Ok(Arc::clone(own));
            }
            Ok(Arc::clone(unknown.entry(key.into()).or_insert_with(|| workload_or_unknown(key))))
        };
        let which = if run.is_some() { "run.run = ?1" } else { "?1 IS NULL" };
        let sql = format!(
            "SELECT run.run, ifnull(plan.name, run.plan), cell, levels, data, repeat, seed, state, reason,
                queued_time_s, started_time_s, ended_time_s, fold, traced, outcome, placement, warnings, workload,
                run.plan, mode, environment, start_order
             FROM run LEFT JOIN plan ON plan.plan = run.plan LEFT JOIN telemetry ON telemetry.run = run.run
                LEFT JOIN trace ON trace.of_run AND trace.name = run.run
             WHERE {which} ORDER BY run.position"
        );
        self.rows(&sql, [run], |row| {
            let run: String = row.get(0)?;
            let logged = ranks.remove(&run).unwrap_or_default();
            let state = match json(row, 7)? {
                // The journal records when processes were started; the ranks' logs record that they are ready.
                RunState::Starting if logged.ranks.iter().any(|rank| rank.device.is_some()) => RunState::Running,
                state => state,
            };
            let (state, reason) = match (state, harms.remove(&run)) {
                (RunState::Finished, Some(harms)) => (RunState::Failed, Some(harm_text(&harms))),
                (state, _) if !state.is_final() && self.gone.contains(&run) => {
                    (RunState::Interrupted, Some("its processes are gone: multicard was ended".to_owned()))
                }
                (state, _) => (state, row.get(8)?),
            };
            let fold: Option<TelemetryFold> = optional_json(row, 12)?;
            let wishes = self.wishes(row.get_ref(18)?.as_str()?)?;
            let environment: Option<Arc<Environment>> = optional_shared(&self.environments, row, 20)?;
            let is_imported = environment.as_ref().is_some_and(|environment| environment.get(IMPORTED_FROM).is_some());
            let workload = workload_of(row.get_ref(18)?.as_str()?, row.get_ref(17)?.as_str()?)?;
            // All of a program's time counts if it has no steps that count.
            let is_whole = logged.ranks.is_empty() || workload.command.is_some() && logged.counted.is_empty();
            let counted = (!is_whole).then_some(logged.counted.as_slice());
            let mode: Mode = json(row, 19)?;
            Ok(RunRecord {
                plan: row.get(1)?,
                launch: row.get(18)?,
                cell: row.get(2)?,
                levels: Levels::clone(&*shared(&self.levels, row, 3)?),
                data: Data::clone(&*shared(&self.data, row, 4)?),
                repeat: row.get(5)?,
                counts_rows: is_imported && !wishes.numbers_repeats,
                seed: unsigned(row, 6)?,
                state,
                reason,
                queued_time_s: row.get(9)?,
                started_time_s: row.get(10)?,
                ended_time_s: row.get(11)?,
                telemetry: fold.map_or_else(Default::default, |fold| fold.summary(counted, logged.program_ended_s())),
                tracer: tracer(row.get(13)?),
                mode,
                warm_up: wishes.warm_up_of(&workload, mode),
                checked: self.checked_of(&workload, &own_measures)?,
                design: wishes.design_of(&workload.key),
                workload,
                own_measures: Arc::clone(&own_measures),
                trace: self.traced(&run, optional_json(row, 14)?),
                rates: rates.clone(),
                ranks: logged.ranks,
                placement: optional_json(row, 15)?,
                warnings: optional_json(row, 16)?.unwrap_or_default(),
                environment,
                start_order: row.get(21)?,
                beside: beside.remove(&run).unwrap_or_default(),
                run,
            })
        })
    }

    /// What a plan asks for in its runs.
    fn wishes(&self, plan: &str) -> SqlResult<Arc<Wishes>> {
        if let Some(known) = self.wishes.borrow().get(plan) {
            return Ok(Arc::clone(known));
        }
        let texts: Vec<(String, String)> =
            self.rows("SELECT toml, name FROM plan WHERE plan = ?1", [plan], |row| Ok((row.get(0)?, row.get(1)?)))?;
        // Most plans have no such table and need not be parsed. Tables written by later versions are ignored if they cannot be read.
        let parsed = texts.first().filter(|(toml, _)| toml.contains("design"));
        let parsed = parsed.and_then(|(toml, name)| Plan::parse(toml, name).ok());
        let numbers_repeats = texts.first().and_then(|(toml, _)| mapping::numbers_repeats(toml));
        let of_plan = texts.first().filter(|_| numbers_repeats.is_none());
        let wishes = Wishes {
            numbers_repeats: numbers_repeats.unwrap_or(false),
            warm_up_steps: of_plan.and_then(|(toml, _)| warm_up_steps(toml)),
            ..parsed.as_ref().map_or_else(Wishes::default, Wishes::of)
        };
        let wishes = Arc::new(wishes);
        self.wishes.borrow_mut().insert(plan.to_owned(), Arc::clone(&wishes));
        Ok(wishes)
    }

    /// The damage of the ranks' logs, by run.
    fn harms(&self, run: Option<&str>) -> SqlResult<HashMap<String, Vec<String>>> {
        // A run's logs are in its folder: other damage is not looked at for each run.
        let in_folder = format!("run = ?1 AND {IN_FOLDER}");
        let which = if run.is_some() { in_folder.as_str() } else { "?1 IS NULL" };
        let sql = format!("SELECT run, path, number, what FROM damage WHERE harms AND {which} ORDER BY path, number");
        let mut harms = self.missing_ends(run)?;
        for (run, what) in self.rows(&sql, [run], |row| Ok((row.get(0)?, damage_text(row, 1)?)))? {
            let (run, what): (String, String) = (run, what);
            harms.entry(run).or_default().push(what);
        }
        Ok(harms)
    }

    /// Logs that are missing or cut off at the end of a line, by run: those of finished runs whose ranks did not log their end.
    pub(super) fn missing_ends(&self, run: Option<&str>) -> SqlResult<HashMap<String, Vec<String>>> {
        let which = if run.is_some() { "run.run = ?1" } else { "?1 IS NULL" };
        let ended = "(SELECT count(*) FROM rank WHERE rank.run = run.run AND duration_s IS NOT NULL)";
        let sql = format!(
            "SELECT run, {WORLD_SIZE} FROM run WHERE {which} AND state = '\"finished\"' AND {WORLD_SIZE} > {ended}"
        );
        let mut missing: HashMap<String, Vec<String>> = HashMap::new();
        for (run, ranks) in self.rows(&sql, [run], |row| Ok((row.get(0)?, row.get(1)?)))? {
            let (run, ranks): (String, u32) = (run, ranks);
            let ended = "SELECT rank FROM rank WHERE run = ?1 AND duration_s IS NOT NULL";
            let ended: BTreeSet<u32> = self.rows(ended, [&run], |row| row.get(0))?.into_iter().collect();
            let logs = self.finished_logs(&run)?;
            // A rank has a log of its own unless ranks shared the one before it.
            let log_of = |rank: u32| logs.range(..=rank).next_back().copied().unwrap_or(rank);
            let unfinished = (0..ranks).filter(|rank| !ended.contains(rank)).take(MOST_MISSING);
            let mut unfinished: Vec<(u32, u32)> = unfinished.map(|rank| (log_of(rank), rank)).collect();
            unfinished.dedup_by_key(|(log, _)| *log);
            for (log, rank) in unfinished {
                let path = format!("runs/{run}/{}", rank_log(log));
                let known = self.rows("SELECT 1 FROM damage WHERE path = ?1 AND harms", [&path], |_| Ok(()))?;
                if known.is_empty() {
                    let of_run = missing.entry(run.clone()).or_default();
                    of_run.push(format!("{path}: the end of rank {rank} is missing: the log was deleted or cut off"));
                }
            }
        }
        Ok(missing)
    }

    /// The numbers in the names of the logs that a run's ranks had when it had finished, as far as the journal has their checksums.
    fn finished_logs(&self, run: &str) -> SqlResult<BTreeSet<u32>> {
        let paths: Vec<String> =
            self.rows(&format!("SELECT path FROM sum WHERE {IN_FOLDER}"), [run], |row| row.get(0))?;
        Ok(paths.iter().filter_map(|path| folder::rank_of(path.rsplit('/').next()?)).collect())
    }

    /// Runs that ran at the same time as each run.
    fn beside(&self, run: Option<&str>) -> SqlResult<HashMap<String, Vec<String>>> {
        let which = if run.is_some() { "run = ?1" } else { "?1 IS NULL" };
        let sql = format!("SELECT run, other FROM beside WHERE {which} ORDER BY run, other");
        let mut beside: HashMap<String, Vec<String>> = HashMap::new();
        for (run, other) in self.rows(&sql, [run], |row| Ok((row.get(0)?, row.get(1)?)))? {
            beside.entry(run).or_default().push(other);
        }
        Ok(beside)
    }

    /// The logged data of ranks, without their steps, by run.
    fn ranks(&self, run: Option<&str>) -> SqlResult<HashMap<String, Logged>> {
        let mut runs: HashMap<String, Logged> = HashMap::new();
        // The rank of each key: its run, and its index in that run.
        let mut places: HashMap<i64, (String, usize)> = HashMap::new();
        // ?1 is bound to the run in both cases.
        let which = if run.is_some() { "rank.run = ?1" } else { "?1 IS NULL" };
        let sql = format!(
            "SELECT key, run, rank, device, torch_version, failure_kind, failure, duration_s FROM rank WHERE {which} ORDER BY run, rank"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query([run])?;
        while let Some(row) = rows.next()? {
            let run: String = row.get(1)?;
            let failure: Option<String> = row.get(6)?;
            let record = RankRecord {
                rank: row.get(2)?,
                device: optional_json(row, 3)?,
                torch_version: row.get(4)?,
                failure: optional_json(row, 5)?.zip(failure),
                duration_s: row.get(7)?,
                ..RankRecord::default()
            };
            let logged = runs.entry(run.clone()).or_default();
            places.insert(row.get(0)?, (run, logged.ranks.len()));
            logged.ranks.push(record);
        }
        // Assigns a table's rows to their ranks, in order.
        let mut hand_out =
            |table: &str, order: &str, read: &dyn Fn(&Row<'_>, &mut Logged, usize) -> SqlResult<()>| -> SqlResult<()> {
                // When all runs are read, every rank is already known, so no join is needed.
                let join = if run.is_some() { "JOIN rank ON rank.key = child.rank_key" } else { "" };
                let sql =
                    format!("SELECT child.* FROM {table} AS child {join} WHERE {which} ORDER BY rank_key, {order}");
                let mut statement = self.connection.prepare_cached(&sql)?;
                let mut rows = statement.query([run])?;
                while let Some(row) = rows.next()? {
                    if let Some((run, place)) = places.get(&row.get(0)?)
                        && let Some(logged) = runs.get_mut(run)
                    {
                        read(row, logged, *place)?;
                    }
                }
                Ok(())
            };
        // There are few keys and many readings.
        let keys = RefCell::new(BTreeSet::<Key>::new());
        let key_of = |text: &str| {
            let mut keys = keys.borrow_mut();
            keys.get(text).cloned().unwrap_or_else(|| {
                keys.insert(Key::from(text));
                Key::from(text)
            })
        };
        hand_out("reading", "epoch, step, key, time_s", &|row, logged, place| {
            logged.ranks[place].readings.push(ReadingRecord {
                epoch: Some(row.get(1)?).filter(|epoch| *epoch > 0),
                step: Some(unsigned(row, 2)?).filter(|step| *step > 0),
                key: key_of(row.get_ref(3)?.as_str()?),
                time_s: row.get(4)?,
                value: number(row, 5)?,
            });
            Ok(())
        })?;
        hand_out("remark", "time_s, kind, content", &|row, logged, place| {
            match row.get_ref(2)?.as_str()? {
                "evidence" => logged.ranks[place].evidence.push(shared(&self.evidence, row, 3)?),
                _ => logged.ranks[place].warnings.push(row.get(3)?),
            }
            Ok(())
        })?;
        hand_out("steady", "first_s", &|row, logged, _| {
            logged.counted.push((row.get(1)?, row.get::<_, Option<f64>>(2)?.unwrap_or(f64::INFINITY)));
            Ok(())
        })?;
        Ok(runs)
    }
}

/// The logged data of the ranks of one run.
#[derive(Default)]
struct Logged {
    ranks: Vec<RankRecord>,
    /// Periods of counted steps of all ranks: (from, to) in seconds since the Unix epoch.
    counted: Vec<(f64, f64)>,
}

impl Logged {
    /// The end of the run's program, in seconds since the Unix epoch: with this time, its runners log how long it took. `None` for other runs.
    fn program_ended_s(&self) -> Option<f64> {
        let times = self.ranks.iter().flat_map(|rank| rank.readings_of(PROGRAM_TIME));
        times.map(|reading| reading.time_s).max_by(f64::total_cmp)
    }
}

/// The reason for reading a run with incomplete logs as not finished.
fn harm_text(harms: &[String]) -> String {
    let more = if harms.len() > 1 { format!(" (and {} more)", harms.len() - 1) } else { String::new() };
    let first = harms.first().map_or("", String::as_str);
    format!("its logs are damaged: {first}{more}; run it again with --resume")
}
