//! Judges the papers' claims by a session's runs.
//!
//! A claim holds if the 95 % interval of every comparison is within its bounds. All comparisons must pass, so this
//! needs no correction for their number. A claim fails if at least one comparison is shown to be outside, by Student's
//! t tests at 5 % over all comparisons of the claim (Holm). Runs that do other work than the claim's do not judge it.

use serde::Serialize;
use strum::IntoStaticStr;

use super::claim::{Claim, Compare, Side, Test, claims};
use super::coverage::{Deviation, PaperCells, is_work};
use crate::analysis::{
    CELL, Cell, Check, Interval, Key, Measure, Measures, Recording, RunState, RunSummary, TRACE, Value,
    Verdict as Shown, check_between, counted, judge as judge_family, mean_interval, summarise, varying,
};
use crate::plan::Filter;

/// The result of judging a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "lowercase")]
pub enum Verdict {
    /// No cells of the session test the claim.
    Untested,
    /// The cells that would test the claim do other work, or multicard cannot judge it.
    #[strum(serialize = "not judged")]
    NotJudged,
    /// The 95 % interval of every comparison is within the bounds.
    Holds,
    /// A 95 % interval includes a bound, a comparison has only one repeat, or a part of the claim was not tested.
    Undecided,
    /// A comparison is outside the bounds, at 5 % over all comparisons of the claim.
    Fails,
}

impl Verdict {
    /// All verdicts, in the order in which tables count them.
    pub const ALL: [Self; 5] = [Self::Holds, Self::Fails, Self::Undecided, Self::NotJudged, Self::Untested];

    /// The name in files and on screen.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The result of a test on one group of cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The test.
    pub test: &'static Test,
    /// The settings that distinguish these cells from the cells of the test's other findings: `gpus = 4`. May be empty.
    pub cells: String,
    /// The comparison over repeats. Its interval may cover far less than 95 %, depending on the number of repeats.
    pub value: Value,
    /// The 95 % interval of the mean comparison by Student's t, computed on logarithms if the comparison is a ratio.
    /// `None` with one repeat.
    pub decides: Option<Interval>,
    /// The verdict of the comparison on the claim.
    pub verdict: Verdict,
    /// Why these cells do not judge the claim, one fragment of a sentence each; empty if they do judge it.
    pub other_work: Vec<String>,
    /// Levels of these cells in settings of the work that the paper does not state, one fragment of a sentence each.
    pub open_work: Vec<String>,
    /// Differences between the check values of these cells, one fragment of a sentence each. Only tests of speed have
    /// them.
    pub checks: Vec<String>,
}

/// The judgement of a claim by a session's runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The claim.
    pub claim: &'static Claim,
    /// The worst verdict of the findings that judge the claim.
    pub verdict: Verdict,
    /// The findings, ordered by test and then by cell.
    pub findings: Vec<Finding>,
    /// Tests that no cells of the session carry out.
    pub untested: Vec<&'static Test>,
}

