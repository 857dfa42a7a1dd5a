//! The contents of lists of runs. They are computed where records are read, so that the window's thread has little work even with ten
//! thousand runs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::analysis::{CELL, COMMAND, Cell, Commands, DATA, MODE, Setting, TRACE, WORKLOAD, setting_key};
use crate::figure::{SettingLevels, level_name, settings_of_lines};
use crate::plan::{AA_COPY, Key, Level, Levels, Mode, RunState, Tracer, USUAL_STEP, WorkloadSpec};
use crate::store::{RunRecord, number_of};

/// The key of the column of plans.
const PLAN: &str = "plan";

/// A column for a property in which runs differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// A key that no other column has: the factor's key, `plan`, or the key of a setting, such as `data`.
    pub key: Key,
    /// The factor; `None` for the plan and for settings.
    factor: Option<Key>,
    /// The name on screen.
    pub name: Arc<str>,
    /// Whether all runs have a number in it.
    pub is_number: bool,
    /// The common start of the texts of all runs, up to the last space.
    pub shared: Arc<str>,
}

impl Column {
    fn named(key: &str, name: &str) -> Self {
        Self { key: key.into(), factor: None, name: name.into(), is_number: false, shared: "".into() }
    }
}

/// The recorded part of a run's line in lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its id.
    pub run: String,
    /// Its number in the session, taken from its id; the id itself if it has none.
    pub number: String,
    /// The levels in which the listed runs differ, and the number of the repeat if the cell has other repeats.
    pub name: String,
    /// Name of its plan; empty while the session has no record of it.
    pub plan: String,
    /// Its workload; empty while the session has no record of it.
    pub workload: Key,
    /// Name of its data set.
    pub data: String,
    /// All levels.
    pub levels: Levels,
    /// Which tracer records it.
    pub tracer: Tracer,
    /// Its cell's id; empty while the session has no record of it.
    pub cell: String,
    /// How long it trains; `None` while the session has no record of it.
    pub mode: Option<Mode>,
    /// What tells its command from others of its name in the session; empty if there are no others.
    pub command: Arc<str>,
    /// Texts of the columns.
    pub cells: Vec<String>,
    /// Its repeat number.
    pub repeat: Option<u32>,
    /// Its recorded state.
    pub recorded_state: RunState,
    /// Its last recorded loss.
    pub recorded_loss: Option<f64>,
    /// Whether it was imported from a file of another program, so that nothing but its results is known.
    pub is_imported: bool,
    /// When its processes started.
    pub started_time_s: Option<f64>,
    /// When it ended.
    pub ended_time_s: Option<f64>,
    /// Why it did not finish.
    pub reason: Option<String>,
    /// The number of its combination of cell and repeat, below [`Listing::attempted`]; earlier and later attempts share it.
    pub attempt_at: Option<usize>,
    /// Lower-case text that the filter of the list of runs searches.
    pub words: String,
    /// Lower-case name and id.
    pub name_words: String,
}

impl Entry {
    /// The entry of a run without a record yet.
    pub fn unknown(run: &str) -> Self {
        Self {
            run: run.to_owned(),
            number: number_of(run).to_owned(),
            name: run.to_owned(),
            plan: String::new(),
            workload: Key::default(),
            data: String::new(),
            levels: Levels::default(),
            tracer: Tracer::Off,
            cell: String::new(),
            mode: None,
            command: Arc::default(),
            cells: Vec::new(),
            repeat: None,
            recorded_state: RunState::Queued,
            recorded_loss: None,
            is_imported: false,
            started_time_s: None,
            ended_time_s: None,
            reason: None,
            attempt_at: None,
            words: run.to_lowercase(),
            name_words: run.to_lowercase(),
        }
    }

    fn of(record: &RunRecord, columns: &[Column], commands: &Commands, (name, attempt_at): (String, usize)) -> Self {
        let mut entry = Self::unknown(&record.run);
        entry.plan.clone_from(&record.plan);
        entry.workload = record.workload.key.clone();
        entry.data = record.data.set.to_string();
        entry.levels = record.levels.clone();
        entry.tracer = record.tracer;
        entry.cell.clone_from(&record.cell);
        entry.mode = Some(record.mode);
        entry.command = commands.text(&record.workload);
        entry.cells = columns.iter().map(|column| entry.text(column).unwrap_or_else(|| "–".to_owned())).collect();
        entry.repeat = Some(record.repeat);
        entry.recorded_state = record.state;
        entry.recorded_loss = last_loss(record);
        entry.is_imported = record.is_imported();
        entry.started_time_s = record.started_time_s;
        entry.ended_time_s = record.ended_time_s;
        // A reason that only repeats the state's name is left out.
        let tells = |reason: &String| !reason.trim().is_empty() && reason != record.state.name();
        entry.reason = record.reason.clone().filter(tells);
        let levels = record.levels.iter().map(|(_, level)| level.to_string());
        let mut words: Vec<String> = levels.collect();
        words.extend([entry.plan.clone(), entry.data.clone(), entry.run.clone()]);
        words.extend(entry.reason.clone());
        entry.words = words.join("\n").to_lowercase();
        entry.name_words = format!("{name}\n{}", entry.run).to_lowercase();
        (entry.name, entry.attempt_at) = (name, Some(attempt_at));
        entry
    }

