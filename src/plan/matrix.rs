//! From a plan to its cells: every combination of ticked levels, told apart into valid and invalid ones.

use std::collections::HashSet;

use sha2::{Digest, Sha256};

use super::constraint::{Candidate, reason};
use super::estimate::{Estimate, image};
use super::{DataSet, ImageSettings, Level, Levels, Node, Plan};

/// A combination of levels that can run on the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The first 8 hex digits of the SHA-256 of workload, levels and data set as canonical JSON: the same in every
    /// plan and on every machine. (16 digits for a cell that shares its first 8 with an earlier one of the plan.)
    pub id: String,
    /// The level of every factor.
    pub levels: Levels,
    /// What a run of it will roughly take.
    pub estimate: Estimate,
}

/// A combination of levels that cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidCell {
    /// The level of every factor.
    pub levels: Levels,
    /// Why it cannot, and what to do, as a fragment of a sentence.
    pub reason: String,
}

/// What a plan comes to on a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    /// What can run; the first factor varies slowest.
    pub cells: Vec<Cell>,
    /// What cannot.
    pub invalid: Vec<InvalidCell>,
}

/// All combinations of a plan's levels on a machine.
///
/// A plan that asks for more than [`super::MAX_RUNS`] runs gives one invalid cell that says so.
pub fn expand(plan: &Plan, node: &Node) -> Matrix {
    let mut matrix = Matrix::default();
    if let Some(reason) = plan.too_large() {
        let first = plan.factors.iter().filter_map(|(key, levels)| Some((key.clone(), levels.first()?.clone())));
        matrix.invalid.push(InvalidCell { levels: Levels::new(first.collect()), reason });
        return matrix;
    }
    let identities = Identities::new(plan);
    let mut taken = HashSet::new();
    let combinations = plan.combinations();
    let mut chosen = vec![0; plan.factors.len()];
    for number in 0..combinations {
        // The number's digits, in a system whose bases are the counts of levels.
        let mut rest = number;
        for (choice, (_, levels)) in chosen.iter_mut().zip(&plan.factors).rev() {
            *choice = (rest % levels.len() as u64) as usize;
            rest /= levels.len() as u64;
        }
        let pairs =
            plan.factors.iter().zip(&chosen).map(|((key, levels), choice)| (key.clone(), levels[*choice].clone()));
        let levels = Levels::new(pairs.collect());
        match validate(plan, node, &levels) {
            Ok(estimate) => {
                let id = distinct(&identities.digest(&chosen), &mut taken);
                matrix.cells.push(Cell { id, levels, estimate });
            }
            Err(reason) => matrix.invalid.push(InvalidCell { levels, reason }),
        }
    }
    matrix
}

/// Why one combination of levels cannot run on a machine; none where it can. Limits and data set are the plan's.
pub fn refusal(plan: &Plan, node: &Node, levels: &Levels) -> Option<String> {
    validate(plan, node, levels).err()
}

/// What a run of these levels over a data set will roughly take on a machine.
///
/// # Errors
/// When a level is missing or wrong: which.
pub fn estimate(levels: &Levels, data: &DataSet, node: &Node) -> Result<Estimate, String> {
    Ok(image(&ImageSettings::from_levels(levels)?, data, node))
}

fn validate(plan: &Plan, node: &Node, levels: &Levels) -> Result<Estimate, String> {
    let settings = ImageSettings::from_levels(levels)?;
    let estimate = image(&settings, &plan.data, node);
    match reason(&Candidate { settings: &settings, estimate: &estimate, plan, node }) {
        Some(reason) => Err(reason),
        None => Ok(estimate),
    }
}

/// The canonical JSON of a plan's cells, `{"data":…,"levels":{…},"workload":…}` with sorted keys and no spaces, in
/// pieces: each level is written once, not once a cell.
struct Identities {
    before: String,
    /// For each factor in the order of keys: its place in the plan, and `"key":level` of each level.
    factors: Vec<(usize, Vec<String>)>,
    after: String,
}

impl Identities {
    fn new(plan: &Plan) -> Self {
        let mut order: Vec<usize> = (0..plan.factors.len()).collect();
        order.sort_by(|a, b| plan.factors[*a].0.cmp(&plan.factors[*b].0));
        let piece = |(number, place): (usize, usize)| {
            let (key, levels) = &plan.factors[place];
            let comma = if number == 0 { "" } else { "," };
            let texts = levels.iter().map(|level| format!("{comma}\"{key}\":{}", canonical(level))).collect();
            (place, texts)
        };
        let data = match &plan.data {
            DataSet::Digits => serde_json::json!({"set": "digits"}),
            DataSet::Mnist { folder } => {
                serde_json::json!({"set": "mnist", "folder": folder.as_ref().map(|folder| folder.to_string_lossy())})
            }
            DataSet::Folder { folder, decode, corrupt } => serde_json::json!({
                "set": "folder",
                "folder": folder.to_string_lossy(),
                "decode": decode.name(),
                "corrupt": corrupt.name(),
            }),
        };
        Self {
            before: format!("{{\"data\":{data},\"levels\":{{"),
            factors: order.into_iter().enumerate().map(piece).collect(),
            after: format!("}},\"workload\":\"{}\"}}", plan.workload.name()),
        }
    }

    fn digest(&self, chosen: &[usize]) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(&self.before);
        for (place, texts) in &self.factors {
            hasher.update(&texts[chosen[*place]]);
        }
        hasher.update(&self.after);
        hasher.finalize().into()
    }
}

