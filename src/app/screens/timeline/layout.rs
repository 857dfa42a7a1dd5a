//! The layout of the rows: their positions, which of them are visible, and their colours.

use eframe::egui::{Color32, Visuals};
use strum::IntoEnumIterator as _;

use super::{MOST_ITEMS, Shown, TimelineScreen};
use crate::app::theme::{palette, standing_out};
use crate::figure::{COLOURS, decimals, round_up, significant};
use crate::trace::{Class, Item, Steps, TimelineRow};

/// Height of a shelf, and of the lines with the names of runs and ranks.
pub const SHELF: f32 = 15.0;
pub const RUN: f32 = 66.0;
pub const GROUP: f32 = 24.0;
/// Height of a row of samples.
pub const COUNTER: f32 = 28.0;
/// Room below a row.
pub const GAP: f32 = 3.0;

/// A line of the timeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Line {
    /// The title of a run.
    Run(usize),
    /// The name of the rank that this row belongs to.
    Group(usize, usize),
    /// A row of a run.
    Row(usize, usize),
    /// Samples of a run.
    Counter(usize, usize),
}

/// Height of a row: a row with steps needs as much as one with samples.
pub fn height(row: &TimelineRow) -> f32 {
    if row.live().is_some() { COUNTER } else { row.shelves.len() as f32 * SHELF }
}

/// The position of an item's shelf, relative to the row's top.
pub fn shelf(row: &TimelineRow, shelf: u8) -> std::ops::Range<f32> {
    if row.live().is_some() {
        return 0.0..COUNTER;
    }
    let top = f32::from(shelf) * SHELF;
    top..top + SHELF
}

/// All lines of some runs with their tops, and the total height.
pub fn lines(state: &TimelineScreen, runs: std::ops::Range<usize>) -> (Vec<(Line, f32)>, f32) {
    let (mut lines, mut at) = (Vec::new(), 0.0);
    let mut add = |line: Line, height: f32| {
        lines.push((line, at));
        at += height;
    };
    for (place, run) in state.runs.iter().enumerate().skip(runs.start).take(runs.len()) {
        add(Line::Run(place), RUN);
        if state.is_run_folded(run) {
            continue;
        }
        let mut group = "";
        for (row, timeline_row) in run.timeline.rows().iter().enumerate() {
            if timeline_row.group != group {
                add(Line::Group(place, row), GROUP);
                group = &timeline_row.group;
            }
            if state.is_group_folded(run, group) {
                continue;
            }
            add(Line::Row(place, row), height(timeline_row) + GAP);
        }
        for counter in 0..run.counters.len() {
            add(Line::Counter(place, counter), COUNTER + GAP);
        }
    }
    (lines, at)
}

/// The bytes that fill a row of memory: the same for all rows of this name, so that their heights can be compared.
pub fn full_memory(state: &TimelineScreen, name: &str) -> f64 {
    let rows = state.runs.iter().flat_map(|run| run.timeline.rows()).filter(|row| row.name == name);
    rows.filter_map(TimelineRow::live).map(Steps::most).fold(0.0, f64::max)
}

/// Single events of a row that are in memory.
pub struct Detail {
    /// The span that they cover.
    pub span: (i64, i64),
    /// Events of each shelf by start, and the length of the longest one.
    shelves: Vec<(Vec<Item>, i64)>,
}

impl Detail {
    /// Events in order of start.
    pub fn new(span: (i64, i64), items: Vec<Item>) -> Self {
        let mut shelves: Vec<(Vec<Item>, i64)> = Vec::new();
        for item in items {
            let shelf = usize::from(item.shelf);
            if shelves.len() <= shelf {
                shelves.resize_with(shelf + 1, Default::default);
            }
            let (shelf_items, longest) = &mut shelves[shelf];
            shelf_items.push(item);
            *longest = (*longest).max(item.span.1.saturating_sub(item.span.0));
        }
        Self { span, shelves }
    }

