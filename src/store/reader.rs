//! Reader of a session: snapshots of the index, independent of a writer.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Result as SqlResult, Row, params};
use serde::de::DeserializeOwned;

use super::block::Block;
use super::index::WORLD_SIZE;
use super::record::tracer;
use super::schema::{self, Opened};
use super::telemetry::TelemetryFold;
use super::{
    RankRecord, ReadingRecord, RunRecord, StepRecord, StoreError, TelemetryRecord, folder, index_keeper, replay,
};
use crate::plan::{
    Block as PlanBlock, Checked, Data, Design, Key, Levels, MOST_OWN_MEASURES, Node, OwnMeasure, Plan, RunState,
    SearchStep, WorkloadSpec, workload_or_unknown,
};
use crate::protocol::{DeviceRates, Environment, Evidence, Sample, TraceLists, TraceOutcome, TraceSummary};

/// [`MOST_OWN_MEASURES`] as SQLite counts.
const MOST_MEASURES: u32 = MOST_OWN_MEASURES as u32;
/// The most missing logs of a run that are named.
const MOST_MISSING: usize = 64;

/// Read-only connection. Each call sees a consistent snapshot of the index.
pub struct Reader {
    folder: PathBuf,
    path: PathBuf,
    connection: Connection,
    /// Environments, since runs of a session share a few of them.
    environments: Shared<Environment>,
    levels: Shared<Levels>,
    data: Shared<Data>,
    evidence: Shared<Evidence>,
    /// The measured rates of the session's devices.
    rates: Shared<DeviceRates>,
    /// The workloads that came with plans, by the plans' ids.
    brought: RefCell<HashMap<String, Arc<[Arc<WorkloadSpec>]>>>,
    /// What plans say about their results, by the plans' ids.
    wishes: RefCell<HashMap<String, Arc<Wishes>>>,
    /// The session's own measures with their JSON.
    own_measures: RefCell<(Vec<String>, Arc<[OwnMeasure]>)>,
    /// Whether no process was writing the session when it was opened.
    is_unattended: bool,
    /// Runs without a living process, as found by [`Self::settle`].
    gone: HashSet<String>,
    /// How lists are read from recordings that earlier versions imported without them; see [`Self::with_lists`].
    lists: Option<ReadLists>,
}

/// Reads what a run's recording contains by name, given the run's folder and the recording's file name; `None` if that cannot be read.
pub type ReadLists = fn(&Path, &str) -> Option<Arc<TraceLists>>;

/// The checks and the designs that a plan contains.
#[derive(Default)]
struct Wishes {
    checked: Arc<[Checked]>,
    /// The designs of its blocks, by the workloads of the blocks.
    designs: Vec<(Key, Arc<Design>)>,
}

impl Wishes {
    fn of(plan: Plan) -> Self {
        let design = |block: &PlanBlock| Some((block.spec.key.clone(), Arc::new(block.design.clone()?)));
        Self { designs: plan.blocks().filter_map(design).collect(), checked: plan.checked.into() }
    }

    fn design_of(&self, workload: &Key) -> Option<Arc<Design>> {
        self.designs.iter().find(|(known, _)| known == workload).map(|(_, design)| Arc::clone(design))
    }
}

/// Values by their JSON: many runs share each, and it is parsed once.
type Shared<T> = RefCell<HashMap<String, Arc<T>>>;

/// Process of a run that was started and has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunProcess {
    /// The run's id.
    pub run: String,
    /// Process id of its group.
    pub pid: u32,
    /// Start of that process, in clock ticks since boot.
    pub process_start: u64,
}

