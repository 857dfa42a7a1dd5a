//! Annotations that an author adds to charts: text, brackets with a verdict, reference lines, shaded regions.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{EnumMessage, VariantArray};

use super::Nth;
use crate::analysis::CellKey;
use crate::figure::chart::{Addition, AdditionKind, Chart};
use crate::figure::number::counted;
use crate::plan::{is_default, suggestion};

/// One of the two axes: the axis of values, or the other axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray, EnumMessage)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum AxisName {
    /// Groups, epochs, GPUs.
    X,
    /// Values.
    #[default]
    Y,
}

impl fmt::Display for AxisName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::X { "x" } else { "y" })
    }
}

/// The kind of an annotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, VariantArray, EnumMessage)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum AnnotationKind {
    /// Words at a place.
    #[default]
    Text,
    /// A bracket over two bars or points, with the ratio of the cells and the verdict on it.
    Bracket,
    /// A line at a value.
    Line,
    /// A shaded region between two values.
    Region,
}

/// An annotation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Annotation {
    /// Its kind.
    pub kind: AnnotationKind,
    /// The number of the chart in the figure, from 1.
    #[serde(skip_serializing_if = "is_default")]
    pub chart: Nth,
    /// The number of the panel in the chart, from 1. If it is missing, text is in the first panel, and lines and regions are in all
    /// panels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panel: Option<Nth>,
    /// Its text. A bracket without text shows the ratio and the verdict.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The axis that a line or a region belongs to.
    pub axis: AxisName,
    /// The position of text along x: a name or a number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub x: String,
    /// The position of a line, or of text along y, in the unit of the axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
    /// The lower end of a region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end of a region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// The first cell of a bracket, in the form of a baseline: `precision=fp32,gpus=1`. The bracket shows the ratio of the second cell to
    /// this cell.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// The second cell of a bracket.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub to: String,
}

/// The cells of a bracket, and its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The first cell.
    pub from: CellKey,
    /// The second cell.
    pub to: CellKey,
    /// The ratio of the second to the first cell, and the verdict on it.
    pub text: String,
}

/// The form of each kind on the command line: `X,Y,TEXT`, `y=VALUE[,TEXT]`, `y=LOW..HIGH[,TEXT]`, `CELL to CELL`.
impl Annotation {
    /// Reads an annotation of this kind.
    ///
    /// # Errors
    /// The text does not have the form of this kind, which the error gives.
    pub fn parse(kind: AnnotationKind, text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let read = || match kind {
            AnnotationKind::Text => {
                let mut parts = text.splitn(3, ',');
                let (x, at, text) = (parts.next()?, number(parts.next()?)?, parts.next()?);
                Some(Self { x: x.trim().to_owned(), at: Some(at), text: text.trim().to_owned(), ..Self::default() })
            }
            AnnotationKind::Bracket => {
                let (from, to) = text.split_once(" to ")?;
                Some(Self { from: from.trim().to_owned(), to: to.trim().to_owned(), ..Self::default() })
            }
            AnnotationKind::Line | AnnotationKind::Region => {
                let (axis, rest) = text.split_once('=')?;
                let axis = match axis.trim() {
                    "x" => AxisName::X,
                    "y" => AxisName::Y,
                    _ => return None,
                };
                let (place, text) = rest.split_once(',').unwrap_or((rest, ""));
                let text = text.trim().to_owned();
                if kind == AnnotationKind::Line {
                    return Some(Self { axis, at: Some(number(place)?), text, ..Self::default() });
                }
                let (low, high) = place.split_once("..")?;
                Some(Self { axis, low: Some(number(low)?), high: Some(number(high)?), text, ..Self::default() })
            }
        };
        let form = match kind {
            AnnotationKind::Text => "X,Y,TEXT",
            AnnotationKind::Bracket => "CELL to CELL, such as \"precision=fp32,gpus=1 to precision=bf16,gpus=1\"",
            AnnotationKind::Line => "y=VALUE or y=VALUE,TEXT (x for the other axis)",
            AnnotationKind::Region => "y=LOW..HIGH or y=LOW..HIGH,TEXT (x for the other axis)",
        };
        read().map(|read| Self { kind, ..read }).ok_or_else(|| format!("give {form}"))
    }

    /// The text that [`Annotation::parse`] reads; `None` if that form cannot express the annotation.
    pub fn words(&self) -> Option<String> {
        let text = if self.text.is_empty() { String::new() } else { format!(",{}", self.text) };
        let words = match self.kind {
            AnnotationKind::Text => format!("{},{}{text}", self.x, self.at?),
            AnnotationKind::Bracket => format!("{} to {}", self.from, self.to),
            AnnotationKind::Line => format!("{}={}{text}", self.axis, self.at?),
            AnnotationKind::Region => format!("{}={}..{}{text}", self.axis, self.low?, self.high?),
        };
        (Self::parse(self.kind, &words).as_ref() == Ok(self)).then_some(words)
    }
}

