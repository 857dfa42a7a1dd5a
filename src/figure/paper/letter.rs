//! Lines of text on a page: set where they are wanted, cut where they are too long, powers raised.

use super::font::Face;
use super::look::INK;
use super::scene::{Colour, Item, Scene, Text};
use crate::figure::style::Family;

/// How small raised text is, and how high its baseline lies.
const RAISED: (f64, f64) = (0.68, 0.40);

/// A part of a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    pub text: String,
    pub raised: bool,
    pub strong: bool,
}

/// A line of text in parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line(pub Vec<Span>);

impl Line {
    pub fn plain(text: impl Into<String>) -> Self {
        Self(vec![Span { text: text.into(), raised: false, strong: false }])
    }

    pub fn strong(text: impl Into<String>) -> Self {
        Self(vec![Span { text: text.into(), raised: false, strong: true }])
    }

    /// 10 to a power, with another text before and one after it.
    pub fn power(before: &str, exponent: i32, after: &str) -> Self {
        let span = |text: String, raised| Span { text, raised, strong: false };
        let spans = [
            span(format!("{before}10"), false),
            span(exponent.to_string().replace('-', "\u{2212}"), true),
            span(after.to_owned(), false),
        ];
        Self(spans.into_iter().filter(|span| !span.text.is_empty()).collect())
    }

    pub fn then(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|span| span.text.is_empty())
    }
}

/// The point of a line of text that its position gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a line is set.
#[derive(Clone, Copy, Debug, Default)]
struct Setting {
    colour: Colour,
    upwards: bool,
    in_data: bool,
    on_colour: bool,
}

/// Sets text in one family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Typist {
    pub family: Family,
}

impl Typist {
    fn parts(self, line: &Line, size: f64) -> Vec<(Face, f64, f64, String)> {
        let part = |span: &Span| {
            let face = Face::of(self.family, span.strong);
            let (scale, lift) = if span.raised { RAISED } else { (1.0, 0.0) };
            (face, size * scale, size * lift, face.settable(&span.text))
        };
        line.0.iter().map(part).collect()
    }

    /// How long a line is in points.
    pub fn width(self, line: &Line, size: f64) -> f64 {
        self.parts(line, size).iter().map(|(face, size, _, text)| face.measure(text) * size).sum()
    }

    /// From the baseline to the top of capitals.
    pub fn capital(self, size: f64) -> f64 {
        Face::of(self.family, false).capital() * size
    }

    /// What a line covers above its baseline, raised parts included.
    pub fn reach(self, line: &Line, size: f64) -> f64 {
        let tops = self.parts(line, size).into_iter().map(|(face, size, lift, _)| lift + face.ascent() * size);
        tops.fold(0.0, f64::max)
    }

    /// What letters cover above their baseline.
    pub fn ascent(self, size: f64) -> f64 {
        Face::of(self.family, false).ascent() * size
    }

    /// What a line covers below its baseline.
    pub fn descent(self, size: f64) -> f64 {
        Face::of(self.family, false).descent() * size
    }

    /// From one baseline to the next.
    pub fn leading(self, size: f64) -> f64 {
        size * 1.22
    }

    /// The text, cut to a width with an ellipsis where it is longer.
    pub fn cut(self, text: &str, size: f64, width: f64) -> String {
        let fits = |text: &str| self.width(&Line::plain(text), size) <= width;
        if fits(text) {
            return text.to_owned();
        }
        let mut kept: Vec<char> = text.chars().collect();
        loop {
            kept.pop();
            let cut: String = kept.iter().collect::<String>().trim_end().to_owned() + "…";
            if kept.is_empty() || fits(&cut) {
                return cut;
            }
        }
    }

    /// Sets a line; `at` is the baseline at its anchor.
    pub fn set(self, scene: &mut Scene, line: &Line, size: f64, at: (f64, f64), anchor: Anchor) {
        self.set_as(scene, line, size, at, anchor, Setting { colour: INK, ..Setting::default() });
    }

    /// The same upwards: the anchor is along the line.
    pub fn set_upwards(self, scene: &mut Scene, line: &Line, size: f64, at: (f64, f64), anchor: Anchor) {
        self.set_as(scene, line, size, at, anchor, Setting { colour: INK, upwards: true, ..Setting::default() });
    }

    /// The same in a colour, as part of the data.
    pub fn set_in_data(
        self,
        scene: &mut Scene,
        line: &Line,
        size: f64,
        at: (f64, f64),
        (anchor, colour): (Anchor, Colour),
    ) {
        self.set_as(scene, line, size, at, anchor, Setting { colour, in_data: true, ..Setting::default() });
    }

    /// The same in the middle of a coloured area.
    pub fn set_on_colour(self, scene: &mut Scene, line: &Line, size: f64, at: (f64, f64), colour: Colour) {
        let setting = Setting { colour, in_data: true, on_colour: true, ..Setting::default() };
        self.set_as(scene, line, size, at, Anchor::Middle, setting);
    }

    fn set_as(self, scene: &mut Scene, line: &Line, size: f64, (x, y): (f64, f64), anchor: Anchor, setting: Setting) {
        let Setting { colour, upwards, in_data, on_colour } = setting;
        let mut along = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -self.width(line, size) / 2.0,
            Anchor::End => -self.width(line, size),
        };
        for (face, size, lift, text) in self.parts(line, size) {
            let glyphs = face.set(&text);
            let (x, y) = if upwards { (x - lift, y - along) } else { (x + along, y - lift) };
            along += glyphs.iter().map(|glyph| glyph.advance).sum::<f64>() * size;
            if !text.trim().is_empty() {
                scene.items.push(Item::Text(Text {
                    x,
                    y,
                    upwards,
                    text,
                    face,
                    size,
                    colour,
                    glyphs,
                    in_data,
                    on_colour,
                }));
            }
        }
    }
}
