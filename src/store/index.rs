//! Writer of the index: stores decisions, events and folds as rows. All writes are idempotent.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use serde::Serialize;

use super::block::{Block, block_of};
use super::journal::{Decision, JournalLine};
use super::record::tracer_number;
use super::telemetry::TelemetryFold;
use super::{LogSum, StepRecord};
use crate::plan::{OwnMeasure, RunState, SearchStep};
use crate::protocol::{Event, EventLine, Phase};

/// Maximum number of blocks of steps in memory.
const OPEN_BLOCKS: usize = 64;

/// The number of ranks of a row of `run`; see [`Index::world_size`].
pub(super) const WORLD_SIZE: &str = "ifnull(json_array_length(run.placement, '$.ranks'),
    (SELECT world_size FROM rank WHERE rank.run = run.run AND rank.rank = 0))";

/// How much of a log the index contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexed {
    /// The number of its bytes that are indexed.
    pub(super) bytes: u64,
    /// Its modification time before it was read, in nanoseconds since the Unix epoch.
    pub(super) changed_ns: i64,
    /// Whether the journal contains its checksum.
    pub(super) has_sum: bool,
}

/// The only connection that writes.
pub(super) struct Index {
    connection: Connection,
    /// Keys of rows in `rank`, by run and rank.
    keys: HashMap<String, HashMap<u32, i64>>,
    /// Rank of the last line, and its key; ranks log many lines in a row.
    last: Option<(String, u32, i64)>,
    /// Blocks of steps that have not been written yet, by rank key and block number.
    blocks: HashMap<(i64, i64), Block>,
}

