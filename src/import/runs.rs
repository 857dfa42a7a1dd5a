//! Makes runs from the rows of a file, by a mapping. All errors are named before anything is written.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::columns::{MAY_COUNT_PARTS, MAY_MIX, Units, is_version, may_mix};
use super::copies::copies;
use super::declared::{MeasureColumn, no_measure};
use super::dependence::{self, dependent};
use super::moment::moment;
use super::naming::{factor_key, is_taken, renamed, stem, taken, words};
use super::recurring::{ByCell, Recurring, recurring};
use super::spelling::two_spellings;
use super::table::{Field, ForeignTable, INEXACT, MOST_PROBLEMS, Row};
use super::written::written_steps;
use super::{Mapping, Problem, Role};
use crate::plan::command::{DeclaredFactor, factor_of_levels};
use crate::plan::{Key, Level, Levels, WorkloadSpec};
use crate::protocol::{COMMIT_TIME, Environment, IMPORTED_FROM};

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// Its id.
    pub run: String,
    /// The id of its cell.
    pub cell: String,
    /// Its levels.
    pub levels: Levels,
    /// The number of the repeat, from 1.
    pub repeat: u32,
    /// Its measures, in the units of the workload's declarations.
    pub values: Vec<(Key, f64)>,
    /// The known facts about its machine and software.
    pub environment: Environment,
    /// When it was started, in seconds since the Unix epoch.
    pub started_s: Option<f64>,
}

/// The runs of a file, and their workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// Its factors and measures.
    pub spec: WorkloadSpec,
    /// The runs in the order of the rows.
    pub runs: Vec<Imported>,
    /// The number of cells.
    pub cells: usize,
    /// What the user must know about the file.
    pub warnings: Vec<Problem>,
}

/// A column that is a factor.
struct FactorColumn {
    place: usize,
    key: Key,
    declared: DeclaredFactor,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Whole,
    Number,
    Text,
}

/// Makes runs from the rows of a table. The runs are marked with the file's name, `file`.
///
/// # Errors
/// What is wrong with the mapping or with values, with places.
pub fn results(table: &ForeignTable, mapping: &Mapping, file: &str) -> Result<Results, Vec<Problem>> {
    let mut problems = Problems::default();
    let columns = Columns::of(table, mapping, &mut problems);
    problems.end()?;
    let mut spec = columns.spec(table, mapping);
    let mut runs: Vec<Imported> = Vec::with_capacity(table.rows.len());
    let mut cells: HashMap<String, usize> = HashMap::new();
    // The cell of each run, and the facts about it.
    let mut keys: Vec<(String, String)> = Vec::with_capacity(table.rows.len());
    for row in &table.rows {
        let Some((levels, values)) = columns.levels_and_values(row, table, &mut problems) else { continue };
        let environment = columns.environment(row, table.format, file);
        let (cell_key, facts) = (json(&levels), json(&environment));
        let count = cells.len();
        let cell = format!("c{}", *cells.entry(cell_key.clone()).or_insert(count) + 1);
        let repeat = columns.repeat(row).unwrap_or(0);
        let started_s = columns.started.and_then(|place| Some(moment(&row.fields[place])?.0));
        runs.push(Imported { run: String::new(), cell, levels, repeat, values, environment, started_s });
        keys.push((cell_key, facts));
        if problems.is_full() {
            break;
        }
    }
    problems.end()?;
    let rows_of_cells = rows_of_cells(&keys);
    match columns.repeat {
        Some(place) => refuse_same_repeats(&runs, &keys, table, place)?,
        None => number(&mut runs, &rows_of_cells),
    }
    give_ids(&mut runs);
    let of_rows: Vec<&str> = runs.iter().map(|run| run.cell.as_str()).collect();
    for (column, declared) in columns.measures.iter().zip(&mut spec.measures) {
        // Bytes and bits that are written as such are counts.
        let is_byte = |row: &Row| column.factor(row).is_none_or(|factor| factor <= 1.0);
        let is_count = &*declared.unit == "B" && table.rows.iter().all(is_byte);
        let steps = || written_steps(table, &of_rows, column.place, |row| column.factor(row));
        declared.written_steps = Some(if is_count { BTreeMap::new() } else { steps() });
    }
    let places: Vec<usize> = columns.measures.iter().map(|column| column.place).collect();
    if let Some(problem) = copies(table, &rows_of_cells, &places) {
        return Err(vec![problem]);
    }
    let measures: Vec<(usize, &str)> =
        columns.measures.iter().map(|column| (column.place, &*column.declared.unit)).collect();
    let recurring = recurring(table, &rows_of_cells, &measures);
    let is_in_rounds = columns.repeat.is_some() || are_in_rounds(&runs, &rows_of_cells);
    let repeats: Option<Vec<u32>> = is_in_rounds.then(|| runs.iter().map(|run| run.repeat).collect());
    let dependent = dependent(table, &rows_of_cells, &places, &recurring, repeats.as_deref());
    mark(&mut spec, &places, (&recurring, &dependent), &of_rows, mapping.rows_are_runs);
    let mut warnings = two_spellings(table, columns.factors.iter().map(|factor| factor.place));
    let renamed = |factor: &FactorColumn| {
        let column = &table.columns[factor.place];
        Some(Problem::at("", column, renamed(column, &factor.key)?))
    };
    warnings.extend(columns.factors.iter().filter_map(renamed));
    warnings.extend(recurring.warnings(table, mapping.rows_are_runs));
    warnings.extend(dependence::warnings(table, &dependent, mapping.rows_are_runs));
    Ok(Results { spec, cells: cells.len(), runs, warnings })
}

