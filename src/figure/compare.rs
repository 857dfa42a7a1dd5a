//! Compares cells: filters them, arranges them into charts, lists them in a table, and divides them by a baseline.

mod activity;
mod arrange;
mod bars;
mod colours;
mod crowded;
mod curves;
mod effects;
mod history;
mod intervals;
mod map;
mod metrics;
mod pareto;
mod parts;
mod repeats;
mod roofline;
mod scaling;
mod scatter;

pub use crate::analysis::level_name;
pub use arrange::Arrangement;
pub use colours::{LineLooks, settings_of_lines};

use std::collections::{BTreeSet, HashMap};

use super::baseline::Baseline;
use super::baseline_notes::baseline_warning;
use super::chart::{Chart, Scale};
use super::notes::traced_note;
use super::published::{OfPaper, add_columns, add_full_runs, add_marks, in_order_of_paper, of_paper};
use super::ratio::{judge_cells, over_baseline};
use super::study::{
    COST_NAME, FRONT, Form, Runs, SPEEDUP, SPEEDUP_NAME, STEP_COST, Study, known_measures, recorded_names,
};
use super::table::{CellValue, Table};
use super::tabulate::{cell_value, table_of};
use super::unlike_notes::warm_up_caution;
use crate::analysis::{
    COMMIT, Cell, CellKey, IMPORTED_FROM, Intervals, Judgement, Key, Level, MACHINE, MADE_WITH, Measure, Method,
    Recording, RunState, SESSION, Setting, Source, TraceList, Value, cells_pooling, counted, fact_name, has_differing,
    history_facts, measure_of, session_facts, sort, split_by, varying,
};
use crate::plan::{AA_COPY, Facts, Filter, mentions};
use arrange::{arrange, name_of};
use colours::Colours;
use history::History;
use intervals::intervals_note;

/// The levels that a setting has among all cells.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingLevels {
    /// The setting.
    pub setting: Setting,
    /// Its levels in the order of the cells, and how many cells have each.
    pub levels: Vec<(Level, usize)>,
}

/// A cell with the text that a filter's words are searched in: its name in lower case.
struct Named<'a> {
    cell: &'a Cell<'a>,
    name: String,
}

impl Facts for Named<'_> {
    fn level(&self, key: &str) -> Option<Level> {
        self.cell.level(key)
    }

    fn any_level(&self, key: &str, meets: &mut dyn FnMut(&Level) -> bool) -> bool {
        self.cell.any_level(key, meets)
    }

    fn mentions(&self, word: &str) -> bool {
        mentions(&self.name, word)
    }
}

/// A study of runs: its charts, its table, and the choices that the window offers for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The settings that cells can be filtered and arranged by: those that differ among all cells.
    pub settings: Vec<SettingLevels>,
    /// Which settings are on rows, columns and colours.
    pub arrangement: Arrangement,
    /// The shown cells with their names, in the order of the table's rows.
    pub cells: Vec<(CellKey, String)>,
    /// Facts in which repeats of the same cell differ, so that they are separated, unless the study pools them: keys and names.
    pub made_with: Vec<(Key, String)>,
    /// The number of cells without the filter.
    pub all_cells: usize,
    /// The number of cells including those that this form does not show.
    pub known_cells: usize,
    /// The number of traced cells and of separate reports, whether they are shown or not.
    pub traced: usize,
    /// The number of sessions, commits or dates that bars show as levels, if a history would show them better.
    pub occasions: Option<usize>,
    /// The baseline: the cell, if all cells have the same one, and its name.
    pub baseline: Option<(Option<CellKey>, String)>,
    /// Whether the study without the name of a baseline would have this baseline, too.
    pub has_usual_baseline: bool,
    /// Whether the baseline has a value of the measure, so that there are ratios.
    pub has_ratios: bool,
    /// A warning about the baseline: it no longer exists, or it is not shown.
    pub baseline_warning: Option<String>,
    /// The fastest cell within the study's limits, as a sentence; `None` without limits.
    pub fastest: Option<String>,
    /// Measures, factors and levels that the study names but the cells do not have, one line each.
    pub missing: Vec<String>,
    /// How the cells compare with the paper's table or figure that the study belongs to.
    pub of_paper: Option<OfPaper>,
    /// The measures to choose from: keys and names.
    pub measures: Vec<(Key, String)>,
    /// The names in the runs' recordings, by list, sorted by time with the longest first. Measures of recordings are chosen among them.
    pub recorded: Vec<(TraceList, String)>,
    /// The measure that is shown: the study's measure, or another measure that the cells have.
    pub measure: Key,
    /// The measure or factor of the x axis of the form `scatter`.
    pub across: Key,
    /// One row per cell, or one per cell and epoch.
    pub table: Table,
    /// One or more charts, below each other.
    pub charts: Vec<Chart>,
    /// The number of finished runs of the shown cells.
    pub finished: usize,
    /// The number of runs of the shown cells that ended without finishing: they are not in any value.
    pub unfinished: usize,
}

