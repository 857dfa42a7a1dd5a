//! A measure over sessions in the order of their dates or commits: one line for each cell, with the places where its level changes.

use std::collections::BTreeSet;

use super::arrange::name_of;
use super::curves::Lines;
use super::{Arrangement, Scene, shown_measure};
use crate::analysis::{
    CHANGE_ERROR, COMMIT, Cell, DATE, HistoryOrder, IMPORTED_FROM, Intervals, Level, LevelChange, MADE_WITH, Method,
    Occasions, SESSION, Setting, Value, by_repeat, capitalised, counted, least_values, level_changes, measure_of,
};
use crate::figure::chart::{Addition, AdditionKind, Axis, Chart, Geometry, Point, Role, Series, panel_of};
use crate::figure::number::{interval_text, significant};
use crate::figure::ratio::scaled;
use crate::figure::study::{Along, CHANGE, CHANGE_PLACE, Form, Study};
use crate::figure::table::{CellValue, Table};
use crate::plan::groups;

/// Notes name at most this number of changes; further ones are in the table only.
const MOST_TOLD: usize = 8;

/// The history of one cell over sessions.
struct Track {
    /// The indices of its shown cells, in order.
    rows: Vec<usize>,
    /// The indices of its shown cells that have a value.
    observed: Vec<usize>,
    changes: Vec<LevelChange>,
    /// The levels before, between and after the changes.
    levels: Vec<f64>,
    /// Its name; empty if it is the only one.
    name: String,
}

/// The cells of a study as a history.
pub(super) struct History {
    occasions: Occasions,
    tracks: Vec<Track>,
    /// The probability of a false change in each track.
    error: f64,
}

/// Puts cells in the order of their history: track by track, each in the order of its sessions.
pub(super) fn in_order<'a>(study: &Study, cells: &[Cell<'a>], arrangement: &Arrangement) -> (Vec<Cell<'a>>, History) {
    let occasions = Occasions::of(cells, order(study));
    let settings: Vec<&Setting> =
        [&arrangement.columns, &arrangement.colour].into_iter().flatten().chain(&arrangement.rest).collect();
    let joins_imported = study.pool.iter().any(|key| **key == *IMPORTED_FROM);
    // Cells of different kinds are in different histories: other levels, and imported runs unless they are pooled.
    let kind = |cell: &Cell| -> (Vec<Option<Level>>, bool, String) {
        let unit = cell.measure(study.own_measure()).map_or(String::new(), |measure| measure.key.to_string());
        let levels = settings.iter().map(|setting| cell.level(&setting.key)).collect();
        (levels, !joins_imported && cell.is_imported(), unit)
    };
    let groups = groups(cells.iter().enumerate().map(|(row, cell)| (kind(cell), row)));
    let mut ordered = Vec::with_capacity(cells.len());
    let mut of_cells = Vec::with_capacity(cells.len());
    let mut tracks = Vec::with_capacity(groups.len());
    let is_alone = groups.len() == 1;
    for (_, mut rows) in groups {
        rows.sort_by_key(|row| occasions.of_cells[*row]);
        let first = ordered.len();
        ordered.extend(rows.iter().map(|row| cells[*row].clone()));
        of_cells.extend(rows.iter().map(|row| occasions.of_cells[*row]));
        let own: Vec<Setting> = settings.iter().map(|setting| (*setting).clone()).collect();
        let name = if is_alone || own.is_empty() { String::new() } else { name_of(&ordered[first], &own) };
        let rows: Vec<usize> = (first..ordered.len()).collect();
        tracks.push(Track { rows, observed: Vec::new(), changes: Vec::new(), levels: Vec::new(), name });
    }
    let mut history = History { occasions: Occasions { of_cells, ..occasions }, tracks, error: CHANGE_ERROR };
    history.find(study, &ordered);
    (ordered, history)
}

