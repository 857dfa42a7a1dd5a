//! The combinations of a block's levels that its design chooses.
//!
//! A design is a pure function of the plan: it knows no machine, so that a session can be resumed anywhere. The last ones are kept, since a
//! plan is expanded more often than it is changed.

use std::sync::{Arc, Mutex, PoisonError};

use super::design::Space;
use super::{Block, Constraint, Design, DesignKind, Domain, Key, Level, Levels, Plan};

/// How many designs are kept, or as many as the plan has blocks: an expansion asks for each of them more than once.
const KEPT: usize = 8;

/// The chosen combinations.
#[derive(Debug)]
pub(super) struct Designed {
    /// Every factor with its levels: the ticked ones, or the numbers that a Latin hypercube spreads over their range.
    pub factors: Vec<(Key, Vec<Level>)>,
    /// For each cell the place of each factor's level.
    pub cells: Vec<Vec<usize>>,
}

/// Everything that a design depends on.
#[derive(PartialEq)]
struct Question {
    block: Block,
    constraints: Vec<Constraint>,
    seed: u64,
    repeats: u32,
}

type Answer = Arc<Result<Designed, String>>;

static ANSWERS: Mutex<Vec<(Question, Answer)>> = Mutex::new(Vec::new());

/// The combinations of a block with a design, or why there are none; `None` for a block without one.
pub(super) fn designed(plan: &Plan, block: &Block) -> Option<Answer> {
    let design = block.design.as_ref()?;
    let is_known = |question: &Question| {
        (question.seed, question.repeats) == (plan.seed, plan.repeats)
            && question.block == *block
            && question.constraints == plan.constraints
    };
    let answers = || ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, answer)) = answers().iter().find(|(question, _)| is_known(question)) {
        return Some(Arc::clone(answer));
    }
    let answer = Arc::new(choose(plan, block, design));
    let question = Question {
        block: block.clone(),
        constraints: plan.constraints.clone(),
        seed: plan.seed,
        repeats: plan.repeats,
    };
    let mut answers = answers();
    answers.truncate(KEPT.max(1 + plan.further.len()) - 1);
    answers.insert(0, (question, Arc::clone(&answer)));
    Some(answer)
}

/// Why the design of a block cannot be made, with the block's number if there are several blocks; `None` if all designs can be made.
pub fn trouble(plan: &Plan) -> Option<String> {
    plan.blocks().enumerate().find_map(|(place, block)| {
        let answer = designed(plan, block)?;
        let reason = answer.as_ref().as_ref().err()?;
        let name = if plan.further.is_empty() { String::new() } else { format!(" of block {}", place + 1) };
        Some(format!("the design{name} cannot be made: {reason}"))
    })
}

fn choose(plan: &Plan, block: &Block, design: &Design) -> Result<Designed, String> {
    let places: Vec<usize> = block.varied().map(|(place, _, _)| place).collect();
    if places.is_empty() {
        return Err("no factor has two levels: tick a second level of some".to_owned());
    }
    let keys: Arc<[Key]> = block.factors.iter().map(|(key, _)| key.clone()).collect();
    let full = |point: &[usize]| {
        let mut chosen = vec![0; block.factors.len()];
        places.iter().zip(point).for_each(|(place, level)| chosen[*place] = *level);
        chosen
    };
    let admits = |point: &[usize]| {
        let chosen = full(point);
        let level = |((_, ticked), place): (&(Key, Vec<Level>), &usize)| ticked[*place].clone();
        is_itself(block, &chosen)
            && (plan.constraints.is_empty() || {
                let levels = Levels::of_keys(&keys, block.factors.iter().zip(&chosen).map(level));
                plan.excluded(&block.spec, &block.data, &levels).is_none()
            })
    };
    let space = Space {
        keys: block.varied().map(|(_, key, _)| key).collect(),
        counts: block.varied().map(|(_, _, levels)| levels.len()).collect(),
        admits: &admits,
        base: base(block, design)?,
        repeats: plan.repeats,
        seed: plan.seed,
    };
    let points = design.points(&space)?;
    if design.kind == DesignKind::LatinHypercube {
        return spread(block, design, &points);
    }
    Ok(Designed { factors: block.factors.clone(), cells: points.iter().map(|point| full(point)).collect() })
}