/// The note for a session in which every run was to be recorded.
fn all_recorded_note(cells: &[Cell]) -> String {
    let finished = cells.iter().flat_map(|cell| &cell.runs).filter(|run| run.state == RunState::Finished);
    let unrecorded = finished.clone().filter(|run| run.recorded_nothing()).count();
    if unrecorded == 0 {
        return "every run was recorded by a profiler, which costs time: values are those of recorded runs".to_owned();
    }
    let all = counted(finished.count(), "run");
    format!(
        "every run was to be recorded by a profiler, but nothing was recorded of {unrecorded} of {all}: the mark \"no trace\" says why"
    )
}

/// The note on bars of many sessions, commits or dates.
fn occasions_note(count: usize) -> String {
    format!(
        "bars show {count} sessions, commits or dates: --form history (\"History\" in the window) puts them in order and seeks the places \
         where a level changes"
    )
}

/// The cells of a study.
pub(super) struct Chosen<'a> {
    /// The cells of the kind that the study shows.
    pub(super) all: Vec<Cell<'a>>,
    /// The cells that its filter leaves.
    pub(super) shown: Vec<Cell<'a>>,
    /// The settings that differ among all cells.
    settings: Vec<Setting>,
    /// The settings that differ among the shown cells.
    shown_settings: Vec<Setting>,
    /// The settings that differ among the cells that the filter leaves, including hidden levels, so that hiding a level does not
    /// rearrange the chart.
    arranged: Vec<Setting>,
    /// The cells of every kind: colours must not depend on the kind that is shown.
    known: Vec<Cell<'a>>,
    /// The number of cells with a profiler's report.
    recorded: usize,
    /// The number of cells whose runs a profiler recorded.
    pub(super) traced: usize,
    /// Facts by which cells are separated, and facts over which the study pools: keys and names.
    made_with: Vec<(Key, String)>,
    /// The A/A copies of plans, which no table and no chart shows.
    copies: Vec<Cell<'a>>,
    /// The order and the changes of the form `history`.
    history: Option<History>,
    /// Why no cell has what the form `metrics` shows, if none has.
    no_metrics: Option<String>,
    /// The study, without what the cells do not have.
    study: Study,
    /// Measures, factors and levels that the study names but the cells do not have.
    missing: Vec<String>,
}

