//! The papers' numbers, tables, figures and contradictions as values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;
use thiserror::Error;

use super::claim::{Claim, claims};
use crate::plan::{Key, Level, Plan};

/// A paper: what its numbers were measured on, and what it does not say.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Its arXiv number.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The machine.
    pub node: String,
    /// Operating system, CUDA, profiler.
    pub system: String,
    /// Frameworks with their versions.
    pub software: String,
    /// What it does not say, in words.
    pub unstated: Vec<String>,
    /// Factors that it leaves open: their levels in the plans are multicard's.
    pub open: Vec<Key>,
}

/// The end of the measured range that a printed number stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// The value itself.
    #[default]
    Exact,
    /// The lower end of a printed range.
    Low,
    /// The upper end of a printed range.
    High,
    /// The value, roughly.
    About,
}

/// A printed number with its conditions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedValue {
    /// The paper's arXiv number.
    pub paper: String,
    /// Table, figure or section.
    pub place: String,
    /// The data set, where the paper names one.
    pub data: Option<Key>,
    /// Levels of factors; what the paper leaves open is not among them.
    pub levels: BTreeMap<Key, Level>,
    /// A key of the registry of measures, or the name of what multicard does not measure.
    pub measure: Key,
    /// The unit as printed; empty for counts.
    #[serde(default)]
    pub unit: String,
    /// The number as printed, in that unit.
    pub value: f64,
    /// The end of a range that it is.
    #[serde(default)]
    pub bound: Bound,
    /// A printed ratio from the times printed beside it, in the same unit.
    pub recomputed: Option<f64>,
    /// What a reader must know.
    #[serde(default)]
    pub note: String,
}

/// A place where a paper disagrees with itself, with physics, or with the other paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contradiction {
    /// The paper's arXiv number, or `both`.
    pub paper: String,
    /// Where.
    pub place: String,
    /// What is said and what holds.
    pub what: String,
    /// The arithmetic.
    #[serde(default)]
    pub check: String,
    /// Ids of the tables and figures that it bears on.
    pub on: Vec<String>,
}

/// A table or figure of a paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artefact {
    /// The paper's arXiv number.
    pub paper: String,
    /// Its name within the paper: `table-2`.
    #[serde(rename = "id")]
    pub name: String,
    /// What it shows, in a few words.
    pub shows: String,
    /// Which quantity.
    pub quantity: String,
    /// Under which conditions; empty where nothing is measured.
    pub conditions: String,
    /// Where the paper prints its values.
    #[serde(default)]
    pub places: Vec<String>,
    /// The name of its plan among those of `sessions/papers`.
    #[serde(rename = "plan")]
    plan_name: Option<String>,
    /// Factors that the paper leaves open here, beyond those of [`Paper::open`].
    #[serde(default)]
    open: Vec<Key>,
    /// The name of the plan of what its own plan leaves empty, such as accuracy beside quick runs.
    #[serde(rename = "companion")]
    companion_name: Option<String>,
    /// Why multicard cannot measure it, or not wholly, as a fragment of a sentence.
    pub needs: Option<String>,
    /// What is shown otherwise than in the paper, and why, a fragment of a sentence each.
    #[serde(default)]
    pub differs: Vec<String>,
}

/// What the papers print and multicard does not measure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unmeasured {
    name: Key,
    why: String,
}

/// A published value beside a measured one, from low to high: one number, or a range over conditions that the paper joins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// The lower end, in the unit that was asked for.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Printed {
    /// The number, where the paper prints one.
    pub fn number(self) -> Option<f64> {
        (self.low == self.high).then_some(self.low)
    }

    /// The middle of the range.
    pub fn middle(self) -> f64 {
        f64::midpoint(self.low, self.high)
    }
}

