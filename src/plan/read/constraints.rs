//! Reads the cells that a plan leaves out.

use crate::plan::checked_table::Table;
use crate::plan::filter::{Filter, Known};
use crate::plan::problem::Problems;
use crate::plan::{Constraint, Domain, Plan};

pub(super) const CONSTRAINT_KEYS: &[&str] = &["exclude", "reason"];

/// The keys that a constraint may use: the factors of all blocks, with their levels.
fn known_to_constraints(plan: &Plan) -> Vec<(&str, Known<'_>)> {
    let specs = || plan.blocks().map(|block| &block.spec);
    let mut known: Vec<(&str, Known)> = vec![
        ("workload", Known::Names(specs().map(|spec| &*spec.key).collect())),
        ("data", Known::Names(specs().flat_map(|spec| &spec.data_sets).map(|rule| &*rule.key).collect())),
    ];
    // A factor of a user's program may have the key of a setting. Then it may also have numbers as levels.
    known.retain(|(key, _)| specs().any(|spec| spec.factor(key).is_none()));
    let is_setting = |key: &str| ["workload", "data"].contains(&key);
    for factor in specs().flat_map(|spec| &spec.factors) {
        let known_domain = known.iter_mut().find(|(key, _)| *key == &*factor.key);
        match (&factor.domain, known_domain) {
            (Domain::Names(names), Some((_, Known::Names(all)))) => all.extend(names.iter().map(|name| &**name)),
            (Domain::Names(names), None) => {
                known.push((&factor.key, Known::Names(names.iter().map(|name| &**name).collect())));
            }
            (Domain::GpuSet(_), None) => known.push((&factor.key, Known::Text)),
            (_, None) => known.push((&factor.key, Known::Number)),
            (_, Some((_, values @ Known::Names(_)))) if is_setting(&factor.key) => *values = Known::Text,
            (_, Some(_)) => {}
        }
    }
    known
}

/// The cells that a constraint excludes, or what is wrong with its text.
fn excluded(exclude: &str, known: &[(&str, Known)]) -> Result<Filter, String> {
    match Filter::parse_known(exclude, known) {
        Ok(filter) if filter.is_empty() => {
            Err("empty: name the cells to leave out, such as \"gpus > 2 and precision = fp64\"".to_owned())
        }
        Ok(filter) => Ok(filter),
        Err(error) => Err(error.to_string()),
    }
}

/// The reason of a constraint, or what is wrong with its text.
fn reasoned(reason: &str) -> Result<&str, String> {
    let reason = reason.trim();
    if reason.is_empty() { Err("empty: say why these cells are left out".to_owned()) } else { Ok(reason) }
}

impl Plan {
    /// A constraint made from its two texts.
    ///
    /// # Errors
    /// What is wrong, as for a plan file, with the name of the wrong field.
    pub fn constraint(&self, exclude: &str, reason: &str) -> Result<Constraint, (&'static str, String)> {
        let exclude = excluded(exclude, &known_to_constraints(self)).map_err(|error| ("exclude", error))?;
        let reason = reasoned(reason).map_err(|error| ("reason", error))?;
        Ok(Constraint { exclude, reason: reason.to_owned() })
    }
}

/// The cells that the `[[constraint]]` tables exclude.
pub(super) fn constraints(top: &Table, plan: &Plan, problems: &mut Problems) -> Vec<Constraint> {
    let known = known_to_constraints(plan);
    let mut constraints = Vec::new();
    for (span, table) in top.tables("constraint", problems) {
        table.check_keys(CONSTRAINT_KEYS, &plan.first.spec.factors, problems);
        for key in CONSTRAINT_KEYS.iter().filter(|key| table.find(key).is_none()) {
            problems.add(
                &span,
                table.path(key),
                format!("missing: a constraint needs {}", CONSTRAINT_KEYS.join(" and ")),
            );
        }
        let (exclude, reason) = (table.text("exclude", problems), table.text("reason", problems));
        let (Some((exclude_span, exclude)), Some((reason_span, reason))) = (exclude, reason) else { continue };
        if let Err(message) = reasoned(reason) {
            problems.add(&reason_span, table.path("reason"), message);
        }
        match excluded(exclude, &known) {
            Ok(exclude) => constraints.push(Constraint { exclude, reason: reason.to_owned() }),
            Err(message) => problems.add(&exclude_span, table.path("exclude"), message),
        }
    }
    constraints
}
