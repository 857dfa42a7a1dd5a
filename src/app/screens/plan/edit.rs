//! Edits of a plan as pure functions: ticking levels, and parsing typed numbers.

use crate::plan::{Domain, Factor, GPUS, GpuChoice, Level, Node, Plan};

/// The plan with a level ticked, or unticked if it was ticked; `None` if it is the factor's only level.
pub(super) fn toggled(plan: &Plan, factor: &Factor, level: &Level) -> Option<Plan> {
    let mut plan = plan.clone();
    let (_, ticked) = plan.first.factors.iter_mut().find(|(key, _)| *key == factor.key)?;
    match ticked.iter().position(|other| other == level) {
        Some(_) if ticked.len() == 1 => return None,
        Some(place) => drop(ticked.remove(place)),
        None => insert(factor, ticked, level.clone()),
    }
    Some(plan)
}

/// The plan with these levels ticked in addition.
pub(super) fn with_levels(plan: &Plan, factor: &Factor, levels: &[Level]) -> Plan {
    let mut plan = plan.clone();
    if let Some((_, ticked)) = plan.first.factors.iter_mut().find(|(key, _)| *key == factor.key) {
        for level in levels {
            if !ticked.contains(level) {
                insert(factor, ticked, level.clone());
            }
        }
    }
    plan
}

/// Inserts a level before the first ticked one that follows it in the registry; the plan's order is kept.
fn insert(factor: &Factor, ticked: &mut Vec<Level>, level: Level) {
    let after = |other: &Level| match factor.domain {
        // Lists of GPUs come after the names.
        Domain::GpuSet(_) => {
            factor.place(&level).is_some_and(|place| factor.place(other).is_none_or(|other| other > place))
        }
        Domain::Names(_) | Domain::Path => factor.place(other) > factor.place(&level),
        Domain::Integer { .. } | Domain::Number { .. } => *other > level,
    };
    let place = ticked.iter().position(after).unwrap_or(ticked.len());
    ticked.insert(place, level);
}

/// The levels to offer: all named ones; for numbers, the usual ones and the ticked ones.
pub(super) fn offered(factor: &Factor, ticked: &[Level], node: Option<&Node>) -> Vec<Level> {
    if let Domain::Names(_) = factor.domain {
        return factor.offered().collect();
    }
    let gpus = node.map_or(0, |node| node.gpus.iter().filter(|gpu| !gpu.mig).count()) as f64;
    // The papers compare 1, 2 and 4 GPUs, so these are offered even if they cannot run here.
    let fits = |number: f64| number <= gpus || [1.0, 2.0, 4.0].contains(&number);
    let wanted = |level: &Level| factor.key != GPUS || level.as_number().is_some_and(fits);
    let mut levels: Vec<Level> = factor.offered().filter(wanted).collect();
    levels.extend(ticked.iter().filter(|level| !levels.contains(level)).cloned().collect::<Vec<_>>());
    if let Domain::GpuSet(_) = factor.domain {
        return levels;
    }
    levels.sort();
    levels
}

/// Parses numbers separated by commas or spaces as levels of a factor, or lists of GPUs separated by semicolons or spaces. The error
/// says what is valid.
pub(super) fn typed_levels(factor: &Factor, text: &str) -> Result<Vec<Level>, String> {
    let is_list = matches!(factor.domain, Domain::GpuSet(_));
    let text = if is_list { text.replace(", ", ",") } else { text.replace(',', " ") };
    let words = text.split([';', ' ']).map(str::trim).filter(|word| !word.is_empty());
    let levels: Vec<Level> = words.map(|word| typed_level(factor, word)).collect::<Result<_, _>>()?;
    let help =
        if is_list { "type GPUs by index, such as 0,2" } else { "type one number or several, separated by commas" };
    if levels.is_empty() { Err(help.to_owned()) } else { Ok(levels) }
}