impl Judgement {
    /// A caveat about the cells that judge the claim: settings of their work that the paper does not state, and check
    /// values that differ. `None` if there is nothing to mention.
    pub fn caveat(&self) -> Option<String> {
        let judging = self.findings.iter().filter(|finding| finding.verdict != Verdict::NotJudged);
        let work = distinct(judging.clone().flat_map(|finding| &finding.open_work));
        let work = format!("the cells that judge it ran with {}", work.join(", "));
        let checks = distinct(judging.clone().flat_map(|finding| &finding.checks));
        let checks = format!("check values of the cells that judge it differ: {}", checks.join(", "));
        let has = |texts: fn(&Finding) -> &Vec<String>| judging.clone().any(|finding| !texts(finding).is_empty());
        let texts = [(has(|finding| &finding.open_work), work), (has(|finding| &finding.checks), checks)];
        let texts: Vec<String> = texts.into_iter().filter_map(|(is_stated, text)| is_stated.then_some(text)).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// Why the claim is undecided or not judged, or what to run to test it; empty if it holds or fails.
    pub fn reason(&self) -> String {
        let judging: Vec<&Finding> =
            self.findings.iter().filter(|finding| finding.verdict != Verdict::NotJudged).collect();
        let single = judging.iter().filter(|finding| finding.decides.is_none()).count();
        let missing: Vec<&str> = self.tests_without(&judging).map(|test| test.says.as_str()).collect();
        let (least, most) = (f64::NEG_INFINITY, f64::INFINITY);
        let is_outside = |finding: &&Finding| {
            let bounds = finding.test.bounds();
            let ends = finding.decides.unwrap_or(Interval { low: least, high: most });
            finding.verdict == Verdict::Undecided && (ends.high < bounds.0 || ends.low > bounds.1)
        };
        match self.verdict {
            Verdict::Holds | Verdict::Fails => String::new(),
            Verdict::NotJudged => self.not_judged(),
            Verdict::Untested => advice(self.claim).map_or_else(
                || "multicard has no plan for its cells yet".to_owned(),
                |advice| format!("run its cells: {advice}"),
            ),
            Verdict::Undecided if single > 0 => {
                let comparisons = counted(single, "comparison");
                format!("{comparisons} with only one repeat, which gives no interval: run more repeats")
            }
            Verdict::Undecided if judging.iter().any(is_outside) => format!(
                "an interval is outside the claim's bounds, but among {} comparisons of one claim this is too likely by chance: run \
                 more repeats",
                judging.len()
            ),
            Verdict::Undecided if !missing.is_empty() => format!("not tested: {}", missing.join("; ")),
            Verdict::Undecided => "95 % intervals reach over the claim's bounds: run more repeats".to_owned(),
        }
    }

    /// Why no cells judge the claim.
    fn not_judged(&self) -> String {
        match &self.claim.unjudged {
            Some(why) => format!("multicard cannot judge it: {why}"),
            None => {
                let texts = distinct(self.findings.iter().flat_map(|finding| &finding.other_work));
                format!("these runs do not do the work that the claim is about: {}", texts.join("; "))
            }
        }
    }

    /// The tests without a finding in this list.
    fn tests_without(&self, findings: &[&Finding]) -> impl Iterator<Item = &'static Test> {
        let is_tested = |test: &Test| findings.iter().any(|finding| finding.test == test);
        self.claim.tests.iter().filter(|test| !is_tested(test)).collect::<Vec<_>>().into_iter()
    }
}

/// How to make the runs that test a claim: the claim's own advice, or else the plan of its first table or figure. `None` if there is neither.
fn advice(claim: &Claim) -> Option<String> {
    let has_plan = |id: &&String| super::artefact(id).is_ok_and(|artefact| artefact.plan().is_some());
    let preset = || claim.on.iter().find(has_plan).map(|id| format!("multicard run --preset {id}"));
    claim.advice.clone().or_else(preset)
}

fn distinct<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut distinct: Vec<&str> = Vec::new();
    for text in texts {
        if !distinct.contains(&text.as_str()) {
            distinct.push(text);
        }
    }
    distinct
}

/// Judges every claim by the runs of these cells.
pub fn judge(cells: &[Cell]) -> Vec<Judgement> {
    claims().iter().map(|claim| judgement(claim, cells)).collect()
}

fn judgement(claim: &'static Claim, cells: &[Cell]) -> Judgement {
    let of_papers: Vec<PaperCells> =
        claim.on.iter().filter_map(|id| PaperCells::of(super::artefact(id).ok()?)).collect();
    let (mut findings, mut untested) = (Vec::new(), Vec::new());
    for test in &claim.tests {
        let new_findings = carry_out(claim, test, cells, &of_papers);
        if new_findings.is_empty() {
            untested.push(test);
        }
        findings.extend(new_findings);
    }
    decide(&mut findings);
    let findings: Vec<Finding> = findings.into_iter().map(|compared| compared.finding).collect();
    let mut judgement = Judgement { claim, verdict: Verdict::Untested, findings, untested };
    let judging: Vec<&Finding> =
        judgement.findings.iter().filter(|finding| finding.verdict != Verdict::NotJudged).collect();
    let worst = judging.iter().map(|finding| finding.verdict).max();
    let verdict = match worst {
        Some(Verdict::Holds) if judgement.tests_without(&judging).next().is_some() => Verdict::Undecided,
        Some(worst) => worst,
        None if judgement.findings.is_empty() && claim.unjudged.is_none() => Verdict::Untested,
        None => Verdict::NotJudged,
    };
    judgement.verdict = verdict;
    judgement
}

