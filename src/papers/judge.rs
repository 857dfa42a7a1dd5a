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
    Cell, Check, Interval, Key, Measure, Measures, Recording, RunState, RunSummary, Value, Verdict as Shown,
    check_between, counted, judge as judge_family, mean_interval, summarise, varying,
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
    /// The settings that distinguish these cells from those of the test's other findings: `gpus = 4`. May be empty.
    pub cells: String,
    /// The comparison over repeats. Its interval may cover far less than 95 %, depending on the number of repeats.
    pub value: Value,
    /// The 95 % interval of the mean comparison by Student's t, computed on logarithms if the comparison is a ratio.
    /// `None` with one repeat.
    pub decides: Option<Interval>,
    /// What the comparison says about the claim.
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
        let work = format!("the cells that judge it have settings that the paper does not state: {}", work.join(", "));
        let checks = distinct(judging.clone().flat_map(|finding| &finding.checks));
        let checks = format!("check values of the cells that judge it differ: {}", checks.join(", "));
        let has = |texts: fn(&Finding) -> &Vec<String>| judging.clone().any(|finding| !texts(finding).is_empty());
        let texts = [(has(|one| &one.open_work), work), (has(|one| &one.checks), checks)];
        let texts: Vec<String> = texts.into_iter().filter_map(|(is_one, text)| is_one.then_some(text)).collect();
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
            Verdict::Untested => {
                let plan = self.claim.on.iter().find(|id| super::artefact(id).is_ok_and(|one| one.plan().is_some()));
                let run = plan.map(|id| format!("run its cells: multicard run --preset {id}"));
                run.unwrap_or_else(|| "multicard has no plan for its cells yet".to_owned())
            }
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
        findings.iter_mut().filter(|one| one.finding.verdict != Verdict::NotJudged).collect();
    let outside: Vec<Outside> = judging.iter().map(|one| Outside::of(one)).collect();
    let family: Vec<Vec<f64>> = outside.iter().map(|one| one.beyond.clone()).collect();
    let shown = judge_family(&family, false, 0.0);
    for ((one, outside), shown) in judging.iter_mut().zip(&outside).zip(shown) {
        let (least, most) = one.finding.test.bounds();
        let is_outside = outside.is_outside && matches!(shown.verdict, Shown::Higher | Shown::Lower);
        one.finding.verdict = match one.finding.decides {
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
    let filter = Filter::parse(&test.filter).unwrap_or_default();
    // Recording costs time, so all measures except those from reports are taken from runs without a recording.
    let is_metric = test.measure.iter().all(|key| Measures::built_in().is_of_reports(key));
    let recorded = |cell: &Cell| cell.recording() == Recording::Traced;
    let mut about: Vec<&Cell> = cells
        .iter()
        .filter(|cell| cell.recording() != Recording::Report && !cell.recording().is_built_in())
        .filter(|cell| recorded(cell) == is_metric)
        .filter(|cell| filter.admits(&|key: &str| cell.level(key)))
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
        let settings = distinguishing.iter().filter(|setting| !["cell", "trace"].contains(&&*setting.key));
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
        if !levels.is_empty() && !within.admits(&|key: &str| cell.level(key)) {
            self.other.push(format!("{} rather than {}", levels.join(", "), claim.within));
        }
        if let Some(set) = stand_in(cell) {
            if test.on_data {
                self.other
                    .push(format!("data = {set}, whose rows are generated: they cannot show how data sets differ"));
            } else {
                self.open.push(format!("data = {set}, whose rows are generated"));
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
            Some(deviations.into_iter().filter(|one| is_work(&one.key, measure)).collect())
        };
        let stated = |deviations: &Vec<Deviation>| deviations.iter().filter(|one| !one.open).count();
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
            let texts = if open { &mut self.open } else { &mut self.other };
            texts.push(format!("{key} = {own} rather than {paper}"));
        }
    }
}

/// The name of a cell's data set, if it is a stand-in for another one.
fn stand_in<'a>(cell: &'a Cell) -> Option<&'a str> {
    let set = cell.data.split(' ').next()?;
    cell.workload.data_set(set).filter(|rule| rule.synthetic).map(|_| set)
}

