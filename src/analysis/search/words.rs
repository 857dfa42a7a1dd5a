//! Steps of searches in words.

use super::bounds::Bounded;
use crate::analysis::texts::{OVER_1000, long_time, percent};
use crate::analysis::{Measure, counted};
use crate::plan::{DropReason, Dropped, Search, SearchCost, SearchEnd, SearchStep, SearchVerdict, Standing};

/// The largest number of ties that are named. The same number limits the named cells that are not told apart from the answer.
const MOST_NAMED: usize = 8;

/// A value with its unit.
pub(super) fn shown(measure: &Measure, value: f64) -> String {
    let number = rounded(value * measure.shown_factor);
    if measure.shown_unit.is_empty() { number } else { format!("{number} {}", measure.shown_unit) }
}

/// A value with its unit and the ends of its interval.
pub(super) fn shown_interval(measure: &Measure, value: f64, ends: Option<(f64, f64)>) -> String {
    let number = |value: f64| rounded(value * measure.shown_factor);
    let ends = ends.map(|(one, other)| (one.min(other), one.max(other)));
    let ends = ends.map_or(String::new(), |(low, high)| format!(" ({} to {})", number(low), number(high)));
    format!("{}{ends}", shown(measure, value))
}

/// A cell's value as a share of the best; `sign` is −1 for measures whose low values are good.
pub(super) fn percent_of_best(sign: f64, ahead: Bounded) -> String {
    let share = |ahead: f64| format!("{:.1}", 100.0 * (sign * ahead).exp());
    let (one, other) = if sign > 0.0 { (ahead.low(), ahead.high()) } else { (ahead.high(), ahead.low()) };
    format!("{} % of the best ({} to {})", share(ahead.mean), share(one), share(other))
}

/// A number with four digits.
fn rounded(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-9..=15).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let (places, scale) = ((3 - magnitude).max(0) as usize, 10_f64.powi((magnitude - 3).max(0)));
    let text = format!("{:.places$}", (value / scale).round() * scale);
    let text = if places > 0 { format!("{value:.places$}") } else { text };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Why a cell was dropped; `name` gives the cells' names by their ids.
fn why(why: &DropReason, name: &dyn Fn(&str) -> String) -> String {
    match why {
        DropReason::Failed { why } => why.clone(),
        DropReason::NoValue { measure, found } => format!("no {measure}: {found}"),
        DropReason::Worse { than, by, at_least } => {
            let sure = percent(*at_least);
            let sure = if sure == OVER_1000 { String::new() } else { format!(", at least {sure}") };
            format!("{} worse than {}{sure}", percent(*by), name(than))
        }
        DropReason::Behind { than, level } => format!("{} keeps the limits with {level}", name(than)),
        DropReason::Misses { limit, value } => format!("does not keep {limit}: {value}"),
    }
}

/// A step in words, a line for each thing that it says; `name` gives the cells' names by their ids.
pub fn step_lines(step: &SearchStep, search: &Search, name: &dyn Fn(&str) -> String) -> Vec<String> {
    match step {
        SearchStep::Begun { candidates, .. } => {
            vec![format!("search: {} among {}", search.question(), counted(candidates.len(), "cell"))]
        }
        SearchStep::Round { round, dropped, next } => {
            let line = |dropped: &Dropped| {
                format!("round {round}: dropped {}: {}", name(&dropped.cell), why(&dropped.why, name))
            };
            let mut lines: Vec<String> = dropped.iter().map(line).collect();
            if !next.is_empty() {
                lines.push(format!(
                    "round {round}: {} again",
                    match next.len() {
                        1 => "1 cell runs".to_owned(),
                        cells => format!("{cells} cells run"),
                    }
                ));
            }
            lines
        }
        SearchStep::Ended(verdict) => verdict_lines(verdict, search, name),
    }
}

/// Why a search ended without a decision, and what to do; `key` is the number in the plan that ended it.
fn undecided(why: &str, key: &str) -> String {
    format!("undecided: {why}. To decide it, raise {key} in the plan, and run the plan again: this begins a new search")
}

