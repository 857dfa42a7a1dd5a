//! Looks of levels: colours and secondary marks from the palette, and the legend.

use std::f32::consts::FRAC_PI_4;

use eframe::egui::{Color32, Painter, Pos2, ScrollArea, Sense, Shape, Stroke, Ui, Vec2, Visuals, vec2};
use egui_plot::MarkerShape;

use crate::app::canvas;
use crate::app::theme::standing_out;
use crate::app::widgets::{text_width, together_ui};
use crate::figure::{self, COLOUR_NAMES, COLOURS, Chart, Look, Marker, PUBLISHED, Series};

/// The colour in which the theme shows areas of a look.
pub fn colour(look: &Look, dark: bool) -> Color32 {
    let bytes = look.colour();
    let [red, green, blue] = if dark { figure::on_dark(bytes) } else { bytes };
    Color32::from_rgb(red, green, blue)
}

/// The colour in which the theme shows lines and points of a look.
pub fn line_colour(look: &Look, visuals: &Visuals) -> Color32 {
    standing_out(colour(look, visuals.dark_mode), visuals)
}

/// The name of a colour of the palette, as the theme shows it: black is white on a dark ground, and black again on paper.
pub fn colour_name(place: usize, dark: bool) -> &'static str {
    let place = place % COLOURS.len();
    let is_turned = dark && figure::on_dark(COLOURS[place]) != COLOURS[place];
    if is_turned { "white (black on paper)" } else { COLOUR_NAMES[place] }
}

/// Paints the marker of a point.
pub fn paint_marker(painter: &Painter, centre: Pos2, radius: f32, marker: Marker, fill: Color32) {
    let turned = |corners: usize, angle: f32| {
        let corner = |index: usize| {
            let angle = angle + index as f32 * std::f32::consts::TAU / corners as f32;
            centre + radius * 1.15 * Vec2::angled(angle)
        };
        Shape::convex_polygon((0..corners).map(corner).collect(), fill, Stroke::NONE)
    };
    let cross = |angles: &[f32]| {
        angles.iter().for_each(|angle| {
            let arm = radius * Vec2::angled(*angle);
            painter.line_segment([centre - arm, centre + arm], Stroke::new(1.8, fill));
        });
    };
    let quarter = 2.0 * FRAC_PI_4;
    match marker {
        Marker::Circle => drop(painter.circle_filled(centre, radius, fill)),
        Marker::Square => drop(painter.add(turned(4, FRAC_PI_4))),
        Marker::Diamond => drop(painter.add(turned(4, 0.0))),
        Marker::Up => drop(painter.add(turned(3, -quarter))),
        Marker::Down => drop(painter.add(turned(3, quarter))),
        Marker::Cross => cross(&[FRAC_PI_4, -FRAC_PI_4]),
        Marker::Plus => cross(&[0.0, quarter]),
        Marker::Asterisk => cross(&[0.0, FRAC_PI_4, quarter, -FRAC_PI_4]),
    }
}

/// Paints the mark of a published value: an empty diamond.
pub fn paint_hollow(painter: &Painter, centre: Pos2, line: Color32, ground: Color32) {
    let corners = [vec2(4.5, 0.0), vec2(0.0, 4.5), vec2(-4.5, 0.0), vec2(0.0, -4.5)].map(|corner| centre + corner);
    painter.add(Shape::convex_polygon(corners.to_vec(), ground, Stroke::new(1.4, line)));
}

/// The marker of a point in a plot.
pub fn marker_shape(marker: Marker) -> MarkerShape {
    match marker {
        Marker::Circle => MarkerShape::Circle,
        Marker::Square => MarkerShape::Square,
        Marker::Up => MarkerShape::Up,
        Marker::Diamond => MarkerShape::Diamond,
        Marker::Down => MarkerShape::Down,
        Marker::Cross => MarkerShape::Cross,
        Marker::Plus => MarkerShape::Plus,
        Marker::Asterisk => MarkerShape::Asterisk,
    }
}

/// Draws a small square in the look of a level.
pub fn swatch_ui(ui: &mut Ui, look: &Look) {
    let (rect, _) = ui.allocate_exact_size(vec2(14.0, 12.0), Sense::hover());
    if ui.is_rect_visible(rect) {
        canvas::paint_swatch(ui, rect, look);
    }
}

