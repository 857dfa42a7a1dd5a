//! The effect of a level: what changes when it takes the place of its factor's first one and all else stays the same.

use super::{Cell, Level, Setting, Value, ratio, summarise, varying};

/// The effect of one level.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// Its factor.
    pub setting: Setting,
    /// The level that it is held against: the first in the order of cells.
    pub base: Level,
    /// The level.
    pub level: Level,
    /// The median over pairs of the ratios of their medians, with an interval over pairs; over repeats where there is
    /// one pair.
    pub value: Value,
    /// Pairs of cells that differ in this setting alone.
    pub pairs: usize,
}

/// The effects of all levels of the settings that differ among cells. `values` are a cell's repeats, each with its
/// number; with `inverse` the ratio is the base's value over the level's, so that half the time is 2. A level without
/// two cells that are otherwise equal has none.
pub fn effects(cells: &[Cell], values: &dyn Fn(&Cell) -> Vec<(u32, f64)>, inverse: bool) -> Vec<Effect> {
    let settings: Vec<Setting> = varying(cells).into_iter().filter(|setting| setting.key != "cell").collect();
    let mut effects = Vec::new();
    for setting in &settings {
        let mut levels: Vec<Level> = Vec::new();
        for level in cells.iter().filter_map(|cell| cell.level(&setting.key)) {
            if !levels.contains(&level) {
                levels.push(level);
            }
        }
        let Some((base, others)) = levels.split_first() else { continue };
        for level in others {
            let ratios: Vec<Value> = pairs(cells, &settings, setting, base, level)
                .into_iter()
                .filter_map(|(base, other)| {
                    let (base, other) = (values(base), values(other));
                    if inverse { ratio(&base, &other) } else { ratio(&other, &base) }
                })
                .collect();
            let value = match ratios.as_slice() {
                [one] => Some(*one),
                several => summarise(&several.iter().map(|one| one.median).collect::<Vec<_>>()),
            };
            if let Some(value) = value {
                let (base, level, pairs) = (base.clone(), level.clone(), ratios.len());
                effects.push(Effect { setting: setting.clone(), base, level, value, pairs });
            }
        }
    }
    effects
}

/// Cells with the base's level, each with the one that has the other level and is otherwise equal.
fn pairs<'a>(
    cells: &'a [Cell<'a>],
    settings: &[Setting],
    setting: &Setting,
    base: &Level,
    level: &Level,
) -> Vec<(&'a Cell<'a>, &'a Cell<'a>)> {
    let has = |cell: &Cell, level: &Level| cell.level(&setting.key).as_ref() == Some(level);
    let others = || settings.iter().filter(|other| other.key != setting.key);
    let alike = |a: &Cell, b: &Cell| others().all(|other| a.level(&other.key) == b.level(&other.key));
    let with_base = cells.iter().filter(|cell| has(cell, base));
    with_base.filter_map(|a| Some((a, cells.iter().find(|b| has(b, level) && alike(a, b))?))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{RunSummary, cells, fixture, summarise_run};

    fn effects_of(records: &[(&str, i64, f64)]) -> Vec<(String, f64, usize)> {
        let run = |(precision, gpus, step_time_s): &(&str, i64, f64), repeat| {
            summarise_run(&fixture::run(&fixture::cell(precision, *gpus, "ddp-ds"), repeat, *step_time_s))
        };
        let runs: Vec<RunSummary> = records.iter().flat_map(|cell| [run(cell, 1), run(cell, 2)]).collect();
        let cells = cells(&runs);
        let values =
            |cell: &Cell| cell.runs.iter().filter_map(|run| Some((run.repeat, run.value("step_time_s")?))).collect();
        let effects = effects(&cells, &values, true);
        effects
            .into_iter()
            .map(|one| (format!("{} over {}", one.level, one.base), one.value.median, one.pairs))
            .collect()
    }

    #[test]
    fn an_effect_is_the_median_ratio_over_cells_that_are_otherwise_equal() {
        let cells = [("fp32", 1, 0.4), ("fp32", 2, 0.2), ("fp16", 1, 0.1), ("fp16", 2, 0.1), ("fp64", 4, 9.0)];
        let found = effects_of(&cells);
        let fp16 = found.iter().find(|one| one.0 == "fp16 over fp32").unwrap();
        assert!((fp16.1 - 3.0).abs() < 1e-9 && fp16.2 == 2, "{fp16:?}");
        // Nothing is otherwise equal to the only fp64 cell.
        assert!(found.iter().all(|one| !one.0.contains("fp64")), "{found:?}");
    }

    #[test]
    fn one_cell_has_no_effects() {
        assert!(effects_of(&[("fp32", 1, 0.4)]).is_empty());
        assert!(effects_of(&[]).is_empty());
    }
}