    /// The level of a factor. If the run has no factor with this key: of the setting with the key, as far as a run has it by itself. A factor
    /// of a user's program may have the key of a setting: `setting_<key>` means the setting then, as it does for cells.
    pub fn level(&self, key: &str) -> Option<Level> {
        self.levels.named(key).cloned().or_else(|| match setting_key(key) {
            WORKLOAD => Some(Level::text(&self.workload)),
            DATA => Some(Level::text(&self.data)),
            TRACE => Some(Level::text(self.tracer.name())),
            MODE => Some(Level::text(&self.mode?.to_string())),
            COMMAND => (!self.command.is_empty()).then(|| Level::text(&self.command)),
            CELL => (!self.cell.is_empty()).then(|| Level::text(&self.cell)),
            _ => None,
        })
    }

    /// The text of a column.
    fn text(&self, column: &Column) -> Option<String> {
        match (&column.factor, &*column.key) {
            (Some(factor), _) => Some(self.level(factor)?.to_string()),
            (None, PLAN) => Some(self.plan.clone()),
            (None, setting) => Some(self.level(setting)?.to_string()),
        }
    }
}

/// The key of the training loss, whose name in the registry of measures is the name in lists, too.
pub const TRAINING_LOSS: &str = "train_loss";

fn last_loss(record: &RunRecord) -> Option<f64> {
    record.ranks.first()?.last_reading(TRAINING_LOSS).filter(|loss| loss.is_finite())
}

/// The contents of lists for all runs of a session.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The properties in which runs differ: plan, data set, workload, tracer, and factors in their usual order.
    pub columns: Vec<Column>,
    /// All runs in the order they were queued.
    pub entries: Vec<Arc<Entry>>,
    /// Indexes of runs in `entries`, by id.
    pub places: HashMap<String, usize>,
    /// The settings in which the runs' cells differ, as charts arrange them.
    pub settings: Vec<SettingLevels>,
    /// The keys of all levels.
    pub keys: Vec<Key>,
    /// Number of pairs of a cell and a repeat.
    pub attempted: usize,
    /// The word for a step in the workloads; the default word if they differ.
    pub step: Arc<str>,
}

impl Default for Listing {
    fn default() -> Self {
        Self::of(&[])
    }
}