/// A function that finds the pairs of cells that brackets name, and judges each pair.
pub type Judge<'a> = &'a dyn Fn(&[(&str, &str)]) -> Vec<Result<Judged, String>>;

/// Adds annotations to charts. `wrong` receives one line for each annotation that cannot be placed.
pub(super) fn add(annotations: &[Annotation], charts: &mut [Chart], judge: Judge<'_>, wrong: &mut Vec<String>) {
    let is_bracket = |one: &&Annotation| one.kind == AnnotationKind::Bracket;
    let asked: Vec<(&str, &str)> =
        annotations.iter().filter(is_bracket).map(|one| (one.from.as_str(), one.to.as_str())).collect();
    // All verdicts of a figure form one family.
    let mut judged = judge(&asked).into_iter();
    for (place, annotation) in annotations.iter().enumerate() {
        let (nth, count) = (annotation.chart.0, charts.len());
        let verdict = if is_bracket(&annotation) { judged.next() } else { None };
        let added = match charts.get_mut(nth.wrapping_sub(1)) {
            None => Err(format!("the figure has {}, not {nth}", counted(count, "chart"))),
            Some(chart) => {
                let added = addition(annotation, chart, verdict);
                added.map(|added| chart.additions.push(Addition { nth: Some(place), ..added }))
            }
        };
        if let Err(message) = added {
            wrong.push(format!("{} {:?}: {message}", annotation.name(), annotation.shown()));
        }
    }
}

impl Annotation {
    fn name(&self) -> &'static str {
        self.kind.get_serializations().first().copied().unwrap_or_default()
    }

    fn shown(&self) -> String {
        self.words().unwrap_or_else(|| self.text.clone())
    }
}

fn addition(
    annotation: &Annotation,
    chart: &Chart,
    verdict: Option<Result<Judged, String>>,
) -> Result<Addition, String> {
    let Annotation { kind, panel, text, axis, at, low, high, .. } = annotation;
    let panels = chart.panels.len();
    let panel = panel.map(|nth| nth.0.wrapping_sub(1));
    if panel.is_some_and(|panel| panel >= panels) {
        return Err(format!("the chart has {}", counted(panels, "panel")));
    }
    let is_x = *axis == AxisName::X;
    let numbers = if is_x { chart.x.categories.is_empty() } else { chart.has_values() };
    let finite = |value: &Option<f64>, name: &str| {
        value.filter(|value| value.is_finite()).ok_or_else(|| format!("{name} is not a number"))
    };
    if matches!(kind, AnnotationKind::Line | AnnotationKind::Region) && !numbers {
        return Err(format!("axis {axis} has names instead of numbers"));
    }
    let (panel, kind) = match kind {
        AnnotationKind::Text => {
            if !chart.has_values() {
                return Err("this chart has no axis of values".to_owned());
            }
            (Some(panel.unwrap_or(0)), AdditionKind::Text { x: place(annotation, chart)?, y: finite(at, "its value")? })
        }
        AnnotationKind::Line => (panel, AdditionKind::Line { is_x, at: finite(at, "its value")? }),
        AnnotationKind::Region => {
            let (low, high) = (finite(low, "its lower end")?, finite(high, "its upper end")?);
            if low >= high {
                return Err("its lower end must be below the upper one".to_owned());
            }
            (panel, AdditionKind::Region { is_x, low, high })
        }
        AnnotationKind::Bracket => {
            let judged = verdict.unwrap_or_else(|| Err("it does not name two cells".to_owned()))?;
            let position = |cell: &CellKey| {
                let mut places = chart.panels.iter().enumerate().flat_map(|(panel, part)| {
                    let series = part.series.iter().enumerate();
                    series.flat_map(move |(nth, series)| {
                        series
                            .points
                            .iter()
                            .filter(|point| point.cell.as_ref() == Some(cell))
                            .map(move |point| (panel, (nth, point.x)))
                    })
                });
                places.next().ok_or_else(|| "one of its cells is not drawn in this chart".to_owned())
            };
            let (from, to) = (position(&judged.from)?, position(&judged.to)?);
            if from.0 != to.0 {
                return Err("its cells are in different panels".to_owned());
            }
            let text = if text.is_empty() { judged.text } else { text.clone() };
            let kind = AdditionKind::Bracket { from: from.1, to: to.1 };
            return Ok(Addition { panel: Some(from.0), text, kind, nth: None });
        }
    };
    Ok(Addition { panel, text: text.clone(), kind, nth: None })
}

/// The position of text along x.
fn place(annotation: &Annotation, chart: &Chart) -> Result<f64, String> {
    let names = &chart.x.categories;
    if let Some(place) = names.iter().position(|name| name.eq_ignore_ascii_case(&annotation.x)) {
        return Ok(place as f64);
    }
    let number = annotation.x.parse::<f64>().ok().filter(|number| names.is_empty() && number.is_finite());
    number.ok_or_else(|| match names.is_empty() {
        true => format!("{:?} is not a number", annotation.x),
        false => format!("there is no place {:?}{}", annotation.x, suggestion(&annotation.x, names)),
    })
}