/// A finding with the comparison of each repeat, as logarithms if the comparison is a ratio.
struct Compared {
    finding: Finding,
    values: Vec<f64>,
}

/// Sets the verdicts of one claim's findings. The findings are one family of tests; otherwise a claim with many
/// comparisons would often fail by chance.
fn decide(findings: &mut [Compared]) {
    let mut judging: Vec<&mut Compared> =
        findings.iter_mut().filter(|compared| compared.finding.verdict != Verdict::NotJudged).collect();
    let outside: Vec<Outside> = judging.iter().map(|compared| Outside::of(compared)).collect();
    let family: Vec<Vec<f64>> = outside.iter().map(|outside| outside.beyond.clone()).collect();
    let shown = judge_family(&family, false, 0.0);
    for ((compared, outside), shown) in judging.iter_mut().zip(&outside).zip(shown) {
        let (least, most) = compared.finding.test.bounds();
        let is_outside = outside.is_outside && matches!(shown.verdict, Shown::Higher | Shown::Lower);
        compared.finding.verdict = match compared.finding.decides {
            _ if is_outside => Verdict::Fails,
            Some(ends) if ends.low >= least && ends.high <= most => Verdict::Holds,
            _ => Verdict::Undecided,
        };
    }
}

/// The comparisons of a finding, minus the bound that their mean exceeds.
struct Outside {
    is_outside: bool,
    beyond: Vec<f64>,
}

impl Outside {
    fn of(compared: &Compared) -> Self {
        let Compared { finding, values } = compared;
        let scale = |bound: f64| if finding.test.compare == Compare::Ratio { bound.ln() } else { bound };
        let (least, most) = finding.test.bounds();
        // A missing lower bound has no logarithm.
        let (least, most) = (if least == f64::NEG_INFINITY { least } else { scale(least) }, scale(most));
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let end = match () {
            () if mean < least => least,
            () if mean > most => most,
            // A mean within the bounds is no evidence against the claim, but its comparison still counts in the family.
            () => mean,
        };
        Self { is_outside: mean < least || mean > most, beyond: values.iter().map(|value| value - end).collect() }
    }
}

/// Carries out a test: once for each combination of the settings that the test does not mention.
fn carry_out(claim: &Claim, test: &'static Test, cells: &[Cell], of_papers: &[PaperCells]) -> Vec<Compared> {
    // Cells whose levels cannot be compared as the test asks do not test it.
    let Ok(filter) = Filter::parse(&test.filter).unwrap_or_default().among(&cells.iter()) else { return Vec::new() };
    // Recording costs time, so all measures except those from reports are taken from runs without a recording.
    let is_metric = test.measure.iter().all(|key| Measures::built_in().is_of_reports(key));
    let recorded = |cell: &Cell| cell.recording() == Recording::Traced;
    let mut about: Vec<&Cell> = cells
        .iter()
        .filter(|cell| cell.recording() != Recording::Report && !cell.recording().is_built_in())
        .filter(|cell| recorded(cell) == is_metric)
        .filter(|cell| filter.admits(*cell))
        .collect();
    about.retain(|cell| !values(test, cell).is_empty());
    let keys: Vec<&str> = test.keys().into_iter().map(Key::as_str).collect();
    let sides: Vec<&Side> = test.of.iter().chain(&test.over).collect();
    let mut groups: Vec<Vec<&Cell>> = vec![Vec::new()];
    for side in &sides {
        let is = |cell: &Cell| side.iter().all(|(key, level)| cell.level(key).as_ref() == Some(level));
        let mut longer = Vec::new();
        for group in &groups {
            let fits = |cell: &&&Cell| is(cell) && group.iter().all(|other| cell.is_like(other, &keys));
            longer.extend(about.iter().filter(fits).map(|cell| [group.as_slice(), &[*cell]].concat()));
        }
        groups = longer;
    }
    let firsts: Vec<Cell> = groups.iter().map(|group| group[0].clone()).collect();
    let distinguishing = varying(&firsts);
    let compared = |group: &Vec<&Cell>| {
        let values = compare(test, group);
        let value = in_unit(test, summarise(&values)?);
        let decides = mean_interval(&values).map(|ends| interval_in_unit(test, ends));
        let settings = distinguishing.iter().filter(|setting| !setting.is(CELL) && !setting.is(TRACE));
        let names = settings.filter_map(|setting| Some(format!("{} = {}", setting.key, group[0].level(&setting.key)?)));
        let cells = names.collect::<Vec<_>>().join(", ");
        let Work { other, open } = Work::of(claim, test, group, of_papers);
        let verdict = if other.is_empty() { Verdict::Undecided } else { Verdict::NotJudged };
        let checks = check_texts(test, group);
        let finding = Finding { test, cells, value, decides, verdict, other_work: other, open_work: open, checks };
        Some(Compared { finding, values })
    };
    groups.iter().filter_map(compared).collect()
}

