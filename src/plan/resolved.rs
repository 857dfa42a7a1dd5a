//! What the design of a plan can tell apart, in sentences, before anything runs.

use super::design::resolution;
use super::designed::designed;
use super::{Alias, Block, DesignKind, Fit, Key, Level, Matrix, Plan, Term, counted};

/// At most this many interactions are named beside an effect.
const NAMED: usize = 6;
/// At most this many effects are listed with their own lines.
const LISTED: usize = 40;

/// What a design can tell apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    /// One sentence: the kind, its cells, the resolution or efficiency.
    pub summary: String,
    /// For each effect that is mixed with others: its name and theirs.
    pub mixed: Vec<(String, String)>,
    /// Sentences without full stops: what the design leaves open by its nature, and what it does not.
    pub notes: Vec<String>,
    /// Sentences without full stops: ticked effects that cannot be estimated with the cells that can run here.
    pub warnings: Vec<String>,
}

/// What the design of a plan's block can tell apart, judged by the cells of its matrix, which are those that can run. `None` without a
/// design, or if it cannot be made.
pub fn resolved(plan: &Plan, block: &Block, matrix: &Matrix) -> Option<Resolved> {
    let design = block.design.as_ref()?;
    let answer = designed(plan, block)?;
    let chosen = answer.as_ref().as_ref().ok()?;
    let varied: Vec<usize> = block.varied().map(|(place, _, _)| place).collect();
    let keys: Vec<&Key> = block.varied().map(|(_, key, _)| key).collect();
    let counts: Vec<usize> = block.varied().map(|(_, _, levels)| levels.len()).collect();
    let all = block.combinations();
    let mut resolved = Resolved {
        summary: match design.kind {
            DesignKind::LatinHypercube => format!("{}: {}", design.kind.title(), counted(chosen.cells.len(), "cell")),
            _ => format!("{}: {} of {}", design.kind.title(), chosen.cells.len(), counted(all, "cell")),
        },
        ..Resolved::default()
    };
    let point = |levels: &super::Levels| {
        let place = |(key, ticked): (&Key, &[Level])| {
            let level = levels.get(key)?;
            ticked.iter().position(|known| known == level)
        };
        block.varied().map(|(_, key, ticked)| place((key, ticked))).collect::<Option<Vec<usize>>>()
    };
    match design.kind {
        DesignKind::OneAtATime => {
            resolved.notes.push(
                "each effect is known at the base cell only: no cell shows whether it is the same with other levels of the other \
                 factors"
                    .to_owned(),
            );
            return Some(resolved);
        }
        DesignKind::LatinHypercube => {
            resolved.notes.push(
                "made for curves over numeric factors: no two cells differ in one factor alone, so that tables of effects stay empty"
                    .to_owned(),
            );
            return Some(resolved);
        }
        DesignKind::Fraction | DesignKind::PlackettBurman | DesignKind::DOptimal => {}
    }
    let of_block = matrix.cells.iter().filter(|cell| cell.workload == block.spec.key && cell.data == block.data);
    let mut points: Vec<Vec<usize>> = of_block.filter_map(|cell| point(&cell.levels)).collect();
    points.sort();
    points.dedup();
    let ticked = design.interactions(&keys).unwrap_or_default();
    let fit = Fit::new(&counts, &ticked, &points);
    let name = |term: &Term| term.iter().map(|place| keys[*place].as_str()).collect::<Vec<_>>().join(" × ");
    let designed_points: Vec<Vec<usize>> =
        chosen.cells.iter().map(|cell| varied.iter().map(|place| cell[*place]).collect()).collect();
    let as_designed = Fit::new(&counts, &ticked, &designed_points);
    resolved.summary += &quality(design.kind, &as_designed, resolution(&counts, &designed_points));
    describe(&mut resolved, &fit, &name);
    lost(&mut resolved, &fit, &designed_points, &points, &name);
    if plan.repeats < 2 {
        resolved
            .notes
            .push("with one repeat no effect has an interval or a verdict: give two repeats or more".to_owned());
    }
    Some(resolved)
}

/// How good a design is: a regular fraction has a resolution, others have an efficiency.
fn quality(kind: DesignKind, fit: &Fit, resolution: Option<usize>) -> String {
    const ROMAN: [&str; 7] = ["0", "I", "II", "III", "IV", "V", "VI"];
    let is_regular = || fit.terms().iter().flat_map(|term| fit.aliases(term)).all(|alias| alias.share.abs() > 0.995);
    match (kind, resolution, fit.efficiency()) {
        (DesignKind::Fraction, Some(resolution), _) if is_regular() => {
            format!(", resolution {}", ROMAN[resolution.min(6)])
        }
        (DesignKind::PlackettBurman, ..) => ", resolution III with fractional aliases".to_owned(),
        (_, _, Some(efficiency)) => {
            format!(", {}, D-efficiency {:.0} %", counted(fit.coefficients(), "coefficient"), 100.0 * efficiency)
        }
        _ => String::new(),
    }
}