/// Draws the legend of lines in separate rows, so that it never covers the chart.
pub fn legend_ui(ui: &mut Ui, charts: &[Chart]) {
    let mut series: Vec<&Series> = Vec::new();
    for one in charts.iter().flat_map(Chart::legend) {
        if series.iter().all(|known| known.name != one.name) {
            series.push(one);
        }
    }
    let is_published = charts.iter().any(Chart::has_published);
    if series.len() < 2 && !is_published {
        return;
    }
    ScrollArea::vertical().id_salt("legend").max_height(96.0).auto_shrink([false, true]).show(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing.x = 16.0;
            for one in series {
                together_ui(ui, 30.0 + text_width(ui, &one.name), |ui| {
                    line_sample_ui(ui, one);
                    ui.label(&one.name);
                });
            }
            if is_published {
                together_ui(ui, 18.0 + text_width(ui, PUBLISHED), |ui| {
                    let (rect, _) = ui.allocate_exact_size(vec2(14.0, 12.0), Sense::hover());
                    let visuals = ui.visuals();
                    paint_hollow(ui.painter(), rect.center(), visuals.text_color(), visuals.extreme_bg_color);
                    ui.label(PUBLISHED);
                });
            }
        });
    });
}

fn line_sample_ui(ui: &mut Ui, series: &Series) {
    let (rect, _) = ui.allocate_exact_size(vec2(26.0, 12.0), Sense::hover());
    let visuals = ui.visuals();
    let stroke = Stroke::new(1.8, line_colour(&series.look, visuals));
    let ends = [rect.left_center(), rect.right_center()];
    let painter = ui.painter();
    match dash_of(series.variant) {
        Some((stroke_length, gap)) => painter.extend(Shape::dashed_line(&ends, stroke, stroke_length, gap)),
        None => drop(painter.line_segment(ends, stroke)),
    }
    paint_marker(painter, rect.center(), 3.5, series.look.sign().marker, stroke.color);
}

/// Dash pattern that distinguishes lines of the same colour: lengths of stroke and gap; `None` means solid.
pub fn dash_of(variant: usize) -> Option<(f32, f32)> {
    const PATTERNS: [Option<(f32, f32)>; 8] = [
        None,
        Some((8.0, 5.0)),
        Some((2.0, 4.0)),
        Some((4.0, 3.0)),
        Some((16.0, 4.0)),
        Some((2.0, 9.0)),
        Some((10.0, 10.0)),
        Some((24.0, 8.0)),
    ];
    PATTERNS[variant % PATTERNS.len()]
}

#[cfg(test)]
mod tests {
    use eframe::egui::{Context, Theme};

    use super::*;
    use crate::app::theme::{self, LINE_CONTRAST, contrast, grounds};

    #[test]
    fn a_line_of_every_colour_stands_out_from_every_ground_of_either_theme() {
        let context = Context::default();
        theme::install(&context);
        for theme in [Theme::Light, Theme::Dark] {
            let visuals = context.style_of(theme).visuals.clone();
            for look in (0..COLOURS.len()).map(Look::Place).chain([Look::Grey]) {
                for ground in grounds(&visuals) {
                    let contrast = contrast(line_colour(&look, &visuals), ground);
                    assert!(contrast >= LINE_CONTRAST, "{look:?} on {ground:?}, {theme:?}: {contrast}");
                }
            }
        }
    }

    #[test]
    fn a_colour_is_called_as_the_theme_shows_it() {
        assert_eq!((colour_name(7, false), colour_name(0, false)), ("black", "orange"));
        assert_eq!((colour_name(7, true), colour_name(0, true)), ("white (black on paper)", "orange"));
        assert_eq!(colour(&Look::Place(7), true), Color32::WHITE);
    }

    #[test]
    fn eight_lines_of_one_colour_have_dashes_that_differ() {
        let mut dashes: Vec<_> = (0..8).map(|variant| format!("{:?}", dash_of(variant))).collect();
        dashes.sort();
        dashes.dedup();
        assert_eq!(dashes.len(), 8);
    }
}
