//! The arrangement of several recordings on screen: in one list that scrolls, or each in a pane of its own that shows the same times.

use std::ops::Range;

use eframe::egui::{Rect, pos2, vec2};
use strum::VariantArray;

use super::TimelineScreen;
use super::layout::lines;

/// Width of the names left of the rows.
pub const NAMES: f32 = 184.0;
/// Height of the axis.
pub const AXIS: f32 = 20.0;
/// Room at the right, for the bar that scrolls.
const BAR: f32 = 12.0;
/// Room below the last row.
const BELOW: f32 = 4.0;
/// Room between panes.
const BETWEEN: f32 = 8.0;

/// The arrangement of recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, VariantArray)]
pub enum Arrangement {
    /// All recordings are in one list: the second recording follows the last row of the first.
    #[default]
    List,
    /// The panes are below each other, each with its share of the height.
    Below,
    /// Side by side, with rows at the same height.
    Beside,
}

impl Arrangement {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "one list",
            Self::Below => "one below the other",
            Self::Beside => "side by side",
        }
    }

    /// The one that follows, from the last to the first.
    pub fn next(self) -> Self {
        let place = Self::VARIANTS.iter().position(|known| *known == self).unwrap_or_default();
        Self::VARIANTS[(place + 1) % Self::VARIANTS.len()]
    }
}

/// Times and places on screen.
#[derive(Clone, Copy)]
pub struct Scale {
    /// Left edge of the rows.
    pub left: f32,
    /// Width of the rows.
    pub width: f32,
    /// The span shown.
    pub view: (i64, i64),
}

impl Scale {
    /// The place of a time.
    pub fn x(self, at: i64) -> f32 {
        let share = at.saturating_sub(self.view.0) as f64 / (self.view.1 - self.view.0).max(1) as f64;
        self.left + (share * f64::from(self.width)).clamp(-1e5, 1e5) as f32
    }

    /// The time at a place.
    pub fn at(self, x: f32) -> i64 {
        let share = f64::from(x - self.left) / f64::from(self.width.max(1.0));
        self.view.0 + (share * (self.view.1 - self.view.0) as f64).round() as i64
    }

    /// How long a point is.
    pub fn ns_per_point(self) -> f64 {
        (self.view.1 - self.view.0) as f64 / f64::from(self.width.max(1.0))
    }
}

/// Some recordings with their axis.
pub struct Pane {
    /// The recordings, by their indexes.
    pub runs: Range<usize>,
    /// Its axis.
    pub axis: Rect,
    /// The area in which its rows are in sight, without their names.
    pub rows: Rect,
    /// Its times.
    pub scale: Scale,
}

impl Pane {
    fn new(runs: Range<usize>, view: (i64, i64), room: Rect) -> Self {
        let scale = Scale { left: room.left() + NAMES, width: (room.width() - NAMES - BAR).max(50.0), view };
        let axis = Rect::from_min_size(pos2(scale.left, room.top()), vec2(scale.width, AXIS));
        let rows = Rect::from_min_max(axis.left_bottom(), pos2(axis.right(), room.bottom()));
        Self { runs, axis, rows, scale }
    }
}

/// Panes that scroll together.
pub struct Group {
    /// The area that they cover.
    pub room: Rect,
    /// The panes, from left to right.
    pub panes: Vec<Pane>,
}

/// The height at which all rows of all panes are in sight.
pub fn full_height(state: &TimelineScreen) -> f32 {
    let count = state.runs.len();
    let rows = |runs: Range<usize>| AXIS + BELOW + lines(state, runs).1;
    let highest = || (0..count).map(|run| rows(run..run + 1)).fold(0.0, f32::max);
    match state.arrangement {
        Arrangement::Below if count > 1 => count as f32 * (highest() + BETWEEN) - BETWEEN,
        Arrangement::Beside if count > 1 => highest(),
        _ => rows(0..count),
    }
}

/// All panes in a room, from top to bottom.
pub fn groups(state: &TimelineScreen, room: Rect) -> Vec<Group> {
    let count = state.runs.len();
    let one = |runs: Range<usize>, room: Rect| Group { room, panes: vec![Pane::new(runs, state.view, room)] };
    let share = |whole: f32| ((whole + BETWEEN) / count.max(1) as f32 - BETWEEN).max(1.0);
    match state.arrangement {
        Arrangement::Below if count > 1 => {
            let size = vec2(room.width(), share(room.height()));
            let top = |run: usize| room.top() + run as f32 * (size.y + BETWEEN);
            (0..count).map(|run| one(run..run + 1, Rect::from_min_size(pos2(room.left(), top(run)), size))).collect()
        }
        Arrangement::Beside if count > 1 => {
            let size = vec2(share(room.width()), room.height());
            let left = |run: usize| room.left() + run as f32 * (size.x + BETWEEN);
            let pane = |run: usize| {
                Pane::new(run..run + 1, state.view, Rect::from_min_size(pos2(left(run), room.top()), size))
            };
            vec![Group { room, panes: (0..count).map(pane).collect() }]
        }
        _ => vec![one(0..count, room)],
    }
}
