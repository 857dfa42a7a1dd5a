//! Effects in a factorial experiment: what changes when a level replaces its factor's first level, and how two factors change each other's
//! effect. Computed on logarithms, reported as ratios.
//!
//! Where a design chose some of all combinations, a linear model is fitted to the logarithms instead; see [`fitted`].
//!
//! G. E. P. Box, J. S. Hunter and W. G. Hunter, *Statistics for Experimenters*, 2nd edition, 2005, chapter 5.

mod fitted;
mod means;

use std::collections::HashMap;

use super::comparison::clock_ratio;
use super::contrast::Sample;
use super::setting::CELL;
use super::value::{Intervals, complete_blocks, have_logs};
use super::verdict::judge_comparisons;
use super::{Cell, Comparison, Incomparable, Judgement, Level, Measure, Setting, Value, Verdict, varying};

pub use means::{MeanCell, mean_cells};

/// The most interactions that are computed; nobody compares more of them one by one.
pub const MOST_INTERACTIONS: usize = 1_000;

/// One level that replaces another.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The factor.
    pub setting: Setting,
    /// The replaced level: the first in the order of cells.
    pub base: Level,
    /// The level that replaces it.
    pub level: Level,
}

/// The main effect of one change, or the interaction of two changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// One change, or two changes of different factors.
    pub changes: Vec<Change>,
    /// The ratio. For one change: the measure after the change over the measure before it, as the geometric mean over all groups. For two:
    /// the effect of the first change at the second's level over its effect at the second's base; 1 means no interaction. The interval is
    /// over repeats. `None` only for an effect that is not comparable.
    pub value: Option<Value>,
    /// The number of groups of cells that differ only in these changes: pairs for one change, fours for two.
    pub groups: usize,
    /// The number of repeats of the group that has most. The effect uses only the repeats that all groups have; their number is in its
    /// value.
    pub repeats_seen: usize,
    /// The verdict on the effect; all effects of the experiment are one family.
    pub judgement: Judgement,
    /// For an effect that was fitted to the cells of a design: the effects that it is mixed with, and the number of cells.
    pub fitted: Option<Fitted>,
}

/// The effects of an experiment: setting by setting, then the interactions of any two settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// The effects.
    pub computed: Vec<Effect>,
    /// The changes of effects that have no value although their cells can be compared, because no repeat has finished in all cells that
    /// the effect compares.
    pub without_repeats: Vec<Vec<Change>>,
}

/// How an effect was fitted to the cells of a design.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The number of cells.
    pub cells: usize,
    /// The effects with which it is mixed, the largest share first.
    pub mixed: Vec<Mixed>,
}

/// An effect that is contained in the estimate of another effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixed {
    /// Its factor, or its two factors.
    pub settings: Vec<Setting>,
    /// How much of its coefficient the estimate contains: 1 or −1 if the two cannot be separated at all.
    pub share: f64,
}

/// How effects are computed and judged.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// The key of the measure.
    pub measure: &'a str,
    /// Whether ratios are base over level, so that half the time gives 2.
    pub inverse: bool,
    /// Whether a ratio above 1 means faster.
    pub of_speed: bool,
    /// The bound for equality as a share.
    pub equal_within: f64,
    /// The kind of intervals.
    pub intervals: Intervals,
    /// The number of effects of the experiment that a filter hides, which still belong to the family.
    pub others: usize,
}

/// The main effects of all settings that differ between cells, setting by setting, then the interactions of any two of them. `values` are a
/// cell's repeats with their numbers. A level has no effect if no two cells with values differ only in it.
pub fn effects(cells: &[Cell], values: &dyn Fn(&Cell) -> Vec<(u32, f64)>, reading: Reading<'_>) -> Effects {
    let mut design = Design::new(cells, values);
    let mut estimates = match fitted::requested_interactions(cells, &design.settings) {
        Some(interactions) => {
            design.sort_levels();
            fitted::fitted(&design, &interactions, &reading)
        }
        None => design.grouped(&reading),
    };
    let is_told = cells.iter().find_map(|cell| cell.measure(reading.measure)).is_some_and(Measure::is_told);
    for Estimate { combined, comparison, .. } in &mut estimates {
        if comparison.reason == Some(Incomparable::NoRatio) {
            combined.sample = combined.sample.emptied();
        }
        if reading.inverse {
            combined.sample = std::mem::take(&mut combined.sample).negated();
        }
        comparison.sample = combined.sample.clone();
        comparison.least = comparison.sample.count();
        // A step that arrived later than the program reports makes a time longer and a rate lower: both mean a lower speed.
        let clocks = comparison.by_arrival.take().filter(|_| is_told);
        comparison.by_arrival = clocks.and_then(|clocks| comparison.sample.plus(&clocks));
    }
    let (estimates, family): (Vec<_>, Vec<Comparison>) = estimates
        .into_iter()
        .map(|Estimate { changes, combined, comparison, fitted }| ((changes, combined, fitted), comparison))
        .unzip();
    let judged = judge_comparisons(&family, reading.others, reading.of_speed, reading.equal_within);
    let mut effects = Effects::default();
    for ((changes, combined, fitted), judgement) in estimates.into_iter().zip(judged) {
        let Combined { groups, repeats: repeats_seen, .. } = combined;
        let value = combined.value(reading.intervals);
        if value.is_some() || judgement.verdict == Verdict::NotComparable {
            effects.computed.push(Effect { changes, value, groups, repeats_seen, judgement, fitted });
        } else {
            effects.without_repeats.push(changes);
        }
    }
    effects
}