impl<'a> Chosen<'a> {
    pub(super) fn new(sources: &[Source<'a>], study: &Study) -> Self {
        let mut all = cells_pooling(sources, &study.pool);
        let apart = split_by(&all).into_iter().map(Key::from);
        let made_with: Vec<Key> = apart.chain(study.pool.iter().cloned()).collect();
        let made_with = made_with.into_iter().map(|key| (key.clone(), fact_name(&key).to_owned())).collect();
        let count = |is: fn(Recording) -> bool| all.iter().filter(|cell| is(cell.recording())).count();
        let (recorded, traced) = (count(|recording| recording != Recording::Plain), count(Recording::is_traced));
        let (copies, originals) = all.into_iter().partition(is_copy);
        all = originals;
        let known = all.clone();
        let pools_nothing = pools_nothing(study, &all);
        let (mut study, mut missing) = study.known(&all);
        missing.extend(pools_nothing);
        if study.runs == Runs::Plain && !all.is_empty() && !all.iter().any(|cell| study.admits(cell)) {
            let recorded = study.clone().with_traced();
            if all.iter().any(|cell| recorded.admits(cell)) {
                study = recorded;
                missing.push(all_recorded_note(&all));
            }
        }
        let no_metrics = metrics::no_metrics(&study, &all);
        all.retain(|cell| study.admits(cell));
        let own =
            |cells: &[Cell]| -> Vec<Setting> { varying(cells).into_iter().map(|setting| study.own(setting)).collect() };
        let settings = with_facts(&study, own(&all), &all);
        if !study.order.is_empty() {
            // The same cell of two sessions is next to each other, unless the study puts sessions in an order.
            let counts = |setting: &&Setting| (!setting.is(SESSION) && !setting.is_fact) || !setting.order.is_empty();
            sort(&mut all, &settings.iter().filter(counts).collect::<Vec<_>>());
        }
        // A filter that cannot be read hides nothing; its error is shown where it was typed. Nor does one that asks for an order of names.
        let filter = Filter::typed(&study.filter).unwrap_or_default().among(&all.iter());
        let filter = filter.unwrap_or_else(|error| {
            missing.push(format!("filter: {error}; all cells are shown"));
            Filter::default()
        });
        let is_hidden = |cell: &Cell| study.hidden.iter().any(|(key, level)| cell.level(key).as_ref() == Some(level));
        let passes = |cell: &Cell| {
            filter.is_empty() || filter.admits(&Named { cell, name: name_of(cell, &settings).to_lowercase() })
        };
        let filtered = all.iter().filter(|cell| !study.holds_out(cell, &all) && passes(cell));
        let filtered: Vec<Cell> = filtered.cloned().collect();
        let mut arranged = own(&filtered);
        arranged.extend(machine_of_history(&study, &filtered));
        // A factor that only cells without values have, such as those of a program that never finished, arranges nothing.
        let has_values = |cell: &&Cell| cell.runs.iter().any(|run| run.state == RunState::Finished);
        if filtered.iter().any(|cell| has_values(&cell)) {
            let has =
                |setting: &Setting| filtered.iter().filter(has_values).any(|cell| cell.level(&setting.key).is_some());
            arranged.retain(has);
        }
        let shown: Vec<Cell> = filtered.into_iter().filter(|cell| !is_hidden(cell)).collect();
        let shown_settings = with_facts(&study, own(&shown), &shown);
        let mut chosen = Self {
            all,
            shown,
            settings,
            shown_settings,
            arranged,
            known,
            recorded,
            traced,
            made_with,
            copies,
            history: None,
            no_metrics,
            study,
            missing,
        };
        if chosen.study.form == Form::History {
            let (shown, history) = history::in_order(&chosen.study, &chosen.shown, &chosen.arrangement());
            (chosen.shown, chosen.history) = (shown, Some(history));
        }
        chosen
    }

    /// The settings that distinguish the shown cells, as columns. If only one cell is shown, the settings that
    /// distinguish it from the hidden ones.
    fn columns(&self) -> &[Setting] {
        if self.shown_settings.is_empty() { &self.settings } else { &self.shown_settings }
    }

    /// The settings with a column in the table: without what cells were made with, if that only repeats their commits.
    fn table_settings(&self) -> Vec<Setting> {
        let mut settings = self.columns().to_vec();
        let repeats_commit = |cell: &Cell| {
            let Some(commit) = cell.level(COMMIT) else { return cell.made_with.is_empty() };
            *cell.made_with == *format!("{} {commit}", fact_name("program_git"))
        };
        let has_commits = settings.iter().any(|setting| setting.key == COMMIT && setting.is_fact);
        if has_commits && self.shown.iter().all(repeats_commit) {
            settings.retain(|setting| !setting.is(MADE_WITH));
        }
        settings
    }

    /// The settings for names of cells: the same settings without the facts that the name of the session already implies.
    fn naming(&self) -> Vec<Setting> {
        for_names(self.columns())
    }

    fn arrangement(&self) -> Arrangement {
        arrange(&self.study, &self.settings, &self.arranged, &self.shown)
    }

    pub(super) fn baseline(&self) -> Baseline<'_> {
        Baseline::find(&self.study, &self.all, &self.shown)
    }

    fn of_paper(&self) -> Option<OfPaper> {
        of_paper(&self.study, &self.shown, self.all.iter().flat_map(|cell| cell.runs.iter().copied()))
    }

