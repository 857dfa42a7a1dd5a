//! Lays charts of different studies out as panels of one figure: in a grid in which the data of a row has the same top and baseline, and
//! the data of a column the same left and right edge; with a legend and axes of values that panels share.

use super::blank::blank;
use super::layout::{MARGIN, begins_at_zero, compose, extent, letter, say_below, sayings_of, title, told_apart};
use super::legend::{Apart, Legend};
use super::letter::{Anchor, Line, Typist};
use super::page::{Inset, Page};
use super::path::Area;
use super::scene::Scene;
use super::side::{Type, wrapped};
use crate::figure::chart::{Axis, Chart, Geometry, Scale};
use crate::figure::composition::{Composition, Share};
use crate::figure::overrides::{LegendPlace, Overrides};
use crate::figure::style::Palette;

/// Between panels beside each other, and below each other.
const BETWEEN: (f64, f64) = (6.0, 8.0);
/// Between the letter of a panel and what is below it.
const BELOW_LETTER: f64 = 2.0;
/// Narrower, data cannot be read: there are fewer columns.
const LEAST_DATA: f64 = 40.0;
/// The least height of data, however low a figure is asked for.
const LEAST_HEIGHT: f64 = 24.0;
/// Widths settle within some rounds, as names take no more than a share of their panel.
const MOST_ROUNDS: usize = 16;

/// What a panel shows.
pub(in crate::figure) struct Shown {
    /// The charts of its study; none of a panel that could not be made.
    pub charts: Vec<Chart>,
    /// Why there is nothing to draw, if there is not.
    pub blank: Option<String>,
    /// What its author wants otherwise.
    pub overrides: Overrides,
    /// Its title; may be empty.
    pub title: String,
    /// How many columns it covers.
    pub span: usize,
}

/// Where a panel stands: its row, and its first and its last column.
#[derive(Clone, Copy)]
struct Seat {
    row: usize,
    first: usize,
    last: usize,
}

/// How wide columns are, in points.
struct Columns {
    /// From the left edge of each to its data, and from its data to its right edge.
    insets: Vec<(f64, f64)>,
    /// The width of its data.
    data: f64,
}

/// Panels with all that decides how they stand.
pub(in crate::figure) struct Panels<'a> {
    composition: &'a Composition,
    shown: Vec<Shown>,
    kind: Type,
    legend: Legend,
    /// Which panels name no axis of values, as the one to their left does.
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
            panels.notes.push(format!("{asked} columns are too narrow for their axes: there are {left}"));
        }
        let own_height = panels.shown.iter().enumerate().filter(|(_, shown)| shown.overrides.height_mm.is_some());
        let own_height = own_height.map(|(nth, _)| {
            format!("({}) has the height of its row: that of the whole figure can be given", letter(nth))
        });
        panels.notes.extend(own_height.collect::<Vec<_>>());
        panels.share_legend();
        panels.share_values();
        panels
    }

    /// What cannot be shared as it was asked for, one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn shares(&self, what: Share) -> bool {
        self.composition.share.contains(&what)
    }

    /// Makes one legend of those of all panels that agree on it.
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
                Some(Apart::Alone) => "keeps its own legend: no other panel has an entry of it",
                Some(Apart::Contradicts) => {
                    "keeps its own legend: it and another panel give a name two looks, or a look two names"
                }
                Some(Apart::NamedBeside) => {
                    "has looks of the shared legend for what is named along its axis: choose what colours tell apart there"
                }
            };
            self.notes.push(format!("({}) {reason}", letter(nth)));
        }
        self.legend = legend;
    }

    /// Gives axes of values that show the same in the same unit the same ends. One that the panel to the left names is not named again.
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
                self.notes.push(format!("({}) shares no axis of values: no other panel shows {title}", letter(nth)));
                continue;
            }
            let ends = others().filter_map(|(other, _)| Some(ends(only_chart(&self.shown[other])?)));
            let whole = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |all, own| (all.0.min(own.0), all.1.max(own.1)));
            let is_beside = |(other, _): (usize, &Option<Axis>)| other + 1 == nth && seats[other].row == seats[nth].row;
            self.hides_values[nth] = others().any(is_beside);
            self.shown[nth].charts.iter_mut().for_each(|chart| chart.y.reach = Some(whole));
        }
    }

    /// Where panels stand, from left to right and from top to bottom.
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

    /// Finds widths with which the data of all columns is as wide, and that of panels in a column aligns.
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

    /// A panel on a page of its own, its data so much higher than usual.
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

    /// Sets the figure; the data of each row is so much higher than usual.
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

    /// Sets a row of panels, and says where it ends.
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
        // A row in which nothing is drawn says so.
        let blank = usual.iter().filter(|(_, area)| area.is_none()).map(|(drawn, _)| drawn.height).fold(0.0, f64::max);
        top + head + (above + height + below).max(blank)
    }

    /// Sets the letter and the title of a panel, and says how high they are.
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

    /// What is said below all panels.
    fn sayings(&self) -> Vec<String> {
        let page = Page::paper(&self.composition.style);
        said_of_panels(&self.shown.iter().map(|shown| sayings_of(&shown.charts, &page)).collect::<Vec<_>>())
    }
}