/// The plans of the papers' tables and figures. A new one is a file of `sessions/papers`, its line here, and its name at its
/// artefacts in `published.toml`.
const PLANS: &[(&str, &str)] = &[
    ("image-sizes", include_str!("../../sessions/papers/image-sizes.toml")),
    ("llm-calls", include_str!("../../sessions/papers/llm-calls.toml")),
    ("llm-calls-pin-memory", include_str!("../../sessions/papers/llm-calls-pin-memory.toml")),
    ("llm-calls-pin-memory-two", include_str!("../../sessions/papers/llm-calls-pin-memory-two.toml")),
    ("llm-calls-slimorca", include_str!("../../sessions/papers/llm-calls-slimorca.toml")),
    ("llm-iterations", include_str!("../../sessions/papers/llm-iterations.toml")),
    ("llm-iterations-slimorca", include_str!("../../sessions/papers/llm-iterations-slimorca.toml")),
    ("llm-pin-memory", include_str!("../../sessions/papers/llm-pin-memory.toml")),
    ("llm-techniques", include_str!("../../sessions/papers/llm-techniques.toml")),
    ("llm-techniques-calls", include_str!("../../sessions/papers/llm-techniques-calls.toml")),
    ("llm-techniques-memory", include_str!("../../sessions/papers/llm-techniques-memory.toml")),
    ("llm-techniques-scaling", include_str!("../../sessions/papers/llm-techniques-scaling.toml")),
    ("loaders", include_str!("../../sessions/papers/loaders.toml")),
    ("loaders-timeline-dali", include_str!("../../sessions/papers/loaders-timeline-dali.toml")),
    ("loaders-timeline-host", include_str!("../../sessions/papers/loaders-timeline-host.toml")),
    ("loaders-nhwc", include_str!("../../sessions/papers/loaders-nhwc.toml")),
    ("loading-metrics", include_str!("../../sessions/papers/loading-metrics.toml")),
    ("loss", include_str!("../../sessions/papers/loss.toml")),
    ("pin-memory", include_str!("../../sessions/papers/pin-memory.toml")),
    ("pin-memory-accuracy", include_str!("../../sessions/papers/pin-memory-accuracy.toml")),
    ("precision-accuracy", include_str!("../../sessions/papers/precision-accuracy.toml")),
    ("precision", include_str!("../../sessions/papers/precision.toml")),
    ("precision-metrics", include_str!("../../sessions/papers/precision-metrics.toml")),
    ("strategy-metrics", include_str!("../../sessions/papers/strategy-metrics.toml")),
    ("strategies", include_str!("../../sessions/papers/strategies.toml")),
];

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "version")]
    _version: u32,
    #[serde(rename = "paper")]
    papers: Vec<Paper>,
    #[serde(rename = "artefact")]
    artefacts: Vec<Artefact>,
    #[serde(rename = "contradiction")]
    contradictions: Vec<Contradiction>,
    unmeasured: Vec<Unmeasured>,
    #[serde(rename = "value")]
    values: Vec<PublishedValue>,
}

/// The file that is part of the program; the tests hold that it can be read.
static FILE: LazyLock<File> = LazyLock::new(|| toml::from_str(include_str!("published.toml")).unwrap_or_default());

/// The papers.
pub fn papers() -> &'static [Paper] {
    &FILE.papers
}

/// All tables and figures of both papers, and what the prose alone gives, in the order of the papers.
pub fn artefacts() -> &'static [Artefact] {
    &FILE.artefacts
}

/// All contradictions.
pub fn contradictions() -> &'static [Contradiction] {
    &FILE.contradictions
}

/// All printed numbers.
pub fn published() -> &'static [PublishedValue] {
    &FILE.values
}

/// An id that no table or figure has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("neither paper has {given:?}: did you mean {nearest:?}? `multicard papers` lists all tables and figures")]
pub struct UnknownArtefact {
    /// What was given.
    pub given: String,
    /// The most similar id that exists.
    pub nearest: String,
}

/// What ends the id of a companion.
const COMPANION: &str = "/accuracy";

fn text_of(name: &str) -> Option<&'static str> {
    PLANS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The text of the plan of a table or figure, or of its companion (`2503.15252/table-2/accuracy`), with the artefact that it is of.