    /// The events of a shelf that touch a span. Events far outside of it are skipped quickly.
    fn within(&self, shelf: usize, (from, to): (i64, i64)) -> impl Iterator<Item = &Item> {
        let (items, longest) = self.shelves.get(shelf).map_or((&[][..], 0), |(items, longest)| (&items[..], *longest));
        let first = items.partition_point(|item| item.span.0 < from.saturating_sub(longest));
        items[first..].iter().take_while(move |item| item.span.0 <= to).filter(move |item| item.span.1 >= from)
    }
}

/// Passes on the items of a row in a span of its run's clock: single events if they are in memory, otherwise tiles.
pub fn each_item(run: &Shown, row: usize, span: (i64, i64), mut each: impl FnMut(&Item)) {
    let Some(timeline_row) = run.timeline.rows().get(row) else { return };
    let detail = run.details.get(&row).filter(|detail| detail.span.0 <= span.0 && span.1 <= detail.span.1);
    for shelf in 0..timeline_row.shelves.len() {
        let (tiles, is_fine) = run.timeline.drawn(row, shelf, span, MOST_ITEMS);
        match detail.filter(|_| is_fine) {
            Some(detail) => detail.within(shelf, span).for_each(&mut each),
            None => tiles.for_each(|item| each(&item)),
        }
    }
}

/// The items that [`each_item`] passes on.
pub fn items(run: &Shown, row: usize, span: (i64, i64)) -> Vec<Item> {
    let mut items = Vec::new();
    each_item(run, row, span, |item| items.push(*item));
    items
}

/// The colour of attention: the palette's eighth colour is black, which a dark window would hide.
const ATTENTION: Color32 = Color32::from_rgb(0x88, 0x6f, 0xe8);

/// The colour of a class, which stands out from the ground of its row.
pub fn colour(class: Class, visuals: &Visuals) -> Color32 {
    let colour = |place: usize| Color32::from_rgb(COLOURS[place][0], COLOURS[place][1], COLOURS[place][2]);
    let paler = |share: f32| visuals.extreme_bg_color.lerp_to_gamma(palette(visuals).accent, share);
    let colour = match class {
        Class::Convolution => colour(4),
        Class::Matrix => colour(1),
        Class::Attention => ATTENTION,
        Class::Normalisation => colour(6),
        Class::Elementwise => colour(2),
        Class::Optimizer => colour(3),
        Class::Copy => colour(0),
        Class::Communication => colour(5),
        Class::Load => visuals.text_color(),
        Class::Other | Class::Range => Color32::from_gray(if visuals.dark_mode { 0x78 } else { 0xa8 }),
        Class::Call => paler(0.75),
        Class::Memory => paler(0.55),
        Class::Wait => Color32::from_gray(if visuals.dark_mode { 0x9a } else { 0x70 }),
    };
    standing_out(colour, visuals)
}

/// The colours of all classes, by number.
pub fn colours(visuals: &Visuals) -> Vec<Color32> {
    Class::iter().map(|class| colour(class, visuals)).collect()
}

/// Black or white, whichever is legible on a colour.
pub fn text_on(colour: Color32) -> Color32 {
    let [red, green, blue, _] = colour.to_array().map(f32::from);
    if 0.299 * red + 0.587 * green + 0.114 * blue > 140.0 { Color32::BLACK } else { Color32::WHITE }
}

/// A time as text with its unit, such as `1.25 ms`.
pub fn time_text(ns: i64) -> String {
    let size = ns.unsigned_abs() as f64;
    let (value, unit) = match size {
        1e9.. => (size / 1e9, "s"),
        1e6.. => (size / 1e6, "ms"),
        1e3.. => (size / 1e3, "µs"),
        _ => (size, "ns"),
    };
    let sign = if ns < 0 { "−" } else { "" };
    format!("{sign}{} {unit}", significant(value))
}

/// The labelled times on the axis: the distance between two, and the first one at or after the start of the view.
pub fn ticks(view: (i64, i64), most: usize) -> (i64, i64) {
    let least = ((view.1 - view.0) / most.max(1) as i64).max(1);
    let step = round_up(least as f64) as i64;
    (step, view.0.div_euclid(step) * step + if view.0.rem_euclid(step) == 0 { 0 } else { step })
}

