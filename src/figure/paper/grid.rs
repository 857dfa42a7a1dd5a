//! The grid of panels on a page: how many panels are next to each other, and how wide and high their data is.

use super::bars::heights_across;
use super::letter::Line;
use super::page::{Inset, MARGIN, Page};
use super::side::{Side, Type};
use super::spot::Spot;
use crate::figure::chart::Geometry;

/// Gaps in points between panels next to each other, and between rows of panels.
pub(super) const BETWEEN: (f64, f64) = (12.0, 10.0);
/// Minimum height of data next to an axis of numbers on a screen, in points.
const LEAST_ON_SCREEN: f64 = 80.0;
/// Minimum width of horizontal bars together with the values at their ends, in points.
const LEAST_ACROSS: f64 = 117.0;
/// Minimum height of data in points, even if the requested height of the figure is smaller.
const LEAST_HEIGHT: f64 = 24.0;

/// How much higher rows may be on a screen than on paper, since a large window should not stay empty: rows of text and marks, and bars.
const ENLARGED: f64 = 2.0;
const BARS_ENLARGED: f64 = 6.0;
/// The length of data in points with which bars may be as thick as on paper. Where it is a multiple of this, bars may be as many times
/// as thick: then they keep their proportions, about 1 to 11.
const USUAL_LENGTH: f64 = 240.0;

/// The grid of panels.
pub(super) struct Grid {
    /// Panels next to each other.
    pub columns: usize,
    /// Room to the left of each column's data, in points.
    pub rooms: Vec<f64>,
    /// Width of the data of a panel, in points.
    pub data_width: f64,
    /// Maximum room for names on the left, in points.
    pub names_room: f64,
}

impl Grid {
    /// The grid with as many columns as the page allows and the panels have room for. The columns together are `whole` points wide.
    pub fn new(spots: &[Spot], page: &Page, kind: Type, whole: f64) -> Self {
        let mut columns = page.columns.min(spots.len());
        loop {
            // Rows should have equal lengths.
            columns = spots.len().div_ceil(spots.len().div_ceil(columns));
            let grid = Self::of(spots, page, kind, columns, whole);
            let narrow = |spot: &Spot| grid.data_width - spot.right < least_width(spot);
            if columns == 1 || !spots.iter().any(narrow) {
                return grid;
            }
            columns -= 1;
        }
    }

    fn of(spots: &[Spot], page: &Page, kind: Type, columns: usize, whole: f64) -> Self {
        // On a screen, names get more room: shortened names look alike, and several panels share the same names.
        let least = if page.is_screen() { 0.3 * whole } else { 0.0 };
        let names_room = (0.42 * whole / columns as f64).max(least);
        let mut rooms = vec![0.0_f64; columns];
        for (index, spot) in spots.iter().enumerate() {
            if starts(spots, index, columns) && page.names_values(&spot.left, index % columns) {
                let room = &mut rooms[index % columns];
                *room = room.max(spot.left.left_room(kind, names_room));
            }
        }
        // Half of the last tick's label may be right of the data. A label that is too wide is left out when the axis is drawn.
        let overhang = spots.iter().map(|spot| spot.bottom.overhang(kind) - MARGIN).fold(0.0, f64::max);
        let mut last = overhang.min(0.1 * whole).max(0.9 * kind.small);
        if let Some(Inset { left, right, .. }) = page.part {
            rooms[0] = rooms[0].max(left - MARGIN);
            let beside = spots.iter().map(|spot| spot.right).fold(f64::INFINITY, f64::min);
            last = last.max(right - beside - (page.width - MARGIN - whole));
        }
        let used: f64 = rooms.iter().sum::<f64>() + BETWEEN.0 * (columns - 1) as f64 + last;
        Self { columns, rooms, data_width: ((whole - used) / columns as f64).max(24.0), names_room }
    }

