//! An overview of a session for lists of many sessions. It is read only from `session.toml` and the journal, without the index and without
//! a lock.

use std::collections::BTreeMap;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::archive::shown_host;
use super::folder::Lock;
use super::journal::{Decision, read_journal_line};
use super::{StoreError, folder};
use crate::foreign::{self, Line, Lines};
use crate::plan::{
    Facts, Key, Level, Node, RunState, WorkloadSpec, factor_key, mentions, offered_levels, rank_among, workloads,
};

/// The bytes at the start of a journal line that contain the name of its decision.
const HEAD_BYTES: usize = 80;
/// The most levels of a factor that are kept.
const MOST_LEVELS: usize = 64;

/// The beginning of a machine's system in a session that was imported from results of another program, before the file's name.
pub const IMPORTED_SYSTEM: &str = "imported from ";
/// The name of the machine in such a session if no result names it.
pub const UNKNOWN_HOST: &str = "not known";

/// The tag of sessions that lists leave out unless they are asked for.
pub const ARCHIVED: &str = "archived";

/// The tags of a note: its words after a `#`, in lower case.
pub fn tags(note: &str) -> impl Iterator<Item = String> {
    let words = note.split_whitespace().filter_map(|word| word.strip_prefix('#'));
    words.map(|word| word.trim_end_matches([',', '.', ';']).to_lowercase()).filter(|word| !word.is_empty())
}

/// An overview of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionHeading {
    /// Its folder.
    pub folder: PathBuf,
    /// The folder's name.
    pub name: String,
    /// The machine that it was created on.
    pub node: Node,
    /// Names of its plans, each once, in the order they were launched.
    pub plans: Vec<String>,
    /// The levels of each factor in the session's cells, in the factor's order.
    pub levels: BTreeMap<Key, Vec<Level>>,
    /// The names of these factors; those that no workload knows have none.
    pub names: BTreeMap<Key, Arc<str>>,
    /// The number of its runs in each state. Runs that have not ended count as running if they were started and a process writes the session,
    /// otherwise as queued.
    pub runs: BTreeMap<&'static str, usize>,
    /// The user's note.
    pub note: String,
    /// When its last decision was made, in seconds since the Unix epoch; for an empty session, when it was created. `None` if its journal
    /// has no time.
    pub changed_time_s: Option<f64>,
    /// Lower-case text that filters search.
    words: String,
}

impl SessionHeading {
    /// Reads the overview of a session.
    ///
    /// # Errors
    /// The folder is not a session, the session has a newer version, or its files cannot be read. Damaged lines of the journal are left
    /// out.
    pub fn read(session: &Path) -> Result<Self, StoreError> {
        let mut heading = Self {
            folder: session.to_owned(),
            name: session.file_name().unwrap_or(session.as_os_str()).to_string_lossy().into_owned(),
            node: folder::read_node(session)?,
            plans: Vec::new(),
            levels: BTreeMap::new(),
            names: BTreeMap::new(),
            runs: BTreeMap::new(),
            note: String::new(),
            changed_time_s: None,
            words: String::new(),
        };
        // A cancelled run may be put back into the queue.
        let mut states: BTreeMap<String, RunState> = BTreeMap::new();
        let mut brought: Vec<WorkloadSpec> = Vec::new();
        let is_imported = heading.is_imported();
        let told = ["plan_added", "run_queued", "run_started", "run_ended", "noted"];
        each_decision(session, &told, |time_s, decision| {
            // Imported runs have the times of their file, and their plan the time of the import.
            if !is_imported || !matches!(decision, Decision::PlanAdded { .. }) {
                heading.changed_time_s = Some(heading.changed_time_s.map_or(time_s, |before| before.max(time_s)));
            }
            match decision {
                Decision::PlanAdded { name, workloads, .. } => {
                    brought.extend(workloads.into_iter().filter_map(|spec| serde_json::from_value(spec).ok()));
                    if !heading.plans.contains(&name) {
                        heading.plans.push(name);
                    }
                }
                Decision::RunQueued { run, levels, .. } => {
                    states.insert(run, RunState::Queued);
                    for (key, level) in levels.iter() {
                        let known = heading.levels.entry(key.clone()).or_default();
                        if known.len() < MOST_LEVELS && !known.contains(level) {
                            known.push(level.clone());
                        }
                    }
                }
                Decision::RunStarted { run, .. } => {
                    states.entry(run).and_modify(|state| *state = RunState::Running);
                }
                Decision::RunEnded { run, state, .. } => drop(states.insert(run, state)),
                Decision::Noted { run: None, note } => heading.note = note,
                _ => {}
            }
        })?;
        for state in states.into_values() {
            *heading.runs.entry(state.name()).or_default() += 1;
        }
        // Runs that nobody follows are looked at again when the session is opened.
        if heading.runs.contains_key(RunState::Running.name())
            && folder::is_unattended(session)
            && let Some(count) = heading.runs.remove(RunState::Running.name())
        {
            *heading.runs.entry(RunState::Queued.name()).or_default() += count;
        }
        heading.take_factors(&brought);
        heading.changed_time_s = heading.changed_time_s.or_else(|| journal_time_s(session));
        heading.words = heading.searched();
        Ok(heading)
    }

