//! Effects in a factorial experiment: what changes when a level takes the place of its factor's first one, and how two factors
//! change each other's effect. Worked out on logarithms, told as ratios.
//!
//! G. E. P. Box, J. S. Hunter and W. G. Hunter, *Statistics for Experimenters*, 2nd edition, 2005, chapter 5.

use std::collections::{BTreeMap, HashMap};

use super::value::Intervals;
use super::verdict::judge;
use super::{Cell, Judgement, Level, Setting, Value, varying};

/// Interactions that are worked out; an experiment with more has levels that nobody compares one by one.
pub const MOST_INTERACTIONS: usize = 1_000;

/// One level in the place of another.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The factor.
    pub setting: Setting,
    /// The level that is held against: the first in the order of cells.
    pub base: Level,
    /// The level that takes its place.
    pub level: Level,
}

/// The main effect of one change, or the interaction of two.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// One change, or two of different factors.
    pub changes: Vec<Change>,
    /// The ratio. For one change: the measure after it over that before, the geometric mean over all groups. For two: the effect of
    /// the first at the second's level over its effect at the second's base; 1 means no interaction. The interval is over
    /// repeats.
    pub value: Value,
    /// Groups of cells that differ in these changes alone: pairs of one change, fours of two.
    pub groups: usize,
    /// What the repeats say, with all effects of the experiment as the family.
    pub judgement: Judgement,
}

/// How effects are read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Ratios are base over level, so that half the time is 2.
    pub inverse: bool,
    /// Above 1 is faster.
    pub of_speed: bool,
    /// The bound of equality as a share.
    pub equal_within: f64,
    /// What intervals show.
    pub intervals: Intervals,
}

/// The main effects of all settings that differ among cells, setting by setting, then the interactions of any two of them. `values`
/// are a cell's repeats, each with its number. A level without two cells that are otherwise equal has none.
pub fn effects(cells: &[Cell], values: &dyn Fn(&Cell) -> Vec<(u32, f64)>, reading: Reading) -> Vec<Effect> {
    let design = Design::new(cells, values);
    let changes: Vec<(usize, usize)> = (0..design.settings.len())
        .flat_map(|setting| (1..design.levels[setting].len()).map(move |level| (setting, level)))
        .collect();
    let main = changes.iter().map(|change| vec![*change]);
    let of_two = changes.iter().flat_map(|first| {
        let others = changes.iter().filter(|second| second.0 > first.0);
        others.map(|second| vec![*first, *second])
    });
    let mut found: Vec<(Vec<Change>, Combined)> = main
        .chain(of_two.take(MOST_INTERACTIONS))
        .filter_map(|changes| Some((design.named(&changes), design.effect(&changes)?)))
        .collect();
    let sign = if reading.inverse { -1.0 } else { 1.0 };
    for (_, combined) in &mut found {
        combined.by_repeat.iter_mut().for_each(|(_, log)| *log *= sign);
    }
    let family: Vec<Vec<f64>> = found.iter().map(|(_, one)| one.logs()).collect();
    let judged = judge(&family, reading.of_speed, reading.equal_within);
    let effect = |((changes, combined), judgement): ((Vec<Change>, Combined), Judgement)| {
        let value = combined.value(reading.intervals)?;
        Some(Effect { changes, value, groups: combined.groups, judgement })
    };
    found.into_iter().zip(judged).filter_map(effect).collect()
}

/// The geometric mean of a measure over cells that stand for the levels of two settings, all else averaged.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanCell {
    /// The level of the first setting.
    pub first: Level,
    /// The level of the second.
    pub second: Level,
    /// The mean, with its interval over repeats.
    pub value: Value,
    /// Cells that it is over.
    pub cells: usize,
}

/// Means over all combinations of the other settings that every pair of levels has, so that they compare; none where no combination
/// has all.
pub fn mean_cells(
    cells: &[Cell],
    values: &dyn Fn(&Cell) -> Vec<(u32, f64)>,
    (first, second): (&str, &str),
    intervals: Intervals,
) -> Vec<MeanCell> {
    let design = Design::new(cells, values);
    let place = |key: &str| design.settings.iter().position(|setting| setting.key == key);
    let Some((first, second)) = place(first).zip(place(second)) else { return Vec::new() };
    let pairs = || {
        let seconds = design.levels[second].len();
        (0..design.levels[first].len()).flat_map(move |a| (0..seconds).map(move |b| (a, b)))
    };
    let at = |code: &[usize], (a, b): (usize, usize)| {
        let mut code = code.to_vec();
        (code[first], code[second]) = (a, b);
        design.places.get(&code).copied()
    };
    // What a level of its own has no cells for, nothing is held against.
    let whole: Vec<&Vec<usize>> = design
        .codes
        .iter()
        .filter(|code| code[first] == 0 && code[second] == 0)
        .filter(|code| pairs().all(|pair| at(code, pair).is_some()))
        .collect();
    let mean = |(a, b): (usize, usize)| {
        let groups = whole.iter().filter_map(|code| Some(design.logs[at(code, (a, b))?].clone())).collect();
        let combined = Combined::of(groups)?;
        Some(MeanCell {
            first: design.levels[first][a].clone(),
            second: design.levels[second][b].clone(),
            value: combined.value(intervals)?,
            cells: combined.groups,
        })
    };
    pairs().filter_map(mean).collect()
}

