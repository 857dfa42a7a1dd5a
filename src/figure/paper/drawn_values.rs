//! The values that a figure's file contains: the table has the values of cells, and this list has the values of marks.

use serde::{Deserialize, Serialize};

use crate::figure::{Axis, Chart};

/// A chart with more points would only repeat the logs, which are in the session.
const MOST_POINTS: usize = 2000;

/// A chart's points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DrawnChart {
    /// What it shows, in a few words.
    pub title: String,
    /// The x axis with its unit.
    pub x: String,
    /// The y axis with its unit, which the values are in.
    pub y: String,
    /// Its points, ordered by panel and series; empty if there are more than 2000.
    pub points: Vec<DrawnPoint>,
}

/// A point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DrawnPoint {
    /// The title of its panel; empty if there is only one.
    pub panel: String,
    /// Its series in the legend.
    pub series: String,
    /// Its position on the x axis: a category or a number.
    pub x: String,
    /// The low end of the interval of that position, if it is a measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_low: Option<f64>,
    /// Its high end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_high: Option<f64>,
    /// The median.
    pub value: f64,
    /// The interval's low end.
    pub low: Option<f64>,
    /// The interval's high end.
    pub high: Option<f64>,
    /// The number of repeats.
    pub n: usize,
    /// The value divided by the value of the baseline.
    pub ratio: Option<f64>,
}

impl DrawnChart {
    pub(in crate::figure) fn of(chart: &Chart) -> Self {
        let count: usize = chart.series().map(|series| series.points.len()).sum();
        let panels = if count > MOST_POINTS { &[] } else { chart.panels.as_slice() };
        let points = panels.iter().flat_map(|panel| {
            panel.series.iter().flat_map(|series| {
                series.points.iter().map(|point| DrawnPoint {
                    panel: panel.title.clone(),
                    series: series.name.clone(),
                    x: place(&chart.x, point.x),
                    x_low: point.across.map(|ends| ends.low),
                    x_high: point.across.map(|ends| ends.high),
                    value: point.value.median,
                    low: point.value.interval.map(|ends| ends.low),
                    high: point.value.interval.map(|ends| ends.high),
                    n: point.value.n,
                    ratio: point.ratio.map(|ratio| ratio.median),
                })
            })
        });
        Self { title: chart.title.clone(), x: chart.x.title(), y: chart.y.title(), points: points.collect() }
    }
}

fn place(axis: &Axis, x: f64) -> String {
    // Categories have the positions 0, 1, 2, ….
    axis.categories.get(x.max(0.0) as usize).cloned().unwrap_or_else(|| x.to_string())
}
