//! Lays charts of different studies out as panels of one figure. In the grid, the data of a row has the same top and bottom, and the data
//! of a column the same left and right edge. Panels can share a legend and axes of values.

use super::below::{say_below, sayings_of};
use super::blank::blank;
use super::layout::{compose, letter, title, told_apart};
use super::legend::{Apart, Legend};
use super::letter::{Anchor, Line, Typist};
use super::page::{Inset, MARGIN, Page};
use super::path::Area;
use super::scene::Scene;
use super::side::{Type, wrapped};
use super::spot::{begins_at_zero, extent};
use crate::figure::chart::{Axis, Chart, Geometry, Scale};
use crate::figure::composition::{Composition, Share};
use crate::figure::overrides::{LegendPlace, Overrides};
use crate::figure::style::Palette;

/// Gaps in points between panels next to each other, and between rows.
const BETWEEN: (f64, f64) = (6.0, 8.0);
/// Gap in points between the letter of a panel and the panel.
const BELOW_LETTER: f64 = 2.0;
/// Minimum width of data in points. If data would be narrower, there are fewer columns.
const LEAST_DATA: f64 = 40.0;
/// Minimum height of data in points, even if the requested height of the figure is smaller.
const LEAST_HEIGHT: f64 = 24.0;
/// Maximum number of rounds until the widths are stable. Names take only a share of their panel, so they become stable soon.
const MOST_ROUNDS: usize = 16;

/// The contents of a panel.
pub(in crate::figure) struct Shown {
    /// The charts of its study; empty if the panel cannot be drawn.
    pub charts: Vec<Chart>,
    /// Why there is nothing to draw, if there is not.
    pub blank: Option<String>,
    /// Its author's changes.
    pub overrides: Overrides,
    /// Its title; may be empty.
    pub title: String,
    /// The number of columns that it covers.
    pub span: usize,
}

/// The position of a panel: its row, its first column and its last column.
#[derive(Clone, Copy)]
struct Seat {
    row: usize,
    first: usize,
    last: usize,
}

/// The widths of columns, in points.
struct Columns {
    /// For each column, the distance from its left edge to its data, and from its data to its right edge.
    insets: Vec<(f64, f64)>,
    /// The width of the data of a column.
    data: f64,
}

/// Panels with everything that decides their layout.
pub(in crate::figure) struct Panels<'a> {
    composition: &'a Composition,
    shown: Vec<Shown>,
    kind: Type,
    legend: Legend,
    /// For each panel, whether its axis of values has no name because the panel to its left shows the same axis.
    hides_values: Vec<bool>,
    columns: usize,
    notes: Vec<String>,
}

impl<'a> Panels<'a> {
    /// Panels in their order, with the legend and the axes that they share.
    pub fn new(mut shown: Vec<Shown>, composition: &'a Composition) -> Self {
        let style = &composition.style;
        let kind = Type::new(Typist { family: style.font }, style.size());
        if style.palette == Palette::Grey {
            tell_apart(&mut shown);
        }
        let columns = composition.columns.clamp(1, shown.len().max(1));
        let (legend, hides_values) = (Legend::empty(), vec![false; shown.len()]);
        let mut panels = Self { composition, shown, kind, legend, hides_values, columns, notes: Vec::new() };
        while panels.columns > 1 && panels.widths().data < LEAST_DATA {
            panels.columns -= 1;
        }
        if panels.columns < columns {
            let (asked, left) = (columns, panels.columns);
            panels.notes.push(format!("{asked} columns would be too narrow for their axes: the figure has {left}"));
        }
        let own_height = panels.shown.iter().enumerate().filter(|(_, shown)| shown.overrides.height_mm.is_some());
        let own_height = own_height.map(|(nth, _)| {
            format!("({}) has the height of its row: only the height of the whole figure can be set", letter(nth))
        });
        panels.notes.extend(own_height.collect::<Vec<_>>());
        panels.share_legend();
        panels.share_values();
        panels
    }