/// An effect before it is judged.
struct Estimate {
    changes: Vec<Change>,
    combined: Combined,
    comparison: Comparison,
    fitted: Option<Fitted>,
}

/// Cells as points in the space of their settings.
struct Design<'a, 'r> {
    /// The cells that have values.
    cells: Vec<&'a Cell<'r>>,
    settings: Vec<Setting>,
    /// Levels of each setting, in the order of cells.
    levels: Vec<Vec<Level>>,
    /// The indexes of the levels of each cell.
    codes: Vec<Vec<usize>>,
    places: HashMap<Vec<usize>, usize>,
    /// The logarithms of each cell's values, by repeat; none of a cell with a value that is not above 0.
    logs: Vec<Vec<(u32, f64)>>,
    /// For the same runs, the logarithms of reported time over the time in which the lines arrived.
    clocks: Vec<Vec<(u32, f64)>>,
}

/// A setting and another level than its first one, by their places.
type LevelPlace = (usize, usize);

impl<'a, 'r> Design<'a, 'r> {
    fn new(cells: &'a [Cell<'r>], values: &dyn Fn(&Cell) -> Vec<(u32, f64)>) -> Self {
        let settings: Vec<Setting> = varying(cells).into_iter().filter(|setting| !setting.is(CELL)).collect();
        let mut places: Vec<HashMap<Level, usize>> = vec![HashMap::new(); settings.len()];
        let mut design = Self {
            cells: Vec::new(),
            levels: Vec::new(),
            settings,
            codes: Vec::new(),
            places: HashMap::new(),
            logs: Vec::new(),
            clocks: Vec::new(),
        };
        for cell in cells {
            let mut values = values(cell);
            let code = code(&design.settings, &mut places, cell);
            if let Some(code) = code.filter(|_| !values.is_empty()) {
                if !have_logs(&values) {
                    values.clear();
                }
                design.places.insert(code.clone(), design.codes.len());
                design.codes.push(code);
                design.cells.push(cell);
                let clock = |(repeat, _): &(u32, f64)| {
                    let run = super::finished(cell).find(|run| run.repeat == *repeat);
                    (*repeat, run.map_or(0.0, |run| clock_ratio(run).ln()))
                };
                design.clocks.push(values.iter().map(clock).collect());
                design.logs.push(values.into_iter().map(|(repeat, value)| (repeat, value.ln())).collect());
            }
        }
        design.levels = places.into_iter().map(in_order).collect();
        design
    }

    /// Puts the levels of each setting in the order of its factor: the first cell of a design need not have the first levels.
    fn sort_levels(&mut self) {
        for (place, setting) in self.settings.iter().enumerate() {
            let factor = self.cells.iter().find_map(|cell| cell.workload.factor(&setting.key));
            let levels = &mut self.levels[place];
            let mut order: Vec<usize> = (0..levels.len()).collect();
            let named =
                |level: &Level| factor.filter(|_| level.as_number().is_none()).and_then(|factor| factor.place(level));
            let number = |level: &Level| level.as_number().unwrap_or(0.0);
            order.sort_by(|a, b| {
                let (a, b) = (&levels[*a], &levels[*b]);
                named(a).cmp(&named(b)).then(number(a).total_cmp(&number(b)))
            });
            *levels = order.iter().map(|old| levels[*old].clone()).collect();
            for code in &mut self.codes {
                code[place] = order.iter().position(|old| *old == code[place]).unwrap_or(code[place]);
            }
        }
        self.places = self.codes.iter().cloned().zip(0..).collect();
    }

    /// The changes of one level, setting by setting, and the changes of two settings.
    fn changes(&self) -> (Vec<LevelPlace>, impl Iterator<Item = Vec<LevelPlace>>) {
        let changes: Vec<LevelPlace> = (0..self.settings.len())
            .flat_map(|setting| (1..self.levels[setting].len()).map(move |level| (setting, level)))
            .collect();
        let all = changes.clone();
        let of_two = changes.clone().into_iter().flat_map(move |first| {
            // Changes are in the order of their settings.
            let others = all[all.partition_point(|second| second.0 <= first.0)..].to_vec();
            others.into_iter().map(move |second| vec![first, second])
        });
        (changes, of_two)
    }

    /// The effects over groups of cells that differ only in the changes.
    fn grouped(&self, reading: &Reading<'_>) -> Vec<Estimate> {
        let (main, of_two) = self.changes();
        let mut pairs = self.pairs();
        let main = main.into_iter().map(|change| (vec![change], pairs.remove(&change).unwrap_or_default()));
        let of_two = of_two.take(MOST_INTERACTIONS).map(|changes| {
            let groups = self.groups(&changes);
            (changes, groups)
        });
        main.chain(of_two)
            .filter(|(_, groups)| !groups.is_empty())
            .map(|(changes, groups)| {
                let mut comparison = self.comparison(&groups, reading);
                comparison.reason = self.no_ratio(groups.iter().flatten().copied()).or(comparison.reason);
                comparison.by_arrival = Some(Combined::of(&self.contrasts(&groups, &self.clocks)).sample);
                let combined = self.combined(&groups);
                Estimate { changes: self.named(&changes), combined, comparison, fitted: None }
            })
            .collect()
    }

    fn named(&self, changes: &[(usize, usize)]) -> Vec<Change> {
        let change = |(setting, level): &(usize, usize)| Change {
            setting: self.settings[*setting].clone(),
            base: self.levels[*setting][0].clone(),
            level: self.levels[*setting][*level].clone(),
        };
        changes.iter().map(change).collect()
    }

    /// The groups of each single change, as [`Self::groups`] gives them for one change. There may be as many changes as cells.
    fn pairs(&self) -> HashMap<LevelPlace, Vec<Vec<usize>>> {
        /// A setting, and the levels of a cell without its change.
        type Unchanged = (usize, Vec<usize>);
        // The changed levels that have a cell, with its place.
        let mut changed: HashMap<Unchanged, Vec<(usize, usize)>> = HashMap::new();
        for (code, place) in &self.places {
            for (setting, level) in code.iter().copied().enumerate().filter(|(_, level)| *level != 0) {
                let mut base = code.clone();
                base[setting] = 0;
                changed.entry((setting, base)).or_default().push((level, *place));
            }
        }
        let mut pairs: HashMap<LevelPlace, Vec<Vec<usize>>> = HashMap::new();
        for code in &self.codes {
            for setting in (0..code.len()).filter(|setting| code[*setting] == 0) {
                for (level, place) in changed.get(&(setting, code.clone())).into_iter().flatten() {
                    pairs.entry((setting, *level)).or_default().push(vec![self.places[code], *place]);
                }
            }
        }
        pairs
    }

    /// The indexes of the cells of each group: one for each combination of making the changes or not; the first bit stands for the first
    /// change.
    fn groups(&self, changes: &[(usize, usize)]) -> Vec<Vec<usize>> {
        let is_base = |code: &&Vec<usize>| changes.iter().all(|(setting, _)| code[*setting] == 0);
        let place = |code: &[usize], changed: u32| {
            let mut code = code.to_vec();
            for (bit, (setting, level)) in changes.iter().enumerate() {
                if changed >> bit & 1 == 1 {
                    code[*setting] = *level;
                }
            }
            self.places.get(&code).copied()
        };
        let all = 1_u32 << changes.len();
        let group = |code: &Vec<usize>| (0..all).map(|changed| place(code, changed)).collect::<Option<Vec<usize>>>();
        self.codes.iter().filter(is_base).filter_map(group).collect()
    }

    /// The reason if one of these cells has a value that is not above 0: leaving the cell out would give the effect of other cells.
    fn no_ratio(&self, mut places: impl Iterator<Item = usize>) -> Option<Incomparable> {
        places.any(|place| self.logs[place].is_empty()).then_some(Incomparable::NoRatio)
    }

    /// Whether the repeats of these cells have partners in the others.
    fn have_partners(&self, places: &[usize]) -> bool {
        places.iter().all(|place| self.cells[*place].has_partners())
    }

    /// Cells together whose repeats have no partners: the means of their logarithms, each times its weight.
    fn whole(&self, parts: impl Iterator<Item = (f64, usize)>, groups: usize) -> Combined {
        let logs = |place: usize| self.logs[place].iter().map(|(_, log)| *log).collect();
        let sample = Sample::Groups(parts.map(|(weight, place)| (weight, logs(place))).collect());
        Combined { repeats: sample.count(), sample, groups }
    }

    /// The effect of changes over all groups; an empty sample if no repeat exists in all cells of all groups.
    fn combined(&self, groups: &[Vec<usize>]) -> Combined {
        if groups.iter().all(|group| self.have_partners(group)) {
            return Combined::of(&self.contrasts(groups, &self.logs));
        }
        let share = 1.0 / groups.len() as f64;
        let of_group = |group: &Vec<usize>| -> Vec<(f64, usize)> {
            (0..).zip(group).map(|(changed, place)| (share * sign(group, changed), *place)).collect()
        };
        self.whole(groups.iter().flat_map(of_group), groups.len())
    }

    /// For each group the effect of one change, or the interaction of two changes: their effect together beyond the effects of each alone.
    fn contrasts(&self, groups: &[Vec<usize>], logs: &[Vec<(u32, f64)>]) -> Vec<Vec<(u32, f64)>> {
        groups.iter().map(|group| Self::contrast(group, logs)).collect()
    }

    /// The effect or interaction in one group, for each repeat that all its cells have.
    fn contrast(group: &[usize], logs: &[Vec<(u32, f64)>]) -> Vec<(u32, f64)> {
        let logs = |place: &usize| &logs[*place];
        let sum = |repeat: u32| -> Option<f64> {
            let of_cell =
                |(place, changed)| Some(sign(group, changed) * logs(place).iter().find(|one| one.0 == repeat)?.1);
            group.iter().zip(0..).map(of_cell).sum()
        };
        logs(&group[0]).iter().filter_map(|(repeat, _)| Some((*repeat, sum(*repeat)?))).collect()
    }

    /// The limits of the design for the groups: each cell is compared with the one without its last change.
    fn comparison(&self, groups: &[Vec<usize>], reading: &Reading<'_>) -> Comparison {
        let pairs = |group: &Vec<usize>| -> Vec<(&Cell<'r>, &Cell<'r>)> {
            let without_last = |changed: usize| changed & !(1 << changed.ilog2());
            (1..group.len())
                .map(|changed| (self.cells[group[changed]], self.cells[group[without_last(changed)]]))
                .collect()
        };
        let pairs: Vec<_> = groups.iter().flat_map(pairs).collect();
        let mut comparison = Comparison::of_design(&pairs, reading.measure);
        // An interaction is the ratio of two ratios.
        comparison.rounding.step *= groups.first().map_or(1.0, |group| group.len() as f64 / 2.0);
        comparison
    }
}

