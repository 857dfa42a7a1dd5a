//! Baselines: the cells by which ratios divide, how a study names them, and which cell has which baseline.

use std::collections::{HashMap, HashSet};

use super::ratio::by_repeat;
use super::study::{SPEEDUP, Study};
use crate::analysis::{CELL, Cell, CellKey, Key, Level, MADE_WITH, SESSION, Source, THROUGHPUT, cells_of, setting_key};
use crate::plan::Filter;
use crate::plan::filter::between_commas;

/// The text by which a study names a cell as its baseline.
pub fn baseline_name(cell: &CellKey) -> String {
    if cell.session.is_empty() && cell.made_with.is_empty() {
        return cell.cell.clone();
    }
    let parts = [(SESSION, &cell.session), (CELL, &cell.cell), (MADE_WITH, &cell.made_with)];
    let parts = parts.iter().filter(|(_, level)| !level.is_empty());
    parts.map(|(key, level)| format!("{key}={level}")).collect::<Vec<_>>().join(",")
}

/// Whether some cell matches a study's baseline.
pub fn has_baseline(sources: &[Source], asked: &str) -> bool {
    let named = Named::new(asked);
    cells_of(sources).iter().any(|cell| named.is(cell))
}

/// The prefix of a baseline that gives each cell its own baseline cell.
const EACH: &str = "each ";

/// The levels of a baseline: pairs between commas, such as `precision=fp32,gpus=1`, or a filter that asks for levels alone, such as
/// `name="a b" and gpus=1`. `None` for any other text.
fn levels_of(asked: &str) -> Option<Vec<(String, String)>> {
    let mut parts: Vec<String> = Vec::new();
    for part in between_commas(asked.strip_prefix(EACH).unwrap_or(asked)) {
        match parts.last_mut() {
            // A level may contain a comma.
            Some(pair) if !part.contains('=') => *pair += &format!(",{part}"),
            _ => parts.push(part),
        }
    }
    let levels = |part: &String| {
        // A level with spaces but without quotes cannot be read as a filter.
        let whole = || {
            let (key, level) = part.split_once('=')?;
            Some(vec![(key.trim().to_owned(), level.trim().to_owned())])
        };
        Filter::parse(part).ok().and_then(|filter| filter.levels()).or_else(whole)
    };
    Some(parts.iter().map(levels).collect::<Option<Vec<_>>>()?.concat())
}

/// The text by which a study names cells, read once: an id, or levels.
struct Named<'a> {
    id: &'a str,
    levels: Option<Vec<(String, String)>>,
}

impl<'a> Named<'a> {
    fn new(asked: &'a str) -> Self {
        Self { id: asked, levels: levels_of(asked) }
    }

    /// Whether the text names this cell.
    fn is(&self, cell: &Cell) -> bool {
        let has = |(key, level): &(String, String)| {
            // Cells have a session level only if there are several sessions.
            let is_session = setting_key(key) == SESSION && (key != SESSION || cell.levels.get(SESSION).is_none());
            let is_only = is_session && cell.session.is_empty();
            // By these, the names of cells tell them apart, whatever a factor of such a name is.
            let own = [(SESSION, cell.session), (CELL, cell.id), (MADE_WITH, &*cell.made_with)];
            is_only
                || own.contains(&(key.as_str(), level.as_str()))
                || cell.any_level(key, &mut |own| own.to_string() == *level)
        };
        cell.id == self.id || self.levels.as_ref().is_some_and(|levels| levels.iter().all(has))
    }
}

/// Whether a study's baseline matches this cell: by its id, or by levels.
pub(super) fn names_cell(asked: &str, cell: &Cell) -> bool {
    Named::new(asked).is(cell)
}

/// Whether each cell is divided by the part of the baseline that was made in the cell's own environment. It is not if the
/// reader's words choose among the parts, and not if only parts of the baseline are shown, which would each be divided by
/// themselves. Then all cells have the same baseline.
fn is_by_making(study: &Study, only: &Cell, all: &[Cell], shown: &[Cell]) -> bool {
    let is_part = |cell: &&Cell| cell.is_part_with(only);
    let chooses = |asked: &String| {
        let named = Named::new(asked);
        all.iter().filter(is_part).any(|part| !named.is(part))
    };
    !study.baseline.as_ref().is_some_and(chooses) && shown.iter().any(|cell| !is_part(&cell))
}

/// The cells with the requested levels. A cell is compared with the one of these cells that has the same levels as it in all other
/// settings.
struct OfEach<'a> {
    /// The requested levels.
    levels: Vec<(String, String)>,
    /// Factors that all cells have, with a level that matters, and that are not requested: a cell and its baseline have the same levels.
    keys: Vec<&'a Key>,
    /// The cells by their levels of these factors.
    groups: HashMap<Vec<Option<&'a Level>>, Vec<&'a Cell<'a>>>,
}

