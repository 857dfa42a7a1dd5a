//! The papers' numbers, tables, figures and contradictions as values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;
use thiserror::Error;

use super::claim::{Claim, claims};
use crate::plan::{Key, Level, Plan};

/// A paper: the machine and software of its measurements, and the facts that it does not state.
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
    /// A note for readers of this number; may be empty.
    #[serde(default)]
    pub note: String,
}

/// A place where a paper disagrees with itself, with physics, or with the other paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contradiction {
    /// The arXiv number of the paper that contains the contradiction, or `both` if both papers do.
    pub paper: String,
    /// The table, figure or section in question.
    pub place: String,
    /// The statement of the paper, and what contradicts it.
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
    /// Its contents, in a few words.
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
    /// Factors that the paper does not state for this table or figure, in addition to [`Paper::open`].
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
    /// The lower end of the range, in the unit that the caller asked for.
    pub low: f64,
    /// The upper end of the range, in the unit that the caller asked for.
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

/// All tables and figures of both papers, in the order of the papers. They include results that a paper gives only in prose.
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
#[path = "published_tests.rs"]
mod tests;