    /// One line for each thing that cannot be shared as requested.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn shares(&self, what: Share) -> bool {
        self.composition.share.contains(&what)
    }

    /// Merges the legends of all panels that agree into one.
    fn share_legend(&mut self) {
        if !self.shares(Share::Legend) {
            return;
        }
        let with_legend = self.shown.iter().map(|shown| match shown.overrides.legend {
            LegendPlace::Off => Vec::new(),
            _ => shown.charts.iter().collect(),
        });
        let figures: Vec<Vec<&Chart>> = with_legend.collect();
        let room = self.composition.style.width.pt() - 2.0 * MARGIN;
        let (legend, apart) = Legend::common(&figures, self.composition.style.palette, self.kind, room);
        for (nth, apart) in apart.into_iter().enumerate() {
            let reason = match apart {
                None => {
                    self.shown[nth].overrides.legend = LegendPlace::Off;
                    continue;
                }
                Some(Apart::Alone) => "keeps its own legend: no other panel has any of its entries",
                Some(Apart::Contradicts) => {
                    "keeps its own legend: another panel shows one of its names with another look, or one of its looks with another name"
                }
                Some(Apart::NamedBeside) => {
                    "uses looks of the shared legend for names along its axis: choose another setting for its colours"
                }
            };
            self.notes.push(format!("({}) {reason}", letter(nth)));
        }
        self.legend = legend;
    }

    /// Gives axes of values with the same measure and unit the same ends. If the panel to the left shows the same axis, the axis is not
    /// named again.
    fn share_values(&mut self) {
        if !self.shares(Share::Y) {
            return;
        }
        let axes: Vec<Option<Axis>> = self.shown.iter().map(shared_axis).collect();
        let seats = self.seats();
        for (nth, axis) in axes.iter().enumerate() {
            let Some(axis) = axis else { continue };
            let others = || axes.iter().enumerate().filter(|(_, other)| other.as_ref() == Some(axis));
            if others().count() < 2 {
                let title = axis.title();
                self.notes
                    .push(format!("({}) does not share its axis of values: no other panel shows {title}", letter(nth)));
                continue;
            }
            let ends = others().filter_map(|(other, _)| Some(ends(only_chart(&self.shown[other])?)));
            let whole = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |all, own| (all.0.min(own.0), all.1.max(own.1)));
            let is_beside = |(other, _): (usize, &Option<Axis>)| other + 1 == nth && seats[other].row == seats[nth].row;
            self.hides_values[nth] = others().any(is_beside);
            self.shown[nth].charts.iter_mut().for_each(|chart| chart.y.reach = Some(whole));
        }
    }

    /// The positions of panels, from left to right and from top to bottom.
    fn seats(&self) -> Vec<Seat> {
        let (mut row, mut next) = (0, 0);
        let seat = |shown: &Shown| {
            let span = shown.span.clamp(1, self.columns);
            if next + span > self.columns {
                (row, next) = (row + 1, 0);
            }
            let first = next;
            next += span;
            Seat { row, first, last: next - 1 }
        };
        self.shown.iter().map(seat).collect()
    }

    /// Finds widths with which the data of all columns is equally wide, and the data of panels in the same column is aligned.
    fn widths(&self) -> Columns {
        let seats = self.seats();
        let whole = self.composition.style.width.pt() - BETWEEN.0 * (self.columns - 1) as f64;
        let mut columns = Columns { insets: vec![(0.0, 0.0); self.columns], data: 0.0 };
        for _ in 0..MOST_ROUNDS {
            let used: f64 = columns.insets.iter().map(|(left, right)| left + right).sum();
            columns.data = (whole - used) / self.columns as f64;
            let mut insets = columns.insets.clone();
            for (nth, seat) in seats.iter().enumerate() {
                let Some(data) = data(&self.draw(nth, *seat, &columns, 0.0)) else { continue };
                insets[seat.first].0 = insets[seat.first].0.max(data.left);
                insets[seat.last].1 = insets[seat.last].1.max(columns.width(*seat) - data.right());
            }
            let grown = |(old, new): (&(f64, f64), &(f64, f64))| new.0 - old.0 > 0.005 || new.1 - old.1 > 0.005;
            let is_settled = !columns.insets.iter().zip(&insets).any(grown);
            columns.insets = insets;
            if is_settled {
                break;
            }
        }
        columns
    }

    /// Draws a panel as a page of its own; its data is `stretch` points higher than usual.
    fn draw(&self, nth: usize, seat: Seat, columns: &Columns, stretch: f64) -> Scene {
        let (left, right) = (columns.insets[seat.first].0, columns.insets[seat.last].1);
        let part = Inset { left, right, stretch, hides_values: self.hides_values[nth] };
        let page = Page::part(&self.composition.style, columns.width(seat).max(LEAST_DATA), part);
        let shown = &self.shown[nth];
        if let Some(reason) = &shown.blank {
            return blank(&page, reason);
        }
        let overrides = Overrides { title: None, height_mm: None, caption: false, ..shown.overrides.clone() };
        compose(&shown.charts, &page, &overrides)
    }

    /// The figure.
    pub fn scene(&self) -> Scene {
        let columns = self.widths();
        let usual = self.set(&columns, 0.0);
        let rows = self.seats().last().map_or(1, |seat| seat.row + 1);
        let more = self.composition.height_pt().map(|height| (height - usual.height) / rows as f64);
        more.map_or(usual, |more| self.set(&columns, more))
    }

    /// Draws the figure; the data of each row is `more` points higher than usual.
    fn set(&self, columns: &Columns, more: f64) -> Scene {
        let mut scene = Scene { width: self.composition.style.width.pt(), ..Scene::default() };
        let mut top = MARGIN + title(&mut scene, self.kind, self.composition.title.as_deref());
        self.legend.draw(&mut scene, self.kind, (MARGIN, top));
        top += self.legend.height(self.kind);
        let seats = self.seats();
        for row in 0..=seats.last().map_or(0, |seat| seat.row) {
            top = self.row(&mut scene, (row, &seats), columns, (top, more)) + BETWEEN.1;
        }
        scene.height = top - BETWEEN.1 + MARGIN;
        if self.composition.caption {
            say_below(&mut scene, self.kind, &self.sayings());
        }
        scene
    }

    /// Draws a row of panels and returns its lower end.
    fn row(
        &self,
        scene: &mut Scene,
        (row, seats): (usize, &[Seat]),
        columns: &Columns,
        (top, more): (f64, f64),
    ) -> f64 {
        let own = || seats.iter().enumerate().filter(|(_, seat)| seat.row == row);
        let usual: Vec<(Scene, Option<Area>)> = own()
            .map(|(nth, seat)| {
                let drawn = self.draw(nth, *seat, columns, 0.0);
                let area = data(&drawn);
                (drawn, area)
            })
            .collect();
        let areas = || usual.iter().filter_map(|(drawn, area)| Some((drawn, area.as_ref()?)));
        let height = areas().map(|(_, area)| area.height).fold(0.0, f64::max);
        let height = (height + more).max(LEAST_HEIGHT.min(height));
        let above = areas().map(|(_, area)| area.top).fold(0.0, f64::max);
        let below = areas().map(|(drawn, area)| drawn.height - area.bottom()).fold(0.0, f64::max);
        let head = own().map(|(nth, seat)| self.head(scene, nth, columns.place(*seat), top)).fold(0.0, f64::max);
        let mut charts: usize = self.shown[..own().next().map_or(0, |(nth, _)| nth)].iter().map(charts_of).sum();
        for ((nth, seat), (drawn, area)) in own().zip(&usual) {
            let left = columns.place(*seat).0;
            match area {
                Some(area) => {
                    let drawn = self.draw(nth, *seat, columns, height - area.height);
                    scene.add(drawn, (left, top + head + above - area.top), charts);
                }
                None => scene.add(drawn.clone(), (left, top + head + above), charts),
            }
            charts += charts_of(&self.shown[nth]);
        }
        // A row in which nothing is drawn still needs room for the text that says so.
        let blank = usual.iter().filter(|(_, area)| area.is_none()).map(|(drawn, _)| drawn.height).fold(0.0, f64::max);
        top + head + (above + height + below).max(blank)
    }

    /// Draws the letter and the title of a panel and returns their height.
    fn head(&self, scene: &mut Scene, nth: usize, (left, width): (f64, f64), top: f64) -> f64 {
        let (typist, size) = (self.kind.typist, self.kind.size);
        let letter = if self.shown.len() > 1 { format!("({}) ", letter(nth)) } else { String::new() };
        let title = self.shown[nth].title.trim();
        if letter.is_empty() && title.is_empty() {
            return 0.0;
        }
        let letter = Line::strong(letter);
        let indent = typist.width(&letter, size);
        let room = (width - indent - 2.0 * MARGIN).max(8.0);
        let lines = wrapped(title, room, &|text| typist.width(&Line::plain(text), size));
        let baseline = |line: usize| top + typist.ascent(size) + line as f64 * typist.leading(size);
        typist.set(scene, &letter, size, (left + MARGIN, baseline(0)), Anchor::Start);
        for (nth, line) in lines.iter().enumerate() {
            let at = (left + MARGIN + indent, baseline(nth));
            typist.set(scene, &Line::plain(typist.cut(line, size, room)), size, at, Anchor::Start);
        }
        lines.len() as f64 * typist.leading(size) + BELOW_LETTER
    }

    /// The lines below all panels.
    fn sayings(&self) -> Vec<String> {
        let page = Page::paper(&self.composition.style);
        said_of_panels(&self.shown.iter().map(|shown| sayings_of(&shown.charts, &page)).collect::<Vec<_>>())
    }
}