impl<'a> OfEach<'a> {
    fn new(levels: Vec<(String, String)>, named: &[&'a Cell<'a>], all: &'a [Cell<'a>]) -> Self {
        let is_requested = |key: &Key| levels.iter().any(|(requested, _)| *requested == **key);
        let matters =
            |cell: &Cell, key: &Key| cell.levels.get(key).is_some() && cell.workload.has_meaning(key, cell.levels);
        let first = all.first().into_iter().flat_map(|cell| cell.levels.iter().map(|(key, _)| key));
        let keys: Vec<&Key> =
            first.filter(|key| !is_requested(key) && all.iter().all(|cell| matters(cell, key))).collect();
        let mut groups: HashMap<Vec<Option<&Level>>, Vec<&Cell>> = HashMap::new();
        for cell in named {
            groups.entry(keys.iter().map(|key| cell.levels.get(key)).collect()).or_default().push(*cell);
        }
        Self { levels, keys, groups }
    }

    /// The baseline of this cell; a cell with the requested levels is its own.
    fn of(&self, cell: &Cell) -> Option<&'a Cell<'a>> {
        let levels: Vec<Option<&Level>> = self.keys.iter().map(|key| cell.levels.get(key)).collect();
        let group = self.groups.get(levels.as_slice())?;
        let requested: Vec<&str> = self.levels.iter().map(|(key, _)| key.as_str()).collect();
        let is_own =
            |named: &&&Cell| (named.session, named.id, &named.made_with) == (cell.session, cell.id, &cell.made_with);
        let own = group.iter().find(is_own);
        own.or_else(|| group.iter().find(|named| cell.is_like(named, &requested))).copied()
    }
}

/// The baseline of a study that names none: the first shown cell that has the measure of the ratio, whatever else the study shows, so that
/// tables and charts with the same ratio have the same baseline; or else, for speed-ups by throughput, the first shown cell that has a
/// throughput.
fn usual<'a>(study: &Study, all: &'a [Cell<'a>], shown: &[Cell]) -> Option<&'a Cell<'a>> {
    let ratio_of = study.ratio_of();
    let has = |cell: &Cell, key: &str| !by_repeat(cell, key).is_empty();
    let speedup = study.table_measures().iter().any(|key| key == SPEEDUP);
    let first = shown.iter().find(|cell| has(cell, &ratio_of));
    let first = first.or_else(|| shown.iter().find(|cell| speedup && has(cell, THROUGHPUT)))?;
    all.iter().find(|cell| cell.key() == first.key())
}

/// The cells by which speed-ups and ratios divide: one for all cells, or one for each cell.
pub(super) struct Baseline<'a> {
    /// The requested cell, or all cells with the requested levels. A cell is then compared with the one of these cells that has the same
    /// levels as it in all other settings.
    named: Vec<&'a Cell<'a>>,
    /// Finds the baseline of a cell, if each cell has its own baseline.
    of_each: Option<OfEach<'a>>,
    /// All cells of the study, among which each cell's baseline is searched.
    pub(super) among: &'a [Cell<'a>],
    /// The parts of the requested cell by their environments, if each cell is compared with the part that was made in the same environment;
    /// see [`is_by_making`]. Otherwise empty.
    parts: HashMap<&'a str, &'a Cell<'a>>,
    /// The requested baseline, if no cell matches it.
    pub(super) unknown: Option<String>,
    /// Whether the filter hides the cell.
    pub(super) is_hidden: bool,
    /// The measure whose ratio is shown in the column `ratio`.
    pub(super) ratio_of: Key,
}