/// Notes the cells in which rows or values recur, or values depend on each other. `places` are those of the columns of the workload's
/// measures, and `cells` names the cell of each row. `are_runs` says that each row is declared to be a run of its own.
fn mark(
    spec: &mut WorkloadSpec,
    places: &[usize],
    (recurring, dependent): (&Recurring, &BTreeMap<usize, ByCell>),
    cells: &[&str],
    are_runs: bool,
) {
    let named =
        |rows: &ByCell| -> BTreeSet<String> { rows.values().flatten().map(|row| cells[*row].to_owned()).collect() };
    if are_runs {
        let of_measures = recurring.values.values().chain(dependent.values());
        spec.declared_cells = of_measures.chain([&recurring.rows]).flat_map(named).collect();
        return;
    }
    spec.recurring_cells = named(&recurring.rows);
    for (place, declared) in places.iter().zip(&mut spec.measures) {
        declared.recurring_cells = recurring.values.get(place).map(named).unwrap_or_default();
        declared.dependent_cells = dependent.get(place).map(named).unwrap_or_default();
    }
}

/// The places of the rows of each cell, which are rows with the same levels and the same facts.
fn rows_of_cells(keys: &[(String, String)]) -> Vec<Vec<usize>> {
    let mut cells: Vec<Vec<usize>> = Vec::new();
    let mut places: HashMap<&(String, String), usize> = HashMap::new();
    for (row, key) in keys.iter().enumerate() {
        let place = *places.entry(key).or_insert(cells.len());
        if place == cells.len() {
            cells.push(Vec::new());
        }
        cells[place].push(row);
    }
    cells
}

/// Refuses rows that are the same repeat of a cell by the column at a place.
fn refuse_same_repeats(
    runs: &[Imported],
    keys: &[(String, String)],
    table: &ForeignTable,
    column: usize,
) -> Result<(), Vec<Problem>> {
    let mut problems = Problems::default();
    let mut places: HashMap<(&(String, String), u32), &str> = HashMap::new();
    for ((run, key), row) in runs.iter().zip(keys).zip(&table.rows) {
        if let Some(first) = places.insert((key, run.repeat), &row.place) {
            let what = format!(
                "repeat {} of this cell is in {first}, too: number repeats, or leave this column out (skip)",
                run.repeat
            );
            problems.add(Problem::at(&row.place, &table.columns[column], what));
        }
    }
    problems.end()
}

/// Numbers the runs of each cell in the order in which they were started, or else in the order of their rows.
fn number(runs: &mut [Imported], rows_of_cells: &[Vec<usize>]) {
    for mut places in rows_of_cells.iter().cloned() {
        if places.iter().all(|place| runs[*place].started_s.is_some()) {
            let started_s = |place: &usize| runs[*place].started_s.unwrap_or_default();
            places.sort_by(|a, b| started_s(a).total_cmp(&started_s(b)));
        }
        for (repeat, place) in (1..).zip(places) {
            runs[place].repeat = repeat;
        }
    }
}

