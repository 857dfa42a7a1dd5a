//! The legend, which names the looks of series. It is drawn in rows above the data and never covers data.

use super::letter::{Anchor, Line};
use super::look::{INK, Paint, bar, hollow, marker};
use super::path::Area;
use super::scene::{Part, Scene, Stroke};
use super::side::Type;
use crate::figure::chart::{Chart, Geometry, PUBLISHED, Role, Series};
use crate::figure::style::Palette;

/// The width of a sample, and the gap after it.
const SAMPLE: (f64, f64) = (13.0, 3.5);
/// Ideals that the legend lists. Other ideals are named next to their lines.
pub(super) const LISTED: [&str; 2] = ["ideal", "front"];
/// The gap between entries.
const GAP: f64 = 10.0;
/// The most series that a legend lists: no reader looks up more of them, and their rows would be higher than the data.
const MOST: usize = 24;

#[derive(Clone)]
struct Entry {
    /// The name of its series, and the name as drawn.
    series: String,
    name: String,
    /// Its width in a row.
    width: f64,
    paint: Paint,
    /// The geometries for which it has samples: the common legend of several figures may show a level both as an area and as a line.
    /// Words instead of a series have none.
    geometries: Vec<Geometry>,
    role: Role,
}

impl Entry {
    fn new(name: &str, paint: Paint, geometry: Geometry, role: Role) -> Self {
        let name = name.to_owned();
        Self { series: name.clone(), name, width: 0.0, paint, geometries: vec![geometry], role }
    }

    /// Whether two entries give the same name different looks, or different names the same look.
    fn contradicts(&self, other: &Self) -> bool {
        self.role == other.role && (self.name == other.name) != (self.paint == other.paint)
    }

    /// The width of its samples.
    fn samples(&self) -> f64 {
        self.geometries.len() as f64 * (SAMPLE.0 + SAMPLE.1)
    }
}

/// A small area in the look of a level, with this width and height.
pub fn swatch(look: &crate::figure::Look, width: f64, height: f64) -> Scene {
    let mut scene = Scene { width, height, ..Scene::default() };
    let area = Area { left: 0.0, top: 0.0, width, height };
    bar(&mut scene, &area, &Paint::of(look, 0, Palette::Colour));
    scene
}

/// Why a figure keeps its own legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Apart {
    /// The figure has no entry of its legend in common with other figures.
    Alone,
    /// It gives a name another look than earlier figures do, or a look another name.
    Contradicts,
    /// It needs no legend, because names are next to its marks, but it uses looks of the common legend for other names.
    NamedBeside,
}

/// A legend as rows.
pub(super) struct Legend {
    rows: Vec<Vec<Entry>>,
    /// The number of series that it leaves out.
    left_out: usize,
}

impl Legend {
    /// The legend of charts, in rows of this width; empty if no series must be distinguished.
    pub fn new(charts: &[&Chart], palette: Palette, kind: Type, width: f64, most: Option<usize>) -> Self {
        Self::of(entries(charts, palette), kind, width, most)
    }

    /// One common legend for the charts of several figures, and for each figure that keeps its own legend, the reason.
    pub fn common(figures: &[Vec<&Chart>], palette: Palette, kind: Type, width: f64) -> (Self, Vec<Option<Apart>>) {
        let own: Vec<Vec<Entry>> = figures.iter().map(|charts| entries(charts, palette)).collect();
        let mut common: Vec<Entry> = Vec::new();
        let reason = |(nth, entries): (usize, &Vec<Entry>)| {
            let is_known = |entry: &Entry| {
                let others = own.iter().enumerate().filter(|(other, _)| *other != nth).flat_map(|(_, entries)| entries);
                others.clone().any(|other| other.name == entry.name && other.role == entry.role)
            };
            if entries.is_empty() || !entries.iter().any(is_known) {
                return Some(Apart::Alone).filter(|_| !entries.is_empty());
            }
            if entries.iter().any(|entry| common.iter().any(|known| known.contradicts(entry))) {
                return Some(Apart::Contradicts);
            }
            entries.iter().for_each(|entry| join(&mut common, entry.clone()));
            None
        };
        let mut reasons: Vec<Option<Apart>> = own.iter().enumerate().map(reason).collect();
        for ((reason, charts), own) in reasons.iter_mut().zip(figures).zip(&own) {
            let marks = measured(charts.iter().copied(), palette);
            if own.is_empty() && marks.iter().any(|mark| common.iter().any(|known| known.contradicts(mark))) {
                *reason = Some(Apart::NamedBeside);
            }
        }
        // If only one figure has a legend, it stays with that figure.
        let mut agreeing = reasons.iter_mut().zip(&own).filter(|(reason, own)| reason.is_none() && !own.is_empty());
        if let (Some((reason, _)), None) = (agreeing.next(), agreeing.next()) {
            *reason = Some(Apart::Contradicts);
            common.clear();
        }
        (Self::of(common, kind, width, None), reasons)
    }