///
/// # Errors
/// With the nearest id, where there is none of this one.
pub fn preset_text(id: &str) -> Result<(&'static Artefact, Option<&'static str>), UnknownArtefact> {
    if let Some(of) = id.strip_suffix(COMPANION).and_then(|own| artefact(own).ok())
        && let Some(text) = of.companion_text()
    {
        return Ok((of, Some(text)));
    }
    let artefact = artefact(id)?;
    Ok((artefact, artefact.plan_text()))
}

/// Why multicard does not measure what a printed number is of; none where it does.
pub fn why_unmeasured(measure: &str) -> Option<&'static str> {
    FILE.unmeasured.iter().find(|one| one.name == *measure).map(|one| one.why.as_str())
}

/// A table or figure by its id, such as `2503.15252/table-2`.
///
/// # Errors
/// With the nearest id, where there is none of this one.
pub fn artefact(id: &str) -> Result<&'static Artefact, UnknownArtefact> {
    if let Some(found) = artefacts().iter().find(|artefact| artefact.id() == id) {
        return Ok(found);
    }
    let ids = artefacts().iter().map(Artefact::id);
    let nearest = ids.max_by(|a, b| strsim::jaro_winkler(a, id).total_cmp(&strsim::jaro_winkler(b, id)));
    Err(UnknownArtefact { given: id.to_owned(), nearest: nearest.unwrap_or_default() })
}

/// `2503.15252 Table 2`
impl fmt::Display for Artefact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { paper, name, .. } = self;
        match (name.strip_prefix("table-"), name.strip_prefix("fig-")) {
            (Some(number), _) => write!(f, "{paper} Table {number}"),
            (_, Some(number)) => write!(f, "{paper} Figure {number}"),
            _ => write!(f, "{paper} {}", name.replace('-', " ")),
        }
    }
}

impl Artefact {
    /// Its id: `2503.15252/table-2`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.paper, self.name)
    }

    /// The paper that it is in.
    pub fn paper(&self) -> Option<&'static Paper> {
        papers().iter().find(|paper| paper.id == self.paper)
    }

    /// The text of its plan: the paper's setting. None where multicard cannot measure it.
    pub fn plan_text(&self) -> Option<&'static str> {
        text_of(self.plan_name.as_deref()?)
    }

    /// The text of the plan of what its own plan leaves empty; see [`preset_text`].
    pub fn companion_text(&self) -> Option<&'static str> {
        text_of(self.companion_name.as_deref()?)
    }

    /// The id of the companion among presets: `2503.15252/table-2/accuracy`.
    pub fn companion_id(&self) -> Option<String> {
        self.companion_name.as_ref().map(|_| self.id() + COMPANION)
    }

    /// Its plan.
    pub fn plan(&self) -> Option<&'static Plan> {
        static READ: LazyLock<Vec<(&str, Plan)>> = LazyLock::new(|| {
            let read = |(name, text): &(&'static str, &str)| Some((*name, Plan::parse(text, name).ok()?));
            PLANS.iter().filter_map(read).collect()
        });
        let name = self.plan_name.as_deref()?;
        READ.iter().find(|(known, _)| *known == name).map(|(_, plan)| plan)
    }

    /// The numbers that the paper prints of it.
    pub fn values(&self) -> impl Iterator<Item = &'static PublishedValue> {
        published().iter().filter(|value| value.paper == self.paper && self.places.contains(&value.place))
    }

    /// Where the papers contradict themselves about it.
    pub fn contradictions(&self) -> impl Iterator<Item = &'static Contradiction> {
        let id = self.id();
        contradictions().iter().filter(move |contradiction| contradiction.on.contains(&id))
    }

    /// The claims that are made of it.
    pub fn claims(&self) -> impl Iterator<Item = &'static Claim> {
        let id = self.id();
        claims().iter().filter(move |claim| claim.on.contains(&id))
    }

    /// Whether the paper leaves a factor open here, so that its level in the plan is multicard's.
    pub fn leaves_open(&self, factor: &str) -> bool {
        let of_paper = self.paper().is_some_and(|paper| paper.open.iter().any(|key| key == factor));
        of_paper || self.open.iter().any(|key| key == factor)
    }

    /// The keys that tell its values apart: factors that its plan varies, and those in which its values of a measure differ.
    fn telling(&self, measure: &str) -> Vec<&'static Key> {
        let mut keys: Vec<&Key> = self.plan().map_or_else(Vec::new, Plan::varied);
        let values: Vec<_> = self.values().filter(|value| value.measure == *measure).collect();
        for key in values.iter().flat_map(|value| value.levels.keys()) {
            let mut levels = values.iter().map(|value| value.levels.get(key));
            let first = levels.next();
            if !keys.contains(&key) && levels.any(|level| Some(level) != first) {
                keys.push(key);
            }
        }
        keys
    }

    /// What the paper prints of a measure for a cell, by the cell's settings, in the unit that `shown_unit` is after a factor:
    /// 99.32 % is 0.9932 where the shown unit is `%` and the factor 100. Of several values those with most conditions count.
    pub fn printed(
        &self,
        measure: &str,
        setting: &dyn Fn(&str) -> Option<Level>,
        unit: (&str, f64),
    ) -> Option<Printed> {
        let asked = published_measure(measure)?;
        let telling = self.telling(asked);
        let holds = |value: &&PublishedValue| {
            let mut told = value.levels.iter().filter(|(key, _)| telling.contains(key));
            value.measure == *asked
                && value.unit == unit.0
                && told.all(|(key, level)| setting(key).as_ref() == Some(level))
        };
        let conditions = |value: &PublishedValue| value.levels.keys().filter(|key| telling.contains(key)).count();
        let found: Vec<_> = self.values().filter(holds).collect();
        let most = found.iter().map(|value| conditions(value)).max()?;
        let numbers = || found.iter().filter(|value| conditions(value) == most).map(|value| value.value / unit.1);
        Some(Printed { low: numbers().fold(f64::INFINITY, f64::min), high: numbers().fold(0.0, f64::max) })
    }
}