impl Reader {
    /// Opens a session for reading. If no process is writing it, the index is first brought up to date with the logs, or rebuilt if it is
    /// missing, damaged or of another version. If another process is building it, waits for a while. So is the index of a session whose file
    /// system has no locks, since no process of this machine can write there; one of another machine may.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        const PATIENCE: Duration = Duration::from_secs(10);
        folder::read_node(folder)?;
        folder::patiently(PATIENCE, || {
            let no_writer = match folder::lock_out_writers(folder) {
                Ok(lock) => Some(lock),
                // A writer maintains the index itself.
                Err(StoreError::InUse { .. }) => return Self::open_index(folder),
                Err(error) if error.is_without_locks() => None,
                // If locking does not work, the index stays as it is.
                Err(error) => return Self::open_index(folder).map_err(|_| error),
            };
            let Some(_turn) = folder::lock_index(folder)? else {
                return Err(StoreError::NoIndex { path: folder::index_path(folder) });
            };
            drop(index_keeper::open_index(folder)?);
            Ok(Self { is_unattended: no_writer.is_some(), ..Self::open_index(folder)? })
        })
    }

    /// Decides the state of runs that were active when their workbench was killed: if no process writes the session and `is_alive` finds no
    /// process of a run, the run is read as interrupted. `is_alive` receives the run's id, and the id and start of its process if known.
    pub fn settle(&mut self, is_alive: impl Fn(&str, Option<(u32, u64)>) -> bool) -> Result<(), StoreError> {
        if !self.is_unattended {
            return Ok(());
        }
        let sql = "SELECT run, pid, process_start FROM run WHERE ended_time_s IS NULL";
        let under_way = self.checked(self.rows(sql, params![], |row| {
            let process = row.get::<_, Option<u32>>(1)?.zip(row.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned));
            Ok((row.get::<_, String>(0)?, process))
        }))?;
        let gone = under_way.into_iter().filter(|(run, process)| !is_alive(run, *process));
        self.gone = gone.map(|(run, _)| run).collect();
        Ok(())
    }

    /// What is missing in the session's logs, each as `file:line: what`: lines that cannot be read, logs that are missing or cut off. Runs
    /// whose numbers are incomplete are read as failed, whatever the journal says.
    pub fn damage(&self) -> Result<Vec<String>, StoreError> {
        let mut damage =
            self.checked(
                self.rows("SELECT path, number, what FROM damage ORDER BY path, number", [], |row| damage_text(row, 0)),
            )?;
        damage.extend(self.checked(self.missing_ends(None))?.into_values().flatten());
        let measures: Vec<u32> = self.checked(self.rows("SELECT count(*) FROM measure", [], |row| row.get(0)))?;
        damage.extend(measures.into_iter().filter(|count| *count > MOST_MEASURES).map(|count| {
            format!(
                "journal.jsonl: it saves {count} user-defined measures, and the first {MOST_MEASURES} are used: delete some with \
                 `multicard measure SESSION --delete KEY`"
            )
        }));
        Ok(damage)
    }

    /// Opens the index without updating it.
    pub(super) fn open_index(folder: &Path) -> Result<Self, StoreError> {
        let path = folder::index_path(folder);
        match schema::open_reader(&path).map_err(StoreError::index(&path))? {
            Opened::Ready(connection) => Ok(Self {
                folder: folder.to_owned(),
                path,
                connection,
                environments: Shared::default(),
                levels: Shared::default(),
                data: Shared::default(),
                evidence: Shared::default(),
                rates: Shared::default(),
                brought: RefCell::default(),
                wishes: RefCell::default(),
                own_measures: RefCell::default(),
                is_unattended: false,
                gone: HashSet::new(),
                lists: None,
            }),
            Opened::Unusable => Err(StoreError::NoIndex { path }),
        }
    }

    /// Another reader of the same session, for another thread. It gives runs the same states.
    pub fn another(&self) -> Result<Self, StoreError> {
        let another = Self::open_index(&self.folder)?;
        Ok(Self { is_unattended: self.is_unattended, gone: self.gone.clone(), lists: self.lists, ..another })
    }

    /// The machine that the session was created on.
    pub fn node(&self) -> Result<Node, StoreError> {
        folder::read_node(&self.folder)
    }

    /// Plans in the order they were added: id within the session, name, the file's text.
    pub fn plans(&self) -> Result<Vec<(String, String, String)>, StoreError> {
        let sql = "SELECT plan, name, toml FROM plan ORDER BY position";
        self.checked(self.rows(sql, params![], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))))
    }

    /// The workloads that came with a plan, by its id; see [`super::Decision::PlanAdded`].
    pub fn brought_workloads(&self, plan: &str) -> Result<Vec<Arc<WorkloadSpec>>, StoreError> {
        Ok(self.checked(self.brought_by(plan))?.to_vec())
    }

    /// The workloads of the session's runs.
    pub fn workloads(&self) -> Result<Vec<Arc<WorkloadSpec>>, StoreError> {
        let sql = "SELECT DISTINCT plan, workload FROM run";
        let used: Vec<(String, String)> =
            self.checked(self.rows(sql, params![], |row| Ok((row.get(0)?, row.get(1)?))))?;
        let mut specs: Vec<Arc<WorkloadSpec>> = Vec::new();
        for (plan, key) in used {
            let brought = self.checked(self.brought_by(&plan))?;
            let own = brought.iter().find(|spec| *spec.key == *key);
            let spec = own.map_or_else(|| workload_or_unknown(&key), Arc::clone);
            if !specs.contains(&spec) {
                specs.push(spec);
            }
        }
        Ok(specs)
    }

    /// Saved studies in the order they were first saved: name and JSON.
    pub fn studies(&self) -> Result<Vec<(String, String)>, StoreError> {
        let sql = "SELECT name, study FROM study ORDER BY position";
        self.checked(self.rows(sql, params![], |row| Ok((row.get(0)?, row.get(1)?))))
    }

    /// The session's searches in the order in which they began: the ids of their plans, and their steps.
    pub fn searches(&self) -> Result<Vec<(String, Vec<SearchStep>)>, StoreError> {
        let sql = "SELECT plan, step FROM search ORDER BY position";
        let steps: Vec<(String, SearchStep)> =
            self.checked(self.rows(sql, params![], |row| Ok((row.get(0)?, json(row, 1)?))))?;
        let mut searches: Vec<(String, Vec<SearchStep>)> = Vec::new();
        for (plan, step) in steps {
            match searches.iter_mut().find(|(known, _)| *known == plan) {
                Some((_, all)) => all.push(step),
                None => searches.push((plan, vec![step])),
            }
        }
        Ok(searches)
    }

    /// The session's user-defined measures, in the order in which they were first saved, and no more than [`MOST_OWN_MEASURES`]: a journal
    /// may come from elsewhere. [`Self::damage`] tells whether there are more.
    pub fn own_measures(&self) -> Result<Arc<[OwnMeasure]>, StoreError> {
        self.checked(self.read_own_measures())
    }

    /// The measured rates of the session's devices, from the last measurement of each.
    pub fn rates(&self) -> Result<Vec<Arc<DeviceRates>>, StoreError> {
        self.checked(self.read_rates())
    }

    /// All runs in the order they were queued. The records of their ranks do not contain steps.
    pub fn runs(&self) -> Result<Vec<RunRecord>, StoreError> {
        self.checked(self.collect(None))
    }

    /// All runs in the order they were queued, without what their ranks logged, so that the size of a record does not depend on the run's
    /// length.
    pub fn headings(&self) -> Result<Vec<RunRecord>, StoreError> {
        self.checked(self.collect_in_snapshot(None, false))
    }

    /// The keys of readings that belong to single steps, in order.
    pub fn step_reading_keys(&self) -> Result<Vec<Key>, StoreError> {
        let sql = "SELECT DISTINCT key FROM reading WHERE step > 0 ORDER BY key";
        self.checked(self.rows(sql, params![], |row| Ok(Key::from(row.get_ref(0)?.as_str()?))))
    }

    /// One run with its ranks' steps; `None` for a run that is not in the journal.
    pub fn run(&self, run: &str) -> Result<Option<RunRecord>, StoreError> {
        let collect = || {
            let snapshot = self.connection.unchecked_transaction()?;
            let Some(mut record) = self.collect_in_snapshot(Some(run), true)?.pop() else { return Ok(None) };
            for rank in &mut record.ranks {
                rank.steps = self.read_steps(run, rank.rank)?;
            }
            record.leave_out_what_was_not_of_its_steps();
            snapshot.finish().map(|()| Some(record))
        };
        self.checked(collect())
    }

    /// This reader, which reads the lists of recordings that were imported by versions that kept none.
    #[must_use]
    pub fn with_lists(self, read: ReadLists) -> Self {
        Self { lists: Some(read), ..self }
    }

    /// The outcome of a run's recording, with its lists.
    fn traced(&self, run: &str, outcome: Option<TraceOutcome>) -> Option<TraceOutcome> {
        let mut outcome = outcome?;
        if let (Some(read), TraceOutcome::Imported(trace)) = (self.lists, &mut outcome)
            && trace.lists.is_none()
            && folder::check_run_id(run).is_ok()
        {
            trace.lists = read(&self.folder.join("runs").join(run), &trace.file);
        }
        Some(outcome)
    }

    /// Standalone reports, by name.
    pub fn reports(&self) -> Result<Vec<(String, TraceSummary)>, StoreError> {
        let sql = "SELECT name, outcome FROM trace WHERE NOT of_run ORDER BY name";
        let reports = self.checked(self.rows(sql, params![], |row| Ok((row.get(0)?, json(row, 1)?))))?;
        let imported = |(name, outcome)| match outcome {
            TraceOutcome::Imported(summary) => Some((name, *summary)),
            TraceOutcome::Failed(_) => None,
        };
        Ok(reports.into_iter().filter_map(imported).collect())
    }

    /// The steps of one rank, in order.
    pub fn steps(&self, run: &str, rank: u32) -> Result<Vec<StepRecord>, StoreError> {
        self.checked(self.read_steps(run, rank))
    }

    /// Samples of a run, in the order of its log. Malformed lines and a torn last line are left out; a run without a log has
    /// no samples.
    pub fn samples(&self, run: &str) -> Result<Vec<Sample>, StoreError> {
        let mut samples = Vec::new();
        self.each_sample(run, |sample| samples.push(sample))?;
        Ok(samples)
    }

    /// Calls `each` for every sample of a run; see [`Self::samples`].
    pub fn each_sample(&self, run: &str, each: impl FnMut(Sample)) -> Result<(), StoreError> {
        folder::check_run_id(run)?;
        replay::each_sample(&self.folder, run, u64::MAX, each)
    }

    /// Processes of runs that were started and have not ended; after a restart, these may still be alive.
    pub fn processes(&self) -> Result<Vec<RunProcess>, StoreError> {
        let sql = "SELECT run, pid, process_start FROM run
             WHERE pid IS NOT NULL AND ended_time_s IS NULL ORDER BY position";
        self.checked(self.rows(sql, params![], |row| {
            Ok(RunProcess { run: row.get(0)?, pid: row.get(1)?, process_start: unsigned(row, 2)? })
        }))
    }

    fn checked<T>(&self, result: SqlResult<T>) -> Result<T, StoreError> {
        result.map_err(StoreError::index(&self.path))
    }

    fn rows<T>(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> SqlResult<T>,
    ) -> SqlResult<Vec<T>> {
        self.connection.prepare_cached(sql)?.query_map(parameters, read)?.collect()
    }

    fn read_steps(&self, run: &str, rank: u32) -> SqlResult<Vec<StepRecord>> {
        let sql = "SELECT key FROM rank WHERE run = ?1 AND rank = ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let key: Option<i64> = statement.query_row(params![run, rank], |row| row.get(0)).optional()?;
        let mut steps = Vec::new();
        let mut statement =
            self.connection.prepare_cached("SELECT steps FROM step WHERE rank_key = ?1 ORDER BY block")?;
        let mut rows = statement.query([key])?;
        while let Some(row) = rows.next()? {
            steps.append(&mut Block::unpack(row.get_ref(0)?.as_blob()?).into_steps());
        }
        Ok(steps)
    }

    fn collect(&self, run: Option<&str>) -> SqlResult<Vec<RunRecord>> {
        let snapshot = self.connection.unchecked_transaction()?;
        let records = self.collect_in_snapshot(run, true)?;
        snapshot.finish()?;
        Ok(records)
    }

    /// All runs or one. The caller's transaction gives the queries one snapshot.
    fn collect_in_snapshot(&self, run: Option<&str>, with_ranks: bool) -> SqlResult<Vec<RunRecord>> {
        let mut ranks = if with_ranks { self.ranks(run)? } else { HashMap::new() };
        let mut beside = self.beside(run)?;
        let mut harms = self.harms(run)?;
        let (rates, own_measures) = (self.read_rates()?, self.read_own_measures()?);
        let mut unknown: HashMap<Key, Arc<WorkloadSpec>> = HashMap::new();
        // The plan's own workload, this version's, or an unknown one.
        let mut workload_of = |plan: &str, key: &str| -> SqlResult<Arc<WorkloadSpec>> {
            if let Some(own) = self.brought_by(plan)?.iter().find(|spec| *spec.key == *key) {
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
            let counted = (!logged.ranks.is_empty()).then_some(logged.counted.as_slice());
            let wishes = self.wishes(row.get_ref(18)?.as_str()?)?;
            let workload = workload_of(row.get_ref(18)?.as_str()?, row.get_ref(17)?.as_str()?)?;
            Ok(RunRecord {
                plan: row.get(1)?,
                launch: row.get(18)?,
                cell: row.get(2)?,
                levels: Levels::clone(&*shared(&self.levels, row, 3)?),
                data: Data::clone(&*shared(&self.data, row, 4)?),
                repeat: row.get(5)?,
                seed: unsigned(row, 6)?,
                state,
                reason,
                queued_time_s: row.get(9)?,
                started_time_s: row.get(10)?,
                ended_time_s: row.get(11)?,
                telemetry: fold.map_or_else(TelemetryRecord::default, |fold| fold.summary(counted)),
                tracer: tracer(row.get(13)?),
                mode: json(row, 19)?,
                checked: Arc::clone(&wishes.checked),
                design: wishes.design_of(&workload.key),
                workload,
                own_measures: Arc::clone(&own_measures),
                trace: self.traced(&run, optional_json(row, 14)?),
                rates: rates.clone(),
                ranks: logged.ranks,
                placement: optional_json(row, 15)?,
                warnings: optional_json(row, 16)?.unwrap_or_default(),
                environment: optional_shared(&self.environments, row, 20)?,
                start_order: row.get(21)?,
                beside: beside.remove(&run).unwrap_or_default(),
                run,
            })
        })
    }

    /// The checks and the designs that a plan contains.
    fn wishes(&self, plan: &str) -> SqlResult<Arc<Wishes>> {
        if let Some(known) = self.wishes.borrow().get(plan) {
            return Ok(Arc::clone(known));
        }
        let texts: Vec<(String, String)> =
            self.rows("SELECT toml, name FROM plan WHERE plan = ?1", [plan], |row| Ok((row.get(0)?, row.get(1)?)))?;
        // Most plans have no such table and need not be parsed. Tables written by later versions are ignored if they cannot be read.
        let parsed = texts.first().filter(|(toml, _)| toml.contains("check") || toml.contains("design"));
        let parsed = parsed.and_then(|(toml, name)| Plan::parse(toml, name).ok());
        let wishes = Arc::new(parsed.map_or_else(Wishes::default, Wishes::of));
        self.wishes.borrow_mut().insert(plan.to_owned(), Arc::clone(&wishes));
        Ok(wishes)
    }

    fn read_own_measures(&self) -> SqlResult<Arc<[OwnMeasure]>> {
        let sql = "SELECT measure FROM measure ORDER BY position LIMIT ?1";
        let texts: Vec<String> = self.rows(sql, [MOST_MEASURES], |row| row.get(0))?;
        let mut known = self.own_measures.borrow_mut();
        if known.0 != texts {
            // One that a later version wrote in another form is left out.
            let measures = texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
            *known = (texts, measures);
        }
        Ok(Arc::clone(&known.1))
    }

    fn read_rates(&self) -> SqlResult<Vec<Arc<DeviceRates>>> {
        self.rows("SELECT rates FROM rates ORDER BY position", [], |row| shared(&self.rates, row, 0))
    }

    /// What is missing in the logs of the ranks, by run.
    fn harms(&self, run: Option<&str>) -> SqlResult<HashMap<String, Vec<String>>> {
        // A run's logs are in its folder: by their paths, which are indexed, other damage is not looked at for each run.
        let in_folder = "run = ?1 AND path > 'runs/' || ?1 || '/' AND path < 'runs/' || ?1 || '0'";
        let which = if run.is_some() { in_folder } else { "?1 IS NULL" };
        let sql = format!("SELECT run, path, number, what FROM damage WHERE harms AND {which} ORDER BY path, number");
        let mut harms = self.missing_ends(run)?;
        for (run, what) in self.rows(&sql, [run], |row| Ok((row.get(0)?, damage_text(row, 1)?)))? {
            let (run, what): (String, String) = (run, what);
            harms.entry(run).or_default().push(what);
        }
        Ok(harms)
    }

    /// Logs that are missing or cut off at the end of a line, by run: those of finished runs whose ranks did not log their end.
    fn missing_ends(&self, run: Option<&str>) -> SqlResult<HashMap<String, Vec<String>>> {
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
            for rank in (0..ranks).filter(|rank| !ended.contains(rank)).take(MOST_MISSING) {
                let path = format!("runs/{run}/rank-{rank}.jsonl");
                let known = self.rows("SELECT 1 FROM damage WHERE path = ?1 AND harms", [&path], |_| Ok(()))?;
                if known.is_empty() {
                    let of_run = missing.entry(run.clone()).or_default();
                    of_run.push(format!("{path}: its end is missing: the log was deleted or cut off"));
                }
            }
        }
        Ok(missing)
    }

    /// The workloads that came with a plan, without those that cannot be read. What came with a plan never changes.
    fn brought_by(&self, plan: &str) -> SqlResult<Arc<[Arc<WorkloadSpec>]>> {
        if let Some(known) = self.brought.borrow().get(plan) {
            return Ok(Arc::clone(known));
        }
        let sql = "SELECT workloads FROM plan WHERE plan = ?1";
        let specs: Vec<Vec<serde_json::Value>> = self.rows(sql, [plan], |row| json(row, 0))?;
        let read = |spec| serde_json::from_value(spec).ok().map(Arc::new);
        let brought: Arc<[Arc<WorkloadSpec>]> = specs.into_iter().flatten().filter_map(read).collect();
        self.brought.borrow_mut().insert(plan.to_owned(), Arc::clone(&brought));
        Ok(brought)
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

    /// What ranks logged, by run and without steps.
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

/// What the ranks of one run logged.
#[derive(Default)]
struct Logged {
    ranks: Vec<RankRecord>,
    /// Periods of counted steps of all ranks: (from, to) in seconds since the Unix epoch.
    counted: Vec<(f64, f64)>,
}

/// The text of damage in columns from `first`: path, line, what.
fn damage_text(row: &Row<'_>, first: usize) -> SqlResult<String> {
    let (path, number, what): (String, u64, String) = (row.get(first)?, unsigned(row, first + 1)?, row.get(first + 2)?);
    Ok(if number > 0 && !path.ends_with('/') { format!("{path}:{number}: {what}") } else { format!("{path}: {what}") })
}

/// The reason for reading a run with incomplete logs as not finished.
fn harm_text(harms: &[String]) -> String {
    let more = if harms.len() > 1 { format!(" (and {} more)", harms.len() - 1) } else { String::new() };
    let first = harms.first().map_or("", String::as_str);
    format!("its logs are damaged: {first}{more}; run it again with --resume")
}

/// A number that may be NaN, which SQLite stores as null.
fn number(row: &Row<'_>, column: usize) -> SqlResult<f64> {
    Ok(row.get::<_, Option<f64>>(column)?.unwrap_or(f64::NAN))
}

fn unsigned(row: &Row<'_>, column: usize) -> SqlResult<u64> {
    row.get(column).map(i64::cast_unsigned)
}

fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> SqlResult<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}

/// JSON that many rows share.
fn shared<T: DeserializeOwned>(known: &Shared<T>, row: &Row<'_>, column: usize) -> SqlResult<Arc<T>> {
    let text = row.get_ref(column)?.as_str()?;
    if let Some(known) = known.borrow().get(text) {
        return Ok(Arc::clone(known));
    }
    let value: Arc<T> = Arc::new(json(row, column)?);
    known.borrow_mut().insert(text.to_owned(), Arc::clone(&value));
    Ok(value)
}

fn optional_shared<T: DeserializeOwned>(known: &Shared<T>, row: &Row<'_>, column: usize) -> SqlResult<Option<Arc<T>>> {
    match row.get_ref(column)?.data_type() {
        Type::Null => Ok(None),
        _ => shared(known, row, column).map(Some),
    }
}

fn optional_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> SqlResult<Option<T>> {
    match row.get_ref(column)?.data_type() {
        Type::Null => Ok(None),
        _ => json(row, column).map(Some),
    }
}
