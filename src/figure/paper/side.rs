//! The numbers with ticks, or the names, along an edge of the data: how much room they need, and how they are drawn.

use super::axis::Ruler;
use super::letter::{Anchor, Line, Typist};
use super::look::{FAINT, INK};
use super::path::Area;
use super::scene::{Part, Scene, Stroke};
use crate::figure::chart::Scale;
use crate::figure::overrides::AxisName;

/// The length of a tick.
const TICK: f64 = 2.6;
/// Gap between a tick and its label, and between labels and the title.
const GAP: f64 = 2.4;
/// Width of the lines of axes.
pub(super) const AXIS: f64 = 0.6;
/// The length in points by which a vertical title may be longer than its axis.
const TITLE_OUT: f64 = 6.0;
/// Maximum number of lines of a name below its place, if it can be broken.
const LINES: usize = 3;
/// Maximum length of vertical names, in points.
const UPWARDS: f64 = 104.0;
/// The least distance of vertical names, as a share of their leading.
const TIGHT: f64 = 0.75;
/// The separator between the parts of a name.
const SEPARATOR: &str = " · ";

/// The numbers or names along an edge.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Side {
    Numbers(Ruler),
    /// Names of places, and the title.
    Names(Vec<String>, Line),
}

/// The index of a chart, and which of its axes an edge shows.
pub(super) type Axis = (usize, AxisName);

/// Type sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub typist: Typist,
    /// Size of titles and the legend.
    pub size: f64,
    /// Size of the labels of ticks.
    pub small: f64,
}

impl Type {
    pub fn new(typist: Typist, size: f64) -> Self {
        Self { typist, size, small: (size - 1.0).max(6.0).min(size) }
    }

    fn title_height(self) -> f64 {
        GAP + self.typist.leading(self.size)
    }
}

/// Whether values run from left to right and names from top to bottom.
pub(super) fn runs_across(left: &Side, bottom: &Side) -> bool {
    matches!((left, bottom), (Side::Names(..), Side::Numbers(_)))
}

impl Side {
    fn title(&self) -> &Line {
        match self {
            Self::Numbers(ruler) => &ruler.title,
            Self::Names(_, title) => title,
        }
    }

    /// The position of a value, or of the middle of a place: 0 at the lower or left end, 1 at the other end.
    pub fn place(&self, value: f64) -> f64 {
        match self {
            Self::Numbers(ruler) => ruler.place(value),
            Self::Names(names, _) => ((value + 0.5) / names.len().max(1) as f64).clamp(0.0, 1.0),
        }
    }

    /// A value in the unit of the tick labels.
    pub fn shown(&self, value: f64) -> f64 {
        match self {
            Self::Numbers(ruler) => value * ruler.factor,
            Self::Names(..) => value,
        }
    }

    /// The position of a value in the unit of the tick labels, or of the middle of a place.
    pub fn shown_place(&self, value: f64) -> f64 {
        match self {
            Self::Numbers(ruler) => ruler.place(value / ruler.factor),
            Self::Names(..) => self.place(value),
        }
    }

    /// Whether a value of the chart is within the axis.
    pub fn shows(&self, value: f64) -> bool {
        match self {
            Self::Numbers(ruler) => ruler.shows(value),
            Self::Names(..) => true,
        }
    }

    /// The room that it needs to the left of the data.
    pub fn left_room(&self, kind: Type, most: f64) -> f64 {
        let title = if self.title().is_empty() { 0.0 } else { kind.title_height() };
        let labels = match self {
            Self::Numbers(ruler) => {
                let labels = ruler.ticks.iter().filter_map(|tick| tick.label.as_ref());
                labels.map(|label| kind.typist.width(label, kind.small)).fold(0.0, f64::max) + TICK
            }
            Self::Names(names, _) => {
                let widths = names.iter().map(|name| kind.typist.width(&Line::plain(name), kind.small));
                widths.fold(0.0, f64::max).min((most - title).max(20.0)) + GAP
            }
        };
        labels + GAP + title
    }

