//! Expands a plan into its cells: every combination of ticked levels, separated into those that can run and those that cannot.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::designed;
use super::identity::{Head, Identity, identity, line};
use super::{
    AA_COPY, Block, Capture, Data, Estimate, Factor, Key, Level, Levels, Node, Plan, Request, Shape, Tracer, Tracing,
    WorkloadSpec,
};

/// The level that marks an A/A copy.
const COPY: &str = "copy";

/// A combination of levels that can run on the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What is run.
    pub workload: Key,
    /// Its data set.
    pub data: Data,
    /// The level of every factor.
    pub levels: Levels,
    /// Which tracer records its runs.
    pub tracer: Tracer,
    /// Its identity, which is the same in every plan and on every machine.
    pub identity: Identity,
    /// The first 8 digits of its identity; 16 digits if an earlier cell of the plan has the same first 8.
    pub id: String,
    /// The processes of a run and its number of steps.
    pub shape: Shape,
    /// A rough estimate of a run's time and memory.
    pub estimate: Estimate,
}

/// A combination of levels that cannot run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidCell {
    /// The workload that would be run.
    pub workload: Key,
    /// The level of every factor.
    pub levels: Levels,
    /// Which tracer would record its runs.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub tracer: Tracer,
    /// Why the cell cannot run, and what to do, as a fragment of a sentence.
    pub reason: String,
}

/// A level that has no effect in some cells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Idle {
    /// Its factor.
    pub factor: Key,
    /// The setting and its level under which the factor has no effect.
    pub under: (Key, Level),
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has no effect under {} = {}", self.factor, self.under.0, self.under.1)
    }
}

/// Combinations that give the same cell as another combination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The number of combinations that are left out because another one gives the same cell.
    pub combinations: u64,
    /// The levels that are not part of their cells, with the settings that make them ineffective.
    pub idle: Vec<Idle>,
}

/// `6 combinations are the same as others: tf32 has no effect under precision = fp64`; empty if no combinations were merged.
impl fmt::Display for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons: Vec<String> = self.idle.iter().map(ToString::to_string).collect();
        let reasons = reasons.join(", ");
        match (self.combinations, reasons.is_empty()) {
            (0, true) => Ok(()),
            (0, false) => write!(f, "{reasons}: the default is used there"),
            (1, true) => write!(f, "1 combination is the same as another"),
            (count, true) => write!(f, "{count} combinations are the same as others"),
            (1, false) => write!(f, "1 combination is the same as another: {reasons}"),
            (count, false) => write!(f, "{count} combinations are the same as others: {reasons}"),
        }
    }
}

/// The cells of a plan on a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    /// The cells that can run, block by block; the first factor varies slowest, the tracer fastest.
    pub cells: Vec<Cell>,
    /// The combinations that cannot run.
    pub invalid: Vec<InvalidCell>,
    /// The combinations that give the same cell as another one. Each combination is a cell, an invalid cell, or counted here.
    pub merged: Merged,
}

/// All combinations of a plan's levels on a machine.
///
/// A plan with more than [`super::MAX_RUNS`] runs, or with a design that cannot be made, gives one invalid cell that says so.
pub fn expand(plan: &Plan, node: &Node) -> Matrix {
    let mut matrix = Matrix::default();
    if let Some(reason) = plan.too_large().or_else(|| designed::trouble(plan)) {
        let levels = plan.first.first_levels();
        let (workload, tracer) = (plan.first.spec.key.clone(), Tracer::Off);
        matrix.invalid.push(InvalidCell { workload, levels, tracer, reason });
        return matrix;
    }
    let (mut merged, mut ids) = (Merged::default(), HashSet::new());
    combine(plan, &mut merged, |block, tracer, identity, levels| {
        let workload = block.spec.key.clone();
        match check(plan, block, node, &levels)
            .and_then(|checked| can_trace(node, tracer, &checked.0).map(|()| checked))
        {
            Ok((shape, estimate)) => {
                let (data, id) = (block.data.clone(), distinct(identity, &mut ids));
                matrix.cells.push(Cell { workload, data, levels, tracer, identity, id, shape, estimate });
            }
            Err(reason) => matrix.invalid.push(InvalidCell { workload, levels, tracer, reason }),
        }
    });
    matrix.merged = merged;
    if let Some(first) = matrix.cells.first().filter(|_| plan.aa)
        && let Some(spec) = plan.spec_of(&first.workload)
    {
        let levels = copied(&first.levels);
        let identity = identity(spec, &first.data, first.tracer, plan.mode, &levels);
        matrix.cells.push(Cell { id: distinct(identity, &mut ids), levels, identity, ..first.clone() });
    }
    matrix
}