    /// Puts entries into rows of this width.
    fn of(mut entries: Vec<Entry>, kind: Type, width: f64, most: Option<usize>) -> Self {
        let most = most.filter(|most| *most > 0).unwrap_or(usize::MAX);
        // A single entry is needed only for published marks, which no axis names.
        if entries.len() < 2 && entries.iter().all(|entry| entry.role != Role::Published) {
            entries.clear();
        }
        let left_out = shorten(&mut entries);
        let mut rows: Vec<Vec<Entry>> = Vec::new();
        let mut used = 0.0;
        let room = width - entries.iter().map(Entry::samples).fold(0.0, f64::max);
        let names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
        let names = kind.typist.cut_apart(&names, kind.small, room);
        for (mut entry, name) in entries.into_iter().zip(names) {
            let wide = entry.samples() + kind.typist.width(&Line::plain(&name), kind.small);
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
        Self { rows: aligned(rows, width), left_out }
    }

    /// Its width.
    pub fn width(&self) -> f64 {
        self.rows.iter().map(|row| width_of(row.iter().map(|entry| entry.width))).fold(0.0, f64::max)
    }

    /// A legend without entries.
    pub fn empty() -> Self {
        Self { rows: Vec::new(), left_out: 0 }
    }

    /// Its height, including the gap below it.
    pub fn height(&self, kind: Type) -> f64 {
        if self.rows.is_empty() { 0.0 } else { self.rows.len() as f64 * row_height(kind) + 3.0 }
    }

    /// Draws it; the position is its upper left corner.
    pub fn draw(&self, scene: &mut Scene, kind: Type, (left, top): (f64, f64)) {
        scene.left_out += self.left_out;
        scene.part(Part::Legend, |scene| {
            for (row, entries) in self.rows.iter().enumerate() {
                let middle = top + (row as f64 + 0.5) * row_height(kind);
                let mut x = left;
                for entry in entries {
                    let name = Line::plain(&entry.name);
                    let draw = |scene: &mut Scene| {
                        for (place, geometry) in entry.geometries.iter().enumerate() {
                            let left = x + place as f64 * (SAMPLE.0 + SAMPLE.1);
                            sample(scene, (entry, *geometry), left, middle, kind);
                        }
                        let at = (x + entry.samples(), middle + kind.typist.capital(kind.small) / 2.0);
                        kind.typist.set(scene, &name, kind.small, at, Anchor::Start);
                    };
                    // Only a series can be pointed at and edited.
                    if entry.geometries.is_empty() {
                        draw(scene);
                    } else {
                        scene.part(Part::Entry(entry.series.clone()), draw);
                    }
                    x += entry.width + GAP;
                }
            }
        });
    }
}

/// Replaces the measured series after the first [`MOST`] by their number, which is returned. Ideals and published values stay.
fn shorten(entries: &mut Vec<Entry>) -> usize {
    let measured = entries.iter().filter(|entry| entry.role == Role::Measured).count();
    let left_out = measured.saturating_sub(MOST);
    if left_out > 0 {
        let name = format!("and {left_out} more");
        let grey = Paint::of(&crate::figure::Look::Grey, 0, Palette::Colour);
        let words =
            Entry { series: name.clone(), name, width: 0.0, paint: grey, geometries: Vec::new(), role: Role::Measured };
        // Measured series come first.
        entries.splice(MOST..measured, [words]);
    }
    left_out
}

/// The width of a row of entries.
fn width_of(entries: impl ExactSizeIterator<Item = f64>) -> f64 {
    let gaps = GAP * entries.len().saturating_sub(1) as f64;
    entries.sum::<f64>() + gaps
}

/// Aligns the entries in columns, if this needs no more rows.
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

/// The entries that charts need: series that are drawn, ideals, and published values.
fn entries(charts: &[&Chart], palette: Palette) -> Vec<Entry> {
    let mut entries = measured(charts.iter().copied().filter(|chart| needs_one(chart)), palette);
    let grey = Paint::of(&crate::figure::Look::Grey, 0, palette);
    let ideal = |series: &&Series| series.role == Role::Ideal && LISTED.contains(&series.name.as_str());
    if let Some(series) = charts.iter().flat_map(|chart| chart.series()).find(ideal) {
        entries.push(Entry::new(&series.name, grey, Geometry::Scaling, Role::Ideal));
    }
    if charts.iter().any(|chart| chart.has_published()) {
        entries.push(Entry::new(PUBLISHED, grey, Geometry::Scaling, Role::Published));
    }
    entries
}

/// The measured series of charts that are drawn, each name once.
fn measured<'a>(charts: impl Iterator<Item = &'a Chart>, palette: Palette) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for chart in charts {
        for series in chart.legend() {
            if !series.name.is_empty() && entries.iter().all(|entry| entry.name != series.name) {
                // In a chart of activity, all rows of one kind have the same look.
                let variant = if chart.geometry == Geometry::Gantt { 0 } else { series.variant };
                let paint = Paint::of(&series.look, variant, palette);
                entries.push(Entry::new(&series.name, paint, chart.geometry, Role::Measured));
            }
        }
    }
    entries
}

