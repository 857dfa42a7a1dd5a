//! What a session's runs say to the papers' claims.

use serde::Serialize;
use strum::IntoStaticStr;

use super::claim::{Claim, Compare, Side, Test, claims};
use super::coverage::{Deviation, deviations};
use crate::analysis::{
    Cell, Interval, Key, Measures, Recording, RunState, RunSummary, Value, mean_interval, summarise, varying,
};
use crate::plan::{Filter, Level};

/// What runs say to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Verdict {
    /// No cells of the session test it.
    Untested,
    /// The 95 % interval of every comparison lies within the claim.
    Holds,
    /// A 95 % interval reaches over an end of the claim, a comparison has one repeat, or not all of the claim was tested.
    Undecided,
    /// The 95 % interval of a comparison lies outside the claim.
    Fails,
}

impl Verdict {
    /// All verdicts, in the order in which they are counted.
    pub const ALL: [Self; 4] = [Self::Holds, Self::Fails, Self::Undecided, Self::Untested];

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
    /// The 95 % interval of the mean comparison by Student's t, of ratios on their logarithms: what decides. None of one repeat.
    pub decides: Option<Interval>,
    /// What it says.
    pub verdict: Verdict,
}

/// What the runs of a session say to a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The claim.
    pub claim: &'static Claim,
    /// What they say: the worst of the findings.
    pub verdict: Verdict,
    /// Test by test, in the order of cells.
    pub findings: Vec<Finding>,
    /// Tests that no cells carry out.
    pub untested: Vec<&'static Test>,
    /// By what the cells do other work than those of the paper's table or figure that they are closest to.
    pub other_work: Vec<Deviation>,
}

impl Judgement {
    /// That the cells do other work than the paper's, which may change what they say; none where nothing is known to differ.
    pub fn caveat(&self) -> Option<String> {
        let mut texts: Vec<String> = Vec::new();
        for Deviation { key, own, paper, .. } in &self.other_work {
            let text = own.as_ref().map(|own| format!("{key} = {own} rather than {paper}"));
            texts.extend(text.filter(|text| !texts.contains(text)));
        }
        let work = texts.join(", ");
        let said = "judged by cells that do other work than the paper's, where it may not apply";
        (!texts.is_empty()).then(|| format!("{said}: {work}"))
    }

    /// Why it is undecided, or what to run to test it; empty where it holds or fails.
    pub fn reason(&self) -> String {
        let single = self.findings.iter().filter(|finding| finding.decides.is_none()).count();
        let missing: Vec<&str> = self.untested.iter().map(|test| test.says.as_str()).collect();
        match self.verdict {
            Verdict::Holds | Verdict::Fails => String::new(),
            Verdict::Untested => {
                let plan = self.claim.on.iter().find(|id| super::artefact(id).is_ok_and(|one| one.plan().is_some()));
                let run = plan.map(|id| format!("run its cells: multicard run --preset {id}"));
                run.unwrap_or_else(|| "multicard has no plan for its cells yet".to_owned())
            }
            Verdict::Undecided if single > 0 => {
                format!("{single} comparisons are of one repeat, which has no interval: run more repeats")
            }
            Verdict::Undecided if !missing.is_empty() => format!("not tested: {}", missing.join("; ")),
            Verdict::Undecided => "95 % intervals reach over the claim's bounds: run more repeats".to_owned(),
        }
    }
}

/// Judges all claims by the runs of cells.
pub fn judge(cells: &[Cell]) -> Vec<Judgement> {
    claims().iter().map(|claim| judgement(claim, cells)).collect()
}

fn judgement(claim: &'static Claim, cells: &[Cell]) -> Judgement {
    let (mut findings, mut untested, mut other_work) = (Vec::new(), Vec::new(), Vec::new());
    for test in &claim.tests {
        let (found, used) = carry_out(test, cells);
        if found.is_empty() {
            untested.push(test);
        }
        findings.extend(found);
        other_work.extend(deviates(claim, test, &used));
    }
    let worst = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Untested);
    let verdict = if worst == Verdict::Holds && !untested.is_empty() { Verdict::Undecided } else { worst };
    Judgement { claim, verdict, findings, untested, other_work }
}