/// The levels of an A/A copy.
fn copied(levels: &Levels) -> Levels {
    let own = levels.iter().map(|(key, level)| (key.clone(), level.clone()));
    Levels::new(own.chain([(AA_COPY.into(), Level::text(COPY))]).collect::<Vec<_>>())
}

/// A cell that a plan asks for, whether or not a machine can run it.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedCell {
    /// What is run.
    pub workload: Arc<WorkloadSpec>,
    /// Its data set.
    pub data: Data,
    /// The level of every factor.
    pub levels: Levels,
    /// Which tracer records its runs.
    pub tracer: Tracer,
    /// Its identity, which is the same in every plan and on every machine.
    pub identity: Identity,
}

/// The cells that a plan asks for, each once, in the order of [`Matrix::cells`]; empty for a plan that is too large, or has a design that
/// cannot be made.
pub fn asked_cells(plan: &Plan) -> Vec<AskedCell> {
    let mut cells = Vec::new();
    if plan.too_large().or_else(|| designed::trouble(plan)).is_none() {
        combine(plan, &mut Merged::default(), |block, tracer, identity, levels| {
            let (workload, data) = (block.spec.clone(), block.data.clone());
            cells.push(AskedCell { workload, data, levels, tracer, identity });
        });
    }
    if let Some(first) = cells.iter().find(|cell| plan.aa && cell.excluded_by(plan).is_none()) {
        let levels = copied(&first.levels);
        let identity = identity(&first.workload, &first.data, first.tracer, plan.mode, &levels);
        cells.push(AskedCell { levels, identity, ..first.clone() });
    }
    cells
}

impl AskedCell {
    /// Why a constraint of the plan excludes the cell; `None` if no constraint does.
    pub fn excluded_by<'a>(&self, plan: &'a Plan) -> Option<&'a str> {
        plan.excluded(&self.workload, &self.data, &self.levels)
    }
}

/// A plan like `like`, but with only these cells: one block if they are all combinations of some levels, otherwise one block for each cell.
/// It has every tracer of these cells. It can record only one part of all runs: if some of these cells are recorded in windows and others as a whole, it
/// records all in windows, so that such cells need two plans. `None` without cells.
pub fn plan_of_cells(like: &Plan, cells: &[AskedCell]) -> Option<Plan> {
    let is_same = |(one, other): (&AskedCell, &AskedCell)| one.identity == other.identity;
    let all = asked_cells(like);
    if !all.is_empty() && all.len() == cells.len() && all.iter().zip(cells).all(is_same) {
        return Some(like.clone());
    }
    let block = |cell: &AskedCell| {
        let spec = cell.workload.clone();
        // A cell of an earlier version has no level of a factor that was added later.
        let level = |factor: &Factor| cell.levels.get(&factor.key).unwrap_or(&factor.frozen_default).clone();
        let factors = spec.factors.iter().map(|factor| (factor.key.clone(), vec![level(factor)])).collect();
        Block { data: cell.data.clone(), factors, spec, design: None }
    };
    let mut blocks: Vec<Block> = Vec::with_capacity(cells.len());
    // The new plan makes its own A/A copy.
    for block in cells.iter().filter(|cell| cell.levels.get(AA_COPY).is_none()).map(block) {
        // Cells that differ only in the tracer follow each other.
        if blocks.last() != Some(&block) {
            blocks.push(block);
        }
    }
    let tracers: Vec<Tracer> = cells.iter().map(|cell| cell.tracer).collect();
    let part = match like.tracing.capture() {
        part @ Some(Capture::Windows { .. }) if tracers.iter().any(|tracer| tracer.is_in_windows()) => part,
        Some(Capture::Windows { .. }) => None,
        _ if tracers.iter().any(|tracer| tracer.is_in_windows()) => Some(Capture::USUAL),
        part => part,
    };
    let tracing = Tracing::by(&tracers, part.unwrap_or(Capture::Whole));
    let mut grid = blocks.first()?.clone();
    for block in &blocks {
        for ((_, ticked), (_, own)) in grid.factors.iter_mut().zip(&block.factors) {
            if !ticked.contains(&own[0]) {
                ticked.push(own[0].clone());
            }
        }
    }
    let is_one_kind = blocks.iter().all(|block| (&block.spec, &block.data) == (&grid.spec, &grid.data));
    let (first, further) = if is_one_kind && grid.combinations() == blocks.len() as u64 {
        (grid, Vec::new())
    } else {
        let mut blocks = blocks.into_iter();
        (blocks.next()?, blocks.collect())
    };
    Some(Plan { first, further, tracing, constraints: Vec::new(), ..like.clone() })
}