    /// The width of the data of each panel in a row. A last row with fewer panels fills the width of the page, so that no part of it
    /// stays empty.
    pub fn width_of_row(&self, spots: &[Spot], first: usize, row: &[Spot]) -> f64 {
        // Horizontal bars must have the same length as bars with the same value in the rows above.
        let goes_on = |spot: &Spot| spots[..first].iter().any(|above| above.place == spot.place);
        let is_across = |spot: &Spot| spot.has_bars_across() || spot.chart.geometry == Geometry::Gantt;
        let is_compared = |spot: &Spot| is_across(spot) && goes_on(spot);
        if row.len() == self.columns || row.iter().any(is_compared) {
            return self.data_width;
        }
        let between = BETWEEN.0 * (self.columns - row.len()) as f64;
        let rooms: f64 = self.rooms[row.len()..].iter().sum();
        (self.data_width * self.columns as f64 + rooms + between) / row.len().max(1) as f64
    }

    /// How much higher a panel's rows or bars may be than on paper.
    pub fn most_enlarged(&self, spot: &Spot, page: &Page) -> f64 {
        match spot.chart.geometry {
            _ if !page.is_screen() => 1.0,
            Geometry::Bars | Geometry::Stacked | Geometry::Percent => {
                (self.data_width / USUAL_LENGTH).clamp(ENLARGED, BARS_ENLARGED)
            }
            _ => ENLARGED,
        }
    }

    /// The height of a panel's data: `more` points higher than usual, but on a screen not higher than is useful.
    pub fn data_height(&self, spot: &Spot, page: &Page, kind: Type, more: f64) -> f64 {
        let rows = |names: &[String], share: f64| {
            let least = names.len() as f64 * kind.size * share;
            (least, 2.5 * least)
        };
        let (least, most) = match (&spot.left, spot.chart.geometry) {
            (Side::Names(..), _) if spot.has_bars_across() => heights_across(spot.chart),
            (Side::Names(names, _), Geometry::Effects | Geometry::Tornado) => {
                // Names that are wider than their room continue on a second line.
                let is_wide = |name: &String| kind.typist.width(&Line::plain(name), kind.small) > self.names_room;
                rows(names, if names.iter().any(is_wide) { 2.6 } else { 1.7 })
            }
            (Side::Names(names, _), _) => rows(names, 2.1),
            (Side::Numbers(_), _) if page.is_screen() => (LEAST_ON_SCREEN, f64::INFINITY),
            (Side::Numbers(_), _) => {
                let most = if self.columns < 3 { page.heights.0 } else { page.heights.1 };
                let title = spot.left.title_length(kind);
                let height = (0.68 * self.data_width).max(title).clamp(84.0, most);
                (height, height)
            }
        };
        let usual = least.max(20.0);
        let most = if page.is_screen() { self.most_enlarged(spot, page) * most } else { f64::INFINITY };
        (usual + more).min(most).max(LEAST_HEIGHT.min(usual))
    }
}

/// Whether a panel shows its vertical axis: it is the first of its row, or the panel to its left belongs to another chart.
pub(super) fn starts(spots: &[Spot], index: usize, columns: usize) -> bool {
    index.is_multiple_of(columns) || spots[index].place != spots[index - 1].place
}

/// Whether a panel's lower axis has a title: no panel of the same chart is below it.
pub(super) fn ends(spots: &[Spot], index: usize, columns: usize) -> bool {
    spots.get(index + columns).is_none_or(|below| below.place != spots[index].place)
}

/// The width in points below which bars run together and names cannot be read.
fn least_width(spot: &Spot) -> f64 {
    let places = spot.chart.x.categories.len().max(1) as f64;
    match spot.chart.geometry {
        _ if spot.has_bars_across() => LEAST_ACROSS - spot.right,
        Geometry::Bars | Geometry::Strip => places * (3.0 + 4.0 * spot.panel.series.len() as f64).min(24.0),
        Geometry::Stacked | Geometry::Percent => places * 8.0,
        Geometry::Heat => places * 22.0,
        Geometry::Profile => (places * 18.0).max(80.0),
        Geometry::Lines
        | Geometry::Scaling
        | Geometry::Effects
        | Geometry::Tornado
        | Geometry::Scatter
        | Geometry::Gantt => 70.0,
    }
    .max(60.0)
}
