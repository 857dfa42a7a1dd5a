//! The papers' numbers, tables, figures and contradictions as values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;
use thiserror::Error;

use super::claim::{Claim, claims};
use crate::plan::{Key, Level, Plan};

/// A paper: the machine and software of its measurements, and what it leaves unstated.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Its arXiv number.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The machine, in words.
    pub node: String,
    /// Operating system, CUDA and profiler, in words.
    pub system: String,
    /// Frameworks with their versions, in words.
    pub software: String,
    /// Conditions that the paper does not state, one text each.
    pub unstated: Vec<String>,
    /// Factors that the paper does not state. multicard chose their levels in the plans.
    pub open: Vec<Key>,
}

/// How a printed number relates to the measured values: it is the value itself, or one end of a range.
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
    /// The approximate value.
    About,
}

/// A printed number with its conditions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedValue {
    /// The paper's arXiv number.
    pub paper: String,
    /// The table, figure or section in which the number is printed.
    pub place: String,
    /// The data set, if the paper names one.
    pub data: Option<Key>,
    /// The levels of factors that the paper states; factors that it leaves open are missing.
    pub levels: BTreeMap<Key, Level>,
    /// A key of the registry of measures, or the name of a quantity that multicard does not measure.
    pub measure: Key,
    /// The unit as printed; empty for counts.
    #[serde(default)]
    pub unit: String,
    /// The number as printed, in that unit.
    pub value: f64,
    /// Whether the number is a value or one end of a range.
    #[serde(default)]
    pub bound: Bound,
    /// A printed ratio, computed again from the times that the paper prints next to it, in the same unit.
    pub recomputed: Option<f64>,
    /// What a reader must know about this number, in words; may be empty.
    #[serde(default)]
    pub note: String,
}

/// A place where a paper disagrees with itself, with physics, or with the other paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contradiction {
    /// The paper's arXiv number, or `both`.
    pub paper: String,
    /// The table, figure or section in question.
    pub place: String,
    /// What the paper says, and what is true instead.
    pub what: String,
    /// The arithmetic that shows it; may be empty.
    #[serde(default)]
    pub check: String,
    /// Ids of the tables and figures that the contradiction affects.
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
    /// The quantity that is drawn or listed.
    pub quantity: String,
    /// The conditions of the measurements; empty if the table or figure shows no measurements.
    pub conditions: String,
    /// The places in which the paper prints numbers of this table or figure; see [`PublishedValue::place`].
    #[serde(default)]
    pub places: Vec<String>,
    /// The name of its plan: a file of `sessions/papers` without the extension.
    #[serde(rename = "plan")]
    plan_name: Option<String>,
    /// Factors that the paper does not state for this table or figure, besides those of [`Paper::open`].
    #[serde(default)]
    open: Vec<Key>,
    /// The name of a second plan, for columns that the first plan leaves empty: quick runs measure no accuracy, for
    /// example.
    #[serde(rename = "companion")]
    companion_name: Option<String>,
    /// Why multicard cannot measure it, or can measure only a part: a fragment of a sentence.
    pub needs: Option<String>,
    /// Differences between what multicard shows and what the paper shows, with their reasons: one fragment of a
    /// sentence each.
    #[serde(default)]
    pub differs: Vec<String>,
}

/// A quantity that the papers print and multicard does not measure, with the reason.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unmeasured {
    name: Key,
    why: String,
}

/// The published value for a measured one. If the paper prints one number for several conditions, it is a range from
/// low to high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// The lower end, in the caller's unit.
    pub low: f64,
    /// The upper end, in the caller's unit.
    pub high: f64,
}

impl Printed {
    /// The number, if both ends are equal.
    pub fn number(self) -> Option<f64> {
        (self.low == self.high).then_some(self.low)
    }

    /// The middle of the range.
    pub fn middle(self) -> f64 {
        f64::midpoint(self.low, self.high)
    }
}

/// The plans of the papers' tables and figures, by name. To add a plan, add a file to `sessions/papers`, a line here,
/// and its name to the artefacts in `published.toml` that it belongs to.
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

/// The contents of `published.toml`, which is compiled into the program. Tests make sure that it parses.
static FILE: LazyLock<File> = LazyLock::new(|| toml::from_str(include_str!("published.toml")).unwrap_or_default());

/// The papers.
pub fn papers() -> &'static [Paper] {
    &FILE.papers
}

/// All tables and figures of both papers, in the order of the papers. Results that a paper gives in prose alone are
/// among them.
pub fn artefacts() -> &'static [Artefact] {
    &FILE.artefacts
}

/// All contradictions in both papers.
pub fn contradictions() -> &'static [Contradiction] {
    &FILE.contradictions
}

/// All numbers that the papers print.
pub fn published() -> &'static [PublishedValue] {
    &FILE.values
}

/// The error for an id that belongs to no table or figure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("neither paper has {given:?}: did you mean {nearest:?}? `multicard papers` lists all tables and figures")]
pub struct UnknownArtefact {
    /// The id that was given.
    pub given: String,
    /// The existing id that is most similar to it.
    pub nearest: String,
}

/// The suffix of the id of a companion plan.
const COMPANION: &str = "/accuracy";

fn text_of(name: &str) -> Option<&'static str> {
    PLANS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The table or figure with this id, and the text of its plan. An id with the suffix of a companion
