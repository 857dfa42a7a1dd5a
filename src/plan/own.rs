//! User-defined measures in plan files: `[measures]`. Formulas are read here; which names they may use is known where measures are.

use toml::de::DeValue;

use super::Better;
use super::checked_table::{Table, kind};
use super::formula::{Formula, OwnMeasure};
use super::problem::Problems;

/// The most user-defined measures of a plan, and the most that a session uses.
pub const MOST_OWN_MEASURES: usize = 1000;
pub(super) const KEYS: &[&str] = &["formula", "name", "unit", "better"];

/// A measure of a plan's `[measures]`.
#[derive(Clone, Debug)]
pub struct PlannedMeasure {
    /// The measure.
    pub measure: OwnMeasure,
    /// The line of its key in the file, from 1.
    pub line: usize,
}

// A measure may be anywhere in the file.
impl PartialEq for PlannedMeasure {
    fn eq(&self, other: &Self) -> bool {
        self.measure == other.measure
    }
}

/// The measures of a plan's file, in its order.
pub(super) fn measures(top: &Table, problems: &mut Problems) -> Vec<PlannedMeasure> {
    let Some(table) = top.table("measures", problems) else { return Vec::new() };
    if table.entries.len() > MOST_OWN_MEASURES
        && let Some((key, _)) = table.entries.iter().next()
    {
        let message = format!(
            "a plan has at most {MOST_OWN_MEASURES} user-defined measures, and this plan has {}: remove some",
            table.entries.len()
        );
        problems.add(&key.span(), "measures", message);
        return Vec::new();
    }
    let mut measures = Vec::new();
    for (key, value) in table.entries {
        let name = key.get_ref();
        let path = table.path(name);
        let (formula_at, measure) = match value.get_ref() {
            DeValue::String(formula) => (value.span(), OwnMeasure::new(name, formula)),
            DeValue::Table(entries) => {
                let own = Table { name: path.clone(), entries };
                own.check_keys(KEYS, &[], problems);
                let Some((at, formula)) = own.text("formula", problems) else {
                    if own.find("formula").is_none() {
                        problems.add(&key.span(), own.path("formula"), "missing: a measure needs a formula");
                    }
                    continue;
                };
                let mut text = |key: &str| own.text(key, problems).map(|(_, text)| text.to_owned());
                let (shown, unit) = (text("name"), text("unit"));
                let better = Better::read(&own, problems);
                (at, OwnMeasure { name: shown, unit, better, ..OwnMeasure::new(name, formula) })
            }
            other => {
                let message = format!("must be a formula such as \"throughput / power_w\", not {}", kind(other));
                problems.add(&value.span(), path, message);
                continue;
            }
        };
        if let Some(message) = measure.refused_name() {
            problems.add(&key.span(), path, message);
        } else if let Err(error) = Formula::parse(&measure.formula) {
            problems.add(&formula_at, path, error.to_string());
        } else {
            measures.push((key.span().start, PlannedMeasure { measure, line: problems.line(&key.span()) }));
        }
    }
    measures.sort_by_key(|(start, _)| *start);
    measures.into_iter().map(|(_, measure)| measure).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::MOST_OWN_MEASURES;
    use crate::plan::{Better, Plan};

    fn parsed(measures: &str) -> Result<Plan, String> {
        let text = format!("version = 1\n[measures]\n{measures}\n");
        Plan::parse(&text, "p.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn a_plans_measures_are_read_in_its_order_and_written_again() {
        let plan = parsed(
            "per_joule = \"throughput / power_w\"\nheadroom = { formula = \"24 GB - peak_device_bytes\", unit = \"MiB\", \
             name = \"Free memory\", better = \"higher\" }",
        )
        .unwrap();
        let [first, second] = &plan.measures[..] else { panic!("{:?}", plan.measures) };
        assert_eq!(
            (&*first.measure.key, first.measure.formula.as_str(), first.line),
            ("per_joule", "throughput / power_w", 3)
        );
        assert_eq!(second.measure.better, Better::Higher);
        assert_eq!(second.measure.unit.as_deref(), Some("MiB"));
        let again = Plan::parse(&plan.to_toml(), "again.toml").unwrap();
        assert_eq!(again.measures, plan.measures);
        let mut without = plan.clone();
        without.measures.pop();
        let text = without.to_toml_in(&plan.to_toml(), "p.toml");
        assert_eq!(Plan::parse(&text, "p.toml").unwrap().measures, without.measures, "{text}");
    }

    #[test]
    fn a_plan_with_very_many_measures_is_refused_with_their_number() {
        let measures = |count: usize| (0..count).map(|number| format!("m{number} = \"1 s\"\n")).collect::<String>();
        assert_eq!(parsed(&measures(MOST_OWN_MEASURES)).unwrap().measures.len(), MOST_OWN_MEASURES);
        let error = parsed(&measures(MOST_OWN_MEASURES + 1)).unwrap_err();
        assert!(
            error.contains("measures: a plan has at most 1000 user-defined measures, and this plan has 1001"),
            "{error}"
        );
    }

    #[test]
    fn bad_measures_are_named_with_their_line() {
        for (measures, expected) in [
            ("a = 3", "p.toml:3: measures.a: must be a formula such as \"throughput / power_w\", not a whole number"),
            ("a = \"b +\"", "p.toml:3: measures.a: character 4: the formula ends here"),
            ("\"A b\" = \"c\"", "p.toml:3: measures.A b: a key has small letters"),
            ("min = \"c\"", "p.toml:3: measures.min: \"min\" is the name of a function"),
            ("a = { name = \"b\" }", "p.toml:3: measures.a.formula: missing"),
            (
                "a = { formula = \"b\", bettr = \"c\" }",
                "p.toml:3: measures.a.bettr: unknown key; did you mean \"better\"?",
            ),
            (
                "a = { formula = \"b\", better = \"hihger\" }",
                "p.toml:3: measures.a.better: unknown \"hihger\"; did you mean \"higher\"?",
            ),
        ] {
            let error = parsed(measures).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
