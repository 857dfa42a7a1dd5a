//! Notes on baselines: what ratios, speed-ups and costs of a table are divided by.

use super::baseline::Baseline;
use super::ratio::by_repeat;
use super::sibling::Against;
use super::study::{RATIO, SPEEDUP, STEP_COST};
use super::table::Column;
use crate::analysis::{Cell, MADE_WITH, Measure, Setting, THROUGHPUT, varying};

/// Notes on the baseline by which ratios and speed-ups of a table are divided.
pub(super) fn summary_of_baseline(cells: &[Cell], columns: &[Column], baseline: &Baseline) -> Vec<String> {
    let shows = |key: &str| columns.iter().any(|column| column.key == key);
    let speedup = shows(SPEEDUP).then(|| baseline_note(cells, baseline));
    let against = columns.iter().filter_map(|column| Against::find(&column.key)).map(Against::note);
    let ratio = shows(RATIO).then(|| ratio_note(cells, baseline));
    let cost = shows(STEP_COST).then(|| cost_note(cells, baseline));
    speedup.into_iter().chain(against).chain(ratio).chain(cost).collect()
}

fn baseline_note(cells: &[Cell], baseline: &Baseline) -> String {
    if let Some(unknown) = &baseline.unknown {
        return format!(
            "speed-ups are left out: baseline {unknown:?} matches no cell; give a cell's id or levels such as \
             precision=fp32,gpus=1"
        );
    }
    let paired = if leaves_repeats_out(cells, baseline) {
        "; repeats without a partner of the same number are not used"
    } else {
        ""
    };
    if let Some(levels) = baseline.of_each() {
        return format!("speed-up: throughput over that with {levels}, all else being equal{paired}");
    }
    let Some(cell) = baseline.only() else {
        return "speed-ups are left out: no run has a throughput".to_owned();
    };
    format!(
        "speed-up: distinct {} per second over those of {}{paired}",
        cell.workload.unit.many,
        baseline.cell_name(cells, cell)
    )
}

/// Whether a speed-up uses pairs of repeats while one side has more repeats; see [`crate::analysis::ratio`].
fn leaves_repeats_out(cells: &[Cell], baseline: &Baseline) -> bool {
    let pairs = cells.iter().filter_map(|cell| Some((cell, baseline.of(cell)?)));
    pairs.filter(|(cell, base)| cell.key() != base.key() && cell.pairs_with(base)).any(|(cell, base)| {
        let (own, base) = (by_repeat(cell, THROUGHPUT), by_repeat(base, THROUGHPUT));
        let pairs = own.iter().filter(|(repeat, _)| base.iter().any(|(other, _)| other == repeat)).count();
        pairs < own.len().max(base.len())
    })
}

fn ratio_note(cells: &[Cell], baseline: &Baseline) -> String {
    if let Some(unknown) = &baseline.unknown {
        return format!("ratios are left out: baseline {unknown:?} is not among the cells; choose another");
    }
    let measure_of_base = cells.iter().find_map(|cell| baseline.of(cell)?.measure(&baseline.ratio_of));
    let measure = measure_of_base.map_or(String::new(), |measure| measure.name.to_lowercase());
    let (of_base, base) = match (baseline.of_each(), baseline.only()) {
        (Some(levels), _) => (format!("with {levels}, all else equal,"), format!("that with {levels}, all else equal")),
        (None, Some(cell)) => {
            let name = baseline.cell_name(cells, cell);
            (format!("of {name}"), format!("that of {name}"))
        }
        (None, None) => return "ratios are left out: no run has this measure".to_owned(),
    };
    if measure_of_base.is_some_and(Measure::is_time) {
        return format!("ratio: {measure} {of_base} over that of the row; above 1 is faster");
    }
    format!("ratio: {measure} over {base}")
}

fn cost_note(cells: &[Cell], baseline: &Baseline) -> String {
    let over = match (baseline.of_each(), baseline.only()) {
        (Some(levels), _) => format!("that with {levels}, all else equal"),
        (None, Some(cell)) => format!("that of {}", baseline.cell_name(cells, cell)),
        (None, None) => return "costs are left out: no cell is the baseline".to_owned(),
    };
    format!("cost: step time over {over}, less 1, by pairs of repeats")
}

impl Baseline<'_> {
    /// The baseline of all cells, named by the levels that distinguish it from the other cells.
    fn cell_name(&self, cells: &[Cell], cell: &Cell) -> String {
        let mut all = cells.to_vec();
        if all.iter().all(|known| known.key() != cell.key()) {
            all.push(cell.clone());
        }
        let is_each = |setting: &Setting| self.depends_on_making() && setting.is(MADE_WITH);
        let distinguishing = varying(&all).into_iter().filter(|setting| !is_each(setting));
        let levels = distinguishing.filter_map(|setting| Some((setting.key.clone(), cell.level(&setting.key)?)));
        let levels: Vec<String> = levels.map(|(key, level)| format!("{key} = {level}")).collect();
        let name = if levels.is_empty() { format!("cell {}", cell.id) } else { levels.join(", ") };
        if !self.depends_on_making() {
            return name;
        }
        // A row whose environment the baseline lacks is divided by another part of the baseline.
        let lacks_part = |row: &Cell| self.of(row).is_some_and(|base| base.made_with != row.made_with);
        let otherwise =
            if cells.iter().any(lacks_part) { format!(", or else with {}", cell.made_with) } else { String::new() };
        format!("{name}, made with the same as the row (made_with){otherwise}")
    }
}

/// A warning about a baseline that no longer exists or that the filter hides.
pub(super) fn baseline_warning(cells: &[Cell], baseline: &Baseline) -> Option<String> {
    if let Some(unknown) = &baseline.unknown {
        return Some(format!("Baseline {unknown:?} is not among the cells: there are no ratios. Choose another."));
    }
    let cell = baseline.only().filter(|_| baseline.is_hidden)?;
    Some(format!("Ratios are over {}, which is not shown here.", baseline.cell_name(cells, cell)))
}
