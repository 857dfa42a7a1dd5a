//! Draws a field of colours with its key.

use super::field::{Field, sound};
use super::letter::{Anchor, Line};
use super::look::INK;
use super::path::Area;
use super::scene::{Colour, Scene, Stroke};
use super::side::{Side, Type};
use crate::figure::chart::{Chart, Panel};
use crate::figure::number::significant;
use crate::figure::palette::{luminance, mix};
use crate::figure::style::Palette;

/// Gap between the data of a heat map and the numbers of its key, in points.
const HEAT_KEY: f64 = 13.0;

/// The colour for a position within a heat map's range.
fn shade(share: f64, palette: Palette) -> Colour {
    let stops: [Colour; 4] = match palette {
        // No colour is nearly grey, because a dark page would invert greys.
        Palette::Colour => [[0xdc, 0xea, 0xf6], [0x9c, 0xcb, 0xe8], [0x00, 0x72, 0xb2], [0x00, 0x2f, 0x55]],
        Palette::Grey => [[0xf4; 3], [0xc4; 3], [0x80; 3], [0x38; 3]],
    };
    let at = share.clamp(0.0, 1.0) * 3.0;
    let below = (at.floor() as usize).min(2);
    mix(stops[below], stops[below + 1], at - below as f64)
}

/// The room for the key of a heat map, with numbers of up to six characters.
pub(super) fn heat_key(kind: Type) -> f64 {
    HEAT_KEY + kind.typist.width(&Line::plain("0.0000"), kind.small) + 1.0
}

pub(super) fn heat(scene: &mut Scene, field: &Field, chart: &Chart, panel: &Panel) {
    let values = chart.series().flat_map(sound).map(|point| point.value.median);
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| (low.min(one), high.max(one)));
    let log = low > 0.0 && high / low > 30.0;
    let share = |value: f64| match () {
        () if high <= low => 0.5,
        () if log => (value / low).ln() / (high / low).ln(),
        () => (value - low) / (high - low),
    };
    let Side::Names(rows, _) = field.left else { return };
    let (width, height) =
        (field.area.width / chart.x.categories.len().max(1) as f64, field.area.height / rows.len().max(1) as f64);
    let (typist, size) = (field.kind.typist, field.kind.small);
    let text = |value: f64| significant(value).replace('-', "\u{2212}");
    let fits = |text: &str| typist.width(&Line::plain(text), size) < width - 2.0 && size < height;
    let all_fit = chart.series().flat_map(sound).all(|point| fits(&text(point.value.median)));
    for series in &panel.series {
        let Some(row) = rows.iter().position(|name| *name == series.name) else { continue };
        for point in sound(series) {
            let (x, y) = (field.x(point.x), field.row(row as f64));
            let area = Area { left: x - width / 2.0, top: y - height / 2.0, width, height };
            let colour = shade(share(point.value.median), field.palette);
            scene.rectangle(&area, Some((colour, 1.0)), Some(Stroke::new([0xff; 3], 0.8)));
            field.mark(scene, (panel, series, point), area);
            if all_fit {
                let ink = if luminance(colour) > 0.35 { INK } else { [0xff; 3] };
                let at = (x, y + typist.capital(size) / 2.0);
                typist.set_on_colour(scene, &Line::plain(text(point.value.median)), size, at, ink);
            }
        }
    }
    // The scale of colours, with numbers.
    let (left, steps) = (field.area.right() + 6.0, 24);
    let step = field.area.height / f64::from(steps);
    for index in 0..steps {
        let colour = shade((f64::from(index) + 0.5) / f64::from(steps), field.palette);
        // Each step is a little longer than needed, so that no gap is visible.
        let top = field.area.bottom() - f64::from(index + 1) * step;
        let area = Area { left, top, width: 5.0, height: step + if index == 0 { 0.0 } else { 0.2 } };
        scene.rectangle(&area, Some((colour, 1.0)), None);
    }
    if low.is_finite() && high > low {
        let room = heat_key(field.kind) - HEAT_KEY;
        let label = |value: f64| Line::plain(typist.cut(&text(value), size, room));
        let capital = typist.capital(size);
        let left = field.area.right() + HEAT_KEY;
        typist.set(scene, &label(high), size, (left, field.area.top + capital), Anchor::Start);
        typist.set(scene, &label(low), size, (left, field.area.bottom()), Anchor::Start);
    }
}