/// Adds an entry to the entries of other figures. If the entry exists with another geometry, it gets one more sample.
fn join(entries: &mut Vec<Entry>, entry: Entry) {
    let Some(known) = entries.iter_mut().find(|known| known.name == entry.name && known.role == entry.role) else {
        // Measured entries come before all others.
        let is_before = |known: &Entry| known.role == Role::Measured || entry.role != Role::Measured;
        let place = entries.iter().position(|known| !is_before(known)).unwrap_or(entries.len());
        entries.insert(place, entry);
        return;
    };
    for geometry in entry.geometries {
        let is_like =
            |other: &Geometry| (other.has_areas(), other.has_lines()) == (geometry.has_areas(), geometry.has_lines());
        if !known.geometries.iter().any(is_like) {
            known.geometries.push(geometry);
        }
    }
}

fn sample(scene: &mut Scene, (entry, geometry): (&Entry, Geometry), x: f64, middle: f64, kind: Type) {
    if entry.role == Role::Published {
        hollow(scene, (x + SAMPLE.0 / 2.0, middle), 2.1, INK);
    } else if entry.role == Role::Ideal {
        scene.line(&[(x, middle), (x + SAMPLE.0, middle)], ideal_stroke(&entry.paint));
    } else if geometry.has_areas() {
        let half = kind.typist.capital(kind.small) / 2.0 + 0.4;
        bar(scene, &Area::between((x, middle - half), (x + SAMPLE.0, middle + half)), &entry.paint);
    } else {
        if geometry.has_lines() {
            scene.line(&[(x, middle), (x + SAMPLE.0, middle)], entry.paint.stroke(1.1));
        }
        marker(scene, (x + SAMPLE.0 / 2.0, middle), 1.9, &entry.paint);
    }
}

/// How an ideal's line is drawn.
pub(super) fn ideal_stroke(paint: &Paint) -> Stroke {
    Stroke { colour: paint.line, width: 0.7, dash: vec![1.4, 1.6], round: false }
}

/// Whether colours show something that the names along the axis do not.
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