    /// Puts the levels in the order of their factors, and names the factors. `brought` are the workloads that came with plans.
    fn take_factors(&mut self, brought: &[WorkloadSpec]) {
        for (key, levels) in &mut self.levels {
            let offered = offered_levels(key, brought);
            levels.sort_by_cached_key(|level| rank_among(level.clone(), offered.get(level).copied()));
            let mut specs = workloads().iter().map(|spec| &**spec).chain(brought);
            if let Some(factor) = specs.find_map(|spec| spec.factor(key)) {
                self.names.insert(key.clone(), factor.name.clone());
            }
        }
    }

    /// The text in which words of filters are searched: names, machine, note, date, and the levels that differ.
    fn searched(&self) -> String {
        let gpus = self.node.gpus.iter().map(|gpu| gpu.name.clone());
        let levels = self.levels.values().filter(|levels| levels.len() > 1).flatten().map(ToString::to_string);
        let own = [
            self.name.clone(),
            self.node.hostname.clone(),
            self.node.cpu_model.clone(),
            self.note.clone(),
            self.date(),
        ];
        let words: Vec<String> = own.into_iter().chain(self.plans.iter().cloned()).chain(gpus).chain(levels).collect();
        words.join("\n").to_lowercase()
    }

    /// The day of its last decision, or of its creation: `2026-11-22`; empty if that is unknown.
    pub fn date(&self) -> String {
        let time = self.changed_time_s.and_then(|time_s| jiff::Timestamp::from_second(time_s as i64).ok());
        let zoned = time.map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
        zoned.map_or(String::new(), |zoned| zoned.strftime("%Y-%m-%d").to_string())
    }

    /// Number of its runs.
    pub fn run_count(&self) -> usize {
        self.runs.values().sum()
    }

    /// Whether it was made by importing results of another program, so that nothing but its machine's name can be known.
    fn is_imported(&self) -> bool {
        self.node.cpus == 0 && self.node.system.starts_with(IMPORTED_SYSTEM)
    }

    /// The machine's name, unless an anonymous archive left it out, and its GPUs or CPUs.
    pub fn whole_machine(&self) -> String {
        let is_unknown = self.is_imported() && self.node.hostname == UNKNOWN_HOST;
        if is_unknown || shown_host(&self.node) != self.node.hostname {
            return self.machine();
        }
        format!("{}, {}", self.node.hostname, self.machine())
    }

