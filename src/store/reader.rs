//! Reader of a session: snapshots of the index, independent of a writer.

mod columns;
mod judged;
mod runs;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Result as SqlResult, Row, params};

use super::block::Block;
use super::schema::{self, Opened};
use super::{RunRecord, StepRecord, StoreError, folder, index_keeper, replay};
use crate::plan::{
    Data, Key, Levels, MOST_OWN_MEASURES, Node, OwnMeasure, SearchStep, WorkloadSpec, groups, workload_or_unknown,
};
use crate::protocol::{DeviceRates, Environment, Evidence, Sample, TraceLists, TraceOutcome, TraceSummary};
use columns::{Shared, damage_text, json, shared, unsigned};
use judged::Judged;
use runs::Wishes;

/// [`MOST_OWN_MEASURES`] as SQLite counts.
const MOST_MEASURES: u32 = MOST_OWN_MEASURES as u32;

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
    /// The parts of plans that concern their runs (warm-ups, designs), by the plans' ids.
    wishes: RefCell<HashMap<String, Arc<Wishes>>>,
    /// The parts of plans that concern how results are judged.
    judged: RefCell<Judged>,
    /// The session's own measures with their JSON.
    own_measures: RefCell<(Vec<String>, Arc<[OwnMeasure]>)>,
    /// Whether no process was writing the session when it was opened; false if that could not be found out.
    is_unattended: bool,
    /// Runs without a living process, as found by [`Self::settle`].
    gone: HashSet<String>,
    /// How lists are read from recordings that earlier versions imported without them; see [`Self::with_lists`].
    lists: Option<ReadLists>,
}

/// Reads what a run's recording contains by name, given the run's folder and the recording's file name; `None` if that cannot be read.
pub type ReadLists = fn(&Path, &str) -> Option<Arc<TraceLists>>;

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
            let is_unattended = no_writer.is_some() && folder::is_unattended(folder);
            Ok(Self { is_unattended, ..Self::open_index(folder)? })
        })
    }

    /// Decides the state of runs that were active when their workbench was killed: if no process writes the session and `is_alive` finds no
    /// process of a run, the run is read as interrupted. `is_alive` receives the run's id.
    pub fn settle(&mut self, is_alive: impl Fn(&str) -> bool) -> Result<(), StoreError> {
        if !self.is_unattended {
            return Ok(());
        }
        let sql = "SELECT run FROM run WHERE ended_time_s IS NULL";
        let under_way: Vec<String> = self.checked(self.rows(sql, params![], |row| row.get(0)))?;
        self.gone = under_way.into_iter().filter(|run| !is_alive(run)).collect();
        Ok(())
    }

    /// The damage of the session's logs, each as `file:line: what`: lines that cannot be read, logs that are missing or cut off. Runs whose
    /// numbers are incomplete are read as failed, whatever the journal says.
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
                judged: RefCell::default(),
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
        self.checked(self.refresh_judged())?;
        let sql = "SELECT DISTINCT plan, workload FROM run";
        let used: Vec<(String, String)> =
            self.checked(self.rows(sql, params![], |row| Ok((row.get(0)?, row.get(1)?))))?;
        let mut specs: Vec<Arc<WorkloadSpec>> = Vec::new();
        for (plan, key) in used {
            let brought = self.checked(self.judged_workloads(&plan))?;
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
        Ok(groups(steps))
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
}
