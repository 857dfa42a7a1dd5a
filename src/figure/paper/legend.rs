//! What stands for which series: in rows above the data, which they never cover.

use super::letter::{Anchor, Line};
use super::look::{INK, Paint, bar, hollow, marker};
use super::path::Area;
use super::scene::{Part, Scene, Stroke};
use super::side::Type;
use crate::figure::chart::{Chart, Geometry, PUBLISHED, Role, Series};
use crate::figure::style::Palette;

/// The width of a sample, and the gap behind it.
const SAMPLE: (f64, f64) = (13.0, 3.5);
/// Ideals that a legend lists. Others are named where they are drawn.
pub(super) const LISTED: [&str; 2] = ["ideal", "front"];
/// Between entries.
const GAP: f64 = 10.0;

struct Entry {
    /// The name of its series, and the name as it is set.
    series: String,
    name: String,
    /// The width that it takes in its row.
    width: f64,
    paint: Paint,
    geometry: Geometry,
    role: Role,
}

/// The look of a level as a small area, as wide and as high.
pub fn swatch(look: &crate::figure::Look, width: f64, height: f64) -> Scene {
    let mut scene = Scene { width, height, ..Scene::default() };
    let area = Area { left: 0.0, top: 0.0, width, height };
    bar(&mut scene, &area, &Paint::of(look, 0, Palette::Colour));
    scene
}

/// A legend, in rows.
pub(super) struct Legend {
    rows: Vec<Vec<Entry>>,
}

impl Legend {
    /// The legend of charts, in rows of a width; empty where nothing has to be told apart.
    pub fn new(charts: &[&Chart], palette: Palette, kind: Type, width: f64, most: Option<usize>) -> Self {
        let most = most.filter(|most| *most > 0).unwrap_or(usize::MAX);
        let mut entries: Vec<Entry> = Vec::new();
        for chart in charts.iter().filter(|chart| needs_one(chart)) {
            for series in chart.legend() {
                if !series.name.is_empty() && entries.iter().all(|entry| entry.name != series.name) {
                    // Rows of a chart of activity have one look for each kind.
                    let variant = if chart.geometry == Geometry::Gantt { 0 } else { series.variant };
                    let paint = Paint::of(&series.look, variant, palette);
                    entries.push(Entry {
                        series: series.name.clone(),
                        name: series.name.clone(),
                        width: 0.0,
                        paint,
                        geometry: chart.geometry,
                        role: Role::Measured,
                    });
                }
            }
        }
        let ideal = |series: &&Series| series.role == Role::Ideal && LISTED.contains(&series.name.as_str());
        if let Some(series) = charts.iter().flat_map(|chart| chart.series()).find(ideal) {
            let paint = Paint::of(&crate::figure::Look::Grey, 0, palette);
            let (name, geometry) = (series.name.clone(), Geometry::Scaling);
            entries.push(Entry { series: name.clone(), name, width: 0.0, paint, geometry, role: Role::Ideal });
        }
        let is_published = charts.iter().any(|chart| chart.has_published());
        if is_published {
            let paint = Paint::of(&crate::figure::Look::Grey, 0, palette);
            let (name, geometry) = (PUBLISHED.to_owned(), Geometry::Scaling);
            entries.push(Entry { series: name.clone(), name, width: 0.0, paint, geometry, role: Role::Published });
        }
        // A mark that no axis names needs one.
        if entries.len() < 2 && !is_published {
            entries.clear();
        }
        let mut rows: Vec<Vec<Entry>> = Vec::new();
        let mut used = 0.0;
        let room = SAMPLE.0 + SAMPLE.1;
        let names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
        let names = kind.typist.cut_apart(&names, kind.small, width - room);
        for (mut entry, name) in entries.into_iter().zip(names) {
            let wide = room + kind.typist.width(&Line::plain(&name), kind.small);
            (entry.name, entry.width) = (name, wide);
            match rows.last_mut() {
                Some(row) if used + GAP + wide <= width && row.len() < most => {
                    used += GAP + wide;
                    row.push(entry);
                }
                _ => {
                    used = wide;
                    rows.push(vec![entry]);
                }
            }
        }
        Self { rows: aligned(rows, width) }
    }

    /// How wide it is.
    pub fn width(&self) -> f64 {
        self.rows.iter().map(|row| width_of(row.iter().map(|entry| entry.width))).fold(0.0, f64::max)
    }

    /// A legend without entries.
    pub fn empty() -> Self {
        Self { rows: Vec::new() }
    }