/// Cells as points in the space of their settings.
struct Design {
    settings: Vec<Setting>,
    /// Levels of each setting, in the order of cells.
    levels: Vec<Vec<Level>>,
    /// Places of the levels of each cell that has values.
    codes: Vec<Vec<usize>>,
    places: HashMap<Vec<usize>, usize>,
    /// Logarithms of each cell's values, by repeat.
    logs: Vec<Vec<(u32, f64)>>,
}

impl Design {
    fn new(cells: &[Cell], values: &dyn Fn(&Cell) -> Vec<(u32, f64)>) -> Self {
        let settings: Vec<Setting> = varying(cells).into_iter().filter(|setting| setting.key != "cell").collect();
        let mut design = Self {
            levels: vec![Vec::new(); settings.len()],
            settings,
            codes: Vec::new(),
            places: HashMap::new(),
            logs: Vec::new(),
        };
        for cell in cells {
            let values = values(cell);
            let is_sound = |(_, value): &(u32, f64)| *value > 0.0 && value.is_finite();
            let code = design.code(cell);
            if let Some(code) = code.filter(|_| !values.is_empty() && values.iter().all(is_sound)) {
                design.places.insert(code.clone(), design.codes.len());
                design.codes.push(code);
                design.logs.push(values.into_iter().map(|(repeat, value)| (repeat, value.ln())).collect());
            }
        }
        design
    }

    /// The places of a cell's levels; none where it lacks a setting that others have.
    fn code(&mut self, cell: &Cell) -> Option<Vec<usize>> {
        let place = |(setting, levels): (&Setting, &mut Vec<Level>)| {
            let level = cell.level(&setting.key)?;
            Some(levels.iter().position(|known| *known == level).unwrap_or_else(|| {
                levels.push(level);
                levels.len() - 1
            }))
        };
        self.settings.iter().zip(&mut self.levels).map(place).collect()
    }

    fn named(&self, changes: &[(usize, usize)]) -> Vec<Change> {
        let change = |(setting, level): &(usize, usize)| Change {
            setting: self.settings[*setting].clone(),
            base: self.levels[*setting][0].clone(),
            level: self.levels[*setting][*level].clone(),
        };
        changes.iter().map(change).collect()
    }

    /// What one change does, or two do together beyond what each does alone.
    fn effect(&self, changes: &[(usize, usize)]) -> Option<Combined> {
        let is_base = |code: &&Vec<usize>| changes.iter().all(|(setting, _)| code[*setting] == 0);
        let cell = |code: &[usize], made: u32| {
            let mut code = code.to_vec();
            for (bit, (setting, level)) in changes.iter().enumerate() {
                if made >> bit & 1 == 1 {
                    code[*setting] = *level;
                }
            }
            Some(&self.logs[*self.places.get(&code)?])
        };
        // Every change made or not: cells with an even number of them not made count for, the others against.
        let all = (1_u32 << changes.len()) - 1;
        let group = |code: &Vec<usize>| {
            let cells: Vec<(f64, &Vec<(u32, f64)>)> = (0..=all)
                .map(|made| {
                    Some((if (all ^ made).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }, cell(code, made)?))
                })
                .collect::<Option<_>>()?;
            let sum = |repeat: u32| -> Option<f64> {
                cells.iter().map(|(sign, logs)| Some(sign * logs.iter().find(|one| one.0 == repeat)?.1)).sum()
            };
            Some(cells[0].1.iter().filter_map(|(repeat, _)| Some((*repeat, sum(*repeat)?))).collect())
        };
        Combined::of(self.codes.iter().filter(is_base).filter_map(group).collect())
    }
}

/// Logarithms of several groups, averaged repeat by repeat.
struct Combined {
    by_repeat: Vec<(u32, f64)>,
    groups: usize,
}

impl Combined {
    /// Groups without a repeat that all their cells have do not count. Where a group lacks a repeat that others have, it is taken to
    /// have been as it is on average, so that what groups differ in does not pass for noise.
    fn of(groups: Vec<Vec<(u32, f64)>>) -> Option<Self> {
        let groups: Vec<_> = groups.into_iter().filter(|group| !group.is_empty()).collect();
        let mean_of = |logs: &[(u32, f64)]| logs.iter().map(|(_, log)| log).sum::<f64>() / logs.len() as f64;
        let means: Vec<f64> = groups.iter().map(|group| mean_of(group)).collect();
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        let mut repeats: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for (group, own) in groups.iter().zip(&means) {
            for (repeat, log) in group {
                let (sum, count) = repeats.entry(*repeat).or_default();
                (*sum, *count) = (*sum + log - own, *count + 1.0);
            }
        }
        let by_repeat = repeats.into_iter().map(|(repeat, (sum, count))| (repeat, mean + sum / count)).collect();
        (!groups.is_empty()).then_some(Self { by_repeat, groups: groups.len() })
    }

    fn logs(&self) -> Vec<f64> {
        self.by_repeat.iter().map(|(_, log)| *log).collect()
    }

    fn value(&self, intervals: Intervals) -> Option<Value> {
        intervals.of_ratios(self.logs().into_iter().map(f64::exp))
    }
}

#[cfg(test)]
#[path = "effect_tests.rs"]
mod tests;
