//! The lines of text below a picture: the meaning of its error bars and bands, what keeps its values from being compared, and the values that
//! its limits hide.

use super::letter::{Anchor, Line, Typist};
use super::page::{MARGIN, Page};
use super::scene::{Part, Scene};
use super::side::{Side, Type, wrapped};
use super::spot::{Spot, spots};
use crate::figure::chart::{Chart, Geometry, Point, Role, Scale};

/// The lines below a picture: the meaning of error bars and bands, the cautions of its charts, and the values that limits hide. They are in
/// the picture because it is often shown without its notes.
pub(super) fn sayings(spots: &[Spot]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    let intervals = spots.iter().map(|spot| spot.chart.intervals.clone()).filter(|text| !text.is_empty());
    let of_charts = spots.iter().flat_map(|spot| &spot.chart.cautions).cloned();
    for text in intervals.chain(of_charts).chain(cautions(spots)) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// The lines below the picture of these charts.
pub(super) fn sayings_of(charts: &[Chart], page: &Page) -> Vec<String> {
    sayings(&spots(charts, page, Type::new(Typist { family: page.family }, page.size)))
}

/// Draws lines of text below everything.
pub(super) fn say_below(scene: &mut Scene, kind: Type, texts: &[String]) {
    let typist = kind.typist;
    let room = scene.width - 2.0 * MARGIN;
    let wide = |text: &str| typist.width(&Line::plain(text), kind.small);
    // A number is not separated from its percent sign.
    let lines = texts.iter().flat_map(|text| wrapped(&text.replace(" %", "\u{a0}%"), room, &wide));
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return;
    }
    scene.height += 2.0;
    scene.part(Part::Caption, |scene| {
        for line in lines {
            let at = (MARGIN, scene.height + typist.ascent(kind.small));
            let line = typist.cut(&line, kind.small, room);
            typist.set(scene, &Line::plain(line), kind.small, at, Anchor::Start);
            scene.height += typist.leading(kind.small);
        }
    });
    scene.height += MARGIN;
}

/// Warnings about what an author's limits hide, which a reader could not see.
fn cautions(spots: &[Spot]) -> Vec<String> {
    let is_cut = |spot: &&Spot| spot.is_cut();
    let beyond = |spot: &Spot| {
        let (names, values) = spot.sides();
        let series = spot.panel.series.iter().filter(|series| series.role == Role::Measured);
        let outside = |point: &&Point| {
            let ends = point.value.interval.map_or([point.value.median; 2], |ends| [ends.low, ends.high]);
            !names.shows(point.x) || ends.into_iter().any(|end| !values.shows(end))
        };
        series.flat_map(|series| &series.points).filter(outside).count()
    };
    let count: usize = spots.iter().filter(is_cut).map(beyond).sum();
    let reaches = if count == 1 { "1 value reaches" } else { &format!("{count} values reach") };
    let from_zero = |spot: &Spot| match (spot.sides().1, spot.chart.geometry) {
        (Side::Numbers(ruler), Geometry::Bars | Geometry::Stacked) => ruler.scale == Scale::Log || ruler.low <= 0.0,
        _ => true,
    };
    let mut cautions: Vec<String> = (count > 0).then(|| format!("{reaches} beyond the axes.")).into_iter().collect();
    if spots.iter().filter(is_cut).any(|spot| !from_zero(spot)) {
        cautions.push("Bars do not begin at 0.".to_owned());
    }
    cautions
}