/// The sign of the cell of a group in which these changes are made. Cells with an even number of changes not made count positively, the others
/// negatively.
fn sign(group: &[usize], changed: u32) -> f64 {
    let all = group.len() as u32 - 1;
    if (all ^ changed).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
}

/// The places of a cell's levels. A level that is new gets the next place. `None` if the cell lacks a setting that other cells have.
fn code(settings: &[Setting], places: &mut [HashMap<Level, usize>], cell: &Cell) -> Option<Vec<usize>> {
    let place = |(setting, places): (&Setting, &mut HashMap<Level, usize>)| {
        let next = places.len();
        Some(*places.entry(cell.level(&setting.key)?).or_insert(next))
    };
    settings.iter().zip(places).map(place).collect()
}

/// Levels in the order of their places.
fn in_order(places: HashMap<Level, usize>) -> Vec<Level> {
    let mut levels: Vec<(Level, usize)> = places.into_iter().collect();
    levels.sort_by_key(|(_, place)| *place);
    levels.into_iter().map(|(level, _)| level).collect()
}

/// Logarithms of several groups together: averaged repeat by repeat, or as a whole if repeats have no partners.
struct Combined {
    sample: Sample,
    groups: usize,
    /// The number of repeats of the group that has most.
    repeats: usize,
}

impl Combined {
    /// Only repeats that all groups have count. A missing repeat of a group cannot be replaced by the group's mean: the mean has no noise,
    /// so the noise of the remaining groups would be taken for the noise of all. A group without any repeat leaves none: the remaining
    /// groups would give the effect in other cells.
    fn of(groups: &[Vec<(u32, f64)>]) -> Self {
        let repeats = groups.iter().map(Vec::len).max().unwrap_or(0);
        let blocks = complete_blocks(&groups.iter().collect::<Vec<_>>());
        let logs = blocks.into_iter().map(|(_, log)| log);
        Self { sample: Sample::Pairs(logs.collect()), groups: groups.len(), repeats }
    }

    fn value(&self, intervals: Intervals) -> Option<Value> {
        intervals.of_sample(&self.sample)
    }
}

#[cfg(test)]
#[path = "effect_tests.rs"]
mod tests;