/// The name of a measure in the papers' numbers: their total time is held against the training time, which leaves out the start (they
/// do not say what theirs covers); their iteration time is the mean of steps.
fn published_measure(measure: &str) -> Option<&str> {
    match measure {
        "training_time_s" => Some("total_time_s"),
        "mean_step_time_s" => Some("iteration_time_s"),
        "total_time_s" | "step_time_s" => None,
        measure => Some(measure),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::Measures;
    use crate::plan::{asked_cells, workloads};

    #[test]
    fn all_that_both_papers_print_is_there() {
        let file: File = toml::from_str(include_str!("published.toml")).unwrap();
        let counts = [file.papers.len(), file.values.len(), file.contradictions.len(), file.artefacts.len()];
        assert_eq!(counts, [2, 282, 28, 35]);
        assert_eq!(claims().len(), 43);
        assert!(file.values.iter().all(|value| !value.place.is_empty() && value.value.is_finite()));
    }

    #[test]
    fn every_printed_number_is_of_a_measure_or_says_why_nothing_measures_it() {
        let spec = workloads().iter().find(|spec| *spec.key == *crate::plan::llm::KEY).unwrap();
        let (images, tokens) = (Measures::built_in(), Measures::of_workload(spec));
        let columns = ["speedup_over_1_gpu", "speedup_over_fp64", "speedup_over_pageable", "time_saved_over_pageable"];
        for PublishedValue { place, measure, .. } in published() {
            let is_measured = images.find(measure).or(tokens.find(measure)).is_some() || columns.contains(&&**measure);
            assert_ne!(is_measured, why_unmeasured(measure).is_some(), "{place}: {measure}");
        }
    }

    #[test]
    fn a_companion_is_the_plan_of_full_runs_of_the_same_cells() {
        for artefact in artefacts() {
            let Some(id) = artefact.companion_id() else { continue };
            let (of, text) = preset_text(&id).unwrap();
            assert_eq!(of, artefact);
            let (own, full) = (artefact.plan().unwrap(), Plan::parse(text.unwrap(), &id).unwrap());
            assert!(!own.mode.is_full() && full.mode.is_full() && full.repeats == 1, "{id}");
            let levels = |plan: &Plan| asked_cells(plan).into_iter().map(|cell| cell.levels).collect::<Vec<_>>();
            assert_eq!(levels(own), levels(&full), "{id}");
        }
        assert!(preset_text("2503.15252/fig-1/accuracy").is_err());
    }

    #[test]
    fn every_level_of_a_printed_number_is_one_of_a_known_factor() {
        for value in published() {
            for (key, level) in &value.levels {
                let mut factors = workloads().iter().filter_map(|spec| spec.factor(key));
                assert!(factors.any(|factor| factor.admits(level)), "{} {}: {key} = {level}", value.paper, value.place);
            }
        }
    }

    #[test]
    fn every_name_in_the_file_leads_somewhere() {
        let is_paper = |id: &str| papers().iter().any(|paper| paper.id == id);
        for artefact in artefacts() {
            let id = artefact.id();
            assert!(is_paper(&artefact.paper), "{id}");
            assert_eq!(artefact.plan().is_some(), artefact.plan_name.is_some(), "{id}: its plan cannot be read");
            assert!(artefact.plan().is_some() || artefact.needs.is_some(), "{id} has neither a plan nor a reason");
            for place in &artefact.places {
                assert!(artefact.values().any(|value| value.place == *place), "{id}: nothing is printed in {place}");
            }
            for key in artefact.open.iter().chain(&artefact.paper().unwrap().open) {
                assert!(workloads().iter().any(|spec| spec.factor(key).is_some()), "{id} leaves {key} open");
            }
        }
        for (paper, on) in contradictions().iter().map(|one| (&one.paper, &one.on)) {
            assert!(paper == "both" || is_paper(paper));
            on.iter().for_each(|id| assert!(artefact(id).is_ok(), "{id}"));
        }
    }

    #[test]
    fn the_plan_of_a_table_or_figure_is_the_papers_setting() {
        let cells = |id: &str| asked_cells(artefact(id).unwrap().plan().unwrap());
        let levels = |id: &str, key: &str| {
            let mut levels: Vec<String> =
                cells(id).iter().map(|cell| cell.levels.get(key).unwrap().to_string()).collect();
            levels.sort();
            levels.dedup();
            levels
        };
        for paper in ["2503.15252", "2505.22905"] {
            let (table_2, table_3) = (format!("{paper}/table-2"), format!("{paper}/table-3"));
            assert_eq!((cells(&table_2).len(), cells(&table_3).len()), (12, 8));
            assert_eq!(levels(&table_2, "gpus"), ["1", "2", "3", "4"]);
            assert_eq!(levels(&table_2, "precision"), ["fp16", "fp32", "fp64"]);
            assert_eq!(levels(&table_3, "pin_memory"), ["off", "on"]);
            assert_eq!(levels(&table_2, "epochs"), ["20"]);
        }
        assert_eq!(levels("2503.15252/fig-1", "image_size"), ["700"]);
        assert_eq!(cells("2503.15252/fig-1").len(), 12);
        assert_eq!(cells("2505.22905/fig-2").len(), 20);
        assert_eq!(cells("2505.22905/fig-4").len(), 8);
        // The loaders of Figure 6 are confounded with the layout: two cells a number of GPUs, not four.
        assert_eq!((cells("2505.22905/fig-6").len(), cells("2505.22905/fig-9").len()), (8, 8));
        let tf32 = |precision: &str| {
            let cells = cells("2503.15252/table-2");
            let is = |cell: &&crate::plan::AskedCell| cell.levels.get("precision") == Some(&Level::text(precision));
            cells.iter().find(is).unwrap().levels.get("tf32").unwrap().to_string()
        };
        assert_eq!(["fp64", "fp32", "fp16"].map(tf32), ["off", "conv", "off"]);
    }

    #[test]
    fn printed_ratios_agree_with_the_times_printed_beside_them_where_the_file_says_so() {
        for value in published().iter().filter(|value| value.measure.starts_with("speedup_over_")) {
            let base = match &*value.measure {
                "speedup_over_1_gpu" => ("gpus", Level::Integer(1)),
                "speedup_over_fp64" => ("precision", Level::text("fp64")),
                _ => ("pin_memory", Level::text("off")),
            };
            let time = |levels: &BTreeMap<Key, Level>| {
                let is = |other: &&PublishedValue| {
                    (&other.paper, &other.place, &*other.measure) == (&value.paper, &value.place, "total_time_s")
                        && other.levels == *levels
                };
                published().iter().find(is).unwrap().value
            };
            let mut sibling = value.levels.clone();
            sibling.insert(base.0.into(), base.1);
            let ratio = 100.0 * time(&sibling) / time(&value.levels);
            assert!((ratio - value.recomputed.unwrap()).abs() < 0.0051, "{value:?}: {ratio}");
        }
    }

    #[test]
    fn a_cell_finds_the_number_that_is_printed_for_it_whatever_else_deviates() {
        let table = artefact("2503.15252/table-2").unwrap();
        let cell = |precision: &'static str, gpus: i64| {
            move |key: &str| match key {
                "precision" => Some(Level::text(precision)),
                "gpus" => Some(Level::Integer(gpus)),
                "epochs" => Some(Level::Integer(1)),
                _ => None,
            }
        };
        let total = |precision, gpus| table.printed("training_time_s", &cell(precision, gpus), ("s", 1.0));
        assert_eq!(total("fp16", 3).and_then(Printed::number), Some(1049.0));
        assert_eq!(total("bf16", 3), None);
        let accuracy = table.printed("accuracy", &cell("fp32", 1), ("%", 100.0)).unwrap();
        assert!((accuracy.number().unwrap() - 0.9932).abs() < 1e-12);
        let figure = artefact("2505.22905/fig-4").unwrap();
        let cell = |pinned: &'static str| {
            move |key: &str| match key {
                "image_size" => Some(Level::Integer(500)),
                "pin_memory" => Some(Level::text(pinned)),
                "gpus" => Some(Level::Integer(4)),
                _ => None,
            }
        };
        let copies = |pinned| figure.printed("host_to_device_s", &cell(pinned), ("s", 1.0)).unwrap();
        assert_eq!((copies("off"), copies("on").number()), (Printed { low: 85.0, high: 101.0 }, Some(16.0)));
        // Of 39 s on 4 GPUs and 63 s on 4 GPUs with pinned memory, the second is the closer.
        assert_eq!(figure.printed("nccl_all_gather_s", &cell("on"), ("s", 1.0)).unwrap().number(), Some(63.0));
    }

    #[test]
    fn findings_of_factors_name_places_that_the_papers_have() {
        let places: Vec<(&str, &str)> = published()
            .iter()
            .map(|value| (&*value.paper, &*value.place))
            .chain(claims().iter().map(|claim| (&*claim.paper, &*claim.place)))
            .collect();
        for factor in workloads().iter().flat_map(|spec| &spec.factors) {
            for paper in papers() {
                let Some((_, rest)) = factor.finding.split_once(&paper.id) else { continue };
                let Some(section) = rest.trim_start().strip_prefix("section ") else { continue };
                let section = section.split([')', ',', ';', ' ']).next().unwrap();
                // A table's or figure's number is none of a section; a place in section 4.2.1 is in section 4, too.
                let is = |(of, place): &(&str, &str)| {
                    let mut named = place.split("section ").skip(1);
                    let lies_in = |named: &str| {
                        let number = named.split([',', ')', ' ']).next().unwrap();
                        number.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                    };
                    *of == paper.id && named.any(lies_in)
                };
                assert!(places.iter().any(is), "{}: nothing stands in {} section {section}", factor.key, paper.id);
            }
        }
    }
}