/// The base level of each factor that varies.
fn base(block: &Block, design: &Design) -> Result<Vec<usize>, String> {
    let place = |(_, key, levels): (usize, &Key, &[Level])| match design.base.iter().find(|(known, _)| known == key) {
        None => Ok(0),
        Some((_, level)) => levels.iter().position(|known| known == level).ok_or_else(|| {
            format!("the base names {key} = {level}, which is not ticked: tick it, or name another level")
        }),
    };
    block.varied().map(place).collect()
}

/// Whether a combination is a cell of its own: a factor without effect has its default there, or its first ticked level.
fn is_itself(block: &Block, chosen: &[usize]) -> bool {
    let level_of = |key: &Key| {
        let place = block.factors.iter().position(|(known, _)| known == key)?;
        Some((place, &block.factors[place].1[chosen[place]]))
    };
    block.spec.factors.iter().filter(|factor| !factor.idle.is_empty()).all(|factor| {
        let Some((place, own)) = level_of(&factor.key) else { return true };
        let ticked = &block.factors[place].1;
        let stand_in = if ticked.contains(&factor.default) { &factor.default } else { &ticked[0] };
        let is_idle = factor.idle.iter().any(|(key, idle)| {
            let level = level_of(key).map(|(_, level)| level).or_else(|| block.setting(key));
            level.is_some_and(|level| idle.contains(level))
        });
        ticked.len() == 1 || !is_idle || own == stand_in
    })
}

/// Numbers spread over the ranges of the ticked levels, one for each stratum; named levels share the strata evenly.
fn spread(block: &Block, design: &Design, strata: &[Vec<usize>]) -> Result<Designed, String> {
    let mut factors = block.factors.clone();
    let mut cells = vec![vec![0; factors.len()]; strata.len()];
    for (column, (place, key, ticked)) in block.varied().enumerate() {
        let numbers: Option<Vec<f64>> = ticked.iter().map(Level::as_number).collect();
        let domain = block.spec.factor(key).map(|factor| &factor.domain);
        let own = |level: &Level| match domain {
            Some(Domain::Integer { .. }) => true,
            Some(_) => false,
            None => matches!(level, Level::Integer(_)),
        };
        let Some(numbers) = numbers else {
            for (cell, point) in cells.iter_mut().zip(strata) {
                cell[place] = point[column] * ticked.len() / strata.len();
            }
            continue;
        };
        let is_whole = ticked.iter().all(own) && ticked.iter().all(|level| matches!(level, Level::Integer(_)));
        let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let is_logarithmic = design.logarithmic.contains(key);
        if is_logarithmic && low <= 0.0 {
            return Err(format!(
                "{key} goes from {low}: logarithms need levels above 0; untick it, or leave {key} out of log"
            ));
        }
        let range = if is_logarithmic { high / low } else { high - low };
        if !range.is_finite() {
            return Err(format!("{key} goes from {low:e} to {high:e}, too far to spread numbers: tick nearer levels"));
        }
        let mut levels: Vec<Level> = Vec::new();
        for (cell, point) in cells.iter_mut().zip(strata) {
            let share = (point[column] as f64 + 0.5) / strata.len() as f64;
            let number = match is_logarithmic {
                true => low * (high / low).powf(share),
                false => low + share * (high - low),
            };
            let level = if is_whole { Level::Integer(number.round() as i64) } else { Level::Number(rounded(number)) };
            cell[place] = levels.iter().position(|known| *known == level).unwrap_or_else(|| {
                levels.push(level);
                levels.len() - 1
            });
        }
        factors[place].1 = levels;
    }
    Ok(Designed { factors, cells })
}