/// A level as JSON; whole numbers have no fraction, whatever their type.
fn canonical(level: &Level) -> serde_json::Value {
    match level {
        Level::Number(value) if value.fract() == 0.0 && value.abs() < 1e15 => (*value as i64).into(),
        Level::Number(value) => (*value).into(),
        Level::Integer(value) => (*value).into(),
        Level::Text(name) => name.as_ref().into(),
    }
}

/// 8 digits tell the cells of a plan apart, but for one chance in a hundred with 10,000 of them.
fn distinct(digest: &[u8; 32], taken: &mut HashSet<[u8; 4]>) -> String {
    let first = [digest[0], digest[1], digest[2], digest[3]];
    let length = if taken.insert(first) { 4 } else { 8 };
    digest[..length].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::Key;
    use crate::plan::fixture::{cpu_node, gpu_node, small_plan};

    fn texts(names: &[&str]) -> Vec<Level> {
        names.iter().map(|name| Level::text(name)).collect()
    }

    #[test]
    fn all_combinations_come_in_order_and_the_first_factor_varies_slowest() {
        let plan = small_plan(&[("precision", texts(&["fp32", "bf16"])), ("layout", texts(&["nchw", "nhwc"]))]);
        let matrix = expand(&plan, &cpu_node());
        let seen: Vec<String> = matrix
            .cells
            .iter()
            .map(|cell| format!("{} {}", cell.levels.get("precision").unwrap(), cell.levels.get("layout").unwrap()))
            .collect();
        assert_eq!(seen, ["fp32 nchw", "fp32 nhwc", "bf16 nchw", "bf16 nhwc"]);
        assert!(matrix.invalid.is_empty());
    }

    #[test]
    fn valid_and_invalid_cells_together_are_all_combinations() {
        let plan = small_plan(&[("precision", texts(&["fp32", "fp16"])), ("pin_memory", texts(&["off", "on"]))]);
        let (cpu, gpu) = (expand(&plan, &cpu_node()), expand(&plan, &gpu_node(1)));
        assert_eq!((cpu.cells.len(), cpu.invalid.len()), (1, 3));
        assert_eq!((gpu.cells.len(), gpu.invalid.len()), (4, 0));
    }

    #[test]
    fn a_cells_identity_is_the_same_in_every_plan_and_on_every_machine() {
        let narrow = expand(&small_plan(&[("precision", texts(&["bf16"]))]), &cpu_node());
        let mut wide = small_plan(&[("precision", texts(&["fp64", "bf16"])), ("pin_memory", texts(&["off", "on"]))]);
        (wide.name, wide.repeats, wide.seed) = ("another".to_owned(), 5, 9);
        let wide = expand(&wide, &gpu_node(2));
        let same = wide.cells.iter().find(|cell| cell.levels == narrow.cells[0].levels).unwrap();
        assert_eq!(same.id, narrow.cells[0].id);
        assert_eq!(wide.cells.iter().map(|cell| &cell.id).collect::<HashSet<_>>().len(), 4);
    }

    #[test]
    fn the_identity_is_that_of_the_canonical_json() {
        let plan = small_plan(&[("learning_rate", vec![Level::Number(1.0)])]);
        let cell = &expand(&plan, &cpu_node()).cells[0];
        let levels: std::collections::BTreeMap<&Key, &Level> = cell.levels.iter().collect();
        let json = serde_json::json!({"workload": "image", "levels": levels, "data": {"set": "digits"}}).to_string();
        let json = json.replace("\"learning_rate\":1.0", "\"learning_rate\":1");
        let json = json.replace("\"width_multiplier\":1.0", "\"width_multiplier\":1");
        let digest = Sha256::digest(json.as_bytes());
        let digits: String = digest[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(cell.id, digits, "{json}");
    }

    #[test]
    fn another_data_set_is_another_cell() {
        let mut plan = small_plan(&[]);
        let digits = expand(&plan, &cpu_node()).cells[0].id.clone();
        plan.data = DataSet::Mnist { folder: None };
        let mnist = expand(&plan, &cpu_node()).cells[0].id.clone();
        plan.data = DataSet::Mnist { folder: Some("elsewhere".into()) };
        assert_eq!(HashSet::from([digits, mnist, expand(&plan, &cpu_node()).cells[0].id.clone()]).len(), 3);
    }

    #[test]
    fn cells_whose_first_digits_agree_stay_apart() {
        let (mut taken, mut other) = (HashSet::new(), [0xab; 32]);
        assert_eq!(distinct(&[0xab; 32], &mut taken), "abababab");
        other[4] = 1;
        assert_eq!(distinct(&other, &mut taken), "abababab01ababab");
    }

    #[test]
    fn a_plan_too_large_to_expand_says_so_at_once() {
        let counts: Vec<Level> = (1..=256).map(Level::Integer).collect();
        let plan = small_plan(&[("epochs", counts.clone()), ("loader_workers", counts.clone()), ("gpus", counts)]);
        let matrix = expand(&plan, &cpu_node());
        assert!(matrix.cells.is_empty());
        assert!(matrix.invalid[0].reason.contains("16777216 combinations"), "{}", matrix.invalid[0].reason);
    }

    #[test]
    fn a_factor_without_any_level_gives_no_cells() {
        let matrix = expand(&small_plan(&[("layout", vec![])]), &cpu_node());
        assert_eq!(matrix, Matrix::default());
    }
}