/// Lines about panels, each once. A line begins with the letters of its panels, unless it is about all panels that have lines.
pub(in crate::figure) fn said_of_panels(own: &[Vec<String>]) -> Vec<String> {
    let mut texts: Vec<&String> = Vec::new();
    for text in own.iter().flatten() {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let saying = own.iter().filter(|texts| !texts.is_empty()).count();
    let lines = texts.into_iter().map(|text| {
        let panels: Vec<usize> = (0..own.len()).filter(|nth| own[*nth].contains(text)).collect();
        if panels.len() == saying {
            return text.clone();
        }
        let letters: Vec<String> = panels.into_iter().map(|nth| format!("({})", letter(nth))).collect();
        format!("{} {text}", letters.join(", "))
    });
    lines.collect()
}

impl Columns {
    /// The width of the columns that a panel covers.
    fn width(&self, seat: Seat) -> f64 {
        let covered = &self.insets[seat.first..=seat.last];
        let count = covered.len() as f64;
        covered.iter().map(|(left, right)| left + right).sum::<f64>() + count * self.data + (count - 1.0) * BETWEEN.0
    }

    /// The left edge and the width of a panel.
    fn place(&self, seat: Seat) -> (f64, f64) {
        let before = &self.insets[..seat.first];
        let count = before.len() as f64;
        let left = before.iter().map(|(left, right)| left + right).sum::<f64>() + count * (self.data + BETWEEN.0);
        (left, self.width(seat))
    }
}

/// The area that a page's data covers; `None` if nothing is drawn.
fn data(scene: &Scene) -> Option<Area> {
    let corners = |area: &Area| ((area.left, area.top), (area.right(), area.bottom()));
    let whole = scene.data.iter().map(corners).reduce(|(from, to), (own_from, own_to)| {
        ((from.0.min(own_from.0), from.1.min(own_from.1)), (to.0.max(own_to.0), to.1.max(own_to.1)))
    });
    whole.map(|(from, to)| Area::between(from, to))
}

fn charts_of(shown: &Shown) -> usize {
    shown.charts.len()
}

/// Gives each look a different sign in all panels. In grey, signs must replace colours.
fn tell_apart(shown: &mut [Shown]) {
    let counts: Vec<usize> = shown.iter().map(charts_of).collect();
    let charts: Vec<Chart> = shown.iter_mut().flat_map(|shown| std::mem::take(&mut shown.charts)).collect();
    let mut charts = told_apart(&charts).into_iter();
    for (shown, count) in shown.iter_mut().zip(counts) {
        shown.charts = charts.by_ref().take(count).collect();
    }
}

/// The chart of a panel, if it has exactly one.
fn only_chart(shown: &Shown) -> Option<&Chart> {
    let mut drawn = shown.charts.iter().filter(|chart| !chart.is_empty());
    drawn.next().filter(|_| drawn.next().is_none())
}

/// The properties that two axes of values must have in common to be shared; `None` for a panel without such an axis.
fn shared_axis(shown: &Shown) -> Option<Axis> {
    use Geometry::{Bars, Lines, Profile, Scaling, Scatter, Stacked, Strip};
    let chart = only_chart(shown)?;
    let has_values = matches!(chart.geometry, Bars | Lines | Profile | Scaling | Scatter | Stacked | Strip);
    // A logarithmic axis of areas ends at a power of ten.
    let is_of_areas = chart.y.scale == Scale::Log && begins_at_zero(chart, &chart.y);
    let categories = is_of_areas.then(|| "areas".to_owned()).into_iter().collect();
    has_values.then(|| Axis { categories, ..chart.y.clone() })
}

/// The range of a chart's values on a shared axis.
fn ends(chart: &Chart) -> (f64, f64) {
    let (low, high) = extent(chart);
    let is_from_zero = chart.y.scale == Scale::Linear && begins_at_zero(chart, &chart.y);
    (if is_from_zero { low.min(0.0) } else { low }, high)
}