impl<'a> Baseline<'a> {
    /// The cell that the study names, whether it is shown or not; if the study names no cell, the [`usual`] one.
    pub(super) fn find(study: &Study, all: &'a [Cell<'a>], shown: &[Cell]) -> Self {
        let ratio_of = study.ratio_of();
        let keys_shown: HashSet<CellKey> = shown.iter().map(Cell::key).collect();
        let is_shown = |cell: &Cell| keys_shown.contains(&cell.key());
        let of_each = study.baseline.as_deref().filter(|asked| asked.starts_with(EACH)).and_then(levels_of);
        let named: Vec<&Cell> = match &study.baseline {
            Some(asked) => match all.iter().find(|cell| cell.id == asked.as_str()) {
                // Of several parts of the cell, a shown one is preferred.
                Some(first) => {
                    let is_same = |cell: &&Cell| cell.id == first.id && cell.session == first.session;
                    vec![all.iter().find(|cell| is_same(cell) && is_shown(cell)).unwrap_or(first)]
                }
                None => {
                    // If several cells have these levels, a shown one is preferred.
                    let name = Named::new(asked);
                    let mut named: Vec<&Cell> = all.iter().filter(|cell| name.is(cell)).collect();
                    named.sort_by_key(|cell| !is_shown(cell));
                    named.truncate(if of_each.is_some() { named.len() } else { 1 });
                    named
                }
            },
            None => usual(study, all, shown).into_iter().collect(),
        };
        let unknown = study.baseline.clone().filter(|_| named.is_empty());
        let by_making = named.first().filter(|only| is_by_making(study, only, all, shown));
        let is_hidden = of_each.is_none()
            && named.first().is_some_and(|only| {
                let has_part = || by_making.is_some() && shown.iter().any(|cell| cell.is_part_with(only));
                !is_shown(only) && !has_part()
            });
        let mut parts = HashMap::new();
        if let Some(only) = by_making {
            for part in all.iter().filter(|cell| cell.is_part_with(only)) {
                parts.entry(&*part.made_with).or_insert(part);
            }
        }
        let of_each = of_each.map(|levels| OfEach::new(levels, &named, all));
        Self { named, of_each, among: all, parts, unknown, is_hidden, ratio_of }
    }

    /// The baseline of all cells, if they have the same one.
    pub(super) fn only(&self) -> Option<&'a Cell<'a>> {
        self.named.first().copied().filter(|_| self.of_each.is_none())
    }

    /// The baseline of this cell.
    pub(super) fn of(&self, cell: &Cell) -> Option<&'a Cell<'a>> {
        match &self.of_each {
            Some(of_each) => of_each.of(cell),
            None => {
                let only = self.only()?;
                Some(self.parts.get(&*cell.made_with).copied().unwrap_or(only))
            }
        }
    }

    /// Whether a cell is divided by the part of the baseline that was made in the same environment as the cell.
    pub(super) fn depends_on_making(&self) -> bool {
        !self.parts.is_empty() && self.only().is_some_and(|only| !only.made_with.is_empty())
    }

    /// The levels by which each cell's baseline differs from the cell, if each cell has its own: `workload = pytorch`.
    pub(super) fn of_each(&self) -> Option<String> {
        let of_each = self.of_each.as_ref().filter(|_| !self.named.is_empty())?;
        Some(of_each.levels.iter().map(|(key, level)| format!("{key} = {level}")).collect::<Vec<_>>().join(", "))
    }

    /// Whether a study that names no baseline has the same one for these shown cells.
    pub(super) fn is_usual(&self, study: &Study, shown: &[Cell]) -> bool {
        usual(study, self.among, shown).map(Cell::key) == self.only().map(Cell::key)
    }

    /// Whether it has a value of the measure whose ratios are shown.
    pub(super) fn has_value(&self) -> bool {
        self.named.iter().any(|cell| !by_repeat(cell, &self.ratio_of).is_empty())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{cells, fixture, summarise_run};

    #[test]
    fn a_baseline_is_pairs_between_commas_or_a_filter_of_levels_with_its_quotes() {
        let levels = |asked: &str| {
            let levels = levels_of(asked)?;
            Some(levels.iter().map(|(key, level)| format!("{key} is {level}")).collect::<Vec<_>>().join("; "))
        };
        for (asked, expected) in [
            ("precision=fp32,gpus=1", "precision is fp32; gpus is 1"),
            ("each gpus=1", "gpus is 1"),
            ("name=\"a b\"", "name is a b"),
            ("each name='a, b=c',gpus=1", "name is a, b=c; gpus is 1"),
            ("name='a b' and gpus=1", "name is a b; gpus is 1"),
            ("name=a b, gpu_set=0,2", "name is a b; gpu_set is 0,2"),
            ("formula=a=b,text=it's \"so\"", "formula is a=b; text is it's \"so\""),
        ] {
            assert_eq!(levels(asked).as_deref(), Some(expected), "{asked}");
        }
        assert_eq!(levels("0123abcd"), None, "an id");
    }

    #[test]
    fn the_session_of_a_baseline_is_that_of_the_only_session_however_it_is_called() {
        let runs = [summarise_run(&fixture::finished())];
        let cells = cells(&runs);
        let names = |asked: &str| names_cell(asked, &cells[0]);
        assert!(names("session=a,gpus=2") && names("setting_session=a,gpus=2") && !names("setting_session=a,gpus=4"));
    }
}