    /// The machine's GPUs or CPUs in a few words: `4× H200`.
    pub fn machine(&self) -> String {
        match self.node.gpus.first() {
            None if self.is_imported() => "imported".to_owned(),
            Some(gpu) => format!("{}× {}", self.node.gpus.len(), gpu.name.trim_start_matches("NVIDIA ")),
            None if self.node.cpus == 1 => "1 CPU".to_owned(),
            None => format!("{} CPUs", self.node.cpus),
        }
    }

    /// Whether its note contains the tag [`ARCHIVED`].
    pub fn is_archived(&self) -> bool {
        tags(&self.note).any(|tag| tag == ARCHIVED)
    }
}

/// When the journal was last written, in seconds since the Unix epoch.
fn journal_time_s(session: &Path) -> Option<f64> {
    let written = fs::metadata(folder::journal(session)).ok()?.modified().ok()?;
    written.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64())
}

/// Keys are `name`, `plan`, `machine`, `gpu`, `date`, `runs`, `state`, `tag` and the factors of the cells.
impl Facts for SessionHeading {
    fn level(&self, key: &str) -> Option<Level> {
        match key {
            "name" => Some(Level::text(&self.name)),
            "machine" => Some(Level::text(&self.node.hostname)),
            "gpu" => Some(Level::text(self.node.gpus.first()?.name.trim_start_matches("NVIDIA "))),
            "date" => Some(Level::text(&self.date())),
            "runs" => Some(Level::Integer(i64::try_from(self.run_count()).unwrap_or(i64::MAX))),
            _ => self.levels.get(key)?.first().cloned(),
        }
    }

    fn any_level(&self, key: &str, meets: &mut dyn FnMut(&Level) -> bool) -> bool {
        match key {
            "plan" => self.plans.iter().any(|plan| meets(&Level::text(plan))),
            "state" => self.runs.keys().any(|state| meets(&Level::text(state))),
            "tag" => tags(&self.note).any(|tag| meets(&Level::text(&tag))),
            _ => match self.levels.get(key).or_else(|| self.levels.get(factor_key(key))) {
                Some(levels) => levels.iter().any(meets),
                None => self.level(key).is_some_and(|level| meets(&level)),
            },
        }
    }

    fn mentions(&self, word: &str) -> bool {
        mentions(&self.words, word)
    }
}

/// The users' notes on runs, by the runs' ids.
///
/// # Errors
/// The journal cannot be read.
pub fn run_notes(session: &Path) -> Result<BTreeMap<String, String>, StoreError> {
    let mut notes = BTreeMap::new();
    each_decision(session, &["noted"], |_, decision| {
        if let Decision::Noted { run: Some(run), note } = decision {
            notes.insert(run, note);
        }
    })?;
    notes.retain(|_, note| !note.is_empty());
    Ok(notes)
}

/// Calls `take` with each readable decision that has one of these names.
fn each_decision(session: &Path, names: &[&str], mut take: impl FnMut(f64, Decision)) -> Result<(), StoreError> {
    let path = folder::journal(session);
    let failed = || StoreError::io("reading", &path);
    let wanted: Vec<String> = names.iter().map(|name| format!("\"decision\":\"{name}\"")).collect();
    let mut lines = Lines::new(BufReader::with_capacity(1 << 18, foreign::open_ours(&path).map_err(failed())?));
    while let Some(line) = lines.read().map_err(failed())? {
        let Line::Whole(line) = line else { continue };
        let head = String::from_utf8_lossy(&line[..line.len().min(HEAD_BYTES)]);
        if wanted.iter().any(|name| head.contains(name))
            && let Ok(line) = read_journal_line(line)
        {
            take(line.time_s, line.decision);
        }
    }
    Ok(())
}

/// Renames a session that no process writes; returns its new folder.
///
/// # Errors
/// It is in use, the name is taken, or the folder cannot be renamed.
pub fn rename_session(session: &Path, name: &str) -> Result<PathBuf, StoreError> {
    rename_locked(session, name).map(|(to, _)| to)
}