/// Differences between the check values of the two sides of a test, if it is a test of speed.
fn check_texts(test: &Test, group: &[&Cell]) -> Vec<String> {
    let Some(measure) = test.measure.first() else { return Vec::new() };
    let is_speed = test.measure.iter().any(|key| Measures::built_in().find(key).is_some_and(Measure::is_speed));
    let (over, base) = group.split_at(test.of.len());
    let pairs = over.iter().flat_map(|cell| base.iter().map(move |other| (*cell, *other))).filter(|_| is_speed);
    let check = |(cell, other): (&Cell, &Cell)| match check_between(cell, other, measure) {
        differs @ Check::Differs { .. } => Some(differs.to_string()),
        _ => None,
    };
    pairs.filter_map(check).collect()
}

/// Settings in which cells do other work than the claim's, as fragments of sentences.
#[derive(Default)]
struct Work {
    /// Settings that the paper states.
    other: Vec<String>,
    /// Settings that the paper does not state.
    open: Vec<String>,
}

impl Work {
    fn of(claim: &Claim, test: &Test, group: &[&Cell], of_papers: &[PaperCells]) -> Self {
        let mut work = Self::default();
        for cell in group {
            work.add(claim, test, cell, of_papers);
        }
        for texts in [&mut work.other, &mut work.open] {
            let mut seen = Vec::new();
            texts.retain(|text| {
                !seen.contains(text) && {
                    seen.push(text.clone());
                    true
                }
            });
        }
        work
    }

    fn add(&mut self, claim: &Claim, test: &Test, cell: &Cell, of_papers: &[PaperCells]) {
        if cell.runs.iter().any(|run| run.device.as_deref() == Some("cpu")) {
            self.other.push("device = cpu rather than gpu".to_owned());
        }
        let within = Filter::parse(&claim.within).unwrap_or_default();
        let levels: Vec<String> =
            within.keys().into_iter().filter_map(|key| Some(format!("{key} = {}", cell.level(key)?))).collect();
        if !levels.is_empty() && !within.admits(cell) {
            self.other.push(format!("{} rather than {}", levels.join(", "), claim.within));
        }
        if let Some(set) = stand_in(cell) {
            if test.on_data {
                self.other
                    .push(format!("data = {set}, whose rows are generated: they cannot show how data sets differ"));
            } else {
                self.open.push(format!("data = {set} (its rows are generated)"));
            }
        }
        self.add_deviations(test, cell, of_papers);
    }

