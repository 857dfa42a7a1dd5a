//! Reports of a session's searches, from its records.

use std::collections::HashMap;

use serde::Serialize;

use super::searching::cell_name;
use crate::analysis::{Question, counted, step_lines};
use crate::plan::{Plan, Search, SearchStep, SearchVerdict};
use crate::store::{Reader, StoreError};

/// The line about a search without an answer.
const UNFINISHED: &str = "the search is not over. If no run of it is queued or active, `multicard run PLAN --session DIR --resume` continues it";

/// A search of a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchReport {
    /// The id of its plan in the session.
    pub plan: String,
    /// The plan's name.
    pub name: String,
    /// The question in words.
    pub question: String,
    /// The question with the names and units of its measures.
    #[serde(skip)]
    pub title: String,
    /// The course of the search, in lines; empty if the plan cannot be read.
    pub lines: Vec<String>,
    /// Its steps.
    pub steps: Vec<SearchStep>,
    /// The names of its candidates by their ids.
    pub cells: HashMap<String, String>,
}

impl SearchReport {
    /// Its answer, once it is over.
    pub fn verdict(&self) -> Option<&SearchVerdict> {
        self.steps.iter().find_map(|step| match step {
            SearchStep::Ended(verdict) => Some(verdict),
            _ => None,
        })
    }

    /// The answer with its reason and its cost, or the statement that there is none yet; then the order in which cells
    /// were dropped.
    pub fn answer(&self) -> Vec<String> {
        let begin = self.lines.iter().position(|line| line.starts_with("answer: "));
        let mut lines = match begin {
            Some(begin) => self.lines[begin..].to_vec(),
            None => vec![UNFINISHED.to_owned()],
        };
        let went: Vec<String> =
            self.went().into_iter().map(|(round, name)| format!("{name} (round {round})")).collect();
        if !went.is_empty() {
            lines.push(format!("cells were dropped in this order: {}", went.join("; ")));
        }
        lines
    }

    /// The dropped cells in order: the round, from 1, and the cell's name.
    fn went(&self) -> Vec<(u32, String)> {
        let name = |cell: &String| self.cells.get(cell).unwrap_or(cell).clone();
        let of_step = |step: &SearchStep| match step {
            SearchStep::Round { round, dropped, .. } => {
                dropped.iter().map(|dropped| (*round, name(&dropped.cell))).collect()
            }
            _ => Vec::new(),
        };
        self.steps.iter().flat_map(of_step).collect()
    }

    /// The whole search: the question, the reason for each dropped cell, and the answer.
    pub fn in_lines(&self) -> Vec<String> {
        let unfinished = self.verdict().is_none().then_some(UNFINISHED);
        self.last_lines(usize::MAX).1.chain(unfinished).map(str::to_owned).collect()
    }

    /// How far a search without an answer is: `round 2, 8 cells left`; `None` before it begins and once it is over.
    pub fn progress(&self) -> Option<String> {
        let (round, left) = match self.steps.last()? {
            SearchStep::Begun { candidates, .. } => (1, candidates.len()),
            SearchStep::Round { round, next, .. } => (round.saturating_add(1), next.len()),
            SearchStep::Ended(_) => return None,
        };
        Some(format!("round {round}, {} left", counted(left, "cell")))
    }

    /// The last `most` lines before the answer, and the answer if there is one. The number says how many earlier lines are left out.
    pub fn last_lines(&self, most: usize) -> (usize, impl Iterator<Item = &str>) {
        let begin = self.lines.iter().rposition(|line| line.starts_with("answer: ")).unwrap_or(self.lines.len());
        let left_out = begin.saturating_sub(most);
        (left_out, self.lines[left_out..].iter().map(String::as_str))
    }
}

/// The searches of a session in the order in which they began.
///
/// # Errors
/// The index cannot be read.
pub fn search_reports(reader: &Reader) -> Result<Vec<SearchReport>, StoreError> {
    let searches = reader.searches()?;
    if searches.is_empty() {
        return Ok(Vec::new());
    }
    let (plans, headings) = (reader.plans()?, reader.headings()?);
    let mut reports = Vec::new();
    for (id, steps) in searches {
        let Some((_, name, text)) = plans.iter().find(|(known, _, _)| *known == id) else { continue };
        let read = Plan::parse_with(text, name, &reader.brought_workloads(&id)?).ok();
        let search: Option<Search> = read.as_ref().and_then(|plan| plan.search.clone());
        let of_search = headings.iter().filter(|record| record.launch == id);
        let named =
            |plan: &Plan| of_search.map(|record| (record.cell.clone(), cell_name(plan, &record.levels))).collect();
        let cells: HashMap<String, String> = read.as_ref().map(named).unwrap_or_default();
        let of_cell =
            |cell: &str| cells.get(cell).filter(|name| !name.is_empty()).map_or(cell.to_owned(), Clone::clone);
        let in_words = |search: &Search| steps.iter().flat_map(|step| step_lines(step, search, &of_cell)).collect();
        let lines = search.as_ref().map(in_words).unwrap_or_default();
        let question = search.map_or_else(String::new, |search| search.question());
        let title = read.as_ref().and_then(Question::for_readers).unwrap_or_else(|| question.clone());
        reports.push(SearchReport { plan: id, name: name.clone(), question, title, lines, steps, cells });
    }
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: Vec<String>, steps: Vec<SearchStep>) -> SearchReport {
        let (question, title) = ("max throughput".to_owned(), "max Throughput (images/s)".to_owned());
        let cells = HashMap::new();
        SearchReport { plan: "p1".to_owned(), name: "s".to_owned(), question, title, lines, steps, cells }
    }

    #[test]
    fn a_search_without_an_answer_says_its_round_and_how_many_cells_are_left() {
        let cells = |count: usize| (0..count).map(|cell| format!("c{cell}")).collect::<Vec<_>>();
        let mut report = report(Vec::new(), vec![SearchStep::Begun { candidates: cells(12), first_repeat: 1 }]);
        assert_eq!(report.progress().as_deref(), Some("round 1, 12 cells left"));
        report.steps.push(SearchStep::Round { round: 1, dropped: Vec::new(), next: cells(8) });
        assert_eq!(report.progress().as_deref(), Some("round 2, 8 cells left"));
    }

    #[test]
    fn of_a_long_search_the_last_lines_and_the_whole_answer_are_given() {
        let round = (1..=5).map(|round| format!("round {round}: 9 cells run again"));
        let answer = ["answer: n 1: total_time_s 3 s", "  it is the only cell that is left"].map(str::to_owned);
        let mut report = report(round.collect(), Vec::new());
        let last = |report: &SearchReport, most: usize| {
            let (left_out, lines) = report.last_lines(most);
            (left_out, lines.map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(last(&report, 1), (4, vec!["round 5: 9 cells run again".to_owned()]));
        assert_eq!(report.in_lines().last().map(String::as_str), Some(UNFINISHED));
        assert_eq!((last(&report, 9).0, report.in_lines().len()), (0, 6));
        report.lines.extend(answer.clone());
        let (left_out, lines) = last(&report, 2);
        assert_eq!((left_out, lines.len(), &lines[2..4]), (3, 4, &answer[..]));
    }
}