    /// Draws it along the left edge, as this axis of this chart. `left` is the left end of its room.
    pub fn draw_left(&self, scene: &mut Scene, kind: Type, area: &Area, left: f64, (chart, axis): Axis) {
        let typist = kind.typist;
        let lower = typist.capital(kind.small) / 2.0;
        match self {
            Self::Numbers(ruler) => {
                scene.part(Part::Ticks(chart, axis), |scene| {
                    for tick in &ruler.ticks {
                        let y = area.bottom() - ruler.tick_place(tick) * area.height;
                        let length = if tick.label.is_some() { TICK } else { 0.6 * TICK };
                        scene.line(&[(area.left - length, y), (area.left, y)], Stroke::new(INK, AXIS));
                        if let Some(label) = &tick.label {
                            typist.set(scene, label, kind.small, (area.left - TICK - GAP, y + lower), Anchor::End);
                        }
                    }
                });
                scene.line(&[(area.left, area.top), (area.left, area.bottom())], Stroke::new(INK, AXIS));
            }
            Self::Names(names, title) => {
                let title = if title.is_empty() { 0.0 } else { kind.title_height() };
                let room = area.left - left - title - 2.0 * GAP;
                let row = area.height / names.len().max(1) as f64;
                for (index, lines) in beside(names, kind, room.max(8.0) + 0.1, row).into_iter().enumerate() {
                    // The first name is at the top.
                    let middle = area.top + self.place(index as f64) * area.height + lower;
                    let above = (lines.len() - 1) as f64 / 2.0;
                    scene.part(Part::Place(chart, axis, index), |scene| {
                        for (nth, line) in lines.into_iter().enumerate() {
                            let y = middle + (nth as f64 - above) * typist.leading(kind.small);
                            typist.set(scene, &Line::plain(line), kind.small, (area.left - 1.5 * GAP, y), Anchor::End);
                        }
                    });
                }
            }
        }
        // A title that is longer than the axis gets smaller type, but not too small for print, and may be a little longer than the axis.
        let long = self.title_length(kind) / (area.height + TITLE_OUT);
        let size = if long > 1.0 { (kind.size / long).max(6.0).min(kind.size) } else { kind.size };
        let title = if typist.width(self.title(), size) > area.height + 4.0 * TITLE_OUT {
            shortened(self.title(), typist, size, area.height + 2.0 * TITLE_OUT)
        } else {
            self.title().clone()
        };
        // Raised powers are higher than letters.
        let x = left + typist.ascent(kind.size).max(typist.reach(&title, size));
        let half = typist.width(&title, size) / 2.0;
        let middle = (area.top + area.height / 2.0).max(half + 1.0);
        scene.part(Part::AxisName(chart, axis), |scene| {
            typist.set_upwards(scene, &title, size, (x, middle), Anchor::Middle);
        });
    }

    /// The length of the title.
    pub fn title_length(&self, kind: Type) -> f64 {
        kind.typist.width(self.title(), kind.size)
    }

    /// Draws lines across the data at ticks with a label.
    pub fn draw_grid(&self, scene: &mut Scene, area: &Area, upright: bool) {
        let Self::Numbers(ruler) = self else { return };
        for tick in ruler.ticks.iter().filter(|tick| tick.label.is_some()) {
            let place = ruler.tick_place(tick);
            let at_axis = place < 1e-6 && ruler.scale == Scale::Linear;
            if !at_axis {
                let (x, y) = (area.left + place * area.width, area.bottom() - place * area.height);
                let ends =
                    if upright { [(x, area.top), (x, area.bottom())] } else { [(area.left, y), (area.right(), y)] };
                scene.line(&ends, Stroke::new(FAINT, 0.4));
            }
        }
    }

    /// The room that it needs below the data.
    pub fn bottom_room(&self, kind: Type, width: f64, titled: bool) -> f64 {
        let title = if self.title().is_empty() || !titled { 0.0 } else { kind.title_height() };
        let labels = match self {
            Self::Numbers(_) => TICK + GAP + kind.typist.leading(kind.small),
            Self::Names(names, _) => GAP + Fitted::new(names, kind, width).height(kind),
        };
        labels + title
    }

    /// How far the last tick's label extends beyond the right end of the axis.
    pub fn overhang(&self, kind: Type) -> f64 {
        let Self::Numbers(ruler) = self else { return 0.0 };
        let last = ruler.ticks.last().filter(|tick| ruler.tick_place(tick) > 0.99);
        last.and_then(|tick| tick.label.as_ref()).map_or(0.0, |label| kind.typist.width(label, kind.small) / 2.0)
    }

