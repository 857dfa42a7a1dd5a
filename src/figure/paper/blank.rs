//! A page on which nothing is drawn: it says why in the place of the picture.

use super::letter::{Anchor, Line, Typist};
use super::page::Page;
use super::scene::Scene;
use super::side::wrapped;

/// Longer reasons end in an ellipsis: notes hold the whole.
const MOST_LINES: usize = 6;

/// A page that says `reason`, on several lines if necessary.
pub(super) fn blank(page: &Page, reason: &str) -> Scene {
    let (typist, size) = (Typist { family: page.family }, page.size);
    let (width, leading) = (page.width, typist.leading(size));
    let room = width - 2.0 * size;
    let mut lines = wrapped(reason, room, &|text| typist.width(&Line::plain(text), size));
    if lines.len() > MOST_LINES {
        lines.truncate(MOST_LINES);
        let last = &mut lines[MOST_LINES - 1];
        *last += if last.ends_with('…') { "" } else { " …" };
    }
    let mut scene = Scene { width, height: 4.0 * size + (lines.len() - 1) as f64 * leading, ..Scene::default() };
    for (nth, line) in lines.iter().enumerate() {
        let at = (width / 2.0, 2.0 * size + nth as f64 * leading);
        typist.set(&mut scene, &Line::plain(typist.cut(line, size, room)), size, at, Anchor::Middle);
    }
    scene
}