/// Calls `each` once for each cell of a plan, block by block; combinations that give the same cell are counted in `merged`.
fn combine<'a>(plan: &'a Plan, merged: &mut Merged, mut each: impl FnMut(&'a Block, Tracer, Identity, Levels)) {
    let mut seen = HashSet::new();
    for block in plan.blocks() {
        let designed = designed::designed(plan, block);
        let levels = match designed.as_deref() {
            Some(Ok(designed)) => &designed.factors,
            Some(Err(_)) => continue,
            None => &block.factors,
        };
        let pieces = Pieces::new(plan, block, levels);
        let mut add = |chosen: &[usize]| {
            let (lines, levels) = pieces.cell(chosen, &mut merged.idle);
            for (tracer, head) in &pieces.heads {
                let identity = head.identity(lines.iter().copied());
                if seen.insert(identity) {
                    each(block, *tracer, identity, levels.clone());
                } else {
                    merged.combinations += 1;
                }
            }
        };
        match designed.as_deref() {
            Some(Ok(designed)) => designed.cells.iter().for_each(|chosen| add(chosen)),
            _ => all_combinations(levels).for_each(|chosen| add(&chosen)),
        }
    }
    merged.idle.sort();
}

/// For each combination of levels the place of each factor's level; the first factor varies slowest.
fn all_combinations(factors: &[(Key, Vec<Level>)]) -> impl Iterator<Item = Vec<usize>> {
    let all = factors.iter().fold(1, |product: u64, (_, levels)| product.saturating_mul(levels.len() as u64));
    (0..all).map(move |number| {
        // The digits of a mixed-radix number whose bases are the numbers of levels.
        let (mut rest, mut chosen) = (number, vec![0; factors.len()]);
        for (choice, (_, levels)) in chosen.iter_mut().zip(factors).rev() {
            *choice = (rest % levels.len() as u64) as usize;
            rest /= levels.len() as u64;
        }
        chosen
    })
}

/// The shape and estimate of one combination of levels on a machine.
///
/// # Errors
/// Why it cannot run there, and what to do.
pub fn check(plan: &Plan, block: &Block, node: &Node, levels: &Levels) -> Result<(Shape, Estimate), String> {
    let Block { spec, data, .. } = block;
    if let Some(reason) = plan.excluded(spec, data, levels) {
        return Err(reason.to_owned());
    }
    let (shape, full) = (spec.check)(&Request { spec, levels, data, limits: &plan.limits, node })?;
    Ok((shape, plan.mode.estimate(full, &shape)))
}

/// Whether a tracer can record a run of this shape on a machine. For programs and without CUDA the built-in tracer records less, which a remark
/// mentions.
fn can_trace(node: &Node, tracer: Tracer, shape: &Shape) -> Result<(), String> {
    match (tracer, &node.nsys) {
        (Tracer::Nsys, Err(missing)) => {
            Err(format!("trace = nsys: {missing}: install Nsight Systems, or leave nsys out of trace"))
        }
        // Recordings of several nodes would need one clock, and several nodes cannot write one file.
        _ if tracer.is_on() && shape.nodes() > 1 => Err(format!(
            "trace = {0}: runs on several nodes cannot be recorded: set nodes = 1, or leave {0} out of trace",
            tracer.name()
        )),
        _ => Ok(()),
    }
}

/// The parts from which the cells of a block are assembled. Each part is made once for the block instead of once for each cell.
struct Pieces<'a> {
    factors: &'a [(Key, Vec<Level>)],
    keys: Arc<[Key]>,
    /// For each tracer, the lines that all its cells share.
    heads: Vec<(Tracer, Head)>,
    /// For each factor, sorted by key: its index, and the canonical line of each level; empty for the frozen default.
    lines: Vec<(usize, Vec<String>)>,
    /// For each factor that may have no effect: its index, its default, and the conditions.
    idle: Vec<(usize, Level, Vec<Condition<'a>>)>,
}