/// A number with six digits, so that powers and logarithms of different machines give the same level.
fn rounded(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::fixture::{cpu_node, gpu_node, small_plan};
    use crate::plan::{Size, asked_cells, expand};

    fn texts(names: &[&str]) -> Vec<Level> {
        names.iter().map(|name| Level::text(name)).collect()
    }

    fn numbers(numbers: &[i64]) -> Vec<Level> {
        numbers.iter().copied().map(Level::Integer).collect()
    }

    fn with(mut plan: Plan, design: Design) -> Plan {
        plan.first.design = Some(design);
        plan
    }

    #[test]
    fn only_the_cells_of_the_design_are_expanded_and_the_rest_of_the_plan_is_as_before() {
        let levels = [
            ("precision", texts(&["fp32", "bf16"])),
            ("layout", texts(&["nchw", "nhwc"])),
            ("pin_memory", texts(&["off", "on"])),
            ("batch_size", numbers(&[32, 64])),
        ];
        let plan = with(small_plan(&levels), Design::new(DesignKind::Fraction));
        let matrix = expand(&plan, &gpu_node(1));
        // At most all combinations, as long as the design has not been made.
        assert_eq!((matrix.cells.len(), plan.combinations()), (8, 16));
        assert_eq!(asked_cells(&plan).len(), 8);
        let full = asked_cells(&small_plan(&levels));
        assert!(asked_cells(&plan).iter().all(|cell| full.contains(cell)));
    }

    #[test]
    fn a_base_is_the_cell_that_others_differ_from_and_must_be_ticked() {
        let levels = [("precision", texts(&["fp32", "fp64", "bf16"])), ("batch_size", numbers(&[32, 64]))];
        let base = |name: &str| Design {
            base: vec![("precision".into(), Level::text(name))],
            ..Design::new(DesignKind::OneAtATime)
        };
        let cells = asked_cells(&with(small_plan(&levels), base("bf16")));
        let seen: Vec<String> = cells
            .iter()
            .map(|cell| format!("{} {}", cell.levels.get("precision").unwrap(), cell.levels.get("batch_size").unwrap()))
            .collect();
        assert_eq!(seen, ["bf16 32", "fp32 32", "fp64 32", "bf16 64"]);
        let matrix = expand(&with(small_plan(&levels), base("fp16")), &cpu_node());
        assert!(matrix.cells.is_empty());
        assert!(matrix.invalid[0].reason.contains("the base names precision = fp16, which is not ticked"));
    }

    #[test]
    fn optimal_cells_keep_to_constraints_and_leave_out_levels_without_effect() {
        let levels = [
            ("precision", texts(&["fp32", "fp64", "bf16"])),
            ("tf32", texts(&["off", "conv"])),
            ("batch_size", numbers(&[32, 64, 128])),
        ];
        let design = Design { size: Size::Runs(9), ..Design::new(DesignKind::DOptimal) };
        let mut plan = with(small_plan(&levels), design);
        plan.constraints.push(plan.constraint("batch_size = 128 and precision = fp64", "too slow").unwrap());
        let cells = asked_cells(&plan);
        assert_eq!(cells.len(), 9);
        assert!(cells.iter().all(|cell| cell.excluded_by(&plan).is_none()));
        assert_eq!(expand(&plan, &cpu_node()).merged.combinations, 0);
        plan.constraints.push(plan.constraint("precision != fp64", "only fp64").unwrap());
        let reason = trouble(&plan).unwrap();
        assert!(reason.contains("leave 2 combinations") && reason.contains("needs 9"), "{reason}");
    }

    #[test]
    fn a_hypercube_spreads_numbers_over_the_range_of_the_ticked_levels() {
        let levels = [("batch_size", numbers(&[16, 256])), ("precision", texts(&["fp32", "bf16"]))];
        let design = Design {
            size: Size::Runs(8),
            logarithmic: vec!["batch_size".into()],
            ..Design::new(DesignKind::LatinHypercube)
        };
        let cells = asked_cells(&with(small_plan(&levels), design));
        let mut sizes: Vec<i64> =
            cells.iter().map(|cell| cell.levels.get("batch_size").unwrap().as_integer().unwrap()).collect();
        sizes.sort_unstable();
        // 16 · 16^((i + 0.5) / 8)
        assert_eq!(sizes, [19, 27, 38, 54, 76, 108, 152, 215]);
        let fp32 = cells.iter().filter(|cell| *cell.levels.get("precision").unwrap() == Level::text("fp32"));
        assert_eq!(fp32.count(), 4);
    }

    #[test]
    fn a_hypercube_over_a_range_that_is_no_number_names_the_factor() {
        for (low, logarithmic) in [(-1e308, Vec::new()), (1e-308, vec!["batch_size".into()])] {
            let levels = [("batch_size", vec![Level::Number(low), Level::Number(1e308)])];
            let design = Design { size: Size::Runs(8), logarithmic, ..Design::new(DesignKind::LatinHypercube) };
            let reason = trouble(&with(small_plan(&levels), design)).unwrap();
            assert!(reason.contains(&format!("batch_size goes from {low:e} to 1e308, too far")), "{reason}");
        }
    }

    #[test]
    fn a_plan_whose_factors_do_not_vary_has_no_design() {
        let plan = with(small_plan(&[]), Design::new(DesignKind::OneAtATime));
        assert!(trouble(&plan).unwrap().contains("tick a second level"));
        assert!(asked_cells(&plan).is_empty());
    }
}