fn typed_level(factor: &Factor, word: &str) -> Result<Level, String> {
    let shown: String = word.chars().take(32).collect();
    let (level, range) = match &factor.domain {
        Domain::Names(names) => {
            let known = names.iter().find(|name| ***name == *word).cloned().map(Level::Text);
            return known.ok_or_else(|| format!("{shown} is not a level: the levels are {}", names.join(", ")));
        }
        Domain::Path => return Ok(Level::text(word)),
        Domain::GpuSet(_) => return word.parse().map(|choice: GpuChoice| Level::text(&choice.to_string())),
        Domain::Integer { min, max } => {
            let number = word.parse().ok().filter(|number| (min..=max).contains(&number));
            (number.map(Level::Integer), format!("a whole number from {min} to {max}"))
        }
        Domain::Number { min, max } => {
            // Adding 0 turns -0 into 0, which is the same level.
            let number: Option<f64> = word.parse().ok().filter(|number| (min..=max).contains(&number));
            (number.map(|number| Level::Number(number + 0.0)), format!("a number from {min} to {max}"))
        }
    };
    level.ok_or_else(|| format!("{shown} is not {range}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::fixture::{cpu_node, gpu_node};
    use crate::plan::image;

    fn factor_of(key: &str) -> Factor {
        image::spec().factor(key).unwrap().clone()
    }

    fn ticked(plan: &Plan, key: &str) -> Vec<String> {
        plan.first.levels(key).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn levels_are_ticked_in_the_order_of_the_registry_and_numbers_by_value() {
        let plan = Plan::new("p", image::spec());
        let plan = toggled(&plan, &factor_of("precision"), &Level::text("bf16")).unwrap();
        let plan = toggled(&plan, &factor_of("precision"), &Level::text("fp64")).unwrap();
        assert_eq!(ticked(&plan, "precision"), ["fp32", "fp64", "bf16"]);
        let plan = with_levels(
            &plan,
            &factor_of("batch_size"),
            &[Level::Integer(128), Level::Integer(32), Level::Integer(64)],
        );
        assert_eq!(ticked(&plan, "batch_size"), ["32", "64", "128"]);
    }

    #[test]
    fn the_last_level_stays() {
        let plan = Plan::new("p", image::spec());
        assert!(toggled(&plan, &factor_of("precision"), &Level::text("fp32")).is_none());
    }

    #[test]
    fn typed_numbers_are_checked_against_the_factors_range() {
        let image_size = &factor_of("image_size");
        assert_eq!(typed_levels(image_size, " 64, 96,128 ").unwrap().len(), 3);
        for (text, part) in [
            ("", "type one number"),
            ("12", "12 is not a whole number from 28 to 2048"),
            ("64, x", "x is not"),
            ("64.5", "64.5 is not"),
            ("99999999999999999999", "is not"),
        ] {
            let error = typed_levels(image_size, text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        for text in ["nan", "inf", "-1", "1e400"] {
            assert!(typed_levels(&factor_of("learning_rate"), text).is_err(), "{text}");
        }
        assert_eq!(typed_levels(&factor_of("learning_rate"), "1e-3").unwrap(), [Level::Number(0.001)]);
    }

    #[test]
    fn a_list_of_gpus_is_one_level_and_stands_behind_the_names() {
        let gpu_set = &factor_of("gpu_set");
        let plan = Plan::new("p", image::spec());
        let plan = with_levels(&plan, gpu_set, &typed_levels(gpu_set, "2, 0; 1,3").unwrap());
        let plan = toggled(&plan, gpu_set, &Level::text("spread")).unwrap();
        assert_eq!(ticked(&plan, "gpu_set"), ["nearest", "spread", "0,2", "1,3"]);
        let offered = offered(gpu_set, plan.first.levels("gpu_set"), None);
        let texts: Vec<String> = offered.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["nearest", "same-socket", "spread", "0,2", "1,3"]);
        assert!(typed_levels(gpu_set, "0,x").unwrap_err().contains("list of GPUs"));
    }

    #[test]
    fn all_gpus_of_the_machine_are_offered_and_always_one_two_and_four() {
        let texts = |node: &Node| -> Vec<String> {
            offered(&factor_of("gpus"), &[Level::Integer(1)], Some(node)).iter().map(ToString::to_string).collect()
        };
        assert_eq!(texts(&cpu_node()), ["1", "2", "4"]);
        assert_eq!(texts(&gpu_node(3)), ["1", "2", "3", "4"]);
    }

    #[test]
    fn a_ticked_number_that_is_not_usual_is_offered_in_its_place() {
        let levels = offered(&factor_of("image_size"), &[Level::Integer(150)], None);
        assert_eq!(levels[2], Level::Integer(150));
    }
}
