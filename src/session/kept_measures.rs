//! Measures of a plan that the session already has with another meaning: the session keeps its own.

use crate::plan::{OwnMeasure, Plan};

/// A warning, in one line, about the plan's measures that are not used because the session has others with their keys; `None` if there are
/// none. `own` are the session's measures.
pub(super) fn kept_measures(plan: &Plan, own: &[OwnMeasure]) -> Option<String> {
    let planned = plan.measures.iter().map(|planned| &planned.measure);
    let differing = planned.filter_map(|planned| {
        let kept = own.iter().find(|own| own.key == planned.key && *own != planned)?;
        Some(if kept.formula == planned.formula {
            format!("{} (other name, unit or better)", kept.key)
        } else {
            format!("{} ({}, in the plan {})", kept.key, kept.formula, planned.formula)
        })
    });
    let differing: Vec<String> = differing.collect();
    (!differing.is_empty()).then(|| {
        format!(
            "the session keeps its own measures, which differ from the plan's: {}; to replace one, use `multicard measure SESSION --save KEY \
             --formula FORMULA`",
            differing.join(", ")
        )
    })
}
