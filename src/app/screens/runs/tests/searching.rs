//! The searches of a session below its runs.

use super::*;
use crate::plan::{SearchCost, SearchEnd, SearchStep, SearchVerdict};
use crate::session::SearchReport;

fn report(is_over: bool) -> SearchReport {
    let cost = |runs| SearchCost { runs, steps: 10 * runs, time_s: 5.0 };
    let verdict = SearchVerdict {
        end: SearchEnd::One,
        chosen: Some("a".to_owned()),
        values: vec!["images_per_s 812 images/s".to_owned()],
        unsure: Vec::new(),
        others: Vec::new(),
        made: cost(4),
        grid: cost(24),
    };
    let steps = if is_over { vec![SearchStep::Ended(verdict)] } else { Vec::new() };
    let lines =
        ["search: max throughput among 2 cells", "round 2: dropped precision fp16: 12 % worse than precision fp32"];
    let answer = ["answer: precision fp32: images_per_s 812 images/s", "  it is the only cell that is left"];
    let lines = lines.iter().chain(answer.iter().filter(|_| is_over)).map(|line| (*line).to_owned());
    SearchReport {
        plan: "p1".to_owned(),
        name: "study".to_owned(),
        question: "max throughput".to_owned(),
        title: "max Throughput (images/s)".to_owned(),
        lines: lines.collect(),
        steps,
        cells: Default::default(),
    }
}

fn with(reports: Vec<SearchReport>) -> Harness<'static, Window> {
    let mut state = state(vec![record(1, "fp32", RunState::Finished)], Vec::new());
    let records = Records { searches: reports.into(), ..Records::clone(&state.desk.records) };
    state.take(UiEvent::Records(Arc::new(records)));
    window(state, State::draw::<RunsScreen>)
}

#[test]
fn a_search_says_below_the_runs_why_each_cell_was_dropped_and_what_the_answer_is() {
    let harness = with(vec![report(true)]);
    assert!(!sees(&harness, "max throughput"), "measures are called by their names");
    for text in [
        "Search of study: max Throughput (images/s)",
        "Throughput (images/s) among 2 cells",
        "12 % worse than precision fp32",
        "answer: precision fp32",
    ] {
        assert!(sees(&harness, text), "{text}");
    }
    assert!(!sees(&harness, "the search is not over"));
    let runs = harness.get_by_label("Only finished").rect();
    let search = harness.get_by_label_contains("Search of study").rect();
    assert!(runs.bottom() < search.top(), "the list keeps its place");
    let begun = SearchStep::Begun { candidates: vec!["a".to_owned(), "b".to_owned()], first_repeat: 1 };
    let unfinished = with(vec![SearchReport { steps: vec![begun], ..report(false) }]);
    assert!(sees(&unfinished, "the search is not over: round 1, 2 cells left"));
    assert!(!sees(&with(Vec::new()), "Search of"));
}

#[test]
fn the_answer_of_a_search_comes_into_sight_when_it_ends() {
    let long = |is_over: bool| {
        let report = report(is_over);
        let mut lines: Vec<String> = (1..=100).map(|cell| format!("round 1: dropped cell {cell}.")).collect();
        lines.extend(report.lines[2..].iter().cloned());
        SearchReport { lines, ..report }
    };
    let mut harness = with(vec![long(false)]);
    let runs = harness.get_by_label("Only finished").rect();
    let top = |harness: &Harness<'static, Window>| harness.get_by_label_contains("Search of study").rect().top();
    assert!(top(&harness) < runs.bottom(), "the newest lines are in sight");
    let records = Records::clone(&harness.state().state.desk.records);
    let records = Records { searches: vec![long(true)].into(), ..records };
    harness.state_mut().state.take(UiEvent::Records(Arc::new(records)));
    harness.run();
    assert!(top(&harness) > runs.bottom(), "the answer is in sight");
}

#[test]
fn of_a_search_with_very_many_lines_the_last_ones_are_shown() {
    let finished = report(true);
    let mut lines: Vec<String> = (1..=1000).map(|cell| format!("round 1: dropped cell {cell}.")).collect();
    lines.extend(finished.lines[2..].iter().cloned());
    let harness = with(vec![SearchReport { lines, ..finished }]);
    for text in ["800 earlier lines not shown: `multicard session show` has all", "cell 801.", "cell 1000.", "answer: "]
    {
        assert!(sees(&harness, text), "{text}");
    }
    assert!(!sees(&harness, "cell 800."));
}