/// The number of sessions, commits or dates that bars show as levels of a setting, if there are so many that a history
/// could show a change between them.
pub(super) fn occasions_in_bars(study: &Study, cells: &[Cell], arrangement: &Arrangement) -> Option<usize> {
    if !matches!(study.form, Form::Bars | Form::Repeats) {
        return None;
    }
    let Arrangement { rows, columns, colour, rest, .. } = arrangement;
    let arranged = [rows, columns, colour].into_iter().flatten().chain(rest);
    // A factor of a user's program may have the key of a fact about sessions. No history is over its levels.
    let is_of_occasions = |setting: &&Setting| match &*setting.key {
        COMMIT | DATE => setting.is_fact,
        _ => setting.is(SESSION) || setting.is(MADE_WITH),
    };
    let levels = |setting: &Setting| -> usize {
        cells.iter().filter_map(|cell| cell.level(&setting.key)).collect::<BTreeSet<Level>>().len()
    };
    let most = arranged.filter(is_of_occasions).map(levels).max()?;
    (most >= least_values(CHANGE_ERROR)).then_some(most)
}

fn order(study: &Study) -> HistoryOrder {
    match study.along {
        Along::Dates => HistoryOrder::Dates,
        Along::Commits => HistoryOrder::Commits,
    }
}

/// The observation of a cell: the median of its repeats.
fn observation(study: &Study, cell: &Cell) -> Option<f64> {
    let values: Vec<f64> = by_repeat(cell, study.own_measure()).into_iter().map(|(_, value)| value).collect();
    Some(Intervals::ByCount.of(&values)?.median)
}

impl History {
    /// Finds the changes of all tracks. The error is shared by the tracks that are long enough to show a change.
    fn find(&mut self, study: &Study, cells: &[Cell]) {
        let observed = |track: &Track| -> Vec<(usize, f64)> {
            track.rows.iter().filter_map(|row| Some((*row, observation(study, &cells[*row])?))).collect()
        };
        let all: Vec<Vec<(usize, f64)>> = self.tracks.iter().map(observed).collect();
        let searched = all.iter().filter(|track| track.len() >= least_values(CHANGE_ERROR)).count();
        self.error = CHANGE_ERROR / searched.max(1) as f64;
        for (track, observed) in self.tracks.iter_mut().zip(all) {
            let values: Vec<(&Cell, f64)> = observed.iter().map(|(row, value)| (&cells[*row], *value)).collect();
            if !values.is_empty() {
                (track.changes, track.levels) = level_changes(&values, self.error);
            }
            track.observed = observed.into_iter().map(|(row, _)| row).collect();
        }
    }

    fn occasion(&self, row: usize) -> usize {
        self.occasions.of_cells[row]
    }

    fn label(&self, row: usize) -> &str {
        &self.occasions.labels[self.occasion(row)]
    }

    /// The two ends of the interval for the place of a change: the last session that is surely before it, and the first
    /// one that is surely after it.
    fn between(&self, track: &Track, change: &LevelChange) -> (usize, usize) {
        (track.observed[change.place.0 - 1], track.observed[change.place.1])
    }

    /// Fills the columns of changes, and adds notes about them.
    pub(super) fn fill(&self, study: &Study, cells: &[Cell], table: &mut Table) {
        let place = |key: &str| table.columns.iter().position(|column| column.key == key);
        let (change_column, place_column) = (place(CHANGE), place(CHANGE_PLACE));
        for (track, change) in self.changes() {
            let row = &mut table.rows[track.observed[change.first_after]];
            if let (Some(column), Some(ratio)) = (change_column, change.ratio) {
                row.values[column] = CellValue::Measure(ratio);
            }
            if let Some(column) = place_column {
                let (last, first) = self.between(track, change);
                row.values[column] = CellValue::Text(format!("{} and {}", self.label(last), self.label(first)));
            }
        }
        let findings = self.findings(study, cells);
        table.lead.extend(findings.iter().cloned());
        table.notes.extend(findings);
        table.notes.extend(self.method());
    }

    fn changes(&self) -> impl Iterator<Item = (&Track, &LevelChange)> {
        self.tracks.iter().flat_map(|track| track.changes.iter().map(move |change| (track, change)))
    }