/// The value that a test uses of each finished run, with the number of the repeat.
fn values(test: &Test, cell: &Cell) -> Vec<(u32, f64)> {
    let of_run = |run: &RunSummary| {
        let one = |key: &Key| -> Option<f64> {
            let measure = run.measures.find(key)?;
            if !test.over_epochs {
                return run.value_alone(measure);
            }
            let values: Vec<f64> = run.epochs.iter().filter_map(|epoch| epoch.value(key)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let sum = |keys: &[Key]| keys.iter().map(one).sum::<Option<f64>>();
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{cells, fixture, summarise_run};
    use crate::plan::{Level, Levels};

    /// Three repeats of cells, given as precision, pin_memory, number of GPUs and step time in seconds.
    fn runs(cells: &[(&str, &str, i64, f64)]) -> Vec<RunSummary> {
        let run = |(precision, pin_memory, gpus, step_time_s): &(&str, &str, i64, f64), repeat: u32| {
            let noise = [0.0, 0.01, -0.01][repeat as usize - 1];
            let cell = fixture::cell(precision, *gpus, "ddp-ds");
            let mut record = fixture::run(&cell, repeat, step_time_s * (1.0 + noise));
            let own = [
                ("pin_memory".into(), Level::text(pin_memory)),
                ("tf32".into(), Level::text(if *precision == "fp32" { "conv" } else { "off" })),
                ("epochs".into(), Level::Integer(20)),
            ];
            let all = record.levels.iter().map(|(key, level)| (key.clone(), level.clone())).chain(own);
            record.levels = Levels::new(all.collect::<Vec<_>>());
            record.cell = format!("{precision}-{pin_memory}-{gpus}");
            RunSummary { device: Some("NVIDIA H100".to_owned()), ..summarise_run(&record) }
        };
        cells.iter().flat_map(|cell| (1..=3).map(|repeat| run(cell, repeat)).collect::<Vec<_>>()).collect()
    }

    const PRECISIONS: [(&str, &str, i64, f64); 3] =
        [("fp64", "off", 1, 1.0), ("fp32", "off", 1, 0.62), ("fp16", "off", 1, 0.43)];

    fn judge_one(id: &str, runs: &[RunSummary]) -> Judgement {
        judge(&cells(runs)).into_iter().find(|one| one.claim.id == id).unwrap()
    }

    #[test]
    fn a_claim_holds_where_every_interval_lies_within_it() {
        let runs = runs(&PRECISIONS);
        let judgement = judge_one("precision-speeds-up", &runs);
        assert_eq!(judgement.verdict, Verdict::Holds, "{judgement:?}");
        // tf32 has no effect in fp64, so the fp64 cell is compared with the fp32 cell that has tf32 = conv.
        assert_eq!(judgement.findings.len(), 2);
        assert!((judgement.findings[0].value.median - 1.0 / 0.62).abs() < 1e-9);
        assert_eq!(judgement.reason(), "");
    }

    #[test]
    fn a_claim_that_is_judged_by_work_that_the_paper_leaves_open_says_so() {
        let caveat = |size: i64| {
            let runs = changed(runs(&PRECISIONS), "NVIDIA H100", &[("image_size", Level::Integer(size))]);
            judge_one("precision-speeds-up", &runs).caveat()
        };
        assert_eq!(caveat(500), None);
        assert!(caveat(300).unwrap().ends_with("image_size = 300 rather than 500"), "{:?}", caveat(300));
        assert_eq!(judge_one("pinning-speeds-up", &runs(&PRECISIONS)).caveat(), None, "nothing tests it");
    }

    /// The runs on another device, with some of their levels changed.
    fn changed(mut runs: Vec<RunSummary>, device: &str, more: &[(&str, Level)]) -> Vec<RunSummary> {
        for run in &mut runs {
            let levels = run.levels.iter().map(|(key, level)| (key.clone(), level.clone()));
            let levels = levels.chain(more.iter().map(|(key, level)| (Key::from(*key), level.clone())));
            run.levels = Levels::new(levels.collect::<Vec<_>>());
            run.device = Some(device.to_owned());
        }
        runs
    }

    #[test]
    fn cells_that_do_other_work_than_the_claims_do_not_judge_it() {
        let contrary = [("fp64", "off", 1, 1.0), ("fp32", "off", 1, 0.9), ("fp16", "off", 1, 0.43)];
        let gpu = "NVIDIA H100";
        assert_eq!(judge_one("precision-speeds-up", &changed(runs(&contrary), gpu, &[])).verdict, Verdict::Fails);
        for (device, level, reason) in [
            ("cpu", ("image_size", Level::Integer(500)), "device = cpu rather than gpu"),
            (gpu, ("image_size", Level::Integer(32)), "image_size = 32 rather than image_size >= 100"),
            (gpu, ("train_images", Level::Integer(96)), "train_images = 96 rather than 60000"),
        ] {
            let judgement = judge_one("precision-speeds-up", &changed(runs(&contrary), device, &[level]));
            assert_eq!(judgement.verdict, Verdict::NotJudged, "{reason}");
            assert!(judgement.reason().contains(reason), "{}", judgement.reason());
            assert!(judgement.findings.iter().all(|finding| finding.verdict == Verdict::NotJudged));
        }
    }

    #[test]
    fn the_comparisons_of_one_claim_are_one_family() {
        // One of eight comparisons is outside by its own 95 % interval, as one of twenty is without any difference.
        let mut all = runs(&[("fp64", "off", 1, 1.0), ("fp32", "off", 1, 0.62), ("fp16", "off", 1, 0.43)]);
        for gpus in 2..=4 {
            all.extend(runs(&[("fp64", "off", gpus, 1.0), ("fp32", "off", gpus, 0.62), ("fp16", "off", gpus, 0.43)]));
        }
        let far = |run: &RunSummary| run.cell == "fp32-off-1";
        for run in all.iter_mut().filter(|run| far(run)) {
            let rate = 1.18 + 0.03 * f64::from(run.repeat);
            run.values.entry("images_per_s".into()).and_modify(|value| *value *= rate);
        }
        let judgement = judge_one("precision-speeds-up", &all);
        let finding = judgement.findings.iter().find(|finding| finding.value.median > 1.9).unwrap();
        assert!(finding.decides.unwrap().low > finding.test.bounds().1, "{finding:?}");
        assert_eq!(judgement.findings.len(), 8);
        assert_eq!((finding.verdict, judgement.verdict), (Verdict::Undecided, Verdict::Undecided), "{finding:?}");
        assert!(judgement.reason().contains("8 comparisons of one claim"), "{}", judgement.reason());
        // Without the other comparisons, it makes the claim fail.
        all.retain(|run| run.cell.ends_with("-1"));
        all.retain(|run| !run.cell.starts_with("fp16"));
        assert_eq!(judge_one("precision-speeds-up", &all).verdict, Verdict::Fails);
    }

    #[test]
    fn stand_ins_judge_no_comparison_of_data_sets() {
        let plan = crate::papers::artefact("2503.15252/fig-4").unwrap().plan().unwrap();
        let on = |data: &str| {
            let mut runs = fixture::runs_of(plan);
            runs.iter_mut().for_each(|run| {
                run.data = data.to_owned();
                run.device = Some("NVIDIA H100".to_owned());
            });
            judge_one("slimorca-is-slowest", &runs)
        };
        let generated = on("stand-in");
        assert_eq!((generated.verdict, generated.findings.is_empty()), (Verdict::NotJudged, false));
        assert!(generated.reason().contains("data = stand-in, whose rows are generated"), "{}", generated.reason());
        assert_eq!(on("files").verdict, Verdict::Holds, "{:?}", on("files"));
    }

    #[test]
    fn what_a_test_compares_may_be_what_the_paper_did_not_run() {
        // The paper ran QAT only on four GPUs. The claim that it does not fit on two GPUs is judged by runs on two.
        let mut plan = crate::papers::artefact("2505.22905/fig-16").unwrap().plan().unwrap().clone();
        plan.first = plan.further.pop().unwrap();
        plan.further.clear();
        let gpus = plan.first.factors.iter_mut().find(|(key, _)| *key == "gpus").unwrap();
        gpus.1 = vec![Level::Integer(2)];
        let runs = changed(fixture::runs_of(&plan), "NVIDIA H200", &[]);
        let judgement = judge_one("qat-needs-four-gpus", &runs);
        assert_eq!((judgement.verdict, judgement.findings.len()), (Verdict::Fails, 3), "{judgement:?}");
    }

    #[test]
    fn what_nothing_here_can_judge_says_why() {
        let judgement = judge_one("qlora-loses-accuracy", &runs(&PRECISIONS));
        assert_eq!(judgement.verdict, Verdict::NotJudged);
        assert!(
            judgement.reason().starts_with("multicard cannot judge it: weights are random"),
            "{}",
            judgement.reason()
        );
    }

    #[test]
    fn a_claim_fails_where_an_interval_lies_outside() {
        let runs = runs(&[("fp64", "off", 1, 1.0), ("fp32", "off", 1, 0.9), ("fp16", "off", 1, 0.43)]);
        assert_eq!(judge_one("precision-speeds-up", &runs).verdict, Verdict::Fails);
    }

    #[test]
    fn a_claim_that_is_tested_in_part_is_undecided() {
        let runs = runs(&[("fp64", "off", 1, 1.0), ("fp32", "off", 1, 0.62)]);
        let judgement = judge_one("precision-speeds-up", &runs);
        assert_eq!((judgement.verdict, judgement.untested.len()), (Verdict::Undecided, 1));
        assert!(judgement.reason().starts_with("not tested: fp16"), "{}", judgement.reason());
    }

    #[test]
    fn one_repeat_decides_nothing() {
        let mut runs = runs(&PRECISIONS);
        runs.retain(|run| run.repeat == 1);
        let judgement = judge_one("precision-speeds-up", &runs);
        assert_eq!((judgement.verdict, judgement.findings.len()), (Verdict::Undecided, 2));
        assert!(judgement.reason().contains("one repeat"), "{}", judgement.reason());
    }

    #[test]
    fn two_repeats_whose_range_lies_within_a_claim_do_not_bear_it() {
        // fp32 is 1.60 and 1.70 times as fast as fp64. Both are within 1.42 to 1.81, but two repeats often are by chance.
        let mut few = runs(&PRECISIONS);
        few.retain(|run| run.repeat < 3);
        for run in few.iter_mut().filter(|run| run.repeat == 2 && run.cell.starts_with("fp32")) {
            run.values.entry("images_per_s".into()).and_modify(|rate| *rate *= 1.06);
        }
        let judgement = judge_one("precision-speeds-up", &few);
        let finding = &judgement.findings[0];
        let (within, decides) = (finding.value.interval.unwrap(), finding.decides.unwrap());
        assert!(within.low > 1.42 && within.high < 1.81 && decides.low < 1.2 && decides.high > 2.2, "{finding:?}");
        assert_eq!((finding.verdict, finding.value.coverage()), (Verdict::Undecided, Some(0.5)));
        assert!(judgement.reason().contains("run more repeats"), "{}", judgement.reason());
        // Three repeats that agree are enough.
        let judgement = judge_one("precision-speeds-up", &runs(&PRECISIONS));
        assert_eq!(judgement.verdict, Verdict::Holds, "{judgement:?}");
    }

    #[test]
    fn a_trend_is_a_ratio_of_ratios() {
        let pinned =
            [("fp32", "off", 1, 1.0), ("fp32", "on", 1, 0.8), ("fp32", "off", 4, 1.0), ("fp32", "on", 4, 0.85)];
        let judgement = judge_one("pinning-speeds-up", &runs(&pinned));
        let trend = judgement.findings.iter().find(|finding| finding.test.of.len() == 2).unwrap();
        assert!((trend.value.median - 0.8 / 0.85).abs() < 1e-9, "{trend:?}");
        assert_eq!(trend.verdict, Verdict::Holds);
        let names: Vec<&str> = judgement.findings.iter().map(|finding| finding.cells.as_str()).collect();
        assert_eq!(names, ["gpus = 1", "gpus = 4", ""]);
    }

    #[test]
    fn what_nothing_tests_is_untested_and_says_what_to_run() {
        let judgement = judge_one("ddp-ds-scales", &runs(&[("fp32", "off", 1, 1.0)]));
        assert_eq!(judgement.verdict, Verdict::Untested);
        assert_eq!(judgement.reason(), "run its cells: multicard run --preset 2503.15252/fig-1");
    }

    #[test]
    fn accuracy_is_compared_by_difference_and_losses_by_their_mean_over_epochs() {
        let runs = runs(&PRECISIONS);
        let runs: Vec<RunSummary> =
            runs.into_iter().map(|run| RunSummary { data: "mnist".to_owned(), ..run }).collect();
        let accuracy = judge_one("precision-keeps-accuracy", &runs);
        assert_eq!((accuracy.verdict, accuracy.findings[0].value.median), (Verdict::Holds, 0.0));
        let loss = judge_one("fp64-converges-slower", &runs);
        assert!((loss.findings[0].value.median - 1.0).abs() < 1e-9);
    }
}