/// Whether rows with the same number belong together, although no column numbers repeats: the number is the order in which the rows of a
/// cell were started, or the cells take turns in the file.
fn are_in_rounds(runs: &[Imported], rows_of_cells: &[Vec<usize>]) -> bool {
    let has_order = |rows: &Vec<usize>| {
        let starts: BTreeSet<u64> = rows.iter().filter_map(|row| runs[*row].started_s).map(f64::to_bits).collect();
        starts.len() == rows.len()
    };
    rows_of_cells.iter().all(has_order) || rows_of_cells.len() > 1 && runs.is_sorted_by_key(|run| run.repeat)
}

/// Gives each run an id of its own, made from its cell and its repeat.
fn give_ids(runs: &mut [Imported]) {
    let mut known: HashMap<String, usize> = HashMap::new();
    for run in runs {
        let id = format!("{}-r{}", run.cell, run.repeat);
        let nth = known.entry(id.clone()).or_default();
        *nth += 1;
        run.run = if *nth == 1 { id } else { format!("{id}-{nth}") };
    }
}

/// A value as JSON, to find equal values.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The first problems of a file; later ones are dropped.
#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, problem: Problem) {
        if !self.is_full() {
            self.0.push(problem);
        }
    }

    fn is_full(&self) -> bool {
        self.0.len() >= MOST_PROBLEMS
    }

    fn end(&mut self) -> Result<(), Vec<Problem>> {
        if self.0.is_empty() { Ok(()) } else { Err(std::mem::take(&mut self.0)) }
    }
}

/// The columns of a mapping by their roles.
#[derive(Default)]
struct Columns {
    factors: Vec<FactorColumn>,
    measures: Vec<MeasureColumn>,
    repeat: Option<usize>,
    /// Whether repeats are counted from 0.
    from_zero: bool,
    machine: Option<usize>,
    commit: Option<usize>,
    commit_time: Option<usize>,
    started: Option<usize>,
    session: Option<usize>,
    /// Whether each day of `started` is a session.
    days_are_sessions: bool,
}

impl Columns {
    fn of(table: &ForeignTable, mapping: &Mapping, problems: &mut Problems) -> Self {
        let mut columns = Self::default();
        let mut keys: Vec<String> = Vec::new();
        let mut units = Units::of_measures(table, mapping).unwrap_or_else(|problem| {
            problems.add(problem);
            BTreeMap::new()
        });
        for (place, (name, role, why)) in mapping.columns.iter().enumerate() {
            let slot = match role {
                Role::Factor { unit, key } => {
                    if let Some(key) = key.as_deref().filter(|key| is_taken(key)) {
                        problems.add(Problem::at("", name, taken(key)));
                    }
                    let key = key.clone().unwrap_or_else(|| factor_key(&stem(name)));
                    columns.factors.push(FactorColumn {
                        place,
                        declared: DeclaredFactor {
                            key: key.as_str().into(),
                            name: Some(words(&stem(name))),
                            unit: Some(unit.clone()).filter(|unit| !unit.is_empty()),
                            help: None,
                        },
                        kind: kind(table, place),
                        key: key.as_str().into(),
                    });
                    keys.push(key);
                    continue;
                }
                Role::Measure { unit, better, key } => {
                    let role = (unit.as_str(), *better, key.as_deref());
                    match MeasureColumn::of(place, name, role, units.remove(&place)) {
                        Ok(column) => {
                            keys.push(column.declared.key.to_string());
                            columns.measures.push(column);
                        }
                        Err(what) => problems.add(Problem::at("", name, what)),
                    }
                    continue;
                }
                Role::Repeat => &mut columns.repeat,
                Role::Machine => &mut columns.machine,
                Role::Commit => &mut columns.commit,
                Role::CommitTime => &mut columns.commit_time,
                Role::Started => &mut columns.started,
                Role::Session => &mut columns.session,
                Role::Skip => {
                    match why.as_str() {
                        MAY_COUNT_PARTS => problems.add(Problem::at("", name, counts_parts(name))),
                        MAY_MIX => problems.add(Problem::at("", name, may_mix(name))),
                        _ => {}
                    }
                    continue;
                }
                Role::Unit => continue,
            };
            if let Some(other) = slot.replace(place) {
                let other = &mapping.columns[other].0;
                problems.add(Problem::at(
                    "",
                    name,
                    format!("{other:?} is the {} already: one of both is skip", role.word()),
                ));
            }
        }
        for (place, key) in keys.iter().enumerate() {
            if keys[..place].contains(key) {
                problems.add(Problem::of_file(format!(
                    "two columns have the key {key}: give one another key with \"… as KEY\""
                )));
            }
        }
        if columns.measures.is_empty() {
            problems.add(no_measure(table));
        }
        columns.check(table, problems);
        columns
    }