    /// The findings: a sentence for each change, or the reason why no change is shown.
    fn findings(&self, study: &Study, cells: &[Cell]) -> Vec<String> {
        let measure =
            measure_of(cells, study.own_measure()).map_or("the measure".to_owned(), |one| one.name.to_lowercase());
        let sentences = self.changes().take(MOST_TOLD).map(|(track, change)| self.sentence(track, change, &measure));
        let mut notes: Vec<String> = sentences.collect();
        let count = self.changes().count();
        if count > MOST_TOLD {
            notes.push(format!("{count} changes in all: the others are in the table"));
        }
        let most = self.tracks.iter().map(|track| track.observed.len()).max().unwrap_or(0);
        let least = least_values(self.error);
        match most {
            0 => notes.push(format!("no session has {measure}")),
            1 => notes.push(
                "a history needs a cell that ran in several sessions: add sessions at the left in Compare, or name several on the command line"
                    .to_owned(),
            ),
            _ if most < least => {
                notes.push(format!("{} are too few to show a change: {least} or more can", counted(most, "session")));
            }
            _ if count == 0 => notes.push("no change is shown".to_owned()),
            _ => {}
        }
        if study.along == Along::Commits && !self.occasions.has_commit_dates {
            notes.push("dates of commits were not recorded: commits are in the order of their first runs".to_owned());
        }
        notes
    }

    /// How changes were sought, and what their numbers mean; empty if there are too few sessions.
    fn method(&self) -> Vec<String> {
        let least = least_values(self.error);
        let tracks = self.tracks.iter().filter(|track| track.observed.len() >= least).count();
        if tracks == 0 {
            return Vec::new();
        }
        let shared = if tracks > 1 { format!(", shared by {tracks} histories") } else { String::new() };
        let sought = format!(
            "changes are sought by the ranks of the sessions' medians, tested by permutations; at most {} % of histories without a change show \
             one{shared}; a session is one observation",
            significant(100.0 * CHANGE_ERROR)
        );
        let change = "change: the level from this session on over the level before, with a 95 % interval by Student's t between sessions; \
                      places have 95 % intervals, too";
        let has_changes = self.changes().next().is_some();
        std::iter::once(sought).chain(has_changes.then(|| change.to_owned())).collect()
    }

    fn sentence(&self, track: &Track, change: &LevelChange, measure: &str) -> String {
        let of_track = if track.name.is_empty() { String::new() } else { format!(" of {}", track.name) };
        let first = self.label(track.observed[change.first_after]);
        let size = change.ratio.map_or("another level".to_owned(), |ratio| {
            format!("{} times{}", significant(ratio.median), ends_text(&ratio))
        });
        let (last, end) = self.between(track, change);
        let with = match change.with.as_slice() {
            [] => String::new(),
            names => format!("; changed at the same time: {}", names.join(", ")),
        };
        format!(
            "{measure}{of_track}: {size} since {first} (95 %: between {} and {}){with}",
            self.label(last),
            self.label(end)
        )
    }
}

/// The 95 % interval of a change: ` [1.2, 1.3]`; empty if there is none.
fn ends_text(ratio: &Value) -> String {
    ratio.interval.map_or(String::new(), |ends| format!(" {}", interval_text(ends.low, ends.high)))
}

