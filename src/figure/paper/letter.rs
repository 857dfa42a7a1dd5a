//! Lines of text on a page: placed at a position, shortened if they are too long, with raised powers.

use std::collections::HashMap;

use super::font::Face;
use super::look::INK;
use super::scene::{Colour, Item, Scene, Text};
use crate::figure::style::Family;
use crate::foreign::with_ellipsis;

/// The size of raised text and the height of its baseline, as multiples of the type size.
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

    /// Ten to a power, with text before and after it.
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

/// Which point of a line of text its position refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, Default)]
struct Setting {
    colour: Colour,
    upwards: bool,
    in_data: bool,
    on_colour: bool,
}

/// The greatest count below `most` that fits, or 0. If a count fits, all smaller ones must fit, too.
fn longest(most: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, most.max(1));
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        *(if fits(middle) { &mut low } else { &mut high }) = middle;
    }
    low
}

/// The length of the common beginning of all texts, up to the start of a word.
fn shared_start<'t>(mut texts: impl Iterator<Item = &'t str>) -> usize {
    let Some(first) = texts.next() else { return 0 };
    let shared = texts.fold(first.len(), |shared, text| {
        let same = first.char_indices().zip(text.chars()).find(|((_, own), other)| own != other);
        shared.min(same.map_or(first.len().min(text.len()), |((at, _), _)| at))
    });
    first[..shared].rfind(' ').map_or(0, |space| space + 1)
}

/// Draws text in one family.
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

    /// The width of a line in points.
    pub fn width(self, line: &Line, size: f64) -> f64 {
        self.parts(line, size).iter().map(|(face, size, _, text)| face.measure(text) * size).sum()
    }

    /// The distance from the baseline to the top of capitals.
    pub fn capital(self, size: f64) -> f64 {
        Face::of(self.family, false).capital() * size
    }

    /// How far a line extends above its baseline, including raised parts.
    pub fn reach(self, line: &Line, size: f64) -> f64 {
        let tops = self.parts(line, size).into_iter().map(|(face, size, lift, _)| lift + face.ascent() * size);
        tops.fold(0.0, f64::max)
    }

    /// How far letters extend above their baseline.
    pub fn ascent(self, size: f64) -> f64 {
        Face::of(self.family, false).ascent() * size
    }

    /// How far a line extends below its baseline.
    pub fn descent(self, size: f64) -> f64 {
        Face::of(self.family, false).descent() * size
    }

    /// The distance between two baselines.
    pub fn leading(self, size: f64) -> f64 {
        size * 1.22
    }

    /// The texts, each shortened if it is wider than `width`. Different texts remain different: if their beginnings are equal, both ends
    /// are kept, or the part where they differ, or they are numbered.
    pub fn cut_apart(self, texts: &[String], size: f64, width: f64) -> Vec<String> {
        let mut shown: Vec<String> = texts.iter().map(|text| self.cut(text, size, width)).collect();
        let alike = |shown: &[String]| -> Vec<usize> {
            // Each shown text with the text that it stands for; `None` if it stands for several.
            let mut meant: HashMap<&str, Option<&str>> = HashMap::new();
            for (shown, text) in shown.iter().zip(texts) {
                let known = meant.entry(shown).or_insert(Some(text));
                *known = known.filter(|known| known == text);
            }
            (0..shown.len()).filter(|place| meant[shown[*place].as_str()].is_none()).collect()
        };
        let first = alike(&shown);
        if first.is_empty() {
            return shown;
        }
        let shared = shared_start(first.iter().map(|place| texts[*place].as_str()));
        let ends = |text: &str| self.cut_within(text, size, width);
        let rest = |text: &str| self.cut(&format!("… {}", &text[shared..]), size, width);
        for cut in [&ends as &dyn Fn(&str) -> String, &rest] {
            let mut tried = shown.clone();
            first.iter().for_each(|place| tried[*place] = cut(&texts[*place]));
            if alike(&tried).is_empty() {
                return tried;
            }
        }
        for place in first {
            let (number, mut text) = (format!("{} ", place + 1), texts[place].clone());
            text.insert_str(0, &number);
            text = self.cut(&text, size, width);
            if !text.starts_with(&number) {
                text = number.trim_end().to_owned();
            }
            while shown.contains(&text) {
                text.push('·');
            }
            shown[place] = text;
        }
        shown
    }

    /// The text, shortened to a width with an ellipsis in its middle if it is too long.
    fn cut_within(self, text: &str, size: f64, width: f64) -> String {
        let letters: Vec<char> = text.chars().collect();
        let kept = |count: usize| -> String {
            let (head, tail) = (count.div_ceil(2), count / 2);
            let head: String = letters[..head].iter().collect();
            let tail: String = letters[letters.len() - tail..].iter().collect();
            with_ellipsis(head.trim_end(), tail.trim_start())
        };
        kept(longest(letters.len(), |count| self.width(&Line::plain(kept(count)), size) <= width))
    }

    /// The text, shortened to a width with an ellipsis at its end if it is too long.
    pub fn cut(self, text: &str, size: f64, width: f64) -> String {
        let fits = |text: &str| self.width(&Line::plain(text), size) <= width;
        if fits(text) {
            return text.to_owned();
        }
        let letters: Vec<char> = text.chars().collect();
        let kept = |count: usize| with_ellipsis(letters[..count].iter().collect::<String>().trim_end(), "");
        kept(longest(letters.len(), |count| fits(&kept(count))))
    }

    /// Draws a line. `at` is the point on the baseline that `anchor` names.
    pub fn set(self, scene: &mut Scene, line: &Line, size: f64, at: (f64, f64), anchor: Anchor) {
        self.set_as(scene, line, size, at, anchor, Setting { colour: INK, ..Setting::default() });
    }

    /// Draws a line upwards; the anchor refers to the direction of the line.
    pub fn set_upwards(self, scene: &mut Scene, line: &Line, size: f64, at: (f64, f64), anchor: Anchor) {
        self.set_as(scene, line, size, at, anchor, Setting { colour: INK, upwards: true, ..Setting::default() });
    }

    /// Draws a line in a colour, as part of the data.
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

    /// Draws a line in the middle of a coloured area.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_cut_beside_an_ellipsis_of_its_own_has_one() {
        let typist = Typist { family: Family::default() };
        let width = |text: &str| typist.width(&Line::plain(text), 8.0) + 0.01;
        for (text, cut) in [("gemm… of all layers", "gemm…"), ("… of all layers", "…")] {
            assert_eq!(typist.cut(text, 8.0, width(&format!("{cut}…"))), cut);
        }
        assert_eq!(typist.cut_within("gemm…of all layers…last", 8.0, width("gemm……last")), "gemm…last");
    }
}