    /// Checks the columns that are neither factors nor measures.
    fn check(&mut self, table: &ForeignTable, problems: &mut Problems) {
        for row in &table.rows {
            for place in [self.started, self.commit_time].into_iter().flatten() {
                let field = &row.fields[place];
                if *field != Field::Missing && moment(field).is_none() {
                    let what = format!(
                        "{:?} is no time from 1990 to 2099: write 2026-11-26, 2026-11-26T08:30:00Z or seconds since 1970",
                        field.text()
                    );
                    problems.add(Problem::at(&row.place, &table.columns[place], what));
                }
            }
            if let Some(place) = self.repeat {
                let field = &row.fields[place];
                let is_count = |number: f64| number >= 0.0 && number.fract() == 0.0 && number < 1e9;
                if !field.number().is_some_and(is_count) {
                    let what =
                        format!("{:?} is no number of a repeat: count from 1, or let the column be skip", field.text());
                    problems.add(Problem::at(&row.place, &table.columns[place], what));
                }
                self.from_zero |= field.number() == Some(0.0);
            }
        }
        let days: Option<Vec<bool>> =
            self.started.map(|place| table.values(place).filter_map(moment).map(|(_, is_day)| is_day).collect());
        self.days_are_sessions =
            self.session.is_none() && days.is_some_and(|days| !days.is_empty() && days.iter().all(|day| *day));
    }

    fn spec(&self, table: &ForeignTable, mapping: &Mapping) -> WorkloadSpec {
        let factors = self.factors.iter().map(|column| {
            let mut levels: Vec<Level> = table.values(column.place).filter_map(|field| column.level(field)).collect();
            if !matches!(column.kind, Kind::Text) {
                levels.sort();
            }
            let mut seen: HashSet<Level> = HashSet::new();
            levels.retain(|level| seen.insert(level.clone()));
            factor_of_levels(&column.key, &levels, Some(&column.declared))
        });
        WorkloadSpec {
            name: words(&mapping.name).as_str().into(),
            factors: factors.collect(),
            measures: self.measures.iter().map(|column| column.declared.clone()).collect(),
            ..WorkloadSpec::unknown(&mapping.name)
        }
    }

    /// The levels and values of a row; `None` if something is wrong.
    fn levels_and_values(
        &self,
        row: &Row,
        table: &ForeignTable,
        problems: &mut Problems,
    ) -> Option<(Levels, Vec<(Key, f64)>)> {
        let mut wrong = false;
        let mut refuse = |place: usize, what: String| {
            wrong = true;
            problems.add(Problem::at(&row.place, &table.columns[place], what));
        };
        let mut levels: Vec<(Key, Level)> = Vec::new();
        for column in &self.factors {
            match column.level(&row.fields[column.place]) {
                Some(level) => levels.push((column.key.clone(), level)),
                None => refuse(column.place, "it has no value, and each run needs a level of each factor".to_owned()),
            }
        }
        let mut values = Vec::new();
        for column in &self.measures {
            match column.value(row) {
                Ok(value) => values.extend(value.map(|value| (column.declared.key.clone(), value))),
                Err(what) => refuse(column.place, what),
            }
        }
        if values.is_empty() && !wrong {
            problems.add(Problem::at(&row.place, "", "it has no value of a measure: leave the row out"));
            return None;
        }
        (!wrong).then(|| (Levels::new(levels), values))
    }

    /// The repeat number in a row.
    fn repeat(&self, row: &Row) -> Option<u32> {
        let number = row.fields[self.repeat?].number()?;
        Some(number as u32 + u32::from(self.from_zero))
    }

