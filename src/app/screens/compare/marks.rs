//! Marks of charts: their accessible names, and the contents of their tooltips.

use eframe::egui::Ui;

use super::picture::Picture;
use crate::analysis::{CellKey, TRACE_METRICS};
use crate::app::canvas::About;
use crate::app::theme::palette;
use crate::app::value_text;
use crate::figure::paper::Mark;
use crate::figure::{Chart, Geometry, Panel, Point, Role, Series, precise};

/// Marks of a picture's charts.
pub struct Marks<'a>(pub &'a Picture);

/// What a mark represents.
type Shown<'a> = (&'a Chart, &'a Panel, &'a Series, &'a Point);

impl About for Marks<'_> {
    /// `Bar fp32 · 2 GPUs: Training time 4.20 s`.
    fn name(&self, mark: &Mark) -> String {
        let Some(shown) = self.shown(mark) else { return String::new() };
        let (chart, _, _, point) = shown;
        let value = format!("{} {}", value_text::number(point.value.median), chart.y.unit);
        let printed = published(shown).map(|printed| value_text::number(printed.value.median));
        let printed = printed.map_or(String::new(), |printed| format!(", published {printed}"));
        let (kind, title, measure) = (kind(chart), self.title(shown), measure(shown));
        format!("{kind} {title}: {measure} {}{}{printed}", value.trim_end(), across(shown))
    }

    /// The row of the table that a point of effects shows; that of two levels shows their interaction.
    fn effect(&self, mark: &Mark) -> Option<String> {
        let (chart, _, series, point) = self.shown(mark).filter(|(.., point)| point.cell.is_none())?;
        let effects = &self.0.effects;
        let effect = match chart.geometry {
            Geometry::Effects | Geometry::Tornado => effects.change(&series.name),
            Geometry::Profile => {
                let place = chart.x.categories.get(point.x.max(0.0) as usize)?;
                effects.interaction(&series.name, place)
            }
            _ => None,
        };
        effect.map(str::to_owned)
    }

    /// The value with all digits and its origin, and the verdict on the cell.
    fn hover(&self, ui: &mut Ui, mark: &Mark) {
        let Some(shown) = self.shown(mark) else { return };
        let (chart, panel, series, point) = shown;
        let unit = &chart.y.unit;
        ui.set_max_width(360.0);
        ui.strong(self.title(shown));
        ui.label(format!("{}: {} {unit}{}", measure(shown), precise(point.value.median), across(shown)));
        let names = [&panel.title, &series.name];
        for name in names.into_iter().filter(|name| !name.is_empty() && **name != measure(shown)) {
            ui.label(name);
        }
        ui.label(value_text::origin(&point.value, 1.0, unit));
        if let Some(printed) = published(shown) {
            let over = value_text::ratio(point.value.median / printed.value.median);
            let ends = printed.value.interval;
            let ends = ends.map_or(String::new(), |ends| format!(" [{}, {}]", precise(ends.low), precise(ends.high)));
            let printed = precise(printed.value.median);
            ui.label(format!("published: {printed}{ends} {unit}; the measured value is {over} the published one"));
        }
        if let (Some(ratio), Some((_, baseline))) = (&point.ratio, &self.0.comparison.baseline) {
            let interval = value_text::interval(ratio, 1.0);
            ui.label(format!("{} {interval} vs {baseline}", value_text::ratio(ratio.median)));
        }
        if let Some(help) = TRACE_METRICS.iter().find(|kind| kind.name == series.name).map(|kind| kind.help) {
            ui.label(help);
        }
        let Some(cell) = &mark.cell else { return };
        if let Some(verdict) = self.0.verdict(cell) {
            ui.label(verdict);
        }
        for story in self.0.stories(cell) {
            ui.colored_label(palette(ui.visuals()).warning, format!("⚠ {story}"));
        }
    }
}

impl<'a> Marks<'a> {
    fn shown(&self, mark: &Mark) -> Option<Shown<'a>> {
        mark.of(&self.0.comparison.charts)
    }

    /// The cell's name; or else the name of its position along the axis, or of its series.
    fn title(&self, (chart, _, series, point): Shown<'a>) -> &'a str {
        let cells = &self.0.comparison.cells;
        let of_cell = |key: &CellKey| cells.iter().find(|(known, _)| known == key).map(|(_, name)| name.as_str());
        let of_place = || chart.x.categories.get(point.x.max(0.0) as usize).map(String::as_str);
        point.cell.as_ref().and_then(of_cell).or_else(of_place).unwrap_or(&series.name)
    }
}

/// The word for marks of a chart.
fn kind(chart: &Chart) -> &'static str {
    match chart.geometry {
        Geometry::Bars | Geometry::Tornado => "Bar",
        Geometry::Stacked | Geometry::Percent | Geometry::Gantt => "Part",
        Geometry::Heat => "Field",
        _ => "Point",
    }
}

/// The name of the measure: the series if each series has its own measure, as for metrics and parts.
fn measure<'a>((chart, _, series, _): Shown<'a>) -> &'a str {
    let is_metric = TRACE_METRICS.iter().any(|kind| kind.name == series.name);
    let has_own = matches!(chart.geometry, Geometry::Stacked | Geometry::Percent);
    match chart.geometry {
        Geometry::Heat => &chart.title,
        _ if is_metric || has_own || chart.title.starts_with("Peak memory") => &series.name,
        _ => &chart.y.name,
    }
}

/// The value along the other axis, if that axis shows a measure, too.
fn across((chart, _, _, point): Shown<'_>) -> String {
    if chart.geometry != Geometry::Scatter {
        return String::new();
    }
    let ends = point.across.map_or(String::new(), |ends| {
        format!(" [{}, {}]", value_text::number(ends.low), value_text::number(ends.high))
    });
    let value = format!("{} {}{ends} {}", chart.x.name, value_text::number(point.x), chart.x.unit);
    format!(", {}", value.trim_end())
}

/// The published value of a point.
fn published<'a>((_, panel, series, point): Shown<'a>) -> Option<&'a Point> {
    let is_of = |other: &&Series| other.role == Role::Published && other.name == series.name;
    panel.series.iter().find(is_of)?.points.iter().find(|printed| printed.x == point.x)
}