impl Listing {
    /// The listing of the runs of a session.
    pub fn of(runs: &[RunRecord]) -> Self {
        let (columns, differing) = (columns(runs), differing_keys(runs));
        let are_repeated = runs.iter().any(|run| Some(run.repeat) != runs.first().map(|first| first.repeat));
        let are_twins = runs.iter().any(|run| Some(run.tracer) != runs.first().map(|first| first.tracer));
        let commands = Commands::of(runs.iter().map(|run| ("", &*run.workload)));
        let mut attempts = HashMap::new();
        let entry = |run: &RunRecord| {
            let at = attempts.len();
            let repeat_key = (run.plan.clone(), run.data.set.to_string(), run.tracer, run.repeat, run.levels.clone());
            let attempt_at = *attempts.entry(repeat_key).or_insert(at);
            let name = name(run, &differing, are_twins, are_repeated);
            Arc::new(Entry::of(run, &columns, &commands, (name, attempt_at)))
        };
        let entries: Vec<Arc<Entry>> = runs.iter().map(entry).collect();
        let places = entries.iter().enumerate().map(|(place, entry)| (entry.run.clone(), place)).collect();
        let attempted = attempts.len();
        let mut keys: Vec<Key> = Vec::new();
        for (key, _) in runs.iter().flat_map(|run| run.levels.iter()) {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        Self { columns, entries, places, settings: settings(runs), keys, attempted, step: step(runs) }
    }
}

/// The settings in which the cells of runs differ. Compare leaves out A/A copies, too.
fn settings(runs: &[RunRecord]) -> Vec<SettingLevels> {
    let mut known = HashSet::new();
    let own = runs.iter().filter(|run| run.levels.get(AA_COPY).is_none());
    let own = own.filter(|run| known.insert((&run.workload.key, &run.data.set, &run.levels)));
    let cells: Vec<Cell> = own.map(|run| Cell::new("", &run.cell, &run.workload, &run.levels, &run.data.set)).collect();
    settings_of_lines(&cells)
}

fn columns(runs: &[RunRecord]) -> Vec<Column> {
    let Some(first) = runs.first() else { return Vec::new() };
    let mut columns = Vec::new();
    if runs.iter().any(|run| run.plan != first.plan) {
        let names = runs.iter().map(|run| run.plan.as_str());
        columns.push(Column { shared: shared(names).into(), ..Column::named(PLAN, "Plan") });
    }
    let settings = [
        ("data", "Data", runs.iter().any(|run| run.data != first.data)),
        ("workload", "Workload", runs.iter().any(|run| run.workload.key != first.workload.key)),
        (Tracer::KEY, "Trace", runs.iter().any(|run| run.tracer != first.tracer)),
    ];
    // If a factor has the key of a setting, its column shows both: the setting of the runs that lack the factor.
    let is_factor = |key: &str| runs.iter().any(|run| run.levels.get(key).is_some());
    let settings = settings.into_iter().filter(|(key, _, differs)| *differs && !is_factor(key));
    columns.extend(settings.map(|(key, name, _)| Column::named(key, name)));
    let mut factors: Vec<(&WorkloadSpec, &Key)> = Vec::new();
    for run in runs {
        let new = run.levels.iter().filter(|(key, _)| factors.iter().all(|(_, known)| known != key));
        let new: Vec<_> = new.map(|(key, _)| (&*run.workload, key)).collect();
        factors.extend(new);
    }
    for (workload, key) in factors {
        if runs.iter().any(|run| run.levels.get(key) != first.levels.get(key)) {
            let is_number = runs.iter().all(|run| run.levels.get(key).is_some_and(|level| level.as_number().is_some()));
            let name = Setting::of_factor(workload, key).name;
            let own_key: Key = if **key == *PLAN { format!("factor_{key}").into() } else { key.clone() };
            columns.push(Column { key: own_key, factor: Some(key.clone()), name, is_number, shared: "".into() });
        }
    }
    columns
}

/// The common start of all names, up to the last space.
fn shared<'a>(mut names: impl Iterator<Item = &'a str>) -> &'a str {
    let Some(first) = names.next() else { return "" };
    let alike = |shared: &'a str, name: &str| {
        let differ = shared.char_indices().zip(name.chars()).find(|((_, a), b)| a != b);
        &shared[..differ.map_or(shared.len().min(name.len()), |((place, _), _)| place)]
    };
    let shared = names.fold(first, alike);
    shared.rfind(' ').map_or("", |blank| &shared[..=blank])
}