    /// Draws this side along the lower edge of `area`. `axis` is its axis in `chart`. Its title may be `room` points wide; if
    /// `room` is 0, it has no title.
    pub fn draw_bottom(&self, scene: &mut Scene, kind: Type, area: &Area, room: f64, (chart, axis): Axis) {
        let typist = kind.typist;
        let bottom = area.bottom();
        let below = match self {
            Self::Numbers(ruler) => {
                let y = bottom + TICK + GAP + typist.ascent(kind.small);
                scene.part(Part::Ticks(chart, axis), |scene| {
                    let mut free = f64::MIN;
                    for tick in &ruler.ticks {
                        let x = area.left + ruler.tick_place(tick) * area.width;
                        let length = if tick.label.is_some() { TICK } else { 0.6 * TICK };
                        scene.line(&[(x, bottom), (x, bottom + length)], Stroke::new(INK, AXIS));
                        // A label is left out if it would overlap the previous one or the edge of the page.
                        if let Some(label) = &tick.label {
                            let half = typist.width(label, kind.small) / 2.0;
                            if x - half >= free && x - half >= 0.0 && x + half <= scene.width {
                                typist.set(scene, label, kind.small, (x, y), Anchor::Middle);
                                free = x + half + 3.0;
                            }
                        }
                    }
                });
                scene.line(&[(area.left, bottom), (area.right(), bottom)], Stroke::new(INK, AXIS));
                TICK + GAP + typist.leading(kind.small)
            }
            Self::Names(names, _) => {
                let fitted = Fitted::new(names, kind, area.width);
                fitted.draw(scene, kind, area, (chart, axis));
                GAP + fitted.height(kind)
            }
        };
        if room <= 0.0 {
            return;
        }
        let mut title = self.title().clone();
        let size = (kind.size * room / self.title_length(kind).max(room)).max(6.0).min(kind.size);
        if typist.width(&title, size) > room + 0.1 {
            title = shortened(&title, typist, size, room);
        }
        let half = typist.width(&title, size) / 2.0;
        let most = (scene.width - half).max(half);
        let x = (area.left + area.width / 2.0).clamp(half.min(most), most);
        let at = (x, bottom + below + GAP + typist.ascent(kind.size));
        scene.part(Part::AxisName(chart, axis), |scene| typist.set(scene, &title, size, at, Anchor::Middle));
    }
}

/// A title that is shortened to a width. It keeps its unit, without which its numbers mean nothing.
fn shortened(title: &Line, typist: Typist, size: f64, width: f64) -> Line {
    let text: String = title.0.iter().map(|span| span.text.as_str()).collect();
    let (name, unit) = text.split_at(text.rfind(" (").unwrap_or(text.len()));
    let left = width - typist.width(&Line::plain(unit), size);
    // Of a very short title, not even the unit would be left.
    Line::plain(if left < 3.0 * size { typist.cut(&text, size, width) } else { typist.cut(name, size, left) + unit })
}

/// Names next to rows: on two lines if a name is wider than its room and its row is high enough for two lines, otherwise shortened.
fn beside(names: &[String], kind: Type, width: f64, row: f64) -> Vec<Vec<String>> {
    let wide = |text: &str| kind.typist.width(&Line::plain(text), kind.small);
    let most = if row >= 2.0 * kind.typist.leading(kind.small) { 2 } else { 1 };
    let broken = |name: &String| {
        let lines = wrapped(name, width, &wide);
        (lines.len() <= most && lines.iter().all(|line| wide(line) <= width)).then_some(lines)
    };
    let cut = kind.typist.cut_apart(names, kind.small, width);
    names.iter().zip(cut).map(|(name, cut)| broken(name).unwrap_or_else(|| vec![cut])).collect()
}

/// How names below their places are drawn: on one line, on several lines, or vertically.
enum Fitted {
    Lines(Vec<Vec<String>>),
    Upwards(Vec<Vec<String>>),
}