    pub(super) fn table(&self, baseline: &Baseline) -> Table {
        let study = &self.study;
        let mut table = if study.form.is_of_effects() {
            effects::table(study, &self.shown, baseline)
        } else {
            table_of(study, &self.table_settings(), &self.shown, baseline)
        };
        if let Some(history) = &self.history {
            history.fill(study, &self.shown, &mut table);
        }
        if let Some(place) = table.columns.iter().position(|column| column.key == FRONT) {
            for (row, text) in pareto::front_texts(study, &self.shown, &self.naming()) {
                table.rows[row].values[place] = CellValue::Text(text);
            }
        }
        table.notes.extend(pareto::fastest(study, &self.shown, &self.naming()));
        table.notes.extend(roofline::missing_shares(&table, &self.shown));
        if let Some(count) = history::occasions_in_bars(study, &self.shown, &self.arrangement()) {
            table.notes.push(occasions_note(count));
        }
        for (note, is_warning) in self.aa_notes() {
            table.lead.extend(is_warning.then(|| note.clone()));
            table.notes.push(note);
        }
        if let Some(why) = &self.no_metrics {
            (table.notes, table.lead) = (vec![why.clone()], vec![why.clone()]);
        } else if study.form == Form::Metrics {
            table.notes.push("times are summed over GPUs and threads".to_owned());
            table.notes.extend(metrics::scaled_note(study, &self.shown));
            table.notes.extend(metrics::windows_note(&self.shown));
        } else if study.runs == Runs::Plain && self.traced > 0 {
            table.notes.push(traced_note(self.traced));
        }
        add_full_runs(&mut table, study, &self.shown, &self.all);
        add_columns(&mut table, study, &self.shown);
        table.shorten_times();
        table
    }
}

/// A line for each fact that the study pools although the repeats of every cell agree in it. Histories pool machines and imports, too.
fn pools_nothing(study: &Study, all: &[Cell]) -> Vec<String> {
    let joins = |key: &Key| {
        let joins_histories = study.form == Form::History && ["hostname", IMPORTED_FROM].contains(&&**key);
        all.is_empty() || joins_histories || has_differing(all, key)
    };
    let line = |key: &Key| format!("pool = {key}: the repeats of no cell differ in it, so it joins nothing");
    study.pool.iter().filter(|key| !joins(key)).map(line).collect()
}

/// The facts about sessions in which cells differ, as settings.
fn facts_of(study: &Study, cells: &[Cell]) -> impl Iterator<Item = Setting> {
    let facts = if study.form == Form::History { history_facts(cells) } else { session_facts(cells) };
    facts.into_iter().map(move |setting| study.own(setting))
}

/// The settings, with the facts about sessions directly after the session.
fn with_facts(study: &Study, mut settings: Vec<Setting>, cells: &[Cell]) -> Vec<Setting> {
    let place = settings.iter().position(|setting| !setting.is(SESSION)).unwrap_or(settings.len());
    settings.splice(place..place, facts_of(study, cells));
    settings
}

/// The machine, for a history that keeps machines separate. Machines differ in speed, so each has a history of its own, unless the study
/// pools them.
fn machine_of_history(study: &Study, cells: &[Cell]) -> Option<Setting> {
    let is_distinguished = study.form == Form::History && study.pool.iter().all(|key| *key != "hostname");
    facts_of(study, cells).find(|setting| setting.key == MACHINE).filter(|_| is_distinguished)
}

/// The settings without facts about sessions.
fn for_names(settings: &[Setting]) -> Vec<Setting> {
    settings.iter().filter(|setting| !setting.is_fact).cloned().collect()
}

/// The settings for the baseline's name: without what it was made with, if that depends on the cell that is divided.
fn for_baseline(settings: &[Setting], baseline: &Baseline) -> Vec<Setting> {
    let mut settings = for_names(settings);
    settings.retain(|setting| !setting.is(MADE_WITH) || !baseline.depends_on_making());
    settings
}

/// Whether a cell is an A/A copy of another cell.
fn is_copy(cell: &Cell) -> bool {
    cell.levels.get(AA_COPY).is_some()
}