    fn environment(&self, row: &Row, format: &str, file: &str) -> Environment {
        let text = |place: Option<usize>| Some(row.fields[place?].text()).filter(|text| !text.is_empty());
        let mut environment = Environment::default();
        environment.set("hostname", text(self.machine));
        environment.set("program_git", text(self.commit));
        let committed = self.commit_time.and_then(|place| moment(&row.fields[place]));
        let committed = committed.and_then(|(time_s, _)| jiff::Timestamp::from_second(time_s as i64).ok());
        environment.set(COMMIT_TIME, committed.map(|time| time.to_string()));
        let session = text(self.session).or_else(|| text(self.started).filter(|_| self.days_are_sessions));
        let session = session.map_or(String::new(), |session| format!(", {session}"));
        environment.set(IMPORTED_FROM, Some(format!("{file} ({format}){session}")));
        environment
    }
}

impl FactorColumn {
    fn level(&self, field: &Field) -> Option<Level> {
        match (self.kind, field) {
            (_, Field::Missing) => None,
            (Kind::Whole, Field::Number(number, _)) => Some(Level::Integer(*number as i64)),
            (Kind::Number, Field::Number(number, _)) => Some(Level::Number(*number)),
            (_, field) => Some(Level::text(field.text())),
        }
    }
}

/// The kind of a column's levels. If different texts would become the same number, the levels are names: versions such
/// as 2.1 and 2.10, numbers with too many digits. The other version may be in another file, so a column of versions by its
/// name has names, too.
fn kind(table: &ForeignTable, place: usize) -> Kind {
    let values = || table.values(place).filter(|field| **field != Field::Missing);
    let all = |holds: fn(f64) -> bool| values().all(|field| field.number().is_some_and(holds));
    // A number such as 007 is a name.
    let is_padded = |text: &str| text.len() > 1 && text.starts_with('0') && !text.contains('.');
    let mut written: HashMap<u64, &str> = HashMap::new();
    let is_ambiguous = values().any(|field| {
        let Field::Number(number, text) = field else { return false };
        // 0 and -0 are one number.
        let earlier = written.insert((number + 0.0).to_bits(), text);
        number.abs() >= INEXACT && is_plain_whole(text) || earlier.is_some_and(|earlier| earlier != text)
    });
    match () {
        () if is_version(&table.columns[place]) => Kind::Text,
        () if is_ambiguous || values().any(|field| is_padded(field.text())) => Kind::Text,
        () if are_versions(values().map(Field::text)) => Kind::Text,
        () if all(|number| number.fract() == 0.0 && number.abs() < 9e15) => Kind::Whole,
        () if all(|_| true) => Kind::Number,
        () => Kind::Text,
    }
}

/// Whether a number is a version rather than a number: 1.10. Programs write numbers with as many decimals as needed, or all with as many.
fn are_versions<'t>(texts: impl Iterator<Item = &'t str>) -> bool {
    let texts: BTreeSet<&str> = texts.collect();
    let decimals = |text: &&str| text.rsplit_once('.').map_or(0, |(_, decimals)| decimals.len());
    let has_same = texts.iter().map(decimals).collect::<BTreeSet<_>>().len() == 1;
    (texts.len() == 1 || !has_same) && texts.iter().any(|text| text.ends_with('0') && decimals(text) > 1)
}

/// Whether a number is written by its digits alone.
fn is_plain_whole(text: &str) -> bool {
    text.trim_start_matches(['-', '+']).bytes().all(|byte| byte.is_ascii_digit())
}

/// The problem of a column that may count parts of runs.
fn counts_parts(name: &str) -> String {
    format!(
        "it may count parts of one run, which are no repeats: add --set \"{name}=repeat\" if each row is an independent run, or \
         --set \"{name}=factor\" if runs differ in it; otherwise average the rows of each run first"
    )
}

impl Results {
    /// How many runs have each measure, by its key.
    pub fn having(&self) -> BTreeMap<&str, usize> {
        let mut having = BTreeMap::new();
        for (key, _) in self.runs.iter().flat_map(|run| &run.values) {
            *having.entry(key.as_str()).or_default() += 1;
        }
        having
    }

    /// Whether rows or values of its cells recur, or successive values are alike, although chance does not explain it.
    pub fn recurs(&self) -> bool {
        let of_measures =
            self.spec.measures.iter().flat_map(|measure| [&measure.recurring_cells, &measure.dependent_cells]);
        of_measures.chain([&self.spec.recurring_cells, &self.spec.declared_cells]).any(|cells| !cells.is_empty())
    }
}

#[cfg(test)]
#[path = "runs_tests.rs"]
mod tests;