/// Renames a session that no process writes; returns its new folder, and its lock.
fn rename_locked(session: &Path, name: &str) -> Result<(PathBuf, Lock), StoreError> {
    folder::read_node(session)?;
    folder::check_original(session)?;
    // The conductor of the session holds the lock.
    let lock = folder::lock(session)?;
    Ok((rename_free(session, name)?, lock))
}

/// Renames a folder; returns its new path. No other one is replaced.
fn rename_free(session: &Path, name: &str) -> Result<PathBuf, StoreError> {
    let to = session.with_file_name(name);
    if fs::symlink_metadata(&to).is_ok() {
        return Err(StoreError::Exists { folder: to });
    }
    fs::rename(session, &to).map_err(StoreError::io("renaming", session))?;
    Ok(to)
}

/// The first of these names that nothing beside a session has.
fn free_name(session: &Path, mut names: impl Iterator<Item = String>) -> String {
    names.find(|name| fs::symlink_metadata(session.with_file_name(name)).is_err()).unwrap_or_default()
}

/// The prefix of deleted sessions' names, which can still be restored. A number, `-` and the session's name follow.
const DELETED: &str = ".deleted-";

/// A deleted session, which can still be restored. It stays locked: where the lock is free, the process that deleted the session was killed,
/// and [`restore_deleted`] restores it.
#[derive(Debug)]
pub struct DeletedSession {
    folder: PathBuf,
    _lock: Lock,
}

impl PartialEq for DeletedSession {
    fn eq(&self, other: &Self) -> bool {
        self.folder == other.folder
    }
}

/// Deletes a session that no process writes.
///
/// # Errors
/// It is in use, or the folder cannot be renamed.
pub fn delete_session(session: &Path) -> Result<DeletedSession, StoreError> {
    let name = session.file_name().unwrap_or_default().to_string_lossy();
    let hidden = free_name(session, (1_u32..).map(|number| format!("{DELETED}{number}-{name}")));
    rename_locked(session, &hidden).map(|(folder, lock)| DeletedSession { folder, _lock: lock })
}

impl DeletedSession {
    /// Where it is in the meantime.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Restores it where it was.
    ///
    /// # Errors
    /// Another session has taken its name, or the folder cannot be renamed.
    pub fn put_back(&self, session: &Path) -> Result<(), StoreError> {
        let name = session.file_name().unwrap_or_default().to_string_lossy();
        rename_free(&self.folder, &name).map(|_| ())
    }

    /// Removes it for good.
    ///
    /// # Errors
    /// Its files cannot be removed.
    pub fn remove(&self) -> Result<(), StoreError> {
        let failed = || StoreError::io("removing", &self.folder);
        // What is left if this process is killed meanwhile must not come back as a session that lacks runs.
        fs::remove_file(folder::session_file(&self.folder)).map_err(failed())?;
        fs::remove_dir_all(&self.folder).map_err(failed())
    }
}

/// Restores the deleted sessions in a folder whose processes were killed before they removed them. Where another session has the name, a
/// number is added to it. Returns the new folder of each session, or why the session stays hidden. A session that its process can still
/// restore stays hidden, and so does what a removal has left.
pub fn restore_deleted(folder: &Path) -> Vec<Result<PathBuf, StoreError>> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.sort();
    let restored = all.iter().filter_map(|deleted| -> Option<Result<PathBuf, StoreError>> {
        let hidden = deleted.file_name()?.to_string_lossy();
        let (number, name) = hidden.strip_prefix(DELETED)?.split_once('-')?;
        if name.is_empty() || number.parse::<u32>().is_err() {
            return None;
        }
        let others = (2_u32..).map(|number| format!("{name}-{number}"));
        let free = free_name(deleted, std::iter::once(name.to_owned()).chain(others));
        match rename_session(deleted, &free) {
            Err(StoreError::InUse { .. } | StoreError::NotASession { .. }) => None,
            outcome => Some(outcome),
        }
    });
    restored.collect()
}