    /// Adds the settings in which a cell differs from the closest cell of the papers.
    fn add_deviations(&mut self, test: &Test, cell: &Cell, of_papers: &[PaperCells]) {
        let Some(measure) = test.measure.first().and_then(|key| Measures::built_in().find(key)) else { return };
        let keys = test.keys();
        let of_paper = |paper: &PaperCells| -> Option<Vec<Deviation>> {
            let (_, deviations) = paper.closest(cell, &keys)?;
            Some(deviations.into_iter().filter(|deviation| is_work(&deviation.key, measure)).collect())
        };
        let stated = |deviations: &Vec<Deviation>| deviations.iter().filter(|deviation| !deviation.open).count();
        let closest = of_papers.iter().filter_map(of_paper).min_by_key(stated);
        let Some(deviations) = closest else {
            let ids: Vec<String> = of_papers.iter().map(PaperCells::name).collect();
            if !ids.is_empty() {
                self.other.push(format!("cells other than those of {}", ids.join(" or ")));
            }
            return;
        };
        for Deviation { key, own, paper, open, .. } in deviations {
            let own = own.map_or("unknown".to_owned(), |own| own.to_string());
            if open {
                self.open.push(format!("{key} = {own} (the paper states none, multicard assumes {paper})"));
            } else {
                self.other.push(format!("{key} = {own} rather than {paper}"));
            }
        }
    }
}

/// The name of a cell's data set, if it is a stand-in for another data set.
fn stand_in<'a>(cell: &'a Cell) -> Option<&'a str> {
    let set = cell.data.split(' ').next()?;
    cell.workload.data_set(set).filter(|rule| rule.synthetic).map(|_| set)
}

/// The value that a test uses of each finished run, with the number of the repeat.
fn values(test: &Test, cell: &Cell) -> Vec<(u32, f64)> {
    let of_run = |run: &RunSummary| {
        let value_of = |key: &Key| -> Option<f64> {
            let measure = run.measures.find(key)?;
            if !test.over_epochs {
                return run.value_alone(measure);
            }
            let values: Vec<f64> = run.epochs.iter().filter_map(|epoch| epoch.value(key)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let sum = |keys: &[Key]| keys.iter().map(value_of).sum::<Option<f64>>();
        let value = sum(&test.measure)?;
        if test.share_of.is_empty() { Some(value) } else { Some(value / sum(&test.share_of)?) }
    };
    let mut values: Vec<(u32, f64)> = Vec::new();
    for run in cell.runs.iter().filter(|run| run.state == RunState::Finished) {
        if let Some(value) = of_run(run)
            && values.iter().all(|(repeat, _)| *repeat != run.repeat)
        {
            values.push((run.repeat, value));
        }
    }
    values
}

/// The comparison of a test's cells in each repeat that all of them have, as a logarithm if it is a ratio.
fn compare(test: &Test, group: &[&Cell]) -> Vec<f64> {
    let sides: Vec<Vec<(u32, f64)>> = group.iter().map(|cell| values(test, cell)).collect();
    let Some((first, others)) = sides.split_first() else { return Vec::new() };
    // Rows of a file that does not number repeats have no partners.
    if !others.is_empty() && !group.iter().all(|cell| cell.pairs_with(group[0])) {
        return Vec::new();
    }
    let count = test.of.len();
    let term = |place: usize, value: f64| {
        let value = if test.compare == Compare::Ratio { value.ln() } else { value };
        if place < count { value } else { -value }
    };
    let of_repeat = |(repeat, value): &(u32, f64)| {
        let mut sum = term(0, *value);
        for (place, side) in others.iter().enumerate() {
            sum += term(place + 1, side.iter().find(|(other, _)| other == repeat)?.1);
        }
        Some(sum)
    };
    first.iter().filter_map(of_repeat).collect()
}

/// A comparison in the unit that is shown: ratios are no longer logarithms.
fn in_unit(test: &Test, value: Value) -> Value {
    let shown = |number: f64| if test.compare == Compare::Ratio { number.exp() } else { number };
    Value { median: shown(value.median), interval: value.interval.map(|ends| interval_in_unit(test, ends)), ..value }
}

fn interval_in_unit(test: &Test, ends: Interval) -> Interval {
    match test.compare {
        Compare::Ratio => Interval { low: ends.low.exp(), high: ends.high.exp() },
        Compare::Difference => ends,
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