/// The factors in which runs differ from the first, in its order.
fn differing_keys(runs: &[RunRecord]) -> Vec<&Key> {
    let mut keys: Vec<&Key> = Vec::new();
    if let Some(first) = runs.first() {
        for run in runs {
            let differing = run.levels.iter().filter(|(key, level)| first.levels.get(key) != Some(*level));
            let lacking = first.levels.iter().filter(|(key, _)| run.levels.get(key).is_none());
            for (key, _) in differing.chain(lacking) {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        let place = |key: &&Key| first.levels.iter().position(|(other, _)| other == *key);
        keys.sort_by_key(place);
    }
    keys
}

/// The name that distinguishes a run from the others: these levels, its tracer and its repeat if there are others.
fn name(run: &RunRecord, keys: &[&Key], are_twins: bool, are_repeated: bool) -> String {
    let level = |key: &&Key| Some(level_name(&Setting::of_factor(&run.workload, key), run.levels.get(key)?));
    let mut parts: Vec<String> = keys.iter().filter_map(level).collect();
    if are_twins {
        parts.push(format!("trace {}", run.tracer.name()));
    }
    if parts.is_empty() {
        parts.push(run.plan.clone());
    }
    if are_repeated {
        // A number alone, or with #, would look like that of the run.
        parts.push(format!("repeat {}", run.repeat));
    }
    parts.join(" · ")
}

fn step(runs: &[RunRecord]) -> Arc<str> {
    let mut words = runs.iter().map(|run| &run.workload.step);
    let word = words.next().filter(|first| words.all(|word| word == *first));
    word.map_or_else(|| USUAL_STEP.into(), Arc::clone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{fixture, setting_name};
    use crate::plan::Command;

    #[test]
    fn twins_under_several_tracers_are_told_apart_and_are_no_attempts_of_each_other() {
        let off = fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.01);
        let nsys = RunRecord { run: "0002-b-1".to_owned(), tracer: Tracer::Nsys, ..off.clone() };
        let again = RunRecord { run: "0003-b-1".to_owned(), ..nsys.clone() };
        let listing = Listing::of(&[off, nsys, again]);
        let names: Vec<&str> = listing.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["trace off", "trace nsys", "trace nsys"]);
        let attempts: Vec<_> = listing.entries.iter().map(|entry| entry.attempt_at).collect();
        assert_eq!((attempts, listing.attempted), (vec![Some(0), Some(1), Some(1)], 2));
        assert_eq!(listing.columns.iter().map(|column| &*column.key).collect::<Vec<_>>(), ["trace"]);
        assert_eq!(listing.entries[1].cells, ["nsys"]);
    }

    #[test]
    fn a_programs_factors_with_the_keys_of_settings_have_columns_with_their_levels() {
        for key in [PLAN, "data", "workload", Tracer::KEY, "mode", "repeat", "run", "commit"] {
            let run = |level: &str| {
                let levels = Levels::new(vec![(Key::from(key), Level::text(level))]);
                RunRecord { levels, run: level.to_owned(), plan: level.to_uppercase(), ..fixture::finished() }
            };
            let listing = Listing::of(&["slow", "fast"].map(run));
            let own = listing.columns.iter().rposition(|column| column.factor.is_some());
            let texts = listing.entries.iter().map(|entry| own.map(|own| entry.cells[own].as_str()));
            assert_eq!(texts.collect::<Vec<_>>(), [Some("slow"), Some("fast")], "{key}");
            let plans = listing.entries.iter().map(|entry| entry.cells[0].as_str());
            assert_eq!(plans.collect::<Vec<_>>(), ["SLOW", "FAST"], "{key}");
            assert_eq!(listing.columns.len(), 2, "{key}");
            assert_ne!(listing.columns[0].key, listing.columns[1].key, "the user's choice of columns tells them apart");
        }
    }

    #[test]
    fn a_run_without_the_factor_shows_its_setting_in_the_factors_column() {
        let own = RunRecord {
            levels: Levels::new(vec![("data", Level::text("mine"))]),
            data: crate::plan::Data::default(),
            ..fixture::finished()
        };
        let listing = Listing::of(&[own, fixture::finished()]);
        let columns: Vec<usize> =
            (0..listing.columns.len()).filter(|place| *listing.columns[*place].key == *"data").collect();
        assert_eq!(columns.len(), 1, "{:?}", listing.columns);
        let texts: Vec<&str> = listing.entries.iter().map(|entry| entry.cells[columns[0]].as_str()).collect();
        assert_eq!(texts, ["mine", "digits"]);
    }

    #[test]
    fn a_setting_is_meant_by_its_key_and_where_a_factor_has_the_key_by_its_name() {
        let level = |run: RunRecord, key: &str| Listing::of(&[run]).entries[0].level(key);
        for key in [WORKLOAD, DATA, TRACE, MODE, CELL] {
            let setting = level(fixture::finished(), key);
            assert!(setting.is_some(), "{key}");
            assert_eq!(level(fixture::finished(), &setting_name(key)), setting, "{key}");
            let levels = Levels::new(vec![(Key::from(key), Level::text("own"))]);
            let run = RunRecord { levels, ..fixture::finished() };
            assert_eq!(level(run.clone(), key), Some(Level::text("own")), "{key}");
            assert_eq!(level(run, &setting_name(key)), setting, "{key}");
        }
    }

    #[test]
    fn runs_of_commands_with_one_name_have_what_tells_their_commands_apart() {
        let run = |threads: &str| {
            let env = vec![("THREADS".to_owned(), threads.to_owned())];
            let command = Command { name: "train".into(), run: vec!["./train".to_owned()], env, ..Command::default() };
            let workload = WorkloadSpec { command: Some(Arc::new(command)), ..WorkloadSpec::unknown("train") };
            RunRecord { workload: Arc::new(workload), run: threads.to_owned(), ..fixture::finished() }
        };
        let listing = Listing::of(&[run("1"), run("4")]);
        for key in [COMMAND, "setting_command"] {
            let levels: Vec<Option<Level>> = listing.entries.iter().map(|entry| entry.level(key)).collect();
            assert_eq!(levels, [Some(Level::text("THREADS=1")), Some(Level::text("THREADS=4"))], "{key}");
        }
        assert_eq!(Listing::of(&[run("1")]).entries[0].level(COMMAND), None, "there are no others");
    }

    #[test]
    fn what_names_share_ends_with_a_blank() {
        assert_eq!(shared(["table 2: fp16", "table 2: fp32"].into_iter()), "table 2: ");
        assert_eq!(shared(["table", "table 2"].into_iter()), "");
        assert_eq!(shared(["é a", "è a"].into_iter()), "");
        assert_eq!(shared(["night one", "day"].into_iter()), "");
    }
}
