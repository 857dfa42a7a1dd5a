//! Means of cells for pairs of levels of two settings, as plots of interactions show them.

use std::collections::{HashMap, HashSet};

use super::{Combined, Design, have_logs};
use crate::analysis::{Cell, Intervals, Level, Value};

/// Means are computed for at most this many pairs of levels: nobody can read a plot with more lines.
const MOST_PAIRS: usize = 2_500;

/// The geometric mean of a measure over the cells with two given levels of two settings, averaged over everything else.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanCell {
    /// The level of the first setting.
    pub first: Level,
    /// The level of the second.
    pub second: Level,
    /// The mean, with its interval over repeats.
    pub value: Value,
    /// The number of cells in it.
    pub cells: usize,
}

/// Means for all pairs of levels of two settings. Only combinations of the other settings that every pair has are used, so that the means
/// are comparable. If no combination has all pairs, levels that lack cells are left out, at least two of each setting remaining; empty if
/// that does not help, and for more than [`MOST_PAIRS`] pairs. Cells with a value that is not above 0 have no geometric mean, and count as
/// lacking.
pub fn mean_cells(
    cells: &[Cell],
    values: &dyn Fn(&Cell) -> Vec<(u32, f64)>,
    (first, second): (&str, &str),
    intervals: Intervals,
) -> Vec<MeanCell> {
    let with_logs = |cell: &Cell| {
        let values = values(cell);
        if have_logs(&values) { values } else { Vec::new() }
    };
    let design = Design::new(cells, &with_logs);
    let place = |key: &str| design.settings.iter().position(|setting| setting.key == key);
    let Some((first, second)) = place(first).zip(place(second)) else { return Vec::new() };
    if design.levels[first].len().saturating_mul(design.levels[second].len()) > MOST_PAIRS {
        return Vec::new();
    }
    let Some(Grid { levels, whole }) = design.grid((first, second)) else { return Vec::new() };
    let mean = |(a, b): (usize, usize)| {
        let at = |code: &Vec<usize>| design.at(code, (first, second), (a, b));
        let places: Vec<usize> = whole.iter().filter_map(at).collect();
        let combined = if places.len() == 1 || design.have_partners(&places) {
            Combined::of(&places.iter().map(|place| design.logs[*place].clone()).collect::<Vec<_>>())
        } else {
            let share = 1.0 / places.len() as f64;
            design.whole(places.iter().map(|place| (share, *place)), places.len())
        };
        Some(MeanCell {
            first: design.levels[first][a].clone(),
            second: design.levels[second][b].clone(),
            value: combined.value(intervals)?,
            cells: combined.groups,
        })
    };
    pairs_of(&levels).filter_map(mean).collect()
}

/// A complete part of a design over the levels of two settings.
struct Grid {
    /// The levels of both settings, by their places.
    levels: [Vec<usize>; 2],
    /// The combinations of the other settings that have a cell for each pair of these levels.
    whole: Vec<Vec<usize>>,
}

fn pairs_of(levels: &[Vec<usize>; 2]) -> impl Iterator<Item = (usize, usize)> {
    levels[0].iter().flat_map(|a| levels[1].iter().map(move |b| (*a, *b)))
}

impl Design<'_, '_> {
    /// The place of the cell that a code names with these levels of two settings.
    fn at(&self, code: &[usize], (first, second): (usize, usize), (a, b): (usize, usize)) -> Option<usize> {
        let mut code = code.to_vec();
        (code[first], code[second]) = (a, b);
        self.places.get(&code).copied()
    }

    /// The largest complete part that is found by leaving out, one after the other, the level that lacks the most cells. `None` if two
    /// levels of each setting are not complete either.
    fn grid(&self, settings: (usize, usize)) -> Option<Grid> {
        let mut levels =
            [settings.0, settings.1].map(|setting| (0..self.levels[setting].len()).collect::<Vec<usize>>());
        let mut others: Vec<Vec<usize>> = self.codes.clone();
        others.iter_mut().for_each(|code| (code[settings.0], code[settings.1]) = (0, 0));
        others.sort_unstable();
        others.dedup();
        // In the order of cells.
        others.sort_by_key(|code| self.places.get(code).copied());
        let numbers: HashMap<&Vec<usize>, usize> = others.iter().zip(0..).collect();
        let number = |code: &Vec<usize>| {
            let mut other = code.clone();
            (other[settings.0], other[settings.1]) = (0, 0);
            numbers.get(&other).copied()
        };
        let cells: Vec<(usize, [usize; 2])> =
            self.places.keys().filter_map(|code| Some((number(code)?, [code[settings.0], code[settings.1]]))).collect();
        loop {
            // How many cells each of the other combinations has, and how many of these combinations have a cell for each pair of levels.
            let (mut of_other, mut of_pair) = (vec![0; others.len()], HashMap::<[usize; 2], usize>::new());
            let is_kept = [0, 1].map(|side| levels[side].iter().copied().collect::<HashSet<usize>>());
            for (other, pair) in cells.iter().filter(|(_, pair)| (0..2).all(|side| is_kept[side].contains(&pair[side])))
            {
                of_other[*other] += 1;
                *of_pair.entry(*pair).or_default() += 1;
            }
            let pairs = levels[0].len() * levels[1].len();
            let is_whole = |(_, cells): &(&Vec<usize>, &usize)| **cells == pairs;
            let whole: Vec<Vec<usize>> =
                others.iter().zip(&of_other).filter(is_whole).map(|(code, _)| code.clone()).collect();
            if !whole.is_empty() {
                return Some(Grid { levels, whole });
            }
            // The share of its cells that each level lacks; of levels alike, the last one is left out.
            let share = |side: usize, level: usize| {
                let partners = &levels[1 - side];
                let pair = |partner: &usize| if side == 0 { [level, *partner] } else { [*partner, level] };
                let present = |partner: &usize| of_pair.get(&pair(partner)).copied().unwrap_or(0);
                let lacking: usize = partners.iter().map(|partner| others.len() - present(partner)).sum();
                lacking as f64 / partners.len() as f64
            };
            let removable = [0, 1].into_iter().filter(|side| levels[*side].len() > 2);
            let candidates = removable.flat_map(|side| levels[side].iter().map(move |level| (side, *level)));
            let shares = candidates.map(|(side, level)| (share(side, level), side, level));
            let (_, side, level) = shares.max_by(|a, b| a.0.total_cmp(&b.0))?;
            levels[side].retain(|known| *known != level);
        }
    }
}