/// What is said of panels, each once: with their letters, where it is not said of all that say something.
pub(in crate::figure) fn said_of_panels(own: &[Vec<String>]) -> Vec<String> {
    let mut texts: Vec<&String> = Vec::new();
    for text in own.iter().flatten() {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let saying = own.iter().filter(|texts| !texts.is_empty()).count();
    let said = texts.into_iter().map(|text| {
        let panels: Vec<usize> = (0..own.len()).filter(|nth| own[*nth].contains(text)).collect();
        if panels.len() == saying {
            return text.clone();
        }
        let letters: Vec<String> = panels.into_iter().map(|nth| format!("({})", letter(nth))).collect();
        format!("{} {text}", letters.join(", "))
    });
    said.collect()
}

impl Columns {
    /// The width of the columns that a panel covers.
    fn width(&self, seat: Seat) -> f64 {
        let covered = &self.insets[seat.first..=seat.last];
        let count = covered.len() as f64;
        covered.iter().map(|(left, right)| left + right).sum::<f64>() + count * self.data + (count - 1.0) * BETWEEN.0
    }

    /// Where a panel begins, and how wide it is.
    fn place(&self, seat: Seat) -> (f64, f64) {
        let before = &self.insets[..seat.first];
        let count = before.len() as f64;
        let left = before.iter().map(|(left, right)| left + right).sum::<f64>() + count * (self.data + BETWEEN.0);
        (left, self.width(seat))
    }
}

/// What the data of a page covers; none where nothing is drawn.
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

/// Gives each look a sign of its own in all panels: where colours do not tell them apart, signs must.
fn tell_apart(shown: &mut [Shown]) {
    let counts: Vec<usize> = shown.iter().map(charts_of).collect();
    let charts: Vec<Chart> = shown.iter_mut().flat_map(|shown| std::mem::take(&mut shown.charts)).collect();
    let mut charts = told_apart(&charts).into_iter();
    for (shown, count) in shown.iter_mut().zip(counts) {
        shown.charts = charts.by_ref().take(count).collect();
    }
}

/// The chart of a panel that draws one.
fn only_chart(shown: &Shown) -> Option<&Chart> {
    let mut drawn = shown.charts.iter().filter(|chart| !chart.is_empty());
    drawn.next().filter(|_| drawn.next().is_none())
}

/// What an axis of values must have in common with another one to be shared; none of a panel that has no such axis.
fn shared_axis(shown: &Shown) -> Option<Axis> {
    use Geometry::{Bars, Lines, Profile, Scaling, Scatter, Stacked, Strip};
    let chart = only_chart(shown)?;
    let has_values = matches!(chart.geometry, Bars | Lines | Profile | Scaling | Scatter | Stacked | Strip);
    // A logarithmic axis for areas ends at a decade.
    let is_of_areas = chart.y.scale == Scale::Log && begins_at_zero(chart, &chart.y);
    let categories = is_of_areas.then(|| "areas".to_owned()).into_iter().collect();
    has_values.then(|| Axis { categories, ..chart.y.clone() })
}

/// From where to where the values of a chart reach on an axis that others share.
fn ends(chart: &Chart) -> (f64, f64) {
    let (low, high) = extent(chart);
    let is_from_zero = chart.y.scale == Scale::Linear && begins_at_zero(chart, &chart.y);
    (if is_from_zero { low.min(0.0) } else { low }, high)
}