    /// How high it is, with the gap below it.
    pub fn height(&self, kind: Type) -> f64 {
        if self.rows.is_empty() { 0.0 } else { self.rows.len() as f64 * row_height(kind) + 3.0 }
    }

    /// Draws it from a corner on.
    pub fn draw(&self, scene: &mut Scene, kind: Type, (left, top): (f64, f64)) {
        scene.part(Part::Legend, |scene| {
            for (row, entries) in self.rows.iter().enumerate() {
                let middle = top + (row as f64 + 0.5) * row_height(kind);
                let mut x = left;
                for entry in entries {
                    let name = Line::plain(&entry.name);
                    scene.part(Part::Entry(entry.series.clone()), |scene| {
                        sample(scene, entry, x, middle, kind);
                        let at = (x + SAMPLE.0 + SAMPLE.1, middle + kind.typist.capital(kind.small) / 2.0);
                        kind.typist.set(scene, &name, kind.small, at, Anchor::Start);
                    });
                    x += entry.width + GAP;
                }
            }
        });
    }
}

/// The width of a row of entries.
fn width_of(entries: impl ExactSizeIterator<Item = f64>) -> f64 {
    let gaps = GAP * entries.len().saturating_sub(1) as f64;
    entries.sum::<f64>() + gaps
}

/// The same entries in columns, where that takes no more rows.
fn aligned(rows: Vec<Vec<Entry>>, width: f64) -> Vec<Vec<Entry>> {
    let (count, most) = (rows.len(), rows.iter().map(Vec::len).max().unwrap_or(0));
    let wide: Vec<f64> = rows.iter().flatten().map(|entry| entry.width).collect();
    let widest = |columns: usize| -> Vec<f64> {
        let of_column = |column: usize| wide.iter().skip(column).step_by(columns).copied().fold(0.0, f64::max);
        (0..columns).map(of_column).collect()
    };
    let least = wide.len().div_ceil(count.max(1)).max(1);
    let fits = |columns: &usize| width_of(widest(*columns).into_iter()) <= width;
    let Some(columns) = (least..=most).rev().find(fits).filter(|_| count > 1) else { return rows };
    let widths = widest(columns);
    let mut aligned: Vec<Vec<Entry>> = Vec::new();
    for (place, entry) in rows.into_iter().flatten().enumerate() {
        if place % columns == 0 {
            aligned.push(Vec::new());
        }
        if let Some(row) = aligned.last_mut() {
            row.push(Entry { width: widths[place % columns], ..entry });
        }
    }
    aligned
}

fn row_height(kind: Type) -> f64 {
    kind.typist.leading(kind.small) + 1.5
}

fn sample(scene: &mut Scene, entry: &Entry, x: f64, middle: f64, kind: Type) {
    let is_area = matches!(entry.geometry, Geometry::Bars | Geometry::Stacked | Geometry::Percent | Geometry::Gantt);
    if entry.role == Role::Published {
        hollow(scene, (x + SAMPLE.0 / 2.0, middle), 2.1, INK);
    } else if entry.role == Role::Ideal {
        scene.line(&[(x, middle), (x + SAMPLE.0, middle)], ideal_stroke(&entry.paint));
    } else if is_area {
        let half = kind.typist.capital(kind.small) / 2.0 + 0.4;
        bar(scene, &Area::between((x, middle - half), (x + SAMPLE.0, middle + half)), &entry.paint);
    } else {
        if !matches!(entry.geometry, Geometry::Strip | Geometry::Scatter) {
            scene.line(&[(x, middle), (x + SAMPLE.0, middle)], entry.paint.stroke(1.1));
        }
        marker(scene, (x + SAMPLE.0 / 2.0, middle), 1.9, &entry.paint);
    }
}

/// The line of what would be if nothing were lost.
pub(super) fn ideal_stroke(paint: &Paint) -> Stroke {
    Stroke { colour: paint.line, width: 0.7, dash: vec![1.4, 1.6], round: false }
}

/// Whether colours say what names along the axis do not.
fn needs_one(chart: &Chart) -> bool {
    let named_below = |series: &Series| {
        series
            .points
            .iter()
            .all(|point| chart.x.categories.get(point.x as usize).is_some_and(|name| *name == series.name))
    };
    match chart.geometry {
        Geometry::Heat | Geometry::Effects | Geometry::Tornado => false,
        Geometry::Bars | Geometry::Strip => !chart.series().all(named_below),
        Geometry::Stacked
        | Geometry::Percent
        | Geometry::Gantt
        | Geometry::Lines
        | Geometry::Scaling
        | Geometry::Profile
        | Geometry::Scatter => true,
    }
}