impl Chosen<'_> {
    /// Notes on A/A copies and the cells that they copy, each with whether it is a warning: two equal cells must not differ.
    fn aa_notes(&self) -> Vec<(String, bool)> {
        let key = self.study.ratio_of();
        let original = |copy: &Cell| self.all.iter().find(|cell| copy.is_like(cell, &[AA_COPY]));
        let pairs: Vec<(&Cell, &Cell)> = self.copies.iter().filter_map(|copy| Some((copy, original(copy)?))).collect();
        let Some(measure) = measure_of(&self.all, &key).filter(|_| !pairs.is_empty()) else { return Vec::new() };
        let judged = judge_cells(&pairs, &key, self.study.equal_within);
        let note = |((copy, original), judged): (&(&Cell, &Cell), Judgement)| {
            let ratio = over_baseline(copy, Some(original), &key, Intervals::ByCount)?;
            let between = ratio.interval.map_or(String::new(), |ends| format!(" [{:.3}, {:.3}]", ends.low, ends.high));
            let is_warning = judged.verdict.is_difference();
            let name = measure.name.to_lowercase();
            let mut note =
                format!("A/A: a copy over the cell that it copies, by {name}: {:.3}×{between}, {judged}", ratio.median);
            if is_warning {
                note += "; the two are the same, so something other than the factors changes the values: trust no difference of \
                         this size";
            }
            Some((note, is_warning))
        };
        pairs.iter().zip(judged).filter_map(note).collect()
    }
}

/// Makes only the table of a study.
pub fn table(sources: &[Source], study: &Study) -> Table {
    let chosen = Chosen::new(sources, study);
    let mut table = chosen.table(&chosen.baseline());
    let (notes, lead) = chosen.of_paper().map_or_else(Default::default, |of_paper| (of_paper.notes, of_paper.lead));
    in_order_of_paper(&mut table, study, &chosen.shown);
    table.lead = chosen.missing.iter().cloned().chain(notes[..lead].iter().cloned()).chain(table.lead).collect();
    table.notes = chosen.missing.into_iter().chain(notes).chain(table.notes).collect();
    table
}

/// Compares the cells of one or more sessions as a study describes.
pub fn compare(sources: &[Source], study: &Study) -> Comparison {
    compare_with(sources, study, None)
}

/// Compares cells as [`compare`] does. The cell `foremost` is drawn even if a chart has room for only some of the cells.
pub fn compare_with(sources: &[Source], study: &Study, foremost: Option<&CellKey>) -> Comparison {
    let chosen = Chosen::new(sources, study);
    let baseline = chosen.baseline();
    let table = chosen.table(&baseline);
    let Chosen { all, shown, settings, study, .. } = &chosen;
    let (arrangement, naming) = (chosen.arrangement(), chosen.naming());
    let mut scene = Scene {
        cells: shown,
        all,
        known: &chosen.known,
        table: &table,
        baseline: &baseline,
        study,
        arrangement: &arrangement,
        colours: Colours::among(arrangement.colour.clone(), &chosen.known),
        naming: &naming,
        history: chosen.history.as_ref(),
        foremost,
        intervals: Intervals::ByCount,
    };
    let mut charts = scene.charts();
    let methods = charts.iter().flat_map(|chart| chart.methods()).map(|(method, _)| method);
    // Of repeats that form no pairs, a ratio has no range.
    let methods: BTreeSet<Method> = methods.filter(|method| *method != Method::GeometricMeans).collect();
    if methods.len() > 1 {
        // All bars in a picture must have the same meaning.
        scene.intervals = Intervals::Range;
        charts = scene.charts();
    }
    let are_pairs = study.form == Form::Bars && [SPEEDUP, STEP_COST].contains(&study.shown_measure());
    charts.iter_mut().for_each(|chart| chart.intervals = intervals_note(chart, are_pairs));
    let caution = warm_up_caution(study, shown, &baseline);
    charts.iter_mut().filter(|chart| !chart.is_empty()).for_each(|chart| chart.cautions.extend(caution.clone()));
    add_marks(&mut charts, study, shown);
    if study.log {
        charts.iter_mut().filter(|chart| chart.can_be_log()).for_each(|chart| chart.y.scale = Scale::Log);
    }
    let runs = || shown.iter().flat_map(|cell| &cell.runs);
    let done = runs().filter(|run| run.state == RunState::Finished).count();
    Comparison {
        settings: settings.iter().map(|setting| setting_levels(all, setting.clone())).collect(),
        cells: shown.iter().map(|cell| (cell.key(), name_of(cell, &naming))).collect(),
        made_with: chosen.made_with.clone(),
        all_cells: all.len(),
        known_cells: chosen.known.len(),
        traced: chosen.recorded,
        occasions: history::occasions_in_bars(study, shown, &arrangement),
        baseline: match (baseline.of_each(), baseline.only()) {
            (Some(levels), _) => Some((None, levels)),
            (None, only) => only.map(|cell| (Some(cell.key()), name_of(cell, &for_baseline(settings, &baseline)))),
        },
        has_usual_baseline: baseline.is_usual(study, shown),
        has_ratios: baseline.has_value(),
        baseline_warning: baseline_warning(shown, &baseline),
        finished: done,
        unfinished: runs().count() - done,
        fastest: pareto::fastest(study, shown, &naming),
        missing: chosen.missing.clone(),
        of_paper: chosen.of_paper(),
        measures: known_measures(sources),
        recorded: recorded_names(sources),
        measure: study.shown_measure().into(),
        across: study.shown_across().into(),
        arrangement,
        charts,
        table,
    }
}

