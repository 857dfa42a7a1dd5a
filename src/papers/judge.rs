//! What a session's runs say to the papers' claims.
//!
//! A claim holds where the 95 % interval of every comparison lies within it: all must, so that no correction is due. It fails where one
//! is shown to lie outside, by Student's t at 5 % over all comparisons of the claim (Holm). Runs that do other work than the claim's
//! do not judge it.

use serde::Serialize;
use strum::IntoStaticStr;

use super::claim::{Claim, Compare, Side, Test, claims};
use super::coverage::{Deviation, PaperCells, is_work};
use crate::analysis::{
    Cell, Check, Interval, Key, Measure, Measures, Recording, RunState, RunSummary, Value, Verdict as Shown,
    check_between, judge as judge_family, mean_interval, summarise, varying,
};
use crate::plan::Filter;

/// What runs say to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "lowercase")]
pub enum Verdict {
    /// No cells of the session test it.
    Untested,
    /// The cells that would test it do other work than the claim's, or nothing here can judge it.
    #[strum(serialize = "not judged")]
    NotJudged,
    /// The 95 % interval of every comparison lies within the claim.
    Holds,
    /// A 95 % interval reaches over an end of the claim, a comparison has one repeat, or not all of the claim was tested.
    Undecided,
    /// A comparison lies outside the claim, at 5 % over all comparisons of the claim.
    Fails,
}

impl Verdict {
    /// All verdicts, in the order in which they are counted.
    pub const ALL: [Self; 5] = [Self::Holds, Self::Fails, Self::Undecided, Self::NotJudged, Self::Untested];

    /// The name in files and on screen.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A test carried out on cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The test.
    pub test: &'static Test,
    /// What the cells have in common that tells them from the cells of the test's other findings: `gpus = 4`; may be empty.
    pub cells: String,
    /// The comparison over repeats, with the interval that their number allows, which may cover far less than 95 %.
    pub value: Value,
    /// The 95 % interval of the mean comparison by Student's t, of ratios on their logarithms. None of one repeat.
    pub decides: Option<Interval>,
    /// What it says.
    pub verdict: Verdict,
    /// Why its cells do not judge the claim, one fragment of a sentence each; empty where they do.
    pub other_work: Vec<String>,
    /// By what its cells do work that the paper leaves open, one fragment of a sentence each.
    pub open_work: Vec<String>,
    /// By what the cells did not learn the same, one fragment of a sentence each: of claims about speed alone.
    pub checks: Vec<String>,
}

/// What the runs of a session say to a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The claim.
    pub claim: &'static Claim,
    /// What they say: the worst of the findings that judge it.
    pub verdict: Verdict,
    /// Test by test, in the order of cells.
    pub findings: Vec<Finding>,
    /// Tests that no cells carry out.
    pub untested: Vec<&'static Test>,
}

impl Judgement {
    /// What of the work of the cells that judge it is multicard's choice, which may change what they say; none where nothing is.
    pub fn caveat(&self) -> Option<String> {
        let judging = self.findings.iter().filter(|finding| finding.verdict != Verdict::NotJudged);
        let work = distinct(judging.clone().flat_map(|finding| &finding.open_work));
        let work = format!("judged by cells whose work the paper leaves open: {}", work.join(", "));
        let checks = distinct(judging.clone().flat_map(|finding| &finding.checks));
        let checks = format!("judged by cells that did not learn the same: {}", checks.join(", "));
        let has = |of: fn(&Finding) -> &Vec<String>| judging.clone().any(|finding| !of(finding).is_empty());
        let texts = [(has(|one| &one.open_work), work), (has(|one| &one.checks), checks)];
        let texts: Vec<String> = texts.into_iter().filter_map(|(is_one, text)| is_one.then_some(text)).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// Why it is undecided or not judged, or what to run to test it; empty where it holds or fails.
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
                format!("{single} comparisons are of one repeat, which has no interval: run more repeats")
            }
            Verdict::Undecided if judging.iter().any(is_outside) => format!(
                "an interval lies outside of the claim, and {} comparisons of one claim show that by chance more often than one: run \
                 more repeats",
                judging.len()
            ),
            Verdict::Undecided if !missing.is_empty() => format!("not tested: {}", missing.join("; ")),
            Verdict::Undecided => "95 % intervals reach over the claim's bounds: run more repeats".to_owned(),
        }
    }

    /// Why nothing judges it.
    fn not_judged(&self) -> String {
        match &self.claim.unjudged {
            Some(why) => format!("nothing here can judge it: {why}"),
            None => {
                let texts = distinct(self.findings.iter().flat_map(|finding| &finding.other_work));
                format!("these runs do other work than the claim's: {}", texts.join("; "))
            }
        }
    }

    /// Tests that none of these findings is of.
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