impl Index {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection, keys: HashMap::new(), last: None, blocks: HashMap::new() }
    }

    pub(super) fn begin(&self) -> Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE")
    }

    pub(super) fn commit(&mut self) -> Result<()> {
        self.write_blocks()?;
        self.connection.execute_batch("COMMIT")
    }

    pub(super) fn roll_back(&mut self) {
        // The rollback may have removed the rows of cached keys.
        self.keys.clear();
        self.last = None;
        self.blocks.clear();
        // A failed statement may have ended the transaction already.
        let _ = self.connection.execute_batch("ROLLBACK");
    }

    /// Completes a newly built index: switches it to WAL, so that readers can use it beside a writer.
    pub(super) fn finish(self) -> Result<()> {
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        self.connection.pragma_update(None, "journal_mode", "WAL")?;
        self.connection.close().map_err(|(_, error)| error)
    }

    pub(super) fn decision(&self, line: &JournalLine) -> Result<()> {
        if let Decision::RunEnded { run, .. } = &line.decision {
            self.set_sums(run, &line.logs)?;
        }
        match &line.decision {
            Decision::PlanAdded { plan, name, toml, workloads } => self.execute(
                "INSERT INTO plan (plan, name, toml, workloads) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (plan) DO UPDATE SET name = excluded.name, toml = excluded.toml,
                    workloads = excluded.workloads",
                params![plan, name, toml, json(workloads)?],
            ),
            Decision::Searched { plan, step } => self.search_step(plan, step),
            Decision::RunQueued { run, plan, cell, workload, levels, data, repeat, seed, tracer, mode } => self.execute(
                "INSERT INTO run (run, plan, cell, workload, levels, data, repeat, seed, queued_time_s, state, traced, mode)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
                 ON CONFLICT (run) DO UPDATE SET plan = excluded.plan, cell = excluded.cell,
                    workload = excluded.workload, levels = excluded.levels,
                    data = excluded.data, repeat = excluded.repeat, seed = excluded.seed,
                    queued_time_s = excluded.queued_time_s, state = excluded.state, traced = excluded.traced, mode = excluded.mode, reason = NULL,
                    placement = NULL, warnings = NULL, environment = NULL, start_order = NULL, started_time_s = NULL, pid = NULL, process_start = NULL, ended_time_s = NULL",
                params![
                    run,
                    plan,
                    cell,
                    workload.as_str(),
                    json(levels)?,
                    json(data)?,
                    repeat,
                    seed.cast_signed(),
                    line.time_s,
                    json(&RunState::Queued)?,
                    tracer_number(*tracer),
                    json(mode)?
                ],
            ),
            Decision::RunPlaced { run, placement, beside, warnings, environment } => {
                for other in beside {
                    for pair in [[run, other], [other, run]] {
                        self.execute("INSERT OR IGNORE INTO beside VALUES (?1, ?2)", pair)?;
                    }
                }
                self.execute(
                    "UPDATE run SET placement = ?2, warnings = ?3, environment = ?4 WHERE run = ?1",
                    params![
                        run,
                        json(placement)?,
                        json(warnings)?,
                        environment.as_ref().map(json).transpose()?
                    ],
                )
            }
            Decision::RunStarted { run, pid, process_start } => self.execute(
                "UPDATE run SET state = ?2, started_time_s = ?3, pid = ?4, process_start = ?5,
                    start_order = ifnull(start_order, (SELECT ifnull(max(start_order), 0) + 1 FROM run))
                 WHERE run = ?1",
                params![run, json(&RunState::Starting)?, line.time_s, pid, process_start.cast_signed()],
            ),
            // A known duration gives the end time, because the clock of `time_s` may have been set in the meantime.
            Decision::RunEnded { run, state, reason, duration_s } => self.execute(
                "UPDATE run SET state = ?2, reason = ?3, ended_time_s = ifnull(started_time_s + ?5, ?4) WHERE run = ?1",
                params![run, json(state)?, reason, line.time_s, duration_s],
            ),
            Decision::TraceEnded { name, of_run, outcome } => self
                .execute("INSERT OR REPLACE INTO trace VALUES (?1, ?2, ?3)", params![of_run, name, json(outcome)?]),
            Decision::StudySaved { name, study } => self.execute(
                "INSERT INTO study (name, study) VALUES (?1, ?2)
                 ON CONFLICT (name) DO UPDATE SET study = excluded.study",
                params![name, json(study)?],
            ),
            Decision::StudyDeleted { name } => self.execute("DELETE FROM study WHERE name = ?1", params![name]),
            Decision::MeasureSaved { measure } => self.own_measure(measure),
            Decision::MeasureDeleted { key } => self.execute("DELETE FROM measure WHERE key = ?1", [key.as_str()]),
            Decision::RatesMeasured { rates } => self.execute(
                "INSERT INTO rates (device, rates) VALUES (?1, ?2) ON CONFLICT (device) DO UPDATE SET rates = excluded.rates",
                params![json(&rates.device)?, json(rates)?],
            ),
            // Notes are read from the journal instead.
            Decision::Noted { .. } => Ok(()),
        }
    }

    fn search_step(&self, plan: &str, step: &SearchStep) -> Result<()> {
        self.execute("INSERT OR IGNORE INTO search (plan, step) VALUES (?1, ?2)", params![plan, json(step)?])
    }

    fn own_measure(&self, measure: &OwnMeasure) -> Result<()> {
        self.execute(
            "INSERT INTO measure (key, measure) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET measure = excluded.measure",
            params![measure.key.as_str(), json(measure)?],
        )
    }

    pub(super) fn event(&mut self, line: &EventLine) -> Result<()> {
        let key = self.key(&line.run, line.rank)?;
        match &line.event {
            Event::Step { epoch, step, duration_s, load_wait_s, loss, units, warm_up, traced, .. } => {
                let (epoch, step, time_s) = (*epoch, *step, line.time_s);
                let (duration_s, load_wait_s, loss) = (*duration_s, *load_wait_s, *loss);
                let (units, warm_up, traced) = (*units, *warm_up, *traced);
                self.step(
                    key,
                    StepRecord { step, time_s, epoch, duration_s, load_wait_s, loss, units, warm_up, traced },
                )
            }
            Event::Started { torch_version, device, world_size, .. } => self.execute(
                "UPDATE rank SET device = ?2, torch_version = ?3, world_size = ?4 WHERE key = ?1",
                params![key, json(device)?, torch_version, world_size],
            ),
            Event::Model { .. } => Ok(()),
            Event::StepsWithdrawn => self.withdraw_steps(key),
            Event::Reading { key: reading_key, value, epoch, step } => self.execute(
                "INSERT OR REPLACE INTO reading VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![
                    key,
                    epoch.unwrap_or(0),
                    step.unwrap_or(0).cast_signed(),
                    reading_key.as_str(),
                    line.time_s,
                    value
                ],
            ),
            Event::Phase { phase } => {
                self.end_steady(key, line.time_s)?;
                if *phase == Phase::Steady {
                    self.execute("INSERT OR REPLACE INTO steady VALUES (?1, ?2, NULL)", params![key, line.time_s])?;
                }
                Ok(())
            }
            Event::Evidence(evidence) => self.remark(key, line.time_s, "evidence", &json(evidence)?),
            Event::Warning { message } => self.remark(key, line.time_s, "warning", message),
            Event::Finished { duration_s } => {
                self.end_steady(key, line.time_s)?;
                self.execute("UPDATE rank SET duration_s = ?2 WHERE key = ?1", params![key, duration_s])
            }
            Event::Failed { kind, message } => {
                self.end_steady(key, line.time_s)?;
                self.execute(
                    "UPDATE rank SET failure_kind = ?2, failure = ?3 WHERE key = ?1",
                    params![key, json(kind)?, message],
                )
            }
        }
    }

    pub(super) fn telemetry(&self, run: &str, fold: &TelemetryFold) -> Result<()> {
        self.execute("INSERT OR REPLACE INTO telemetry VALUES (?1, ?2)", params![run, json(fold)?])
    }

    /// Number of bytes of a log that are in the index; `None` for an unknown log.
    pub(super) fn log_bytes(&self, path: &str) -> Result<Option<u64>> {
        let mut statement = self.connection.prepare_cached("SELECT bytes FROM log WHERE path = ?1")?;
        statement.query_row([path], |row| row.get(0)).optional().map(|bytes| bytes.map(i64::cast_unsigned))
    }

    pub(super) fn set_log_bytes(&self, path: &str, bytes: u64, changed_ns: i64) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO log VALUES (?1, ?2, ?3, NULL)";
        self.execute(sql, params![path, bytes.cast_signed(), changed_ns])
    }

    /// Records how much of the journal is in the index. `ends` is the checksum of both ends of this part.
    pub(super) fn set_journal(&self, bytes: u64, ends: &str) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO log VALUES ('journal.jsonl', ?1, 0, ?2)";
        self.execute(sql, params![bytes.cast_signed(), ends])
    }

    /// The number of bytes of the journal that are in the index, and the checksum of both ends of this part; `None` if nothing is.
    pub(super) fn journal(&self) -> Result<Option<(u64, String)>> {
        let sql = "SELECT bytes, ends FROM log WHERE path = 'journal.jsonl'";
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.query_row([], |row| Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))).optional()
    }

    /// All known logs, and how much of each the index contains.
    pub(super) fn logs(&self) -> Result<Vec<(String, Indexed)>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT log.path, log.bytes, changed_ns, sum.path IS NOT NULL FROM log LEFT JOIN sum ON sum.path = log.path",
        )?;
        let indexed = |row: &Row<'_>| {
            let bytes = row.get::<_, i64>(1)?.cast_unsigned();
            Ok((row.get(0)?, Indexed { bytes, changed_ns: row.get(2)?, has_sum: row.get(3)? }))
        };
        statement.query_map([], indexed)?.collect()
    }

    fn set_sums(&self, run: &str, logs: &[LogSum]) -> Result<()> {
        for LogSum { file, bytes, sha256 } in logs {
            let path = format!("runs/{run}/{file}");
            self.execute("INSERT OR REPLACE INTO sum VALUES (?1, ?2, ?3)", params![path, bytes.cast_signed(), sha256])?;
        }
        Ok(())
    }

    /// The recorded checksum of a log when its run had finished; `None` if none was recorded.
    pub(super) fn sum(&self, path: &str) -> Result<Option<(u64, String)>> {
        let mut statement = self.connection.prepare_cached("SELECT bytes, sha256 FROM sum WHERE path = ?1")?;
        statement.query_row([path], |row| Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))).optional()
    }

    /// Ended runs whose logs are completely in the index, with the modification times of their folders; see the table.
    pub(super) fn folders(&self) -> Result<HashMap<String, i64>> {
        let mut statement = self.connection.prepare_cached("SELECT run, changed_ns FROM folder")?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    pub(super) fn set_folder(&self, run: &str, changed_ns: i64) -> Result<()> {
        self.execute("INSERT OR REPLACE INTO folder VALUES (?1, ?2)", params![run, changed_ns])
    }

    /// Records damage of a log; see the table.
    pub(super) fn damage(&self, path: &str, number: u64, run: Option<&str>, harms: bool, what: &str) -> Result<()> {
        let number = number.cast_signed();
        self.execute(
            "INSERT OR REPLACE INTO damage VALUES (?1, ?2, ?3, ?4, ?5)",
            params![path, number, run, harms, what],
        )
    }

    /// Removes the recorded damage of a log.
    pub(super) fn forget_damage(&self, path: &str) -> Result<()> {
        self.execute("DELETE FROM damage WHERE path = ?1", [path])
    }

    /// The runs in the journal.
    pub(super) fn runs(&self) -> Result<HashSet<String>> {
        let mut statement = self.connection.prepare_cached("SELECT run FROM run")?;
        statement.query_map([], |row| row.get(0))?.collect()
    }

    /// The number of a run's ranks, which count from 0. It comes from the run's placement, or from rank 0's log for runs of version 0.1,
    /// which have no placement; `None` if neither is known.
    pub(super) fn world_size(&self, run: &str) -> Result<Option<u32>> {
        let sql = format!("SELECT {WORLD_SIZE} FROM run WHERE run = ?1");
        let mut statement = self.connection.prepare_cached(&sql)?;
        statement.query_row([run], |row| row.get(0)).optional().map(Option::flatten)
    }

    /// Whether the journal has recorded the end of a run.
    pub(super) fn has_ended(&self, run: &str) -> Result<bool> {
        let mut statement =
            self.connection.prepare_cached("SELECT ended_time_s IS NOT NULL FROM run WHERE run = ?1")?;
        Ok(statement.query_row([run], |row| row.get(0)).optional()?.unwrap_or(false))
    }

    /// Runs whose end is not recorded in the journal.
    pub(super) fn under_way(&self) -> Result<Vec<String>> {
        let mut statement = self.connection.prepare_cached("SELECT run FROM run WHERE ended_time_s IS NULL")?;
        statement.query_map([], |row| row.get(0))?.collect()
    }

    /// Removes the numbers of starts.
    pub(super) fn forget_start_orders(&self) -> Result<()> {
        self.execute("UPDATE run SET start_order = NULL", [])
    }

    /// Removes everything that these ranks of a run logged.
    pub(super) fn forget_ranks(&mut self, run: &str, ranks: &Range<u32>) -> Result<()> {
        self.write_blocks()?;
        let keys: Vec<i64> = {
            let sql = "SELECT key FROM rank WHERE run = ?1 AND rank >= ?2 AND rank < ?3";
            let mut statement = self.connection.prepare_cached(sql)?;
            statement.query_map(params![run, ranks.start, ranks.end], |row| row.get(0))?.collect::<Result<_>>()?
        };
        for key in keys {
            for table in ["step", "reading", "remark", "steady"] {
                self.execute(&format!("DELETE FROM {table} WHERE rank_key = ?1"), [key])?;
            }
            self.execute("DELETE FROM rank WHERE key = ?1", [key])?;
        }
        self.keys.remove(run);
        self.last = None;
        Ok(())
    }

    /// Removes everything from the logs of a run's ranks and its telemetry.
    pub(super) fn forget_logs(&mut self, run: &str) -> Result<()> {
        self.forget_ranks(run, &(0..u32::MAX))?;
        self.execute("DELETE FROM telemetry WHERE run = ?1", [run])
    }

    fn step(&mut self, key: i64, step: StepRecord) -> Result<()> {
        let place = (key, block_of(step.step));
        if let Some(block) = self.blocks.get_mut(&place) {
            block.add(step);
            return Ok(());
        }
        if self.blocks.len() == OPEN_BLOCKS {
            self.write_blocks()?;
        }
        let mut statement =
            self.connection.prepare_cached("SELECT steps FROM step WHERE rank_key = ?1 AND block = ?2")?;
        let known = statement.query_row(place, |row| Ok(Block::unpack(row.get_ref(0)?.as_blob()?))).optional()?;
        self.blocks.entry(place).or_insert(known.unwrap_or_default()).add(step);
        Ok(())
    }

    fn withdraw_steps(&mut self, key: i64) -> Result<()> {
        self.blocks.retain(|(rank_key, _), _| *rank_key != key);
        self.execute("DELETE FROM step WHERE rank_key = ?1", [key])?;
        // These are means over the steps of epochs. Losses that the program reports itself are logged again.
        self.execute("DELETE FROM reading WHERE rank_key = ?1 AND step = 0 AND key = 'train_loss'", [key])?;
        self.execute("DELETE FROM steady WHERE rank_key = ?1", [key])
    }

    fn write_blocks(&mut self) -> Result<()> {
        for ((key, number), block) in &self.blocks {
            self.execute("INSERT OR REPLACE INTO step VALUES (?1, ?2, ?3)", params![key, number, block.pack()])?;
        }
        self.blocks.clear();
        Ok(())
    }

    fn end_steady(&self, key: i64, time_s: f64) -> Result<()> {
        // Steps of a program may be read after it has ended.
        let sql = "UPDATE steady SET last_s = max(first_s, ?2) WHERE rank_key = ?1 AND last_s IS NULL";
        self.execute(sql, params![key, time_s])
    }

    fn remark(&self, key: i64, time_s: f64, kind: &str, content: &str) -> Result<()> {
        self.execute("INSERT OR REPLACE INTO remark VALUES (?1, ?2, ?3, ?4)", params![key, time_s, kind, content])
    }

    fn key(&mut self, run: &str, rank: u32) -> Result<i64> {
        if let Some((_, _, key)) =
            self.last.as_ref().filter(|(last_run, last_rank, _)| last_run == run && *last_rank == rank)
        {
            return Ok(*key);
        }
        let key = self.key_of(run, rank)?;
        self.last = Some((run.to_owned(), rank, key));
        Ok(key)
    }

    fn key_of(&mut self, run: &str, rank: u32) -> Result<i64> {
        if let Some(key) = self.keys.get(run).and_then(|ranks| ranks.get(&rank)) {
            return Ok(*key);
        }
        self.execute("INSERT OR IGNORE INTO rank (run, rank) VALUES (?1, ?2)", params![run, rank])?;
        let mut statement = self.connection.prepare_cached("SELECT key FROM rank WHERE run = ?1 AND rank = ?2")?;
        let key = statement.query_row(params![run, rank], |row| row.get(0))?;
        self.keys.entry(run.to_owned()).or_default().insert(rank, key);
        Ok(key)
    }

    fn execute(&self, sql: &str, parameters: impl rusqlite::Params) -> Result<()> {
        self.connection.prepare_cached(sql)?.execute(parameters).map(|_| ())
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}