/// A setting with levels under which a factor has no effect.
enum Condition<'a> {
    /// The factor at this index, under the ticked levels that are `true` here.
    Factor(usize, Vec<bool>),
    /// The key and level of the data set, or of a factor that the block leaves at its default. The condition then holds in all cells
    /// or in none.
    All(&'a Key, Level),
}

impl<'a> Pieces<'a> {
    /// `factors` are the block's, with the levels of its design.
    fn new(plan: &Plan, block: &'a Block, factors: &'a [(Key, Vec<Level>)]) -> Self {
        let spec = &*block.spec;
        let place_of = |key: &Key| factors.iter().position(|(known, _)| known == key);
        let mut order: Vec<usize> = (0..factors.len()).collect();
        order.sort_by(|a, b| factors[*a].0.cmp(&factors[*b].0));
        let lines = order.into_iter().map(|place| {
            let (key, levels) = &factors[place];
            let frozen = spec.factor(key).map(|factor| &factor.frozen_default);
            let text = |level: &Level| if frozen == Some(level) { String::new() } else { line(key, level) };
            (place, levels.iter().map(text).collect())
        });
        let condition = |(key, idle): &'a (Key, Vec<Level>)| match place_of(key) {
            Some(place) => {
                let ticked = &factors[place].1;
                Some(Condition::Factor(place, ticked.iter().map(|level| idle.contains(level)).collect()))
            }
            None => {
                let level = block.setting(key).filter(|level| idle.contains(level))?;
                Some(Condition::All(key, level.clone()))
            }
        };
        let idle = spec.factors.iter().filter(|factor| !factor.idle.is_empty()).filter_map(|factor| {
            let conditions = factor.idle.iter().filter_map(condition).collect();
            Some((place_of(&factor.key)?, factor.default.clone(), conditions))
        });
        let head = |tracer: Tracer| (tracer, Head::new(spec, &block.data, tracer, plan.mode));
        Self {
            factors,
            keys: factors.iter().map(|(key, _)| key.clone()).collect(),
            heads: plan.tracing.of_cells(spec.command.is_some()).map(head).collect(),
            lines: lines.collect(),
            idle: idle.collect(),
        }
    }

    /// The identity lines of a cell, and its levels. Levels without effect are left out of the lines and set to their defaults in the
    /// levels; those that were ticked are added to `idle_levels`.
    fn cell(&self, chosen: &[usize], idle_levels: &mut Vec<Idle>) -> (Vec<&str>, Levels) {
        let factors = self.factors;
        let mut meaningless: Vec<(usize, &Level)> = Vec::new();
        for (place, default, conditions) in &self.idle {
            let under = conditions.iter().find_map(|condition| match condition {
                Condition::Factor(other, idle) => {
                    let (key, levels) = &factors[*other];
                    idle[chosen[*other]].then(|| (key, &levels[chosen[*other]]))
                }
                Condition::All(key, level) => Some((*key, level)),
            });
            let Some(under) = under else { continue };
            meaningless.push((*place, default));
            let (key, ticked) = &factors[*place];
            let is_told = |idle: &Idle| idle.factor == *key && (&idle.under.0, &idle.under.1) == under;
            if ticked[chosen[*place]] != *default && !idle_levels.iter().any(is_told) {
                idle_levels.push(Idle { factor: key.clone(), under: (under.0.clone(), under.1.clone()) });
            }
        }
        let without = |place: usize| meaningless.iter().find(|(other, _)| *other == place).map(|(_, default)| *default);
        let lines = self.lines.iter().filter(|(place, _)| without(*place).is_none());
        let lines = lines.map(|(place, lines)| lines[chosen[*place]].as_str()).collect();
        let level = |(place, (_, ticked)): (usize, &(Key, Vec<Level>))| {
            without(place).unwrap_or(&ticked[chosen[place]]).clone()
        };
        (lines, Levels::of_keys(&self.keys, factors.iter().enumerate().map(level)))
    }
}

/// An id that no earlier cell has taken. Eight digits suffice to distinguish the cells of a plan, with a chance of one in a hundred of a
/// collision among 10,000 cells.
fn distinct(identity: Identity, taken: &mut HashSet<String>) -> String {
    let short = identity.digits(4);
    if taken.insert(short.clone()) { short } else { identity.digits(8) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "matrix_tests.rs"]
mod tests;