impl Fitted {
    fn new(names: &[String], kind: Type, width: f64) -> Self {
        let typist = kind.typist;
        let slot = width / names.len().max(1) as f64 - 3.0;
        let wide = |text: &str| typist.width(&Line::plain(text), kind.small);
        let broken: Vec<Vec<String>> = names.iter().map(|name| broken(name, slot, &wide)).collect();
        let fits =
            |most: usize| broken.iter().all(|lines| lines.len() <= most && lines.iter().all(|line| wide(line) <= slot));
        // Many lines are better than shortened names, which may look alike.
        if fits(LINES) || fits(2 * LINES) && names.iter().any(|name| wide(name) > UPWARDS) {
            return Self::Lines(broken);
        }
        // The rest of a name is cut off in the last line.
        let most = ((slot / typist.leading(kind.small)) as usize).clamp(1, LINES);
        let upwards = names.iter().map(|name| {
            let mut lines = self::broken(name, UPWARDS, &wide);
            let rest = lines.split_off(lines.len().min(most) - 1).join(SEPARATOR);
            lines.push(typist.cut(&rest, kind.small, UPWARDS));
            lines
        });
        let upwards: Vec<Vec<String>> = upwards.collect();
        let is_alike =
            |place: usize| (0..place).any(|other| upwards[other] == upwards[place] && names[other] != names[place]);
        if (0..names.len()).any(is_alike) {
            let cut = typist.cut_apart(names, kind.small, UPWARDS);
            return Self::Upwards(cut.into_iter().map(|name| vec![name]).collect());
        }
        Self::Upwards(upwards)
    }

    fn height(&self, kind: Type) -> f64 {
        match self {
            Self::Lines(names) => {
                names.iter().map(Vec::len).max().unwrap_or(1).max(1) as f64 * kind.typist.leading(kind.small)
            }
            Self::Upwards(names) => {
                let lines = names.iter().flatten();
                lines.map(|line| kind.typist.width(&Line::plain(line), kind.small)).fold(0.0, f64::max) + GAP
            }
        }
    }

    fn draw(&self, scene: &mut Scene, kind: Type, area: &Area, (chart, axis): Axis) {
        let typist = kind.typist;
        let (Self::Lines(names) | Self::Upwards(names)) = self;
        let count = names.len();
        let x = |index: usize| area.left + (index as f64 + 0.5) / count.max(1) as f64 * area.width;
        match self {
            Self::Lines(names) => {
                for (index, lines) in names.iter().enumerate() {
                    scene.part(Part::Place(chart, axis, index), |scene| {
                        for (line, text) in lines.iter().enumerate() {
                            let above = line as f64 * typist.leading(kind.small);
                            let y = area.bottom() + GAP + typist.ascent(kind.small) + above;
                            typist.set(scene, &Line::plain(text), kind.small, (x(index), y), Anchor::Middle);
                        }
                    });
                }
            }
            Self::Upwards(names) => {
                // Names that would cover their neighbours are left out.
                let needed = TIGHT * typist.leading(kind.small) * count as f64;
                let every = (needed / area.width).ceil().max(1.0) as usize;
                for (index, lines) in names.iter().enumerate().step_by(every) {
                    let middle = x(index) + typist.capital(kind.small) / 2.0;
                    scene.part(Part::Place(chart, axis, index), |scene| {
                        for (line, text) in lines.iter().enumerate() {
                            let aside = (line as f64 - (lines.len() - 1) as f64 / 2.0) * typist.leading(kind.small);
                            let at = (middle + aside, area.bottom() + GAP);
                            typist.set_upwards(scene, &Line::plain(text), kind.small, at, Anchor::End);
                        }
                    });
                }
            }
        }
    }
}

/// A name on several lines, broken between its parts first, then between words.
fn broken(name: &str, width: f64, wide: &dyn Fn(&str) -> f64) -> Vec<String> {
    if wide(name) <= width {
        return vec![name.to_owned()];
    }
    name.split(SEPARATOR).flat_map(|part| wrapped(part, width, wide)).collect()
}

/// Text on lines of at most this width; only single words may be wider.
pub(super) fn wrapped(text: &str, width: f64, wide: &dyn Fn(&str) -> f64) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if !line.is_empty() && wide(&longer) > width {
            lines.push(std::mem::replace(&mut line, word.to_owned()));
        } else {
            line = longer;
        }
    }
    lines.push(line);
    lines
}