fn verdict_lines(verdict: &SearchVerdict, search: &Search, name: &dyn Fn(&str) -> String) -> Vec<String> {
    let tie = percent(search.tie);
    let because = match verdict.end {
        SearchEnd::One => "it is the only cell that is left".to_owned(),
        SearchEnd::Ties if verdict.others.iter().all(|other| other.within.is_none()) => {
            "no cell that keeps the limits has a better level".to_owned()
        }
        SearchEnd::Ties => format!("no other cell can be better by more than {tie}"),
        SearchEnd::Runs => undecided("the runs of the budget are spent", "runs"),
        SearchEnd::Minutes => undecided("the minutes of the budget are spent", "minutes"),
        SearchEnd::Repeats => undecided("each cell that is left has all repeats of the plan", "repeats"),
        SearchEnd::None => "no cell is left that could be the answer".to_owned(),
    };
    let mut lines = match &verdict.chosen {
        Some(chosen) => {
            vec![format!("answer: {}: {}", name(chosen), verdict.values.join(", ")), format!("  {because}")]
        }
        None => vec![format!("answer: none: {because}")],
    };
    lines.extend(verdict.unsure.iter().map(|limit| format!("  it may not keep {limit}")));
    let within = |other: &Standing| match other.within {
        Some((better, worse)) => match [percent(better), percent(worse)] {
            [better, worse] if better == OVER_1000 || worse == OVER_1000 => {
                format!(": perhaps {better} better or {worse} worse")
            }
            [better, worse] => format!(": at most {better} better and {worse} worse"),
        },
        None => String::new(),
    };
    let ties: Vec<&Standing> = verdict.others.iter().filter(|other| other.is_tie).collect();
    for other in ties.iter().take(MOST_NAMED) {
        lines.push(format!("  ties with it within {tie}: {}{}", name(&other.cell), within(other)));
    }
    if ties.len() > MOST_NAMED {
        lines.push(format!("  ties with it within {tie}: {} more", ties.len() - MOST_NAMED));
    }
    let open: Vec<&Standing> = verdict.others.iter().filter(|other| !other.is_tie).collect();
    for other in open.iter().take(MOST_NAMED) {
        let unsure: String = other.unsure.iter().map(|limit| format!("; it may not keep {limit}")).collect();
        lines.push(format!("  not told apart: {}{}{unsure}", name(&other.cell), within(other)));
    }
    if open.len() > MOST_NAMED {
        lines.push(format!("  not told apart: {} more", open.len() - MOST_NAMED));
    }
    lines.push(cost_line(verdict));
    lines
}