/// The data from which charts are made.
struct Scene<'a> {
    /// The shown cells.
    cells: &'a [Cell<'a>],
    /// All cells, including those that the filter hides.
    all: &'a [Cell<'a>],
    /// The cells of every kind, hidden or not: a level has the same colour in all charts.
    known: &'a [Cell<'a>],
    table: &'a Table,
    baseline: &'a Baseline<'a>,
    study: &'a Study,
    arrangement: &'a Arrangement,
    colours: Colours,
    /// The settings that distinguish the shown cells.
    naming: &'a [Setting],
    /// The order and the changes of the form `history`.
    history: Option<&'a History>,
    /// The cell that is drawn first.
    foremost: Option<&'a CellKey>,
    /// The kind of intervals, which is the same everywhere in a picture.
    intervals: Intervals,
}

impl Scene<'_> {
    fn charts(&self) -> Vec<Chart> {
        if let Some(crowded) = crowded::crowded(self) {
            return vec![crowded];
        }
        match self.study.form {
            Form::Bars => vec![bars::bars(self)],
            Form::Memory => vec![bars::memory(self)],
            Form::Metrics => metrics::charts(self),
            Form::Loss => curves::by_epoch(self),
            Form::Scaling => scaling::scaling(self),
            Form::Effects => vec![effects::chart(self, false)],
            Form::Tornado => vec![effects::chart(self, true)],
            Form::Interactions => effects::interactions(self),
            Form::Pareto => pareto::pareto(self, self.naming),
            Form::Roofline => roofline::roofline(self),
            Form::Scatter => scatter::scatter(self),
            Form::History => history::history(self),
            Form::Repeats => vec![repeats::repeats(self)],
            Form::Map => vec![map::map(self)],
            Form::Parts => parts::parts(self),
            Form::Activity => vec![activity::activity(self)],
        }
    }

    /// A measure of a shown cell, given by the cell's index. If the table contains the value, it is the table's.
    fn value(&self, cell: usize, key: &str) -> Option<Value> {
        let is_whole = !self.study.by_epoch && self.intervals == Intervals::ByCount;
        let column = self.table.columns.iter().position(|column| column.key == key).filter(|_| is_whole);
        let value = match column {
            Some(column) => self.table.rows.get(cell)?.values.get(column)?.clone(),
            None => cell_value(key, &self.cells[cell], None, self.baseline, self.intervals),
        };
        if let CellValue::Measure(value) = value { Some(value) } else { None }
    }
}

/// The name of a measure, the unit on screen, and the factor that converts values to that unit.
fn shown_measure<'a>(scene: &Scene<'a>, key: &str) -> (String, &'a str, f64) {
    match measure_of(scene.cells, key) {
        Some(Measure { name, shown_unit, shown_factor, .. }) => (name.clone(), shown_unit, *shown_factor),
        None if key == STEP_COST => (COST_NAME.to_owned(), "%", 100.0),
        None => (SPEEDUP_NAME.to_owned(), "×", 1.0),
    }
}

fn setting_levels(cells: &[Cell], setting: Setting) -> SettingLevels {
    let mut places: HashMap<Level, usize> = HashMap::new();
    let mut levels: Vec<(Level, usize)> = Vec::new();
    for level in cells.iter().filter_map(|cell| cell.level(&setting.key)) {
        let place = *places.entry(level.clone()).or_insert(levels.len());
        match levels.get_mut(place) {
            Some((_, count)) => *count += 1,
            None => levels.push((level, 1)),
        }
    }
    SettingLevels { setting, levels }
}

#[cfg(test)]
mod tests;
