//! Places for texts that cover neither lines nor other texts.

use super::field::{Field, sound};
use super::path::Area;
use crate::figure::chart::{Panel, Point};

/// A drawn line: the position of each point, and the upper and the lower end of its interval.
type Ends = Vec<[f64; 3]>;

/// The room between a text and a line, in points.
const ROOM: f64 = 2.0;
/// The steps between the places that are tried, along the lines and across them, in points.
const STEPS: (f64, f64) = (4.0, 2.0);
/// The maximum number of steps that are tried in one direction.
const MOST_STEPS: f64 = 300.0;

/// The place of a text of this width and height that is nearest to `near` within the data and covers neither a panel's lines nor the areas
/// `taken`; `None` if there is no such place.
pub(super) fn clear_place(
    field: &Field,
    panel: &Panel,
    size: (f64, f64),
    near: (f64, f64),
    taken: &[Area],
) -> Option<Area> {
    nearest(size, near, &field.area, &lines(field, panel), taken)
}

fn lines(field: &Field, panel: &Panel) -> Vec<Ends> {
    let ends = |point: &Point| {
        let [a, b] = point.value.interval.map_or([point.value.median; 2], |ends| [ends.low, ends.high]);
        let (a, b) = (field.value(a), field.value(b));
        [field.x(point.x), a.min(b), a.max(b)]
    };
    panel.series.iter().map(|series| sound(series).map(ends).collect()).collect()
}

fn nearest(
    (width, height): (f64, f64),
    near: (f64, f64),
    within: &Area,
    lines: &[Ends],
    taken: &[Area],
) -> Option<Area> {
    let steps = |reach: f64, step: f64| {
        let count = (reach / step).ceil().min(MOST_STEPS) as i32;
        (-count..=count).map(move |nth| f64::from(nth) * step)
    };
    let mut places: Vec<(f64, Area)> = steps(1.5 * width, STEPS.0)
        .flat_map(|right| steps(within.height, STEPS.1).map(move |down| (right, down)))
        .map(|(right, down)| {
            let (left, top) = (near.0 + right - width / 2.0, near.1 + down - height / 2.0);
            (right.abs() + down.abs(), Area { left, top, width, height })
        })
        .filter(|(_, area)| area.left >= within.left && area.right() <= within.right())
        .filter(|(_, area)| area.top >= within.top && area.bottom() <= within.bottom())
        .collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    let is_clear = |area: &Area| {
        !taken.iter().any(|other| other.overlaps(area)) && !lines.iter().any(|line| is_covered(line, area))
    };
    places.into_iter().map(|(_, area)| area).find(is_clear)
}

/// Whether an area covers a part of a line or of its intervals, or comes too close to it.
fn is_covered(line: &[[f64; 3]], area: &Area) -> bool {
    let (left, right) = (area.left - ROOM, area.right() + ROOM);
    let (top, bottom) = (area.top - ROOM, area.bottom() + ROOM);
    line.windows(2).any(|pair| {
        let (from, to) = (pair[0], pair[1]);
        let (first, last) = (left.max(from[0].min(to[0])), right.min(from[0].max(to[0])));
        let at = |x: f64, nth: usize| {
            let share = if to[0] == from[0] { 0.0 } else { (x - from[0]) / (to[0] - from[0]) };
            from[nth] + share * (to[nth] - from[nth])
        };
        let (upper, lower) = (at(first, 1).min(at(last, 1)), at(first, 2).max(at(last, 2)));
        first <= last && upper < bottom && lower > top
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A step from 80 to 20 points below the top, without intervals.
    fn step() -> Ends {
        [(0.0, 80.0), (90.0, 80.0), (110.0, 20.0), (200.0, 20.0)].map(|(x, y)| [x, y, y]).to_vec()
    }

    #[test]
    fn the_text_of_a_step_is_the_nearest_one_that_covers_neither_the_step_nor_another_text() {
        let within = Area { left: 0.0, top: 0.0, width: 200.0, height: 100.0 };
        let (lines, near, size) = ([step()], (100.0, 50.0), (60.0, 8.0));
        let over_it = Area { left: 70.0, top: 46.0, width: 60.0, height: 8.0 };
        assert!(is_covered(&lines[0], &over_it));
        let first = nearest(size, near, &within, &lines, &[]).unwrap();
        assert!(!is_covered(&lines[0], &first) && first.top > 20.0 && first.bottom() < 80.0, "{first:?}");
        let second = nearest(size, near, &within, &lines, &[first]).unwrap();
        assert!(!is_covered(&lines[0], &second) && !second.overlaps(&first), "{second:?}");
    }

    #[test]
    fn without_a_clear_place_there_is_none() {
        let within = Area { left: 0.0, top: 16.0, width: 200.0, height: 8.0 };
        let level = vec![[0.0, 20.0, 20.0], [200.0, 20.0, 20.0]];
        assert_eq!(nearest((60.0, 8.0), (100.0, 20.0), &within, &[level], &[]), None);
    }
}