/// A tick's label, with the number of digits that the distance of ticks needs. `most` is the greatest time of the axis: its unit is such that
/// no label has more than four digits before the point, if there is one.
pub fn tick_text(at: i64, step: i64, most: i64) -> String {
    const UNITS: [(i64, &str); 4] = [(1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s")];
    let of_step = UNITS.iter().rposition(|(unit_ns, _)| step >= unit_ns / 10).unwrap_or(0);
    let of_most = UNITS.iter().position(|(unit_ns, _)| most / unit_ns < 10_000).unwrap_or(UNITS.len() - 1);
    let (unit_ns, unit) = UNITS[of_step.max(of_most)];
    let digits = decimals(step as f64 / unit_ns as f64);
    format!("{:.digits$} {unit}", at as f64 / unit_ns as f64).replace('-', "−")
}

#[cfg(test)]
mod tests {
    use eframe::egui::{Context, Theme};

    use super::*;
    use crate::app::theme::{LINE_CONTRAST, contrast, grounds, install};

    #[test]
    fn events_of_every_class_stand_out_from_the_ground_in_both_themes() {
        let context = Context::default();
        install(&context);
        for theme in [Theme::Light, Theme::Dark] {
            let visuals = context.style_of(theme).visuals.clone();
            for class in Class::iter() {
                let colour = colour(class, &visuals);
                let least = grounds(&visuals).map(|ground| contrast(colour, ground)).into_iter().fold(21.0, f32::min);
                assert!(least >= LINE_CONTRAST, "{class:?} in the {theme:?} theme: {least}");
            }
        }
    }

    #[test]
    fn ticks_are_round_and_their_labels_differ() {
        assert_eq!(ticks((0, 1_000_000_000), 10), (100_000_000, 0));
        assert_eq!(ticks((-5, 1_995), 8), (500, 0));
        let (step, first) = ticks((1_000_003, 1_000_403), 8);
        assert_eq!((step, first), (50, 1_000_050));
        assert_ne!(tick_text(first, step, first), tick_text(first + step, step, first));
        assert_eq!(tick_text(1_500_000_000, 100_000_000, 2_000_000_000), "1.5 s");
        assert_eq!(tick_text(-200_000, 100_000, 1_000_000), "−0.2 ms");
    }

    #[test]
    fn labels_of_a_short_view_far_from_zero_have_a_unit_that_fits() {
        assert_eq!(tick_text(7_449_450_000, 50_000, 7_449_700_000), "7449.45 ms");
        assert_eq!(tick_text(7_449_450_000, 5_000, 7_449_470_000), "7449.450 ms");
        assert_eq!(tick_text(17_449_450_000, 5_000, 17_449_470_000), "17.449450 s");
    }

    #[test]
    fn events_in_memory_that_touch_a_span_are_found_however_long_others_are() {
        let item = |start: i64, end: i64, shelf: u8| Item {
            span: (start, end),
            busy_ns: 0,
            events: 1,
            label: 0,
            shelf,
            bytes: None,
            correlation: 0,
        };
        let items: Vec<Item> = (0..100)
            .flat_map(|n| [item(10 * n, 10 * n + if n == 3 { 500 } else { 5 }, 0), item(10 * n, 10 * n + 1, 2)])
            .collect();
        let detail = Detail::new((0, 1000), items.clone());
        for span in [(0, 0), (31, 32), (400, 452), (995, 2000)] {
            for shelf in [0, 1, 2, 9] {
                let touches =
                    |item: &&Item| usize::from(item.shelf) == shelf && item.span.0 <= span.1 && item.span.1 >= span.0;
                let expected: Vec<&Item> = items.iter().filter(touches).collect();
                assert_eq!(detail.within(shelf, span).collect::<Vec<_>>(), expected, "{span:?} {shelf}");
            }
        }
    }

    #[test]
    fn times_have_their_unit() {
        assert_eq!([1_250_000, -3_000, 12].map(time_text), ["1.25 ms", "−3.00 µs", "12.0 ns"]);
    }
}