/// The cost of a search, compared with the cost of the whole grid.
fn cost_line(verdict: &SearchVerdict) -> String {
    let cost = |SearchCost { runs, steps, time_s }: &SearchCost| {
        let steps = if *steps > 0 { format!(", {}", counted(*steps as usize, "step")) } else { String::new() };
        format!("{}{steps}, {}", counted(*runs as usize, "run"), long_time(*time_s))
    };
    format!("  it took {}; the whole grid would take {}", cost(&verdict.made), cost(&verdict.grid))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::Goal;

    fn name(cell: &str) -> String {
        format!("cell {cell}")
    }

    #[test]
    fn numbers_have_four_digits() {
        let shown: Vec<String> =
            [24e9 * 1e-9, 0.0123456, 98.2, 123_456.0, 1e12, 0.0, -1.5].iter().map(|value| rounded(*value)).collect();
        assert_eq!(shown, ["24", "0.01235", "98.2", "123500", "1000000000000", "0", "-1.5"]);
    }

    #[test]
    fn a_share_that_is_too_large_to_print_is_not_given_as_a_measured_one() {
        let worse = |by: f64, at_least: f64| why(&DropReason::Worse { than: "b".into(), by, at_least }, &name);
        assert_eq!(worse(999.0, 950.0), "more than 1000 % worse than cell b");
        assert_eq!(worse(999.0, 8.0), "more than 1000 % worse than cell b, at least 800 %");
        assert_eq!(worse(10.0, 9.0), "1000 % worse than cell b, at least 900 %");
    }

    #[test]
    fn a_round_says_why_each_cell_was_dropped() {
        let worse = DropReason::Worse { than: "b".into(), by: 0.123, at_least: 0.08 };
        let failed = DropReason::Failed { why: "failed: CUDA out of memory".into() };
        let dropped = [("a", worse), ("c", failed)].map(|(cell, why)| Dropped { cell: cell.into(), why });
        let step = SearchStep::Round { round: 2, dropped: dropped.into(), next: vec!["b".into(), "d".into()] };
        let search = Search::new(Goal::parse("max throughput").unwrap());
        assert_eq!(
            step_lines(&step, &search, &name),
            [
                "round 2: dropped cell a: 12 % worse than cell b, at least 8 %",
                "round 2: dropped cell c: failed: CUDA out of memory",
                "round 2: 2 cells run again",
            ]
        );
    }

    #[test]
    fn a_verdict_calls_ties_ties_and_says_what_it_cost() {
        let standing = |cell: &str, is_tie, within| Standing {
            cell: cell.into(),
            is_tie,
            within: Some(within),
            unsure: Vec::new(),
        };
        let verdict = SearchVerdict {
            end: SearchEnd::Ties,
            chosen: Some("b".into()),
            values: vec!["throughput 812 images/s".into()],
            unsure: Vec::new(),
            others: vec![standing("d", true, (0.004, 0.006)), standing("e", false, (0.009, 0.05))],
            made: SearchCost { runs: 20, steps: 4_000, time_s: 60.0 },
            grid: SearchCost { runs: 120, steps: 24_000, time_s: 400.0 },
        };
        let search = Search::new(Goal::parse("max throughput").unwrap());
        assert_eq!(
            step_lines(&SearchStep::Ended(verdict), &search, &name),
            [
                "answer: cell b: throughput 812 images/s",
                "  no other cell can be better by more than 1 %",
                "  ties with it within 1 %: cell d: at most 0.40 % better and 0.60 % worse",
                "  not told apart: cell e: at most 0.90 % better and 5 % worse",
                "  it took 20 runs, 4000 steps, 60 s; the whole grid would take 120 runs, 24000 steps, 7 min",
            ]
        );
    }

    #[test]
    fn an_undecided_search_names_the_number_to_raise() {
        let because = |end| {
            let verdict = SearchVerdict {
                end,
                chosen: Some("b".into()),
                values: vec!["throughput 812 images/s".into()],
                unsure: Vec::new(),
                others: Vec::new(),
                made: SearchCost::default(),
                grid: SearchCost::default(),
            };
            verdict_lines(&verdict, &Search::new(Goal::parse("max throughput").unwrap()), &name).swap_remove(1)
        };
        assert_eq!(
            because(SearchEnd::Repeats),
            "  undecided: each cell that is left has all repeats of the plan. To decide it, raise repeats in the plan, and run the plan \
             again: this begins a new search"
        );
        assert!(because(SearchEnd::Runs).contains("raise runs in the plan"));
        assert!(because(SearchEnd::Minutes).contains("raise minutes in the plan"));
    }

    #[test]
    fn an_answer_that_was_sought_by_levels_says_that_no_other_cell_has_a_better_one() {
        let because = |within: Option<(f64, f64)>| {
            let other = Standing { cell: "d".into(), is_tie: false, within, unsure: Vec::new() };
            let verdict = SearchVerdict {
                end: SearchEnd::Ties,
                chosen: Some("b".into()),
                values: vec!["batch_size 64".into()],
                unsure: Vec::new(),
                others: vec![other],
                made: SearchCost::default(),
                grid: SearchCost::default(),
            };
            let search = Search::new(Goal::parse("max batch_size").unwrap());
            verdict_lines(&verdict, &search, &name).swap_remove(1)
        };
        assert_eq!(because(None), "  no cell that keeps the limits has a better level");
        assert_eq!(because(Some((0.0, 0.1))), "  no other cell can be better by more than 1 %");
    }
}