/// By what a test's cells do other work than those of the table or figure that they are closest to, of those that make the claim.
fn deviates(claim: &Claim, test: &Test, used: &[Cell]) -> Vec<Deviation> {
    let Some(measure) = test.measure.first().and_then(|key| Measures::built_in().find(key)) else { return Vec::new() };
    let of = |id: &String| {
        let found = deviations(super::artefact(id).ok()?, used);
        (found.of_cells.is_empty() || found.strangers() < used.len()).then(|| found.other_work(measure))
    };
    let on_cpus = used.iter().filter(|cell| cell.runs.iter().any(|run| run.device.as_deref() == Some("cpu"))).count();
    let (own, paper) = (Some(Level::text("cpu")), Level::text("gpu"));
    let of_device = (on_cpus > 0).then(|| Deviation { key: "device".into(), own, paper, open: false, cells: on_cpus });
    claim.on.iter().filter_map(of).min_by_key(Vec::len).into_iter().flatten().chain(of_device).collect()
}

/// Compares the cells that a test names, for each combination of the settings that it does not. Also the cells it compared.
fn carry_out<'a>(test: &'static Test, cells: &[Cell<'a>]) -> (Vec<Finding>, Vec<Cell<'a>>) {
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
    let finding = |group: &Vec<&Cell>| {
        let (value, decides) = compare(test, group)?;
        let settings = telling.iter().filter(|setting| !["cell", "trace"].contains(&&*setting.key));
        let names = settings.filter_map(|setting| Some(format!("{} = {}", setting.key, group[0].level(&setting.key)?)));
        let cells = names.collect::<Vec<_>>().join(", ");
        Some(Finding { test, cells, value, decides, verdict: verdict(test, decides) })
    };
    let found = groups.iter().filter_map(finding).collect();
    (found, groups.into_iter().flatten().cloned().collect())
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

/// The comparison of a test's cells over the repeats that all of them have, of ratios on their logarithms: the median, and the 95 %
/// interval of the mean.
fn compare(test: &Test, group: &[&Cell]) -> Option<(Value, Option<Interval>)> {
    let sides: Vec<Vec<(u32, f64)>> = group.iter().map(|cell| values(test, cell)).collect();
    let (first, others) = sides.split_first()?;
    let of = test.of.len();
    let term = |place: usize, value: f64| {
        let value = if test.compare == Compare::Ratio { value.ln() } else { value };
        if place < of { value } else { -value }
    };
    let of_repeat = |(repeat, value): &(u32, f64)| {
        let mut sum = term(0, *value);
        for (place, side) in others.iter().enumerate() {
            sum += term(place + 1, side.iter().find(|(other, _)| other == repeat)?.1);
        }
        Some(sum)
    };
    let compared: Vec<f64> = first.iter().filter_map(of_repeat).collect();
    let (value, decides) = (summarise(&compared)?, mean_interval(&compared));
    if test.compare == Compare::Difference {
        return Some((value, decides));
    }
    let ratio = |ends: Interval| Interval { low: ends.low.exp(), high: ends.high.exp() };
    let value = Value { median: value.median.exp(), interval: value.interval.map(ratio), ..value };
    Some((value, decides.map(ratio)))
}

fn verdict(test: &Test, decides: Option<Interval>) -> Verdict {
    let (least, most) = test.bounds();
    match decides {
        None => Verdict::Undecided,
        Some(ends) if ends.low >= least && ends.high <= most => Verdict::Holds,
        Some(ends) if ends.high < least || ends.low > most => Verdict::Fails,
        Some(_) => Verdict::Undecided,
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
            ];
            let all = record.levels.iter().map(|(key, level)| (key.clone(), level.clone())).chain(own);
            record.levels = Levels::new(all.collect::<Vec<_>>());
            record.cell = format!("{precision}-{pin_memory}-{gpus}");
            summarise_run(&record)
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
    fn a_claim_that_is_judged_by_other_work_says_so() {
        let caveat = |size: i64, device: &str| {
            let mut runs = runs(&PRECISIONS);
            for run in &mut runs {
                let levels = run.levels.iter().map(|(key, level)| (key.clone(), level.clone()));
                let sized = levels.chain([("image_size".into(), Level::Integer(size))]);
                run.levels = Levels::new(sized.collect::<Vec<_>>());
                run.device = Some(device.to_owned());
            }
            of("precision-speeds-up", &runs).caveat()
        };
        assert_eq!(caveat(500, "NVIDIA H100"), None);
        let small = caveat(32, "cpu").unwrap();
        assert!(
            small.contains("image_size = 32 rather than 500") && small.contains("device = cpu rather than gpu"),
            "{small}"
        );
        let runs = runs(&PRECISIONS);
        assert_eq!(of("pinning-speeds-up", &runs).caveat(), None, "nothing tests it");
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
        let accuracy = of("precision-keeps-accuracy", &runs);
        assert_eq!((accuracy.verdict, accuracy.findings[0].value.median), (Verdict::Holds, 0.0));
        let loss = of("fp64-converges-slower", &runs);
        assert!((loss.findings[0].value.median - 1.0).abs() < 1e-9);
    }
}