/// (`2503.15252/table-2/accuracy`) gives the text of the companion plan.
///
/// # Errors
/// The id is unknown; the error suggests the most similar one.
pub fn preset_text(id: &str) -> Result<(&'static Artefact, Option<&'static str>), UnknownArtefact> {
    if let Some(artefact_of_companion) = id.strip_suffix(COMPANION).and_then(|own| artefact(own).ok())
        && let Some(text) = artefact_of_companion.companion_text()
    {
        return Ok((artefact_of_companion, Some(text)));
    }
    let artefact = artefact(id)?;
    Ok((artefact, artefact.plan_text()))
}

/// Why multicard does not measure the quantity of a printed number; `None` if it does measure it.
pub fn why_unmeasured(measure: &str) -> Option<&'static str> {
    FILE.unmeasured.iter().find(|one| one.name == *measure).map(|one| one.why.as_str())
}

/// A table or figure by its id, such as `2503.15252/table-2`.
///
/// # Errors
/// The id is unknown; the error suggests the most similar one.
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

    /// The paper that contains it.
    pub fn paper(&self) -> Option<&'static Paper> {
        papers().iter().find(|paper| paper.id == self.paper)
    }

    /// The text of its plan, with the paper's settings; `None` if multicard cannot measure it.
    pub fn plan_text(&self) -> Option<&'static str> {
        text_of(self.plan_name.as_deref()?)
    }

    /// The text of its companion plan, which measures what the first plan leaves empty; see [`preset_text`].
    pub fn companion_text(&self) -> Option<&'static str> {
        text_of(self.companion_name.as_deref()?)
    }

    /// The id of its companion plan among the presets: `2503.15252/table-2/accuracy`.
    pub fn companion_id(&self) -> Option<String> {
        self.companion_name.as_ref().map(|_| self.id() + COMPANION)
    }

    /// Its plan, parsed.
    pub fn plan(&self) -> Option<&'static Plan> {
        static READ: LazyLock<Vec<(&str, Plan)>> = LazyLock::new(|| {
            let read = |(name, text): &(&'static str, &str)| Some((*name, Plan::parse(text, name).ok()?));
            PLANS.iter().filter_map(read).collect()
        });
        let name = self.plan_name.as_deref()?;
        READ.iter().find(|(known, _)| *known == name).map(|(_, plan)| plan)
    }

    /// The numbers that the paper prints for it.
    pub fn values(&self) -> impl Iterator<Item = &'static PublishedValue> {
        published().iter().filter(|value| value.paper == self.paper && self.places.contains(&value.place))
    }

    /// The contradictions that affect it.
    pub fn contradictions(&self) -> impl Iterator<Item = &'static Contradiction> {
        let id = self.id();
        contradictions().iter().filter(move |contradiction| contradiction.on.contains(&id))
    }

    /// The claims about it.
    pub fn claims(&self) -> impl Iterator<Item = &'static Claim> {
        let id = self.id();
        claims().iter().filter(move |claim| claim.on.contains(&id))
    }

    /// Whether the paper does not state this factor for this table or figure, so that multicard chose the level in the
    /// plan.
    pub fn leaves_open(&self, factor: &str) -> bool {
        let of_paper = self.paper().is_some_and(|paper| paper.open.iter().any(|key| key == factor));
        of_paper || self.open.iter().any(|key| key == factor)
    }

    /// The keys of factors that distinguish its printed values of a measure: those that its plan varies, and those
    /// whose levels differ between these values.
    fn distinguishing_keys(&self, measure: &str) -> Vec<&'static Key> {
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

    /// The number that the paper prints for a measure of the cell that has these settings, or the range if it prints
    /// several. `unit` is the unit shown, and the factor by which a value is multiplied to show it: with `("%", 100.0)`
    /// the printed 99.32 % becomes 0.9932. If several printed values fit, those with the most conditions count.
    pub fn printed(
        &self,
        measure: &str,
        setting: &dyn Fn(&str) -> Option<Level>,
        unit: (&str, f64),
    ) -> Option<Printed> {
        let asked = published_measure(measure)?;
        let keys = self.distinguishing_keys(asked);
        let holds = |value: &&PublishedValue| {
            let mut conditions = value.levels.iter().filter(|(key, _)| keys.contains(key));
            value.measure == *asked
                && value.unit == unit.0
                && conditions.all(|(key, level)| setting(key).as_ref() == Some(level))
        };
        let conditions = |value: &PublishedValue| value.levels.keys().filter(|key| keys.contains(key)).count();
        let candidates: Vec<_> = self.values().filter(holds).collect();
        let most = candidates.iter().map(|value| conditions(value)).max()?;
        let numbers = || candidates.iter().filter(|value| conditions(value) == most).map(|value| value.value / unit.1);
        Some(Printed { low: numbers().fold(f64::INFINITY, f64::min), high: numbers().fold(0.0, f64::max) })
    }
}

/// The key under which the papers' numbers give a measure. Their total time is compared with the training time, which
/// excludes the start; the papers do not say what theirs includes. Their iteration time is the mean step time.
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
            let (artefact_of_preset, text) = preset_text(&id).unwrap();
            assert_eq!(artefact_of_preset, artefact);
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
        // The closest of 39 s (4 GPUs) and 63 s (4 GPUs with pinned memory) is the second.
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
                // A number of a table or figure does not belong to a section. A place in section 4.2.1 is also in
                // section 4.
                let is = |(paper_id, place): &(&str, &str)| {
                    let mut named = place.split("section ").skip(1);
                    let lies_in = |named: &str| {
                        let number = named.split([',', ')', ' ']).next().unwrap();
                        number.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                    };
                    *paper_id == paper.id && named.any(lies_in)
                };
                assert!(places.iter().any(is), "{}: nothing stands in {} section {section}", factor.key, paper.id);
            }
        }
    }
}