/// Lists the effects that are mixed with others, and says which are not.
fn describe(resolved: &mut Resolved, fit: &Fit, name: &dyn Fn(&Term) -> String) {
    let mut clear = Vec::new();
    let mut hidden = 0;
    for term in fit.terms() {
        let aliases = fit.aliases(term);
        if aliases.is_empty() {
            clear.push(name(term));
        } else if resolved.mixed.len() < LISTED {
            resolved.mixed.push((name(term), joined(&aliases, name)));
        } else {
            hidden += 1;
        }
    }
    let mixed = resolved.mixed.len() + hidden;
    if !clear.is_empty() {
        let shown = clear.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
        let more = clear.len().saturating_sub(LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        resolved.notes.push(format!("not mixed with any other effect of one or two factors: {shown}{more}"));
    }
    if mixed > 0 {
        let more = if hidden > 0 { format!(" ({hidden} more are not listed)") } else { String::new() };
        let effects = if mixed == 1 { "1 effect is" } else { &format!("{mixed} effects are") };
        resolved.notes.push(format!("{effects} mixed with others{more}: tables name them together"));
    }
}

/// `layout × gpus, 0.33 of precision × gpus and 4 more`.
fn joined(aliases: &[Alias], name: &dyn Fn(&Term) -> String) -> String {
    let one = |alias: &Alias| match alias.share.abs() {
        0.995.. => name(&alias.term),
        share => format!("{share:.2} of {}", name(&alias.term)),
    };
    let shown = aliases.iter().take(NAMED).map(one).collect::<Vec<_>>().join(", ");
    match aliases.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Warns of ticked effects that cannot be estimated.
fn lost(
    resolved: &mut Resolved,
    fit: &Fit,
    designed: &[Vec<usize>],
    points: &[Vec<usize>],
    name: &dyn Fn(&Term) -> String,
) {
    let missing = designed.iter().filter(|point| !points.contains(point)).count();
    if missing > 0 {
        let cells = counted(missing, "cell");
        resolved.warnings.push(format!(
            "{cells} of the design cannot run here: write a [[constraint]] for them and choose d-optimal, so that the design \
             avoids them"
        ));
    }
    if !fit.lost().is_empty() {
        let names = fit.lost().iter().take(NAMED).map(name).collect::<Vec<_>>().join(", ");
        let more = fit.lost().len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        resolved.warnings.push(format!("the cells that can run do not tell these effects apart: {names}{more}"));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::expand;
    use crate::plan::fixture::gpu_node;

    fn plan(design: &str) -> Plan {
        let text = format!(
            "version = 1\nrepeats = 2\n[factors]\nprecision = [\"fp32\", \"bf16\"]\nlayout = [\"nchw\", \"nhwc\"]\n\
             pin_memory = [\"off\", \"on\"]\nbatch_size = [32, 64]\nimage_size = [32, 64]\n[design]\n{design}"
        );
        Plan::parse(&text, "p.toml").unwrap()
    }

    fn answer(plan: &Plan) -> Resolved {
        resolved(plan, &plan.first, &expand(plan, &gpu_node(1))).unwrap()
    }

    #[test]
    fn a_fraction_of_resolution_three_names_what_each_main_effect_is_mixed_with() {
        let answer = answer(&plan("kind = \"fraction\"\nruns = 8"));
        assert_eq!(answer.summary, "two-level fraction: 8 of 32 cells, resolution III");
        assert_eq!(answer.mixed[0].0, "precision");
        assert_eq!(answer.mixed[0].1.matches('×').count(), 2, "{answer:?}");
        assert!(answer.warnings.is_empty(), "{answer:?}");
    }

    #[test]
    fn a_fraction_with_optimal_runs_has_no_resolution_any_more() {
        let answer = answer(&plan("kind = \"fraction\"\nruns = 8\n[[design.add]]\nkind = \"d-optimal\"\nruns = 2"));
        assert!(
            answer.summary.starts_with("two-level fraction: 10 of 32 cells, 6 coefficients, D-efficiency 9"),
            "{answer:?}"
        );
    }

    #[test]
    fn a_half_fraction_of_five_factors_tells_everything_apart() {
        let answer = answer(&plan("kind = \"fraction\"\nruns = 16"));
        assert_eq!(answer.summary, "two-level fraction: 16 of 32 cells, resolution V");
        assert!(answer.mixed.is_empty() && answer.notes[0].contains("precision × layout"), "{answer:?}");
    }

    #[test]
    fn irregular_and_optimal_designs_show_shares_and_efficiency() {
        let burman = answer(&plan("kind = \"plackett-burman\""));
        assert!(burman.summary.ends_with("12 of 32 cells, resolution III with fractional aliases"), "{burman:?}");
        assert!(burman.mixed[0].1.contains("0.33 of "), "{burman:?}");
        let optimal = answer(&plan("kind = \"d-optimal\"\nruns = 8\ninteractions = [[\"layout\", \"precision\"]]"));
        assert!(optimal.summary.contains("8 of 32 cells, 7 coefficients, D-efficiency "), "{optimal:?}");
    }

    #[test]
    fn cells_that_cannot_run_here_are_warned_of_with_the_effects_that_are_lost() {
        let mut plan = plan("kind = \"fraction\"\nruns = 8");
        plan.constraints.push(plan.constraint("precision = bf16", "slow").unwrap());
        let answer = answer(&plan);
        assert_eq!(answer.summary, "two-level fraction: 8 of 32 cells, resolution III");
        assert!(answer.warnings[0].starts_with("4 cells of the design cannot run here"), "{answer:?}");
        assert!(answer.warnings[1].contains("do not tell these effects apart: precision"), "{answer:?}");
    }

    #[test]
    fn designs_without_a_model_say_what_they_leave_open() {
        let answer = answer(&plan("kind = \"one-at-a-time\""));
        assert_eq!(answer.summary, "one factor at a time: 6 of 32 cells");
        assert!(answer.notes[0].contains("at the base cell only"), "{answer:?}");
        let mut once = plan("kind = \"fraction\"");
        once.repeats = 1;
        let answer = resolved(&once, &once.first, &expand(&once, &gpu_node(1))).unwrap();
        assert!(answer.notes.iter().any(|note| note.starts_with("with one repeat")), "{answer:?}");
    }
}