/// The chart.
pub(super) fn history(scene: &Scene) -> Vec<Chart> {
    let Some(history) = scene.history else { return Vec::new() };
    let key = scene.study.own_measure();
    let (name, unit, factor) = shown_measure(scene, key);
    let mut lines = Lines::default();
    for track in &history.tracks {
        let point = |row: &usize| {
            let (cell, value) = (&scene.cells[*row], scene.value(*row, key)?);
            let x = history.occasion(*row) as f64;
            Some(Point { x, across: None, value: scaled(value, factor), ratio: None, cell: Some(cell.key()) })
        };
        let points: Vec<Point> = track.rows.iter().filter_map(point).collect();
        if let Some(first) = track.rows.first() {
            lines.add(scene, &scene.cells[*first], &[], points);
        }
    }
    let (over, title) = match scene.study.along {
        Along::Dates => ("Date (UTC)", "dates"),
        Along::Commits => ("Commit", "commits"),
    };
    let x = Axis { categories: history.occasions.labels.clone(), ..Axis::new(over, "") };
    let y = Axis { is_free: true, ..Axis::new(&name, unit) };
    let mut chart = Chart::new(format!("{name} over {title}"), Geometry::Profile, x, y);
    let mut notes: Vec<String> = lines.note().into_iter().collect();
    chart.panels = lines.panels;
    history.add_levels(scene, factor, &mut chart);
    notes.extend(history.findings(scene.study, scene.cells).iter().map(|note| capitalised(note) + "."));
    let is_shaded = chart.additions.iter().any(|addition| matches!(addition.kind, AdditionKind::Region { .. }));
    if history.changes().next().is_some() {
        let shaded = if is_shaded { " Shaded: where a change happened, with its 95 % interval." } else { "" };
        let is_numbered = chart.additions.iter().any(|addition| matches!(addition.kind, AdditionKind::Text { .. }));
        let numbered = if is_numbered { " Numbers: the level after a change over the one before." } else { "" };
        notes.push(format!("Dotted: the median of sessions between changes.{numbered}{shaded}"));
    }
    chart.notes = notes;
    vec![chart]
}

impl History {
    /// Draws the levels of tracks with changes, and the size of each change at its step. If a panel has only one track,
    /// shades the intervals of its changes.
    fn add_levels(&self, scene: &Scene, factor: f64, chart: &mut Chart) {
        // More numbers would hide the lines.
        let are_few = self.changes().count() <= MOST_TOLD;
        for track in self.tracks.iter().filter(|track| !track.changes.is_empty()) {
            let title = scene.panel_name(&scene.cells[track.rows[0]]);
            let Some(place) = chart.panels.iter().position(|panel| panel.title == title) else { continue };
            let cells: Vec<_> = track.rows.iter().map(|row| Some(scene.cells[*row].key())).collect();
            let is_own = |series: &&Series| series.points.iter().any(|point| cells.contains(&point.cell));
            let Some(look) = chart.panels[place].series.iter().find(is_own).map(|series| series.look.clone()) else {
                continue;
            };
            let is_alone =
                chart.panels[place].series.iter().filter(|series| series.role == Role::Measured).count() == 1;
            let ends: Vec<usize> = std::iter::once(0)
                .chain(track.changes.iter().map(|change| change.first_after))
                .chain([track.observed.len()])
                .collect();
            for (level, ends) in track.levels.iter().zip(ends.windows(2)) {
                let at = |row: usize| {
                    let value = Value { median: level * factor, interval: None, n: 0, method: Method::One };
                    Point { x: self.occasion(row) as f64, across: None, value, ratio: None, cell: None }
                };
                let points = vec![at(track.observed[ends[0]]), at(track.observed[ends[1] - 1])];
                let line = Series { role: Role::Ideal, points, ..Series::measured("", look.clone()) };
                panel_of(&mut chart.panels, title.clone()).series.push(line);
            }
            for (change, levels) in track.changes.iter().zip(track.levels.windows(2)).filter(|_| are_few) {
                let Some(ratio) = change.ratio else { continue };
                let before_and_after = [change.first_after - 1, change.first_after];
                let [before, after] = before_and_after.map(|nth| self.occasion(track.observed[nth]) as f64);
                let y = f64::midpoint(levels[0], levels[1]) * factor;
                let kind = AdditionKind::Text { x: f64::midpoint(before, after), y };
                let text = format!("{}×{}", significant(ratio.median), ends_text(&ratio));
                chart.additions.push(Addition { panel: Some(place), text, kind, nth: None });
            }
            for change in track.changes.iter().filter(|_| is_alone) {
                let (last, first) = self.between(track, change);
                let (low, high) = (self.occasion(last) as f64, self.occasion(first) as f64);
                let kind = AdditionKind::Region { is_x: true, low, high };
                chart.additions.push(Addition { panel: Some(place), text: String::new(), kind, nth: None });
            }
        }
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