/// Judges all claims by the runs of cells.
pub fn judge(cells: &[Cell]) -> Vec<Judgement> {
    claims().iter().map(|claim| judgement(claim, cells)).collect()
}

fn judgement(claim: &'static Claim, cells: &[Cell]) -> Judgement {
    let of_papers: Vec<PaperCells> =
        claim.on.iter().filter_map(|id| PaperCells::of(super::artefact(id).ok()?)).collect();
    let (mut findings, mut untested) = (Vec::new(), Vec::new());
    for test in &claim.tests {
        let found = carry_out(claim, test, cells, &of_papers);
        if found.is_empty() {
            untested.push(test);
        }
        findings.extend(found);
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

/// A finding with its comparisons, repeat by repeat: of ratios their logarithms.
struct Compared {
    finding: Finding,
    values: Vec<f64>,
}

/// Gives the findings of one claim their verdicts. They are one family: a claim of many comparisons would fail by chance otherwise.
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

/// Comparisons over the end of the claim beyond which their mean lies.
struct Outside {
    is_outside: bool,
    beyond: Vec<f64>,
}

impl Outside {
    fn of(compared: &Compared) -> Self {
        let Compared { finding, values } = compared;
        let scale = |bound: f64| if finding.test.compare == Compare::Ratio { bound.ln() } else { bound };
        let (least, most) = finding.test.bounds();
        // The logarithm of no lower bound is none either.
        let (least, most) = (if least == f64::NEG_INFINITY { least } else { scale(least) }, scale(most));
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let end = match () {
            () if mean < least => least,
            () if mean > most => most,
            // What lies within says nothing against the claim: it is a comparison of the family all the same.
            () => mean,
        };
        Self { is_outside: mean < least || mean > most, beyond: values.iter().map(|value| value - end).collect() }
    }
}

/// Compares the cells that a test names, for each combination of the settings that it does not.
fn carry_out(claim: &Claim, test: &'static Test, cells: &[Cell], of_papers: &[PaperCells]) -> Vec<Compared> {
    let filter = Filter::parse(&test.filter).unwrap_or_default();
    // Recording costs time: all but metrics of reports is taken from runs that nothing recorded.
    let is_metric = test.measure.iter().all(|key| Measures::built_in().is_of_reports(key));
    let recorded = |cell: &Cell| cell.recording() == Recording::Traced;
    let mut about: Vec<&Cell> = cells
        .iter()
        .filter(|cell| !matches!(cell.recording(), Recording::Report | Recording::BuiltIn))
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
    let telling = varying(&firsts);
    let compared = |group: &Vec<&Cell>| {
        let values = compare(test, group);
        let value = in_unit(test, summarise(&values)?);
        let decides = mean_interval(&values).map(|ends| interval_in_unit(test, ends));
        let settings = telling.iter().filter(|setting| !["cell", "trace"].contains(&&*setting.key));
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

/// By what the cells that a test of speed holds against others did not learn the same as these.
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

/// By what cells do other work than the claim's.
#[derive(Default)]
struct Work {
    /// In what the paper states.
    other: Vec<String>,
    /// In what it leaves open.
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
                self.other.push(format!(
                    "data = {set}, whose rows are made: what it says of data sets is how they were made"
                ));
            } else {
                self.open.push(format!("data = {set}, whose rows are made"));
            }
        }
        self.add_deviations(test, cell, of_papers);
    }

    /// Adds what a cell deviates in from the paper's cell that it is closest to.
    fn add_deviations(&mut self, test: &Test, cell: &Cell, of_papers: &[PaperCells]) {
        let Some(measure) = test.measure.first().and_then(|key| Measures::built_in().find(key)) else { return };
        let keys = test.keys();
        let of_paper = |paper: &PaperCells| -> Option<Vec<Deviation>> {
            let (_, deviations) = paper.closest(cell, &keys)?;
            Some(deviations.into_iter().filter(|one| is_work(&one.key, measure)).collect())
        };
        let stated = |deviations: &Vec<Deviation>| deviations.iter().filter(|one| !one.open).count();
        let found = of_papers.iter().filter_map(of_paper).min_by_key(stated);
        let Some(deviations) = found else {
            let ids: Vec<String> = of_papers.iter().map(PaperCells::name).collect();
            if !ids.is_empty() {
                self.other.push(format!("cells that are not among those of {}", ids.join(" or ")));
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

/// The data set of a cell, where it is made in the likeness of another.
fn stand_in<'a>(cell: &'a Cell) -> Option<&'a str> {
    let set = cell.data.split(' ').next()?;
    cell.workload.data_set(set).filter(|rule| rule.synthetic).map(|_| set)
}

/// What a test asks of each finished run, with its repeat.
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

/// The comparisons of a test's cells over the repeats that all of them have: of ratios their logarithms.
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

/// A comparison as people read it.
fn in_unit(test: &Test, value: Value) -> Value {
    let of = |number: f64| if test.compare == Compare::Ratio { number.exp() } else { number };
    Value { median: of(value.median), interval: value.interval.map(|ends| interval_in_unit(test, ends)), ..value }
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

    /// Three repeats of cells: precision, pin_memory, GPUs, and the time of a step.
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

    fn of(id: &str, runs: &[RunSummary]) -> Judgement {
        judge(&cells(runs)).into_iter().find(|one| one.claim.id == id).unwrap()
    }

    #[test]
    fn a_claim_holds_where_every_interval_lies_within_it() {
        let runs = runs(&PRECISIONS);
        let judgement = of("precision-speeds-up", &runs);
        assert_eq!(judgement.verdict, Verdict::Holds, "{judgement:?}");
        // tf32 means nothing in fp64: its cell is the sibling of the fp32 cell with tf32 = conv.
        assert_eq!(judgement.findings.len(), 2);
        assert!((judgement.findings[0].value.median - 1.0 / 0.62).abs() < 1e-9);
        assert_eq!(judgement.reason(), "");
    }

    #[test]
    fn a_claim_that_is_judged_by_work_that_the_paper_leaves_open_says_so() {
        let caveat = |size: i64| {
            let runs = changed(runs(&PRECISIONS), "NVIDIA H100", &[("image_size", Level::Integer(size))]);
            of("precision-speeds-up", &runs).caveat()
        };
        assert_eq!(caveat(500), None);
        assert!(caveat(300).unwrap().ends_with("image_size = 300 rather than 500"), "{:?}", caveat(300));
        assert_eq!(of("pinning-speeds-up", &runs(&PRECISIONS)).caveat(), None, "nothing tests it");
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
        assert_eq!(of("precision-speeds-up", &changed(runs(&contrary), gpu, &[])).verdict, Verdict::Fails);
        for (device, level, said) in [
            ("cpu", ("image_size", Level::Integer(500)), "device = cpu rather than gpu"),
            (gpu, ("image_size", Level::Integer(32)), "image_size = 32 rather than image_size >= 100"),
            (gpu, ("train_images", Level::Integer(96)), "train_images = 96 rather than 60000"),
        ] {
            let judgement = of("precision-speeds-up", &changed(runs(&contrary), device, &[level]));
            assert_eq!(judgement.verdict, Verdict::NotJudged, "{said}");
            assert!(judgement.reason().contains(said), "{}", judgement.reason());
            assert!(judgement.findings.iter().all(|finding| finding.verdict == Verdict::NotJudged));
        }
    }

    #[test]
    fn the_comparisons_of_one_claim_are_one_family() {
        // One of eight comparisons lies outside by its own 95 % interval, as one of twenty does where nothing differs.
        let mut all = runs(&[("fp64", "off", 1, 1.0), ("fp32", "off", 1, 0.62), ("fp16", "off", 1, 0.43)]);
        for gpus in 2..=4 {
            all.extend(runs(&[("fp64", "off", gpus, 1.0), ("fp32", "off", gpus, 0.62), ("fp16", "off", gpus, 0.43)]));
        }
        let far = |run: &RunSummary| run.cell == "fp32-off-1";
        for run in all.iter_mut().filter(|run| far(run)) {
            let rate = 1.18 + 0.03 * f64::from(run.repeat);
            run.values.entry("images_per_s".into()).and_modify(|value| *value *= rate);
        }
        let judgement = of("precision-speeds-up", &all);
        let finding = judgement.findings.iter().find(|finding| finding.value.median > 1.9).unwrap();
        assert!(finding.decides.unwrap().low > finding.test.bounds().1, "{finding:?}");
        assert_eq!(judgement.findings.len(), 8);
        assert_eq!((finding.verdict, judgement.verdict), (Verdict::Undecided, Verdict::Undecided), "{finding:?}");
        assert!(judgement.reason().contains("8 comparisons of one claim"), "{}", judgement.reason());
        // Alone it fails the claim.
        all.retain(|run| run.cell.ends_with("-1"));
        all.retain(|run| !run.cell.starts_with("fp16"));
        assert_eq!(of("precision-speeds-up", &all).verdict, Verdict::Fails);
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
            of("slimorca-is-slowest", &runs)
        };
        let made = on("stand-in");
        assert_eq!((made.verdict, made.findings.is_empty()), (Verdict::NotJudged, false));
        assert!(made.reason().contains("data = stand-in, whose rows are made"), "{}", made.reason());
        assert_eq!(on("files").verdict, Verdict::Holds, "{:?}", on("files"));
    }

    #[test]
    fn what_a_test_compares_may_be_what_the_paper_did_not_run() {
        // QAT ran on four GPUs alone: that it does not fit on two is judged by two.
        let mut plan = crate::papers::artefact("2505.22905/fig-16").unwrap().plan().unwrap().clone();
        plan.first = plan.further.pop().unwrap();
        plan.further.clear();
        let gpus = plan.first.factors.iter_mut().find(|(key, _)| *key == "gpus").unwrap();
        gpus.1 = vec![Level::Integer(2)];
        let runs = changed(fixture::runs_of(&plan), "NVIDIA H200", &[]);
        let judgement = of("qat-needs-four-gpus", &runs);
        assert_eq!((judgement.verdict, judgement.findings.len()), (Verdict::Fails, 3), "{judgement:?}");
    }

    #[test]
    fn what_nothing_here_can_judge_says_why() {
        let judgement = of("qlora-loses-accuracy", &runs(&PRECISIONS));
        assert_eq!(judgement.verdict, Verdict::NotJudged);
        assert!(
            judgement.reason().starts_with("nothing here can judge it: weights are random"),
            "{}",
            judgement.reason()
        );
    }

    #[test]
    fn a_claim_fails_where_an_interval_lies_outside() {
        let runs = runs(&[("fp64", "off", 1, 1.0), ("fp32", "off", 1, 0.9), ("fp16", "off", 1, 0.43)]);
        assert_eq!(of("precision-speeds-up", &runs).verdict, Verdict::Fails);
    }

    #[test]
    fn a_claim_that_is_tested_in_part_is_undecided() {
        let runs = runs(&[("fp64", "off", 1, 1.0), ("fp32", "off", 1, 0.62)]);
        let judgement = of("precision-speeds-up", &runs);
        assert_eq!((judgement.verdict, judgement.untested.len()), (Verdict::Undecided, 1));
        assert!(judgement.reason().starts_with("not tested: fp16"), "{}", judgement.reason());
    }

    #[test]
    fn one_repeat_decides_nothing() {
        let mut runs = runs(&PRECISIONS);
        runs.retain(|run| run.repeat == 1);
        let judgement = of("precision-speeds-up", &runs);
        assert_eq!((judgement.verdict, judgement.findings.len()), (Verdict::Undecided, 2));
        assert!(judgement.reason().contains("one repeat"), "{}", judgement.reason());
    }

    #[test]
    fn two_repeats_whose_range_lies_within_a_claim_do_not_bear_it() {
        // fp32 1.60 and 1.70 times as fast as fp64: within 1.42 to 1.81, and so are too few repeats by chance.
        let mut few = runs(&PRECISIONS);
        few.retain(|run| run.repeat < 3);
        for run in few.iter_mut().filter(|run| run.repeat == 2 && run.cell.starts_with("fp32")) {
            run.values.entry("images_per_s".into()).and_modify(|rate| *rate *= 1.06);
        }
        let judgement = of("precision-speeds-up", &few);
        let finding = &judgement.findings[0];
        let (within, decides) = (finding.value.interval.unwrap(), finding.decides.unwrap());
        assert!(within.low > 1.42 && within.high < 1.81 && decides.low < 1.2 && decides.high > 2.2, "{finding:?}");
        assert_eq!((finding.verdict, finding.value.coverage()), (Verdict::Undecided, Some(0.5)));
        assert!(judgement.reason().contains("run more repeats"), "{}", judgement.reason());
        // Repeats that agree do.
        let judgement = of("precision-speeds-up", &runs(&PRECISIONS));
        assert_eq!(judgement.verdict, Verdict::Holds, "{judgement:?}");
    }

    #[test]
    fn a_trend_is_a_ratio_of_ratios() {
        let pinned =
            [("fp32", "off", 1, 1.0), ("fp32", "on", 1, 0.8), ("fp32", "off", 4, 1.0), ("fp32", "on", 4, 0.85)];
        let judgement = of("pinning-speeds-up", &runs(&pinned));
        let trend = judgement.findings.iter().find(|finding| finding.test.of.len() == 2).unwrap();
        assert!((trend.value.median - 0.8 / 0.85).abs() < 1e-9, "{trend:?}");
        assert_eq!(trend.verdict, Verdict::Holds);
        let names: Vec<&str> = judgement.findings.iter().map(|finding| finding.cells.as_str()).collect();
        assert_eq!(names, ["gpus = 1", "gpus = 4", ""]);
    }

    #[test]
    fn what_nothing_tests_is_untested_and_says_what_to_run() {
        let judgement = of("ddp-ds-scales", &runs(&[("fp32", "off", 1, 1.0)]));
        assert_eq!(judgement.verdict, Verdict::Untested);
        assert_eq!(judgement.reason(), "run its cells: multicard run --preset 2503.15252/fig-1");
    }

    #[test]
    fn accuracy_is_compared_by_difference_and_losses_by_their_mean_over_epochs() {
        let runs = runs(&PRECISIONS);
        let runs: Vec<RunSummary> =
            runs.into_iter().map(|run| RunSummary { data: "mnist".to_owned(), ..run }).collect();
        let accuracy = of("precision-keeps-accuracy", &runs);
        assert_eq!((accuracy.verdict, accuracy.findings[0].value.median), (Verdict::Holds, 0.0));
        let loss = of("fp64-converges-slower", &runs);
        assert!((loss.findings[0].value.median - 1.0).abs() < 1e-9);
    }
}
