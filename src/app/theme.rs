//! The window's look: typeface, sizes, spacing, and two themes with one accent colour.

use std::sync::Arc;

use eframe::egui::{
    Color32, Context, CornerRadius, FontData, FontDefinitions, FontFamily, FontId, Rgba, Stroke, StrokeKind, Style,
    TextStyle, Theme, Visuals,
};
#[cfg(test)]
use eframe::egui::{Rect, Shape, epaint::ClippedShape};

/// Name of the semibold font family.
pub const STRONG: &str = "strong";
/// Size of small text, in points.
pub const SMALL: f32 = 11.5;
/// Size of body text, in points.
pub const BODY: f32 = 13.5;
/// Size of headings, in points.
pub const TITLE: f32 = 17.0;

/// Grid of spacing, in points.
pub const GRID: f32 = 4.0;

/// Width of a scroll bar while the pointer is elsewhere, in points.
const SCROLL_BAR: f32 = 4.0;

/// The corners of controls.
const CORNER: CornerRadius = CornerRadius::same(4);

/// Installs the fonts and both themes.
pub fn install(context: &Context) {
    let mut fonts = FontDefinitions::default();
    let mut add = |name: &str, bytes: &'static [u8]| {
        fonts.font_data.insert(name.to_owned(), Arc::new(FontData::from_static(bytes)));
    };
    add("inter", include_bytes!("../../assets/fonts/Inter-Regular.otf"));
    add("inter-strong", include_bytes!("../../assets/fonts/Inter-SemiBold.otf"));
    // egui's own fonts are the fallback for symbols that Inter lacks.
    let others = fonts.families.get(&FontFamily::Proportional).cloned().unwrap_or_default();
    let others: Vec<String> = others.into_iter().chain(["Hack".to_owned()]).collect();
    let with = |first: &str| std::iter::once(first.to_owned()).chain(others.iter().cloned()).collect::<Vec<_>>();
    fonts.families.insert(FontFamily::Proportional, with("inter"));
    fonts.families.insert(FontFamily::Name(STRONG.into()), with("inter-strong"));
    context.set_fonts(fonts);
    context.all_styles_mut(|style| {
        style.text_styles = [
            (TextStyle::Small, FontId::proportional(SMALL)),
            (TextStyle::Body, FontId::proportional(BODY)),
            (TextStyle::Button, FontId::proportional(BODY)),
            (TextStyle::Monospace, FontId::monospace(12.5)),
            (TextStyle::Heading, FontId::new(TITLE, FontFamily::Name(STRONG.into()))),
        ]
        .into();
        style.spacing.item_spacing = [2.0 * GRID, 1.5 * GRID].into();
        style.spacing.button_padding = [2.0 * GRID, GRID].into();
        style.spacing.interact_size.y = 6.0 * GRID;
        style.animation_time = 0.0;
        // Bars are also seen while the pointer is elsewhere: what ends at an edge may look whole although it goes on behind it.
        let scroll = &mut style.spacing.scroll;
        (scroll.dormant_handle_opacity, scroll.floating_width) = (0.6, SCROLL_BAR);
    });
    context.style_mut_of(Theme::Light, light);
    context.style_mut_of(Theme::Dark, dark);
}

/// Colours that egui's visuals do not have.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// Interactive and selected elements.
    pub accent: Color32,
    /// Text on the accent.
    pub on_accent: Color32,
    /// Background of cards.
    pub card: Color32,
    /// Borders and grid lines.
    pub line: Color32,
    /// Secondary text.
    pub muted: Color32,
    /// Success.
    pub good: Color32,
    /// Warning.
    pub warning: Color32,
    /// Failure.
    pub bad: Color32,
}

/// The palette of the current theme.
pub fn palette(visuals: &Visuals) -> Palette {
    if visuals.dark_mode {
        Palette {
            accent: Color32::from_rgb(0x4c, 0x9b, 0xe8),
            on_accent: Color32::from_rgb(0x08, 0x12, 0x1c),
            card: Color32::from_rgb(0x20, 0x24, 0x2a),
            line: Color32::from_rgb(0x38, 0x3e, 0x46),
            muted: Color32::from_rgb(0xa0, 0xa8, 0xb2),
            good: Color32::from_rgb(0x3f, 0xc0, 0x9a),
            warning: Color32::from_rgb(0xf0, 0xb4, 0x40),
            bad: Color32::from_rgb(0xf0, 0x7c, 0x4c),
        }
    } else {
        Palette {
            accent: Color32::from_rgb(0x00, 0x5f, 0xa8),
            on_accent: Color32::WHITE,
            card: Color32::WHITE,
            line: Color32::from_rgb(0xd8, 0xdc, 0xe2),
            muted: Color32::from_rgb(0x5a, 0x62, 0x6c),
            good: Color32::from_rgb(0x00, 0x77, 0x58),
            warning: Color32::from_rgb(0x90, 0x5c, 0x00),
            bad: Color32::from_rgb(0xb8, 0x44, 0x00),
        }
    }
}

/// The least contrast of lines and points with any ground that they are drawn on.
pub const LINE_CONTRAST: f32 = 3.0;

/// The ratio of the luminances of two opaque colours, from 1 to 21, as WCAG 2 defines it.
pub fn contrast(one: Color32, other: Color32) -> f32 {
    let luminance = |colour: Color32| {
        let [red, green, blue, _] = Rgba::from(colour).to_array();
        0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05
    };
    let (one, other) = (luminance(one), luminance(other));
    one.max(other) / one.min(other)
}

/// The grounds of plots and of their legends.
pub fn grounds(visuals: &Visuals) -> [Color32; 3] {
    [visuals.panel_fill, visuals.extreme_bg_color, palette(visuals).card]
}

/// The least contrast of a colour with the grounds of plots.
pub fn least_contrast(colour: Color32, visuals: &Visuals) -> f32 {
    grounds(visuals).map(|ground| contrast(colour, ground)).into_iter().fold(f32::INFINITY, f32::min)
}

/// A colour of the same hue that has this contrast with the grounds of plots, or somewhat more: paler, or nearer to the text's colour.
pub fn at_contrast(colour: Color32, visuals: &Visuals, wanted: f32) -> Color32 {
    let has_enough = |colour: Color32| least_contrast(colour, visuals) >= wanted;
    let ink = if visuals.dark_mode { Color32::WHITE } else { Color32::BLACK };
    // The share of the mixture that has enough contrast, and one that lacks it.
    let (end, mut enough, mut lacking) =
        if has_enough(colour) { (visuals.extreme_bg_color, 0.0, 1.0) } else { (ink, 1.0, 0.0) };
    for _ in 0..10 {
        let middle = f32::midpoint(enough, lacking);
        *(if has_enough(colour.lerp_to_gamma(end, middle)) { &mut enough } else { &mut lacking }) = middle;
    }
    colour.lerp_to_gamma(end, enough)
}

/// A colour for lines and points: the given colour if it stands out from the backgrounds of plots, otherwise the nearest colour of the same
/// hue that does.
pub fn standing_out(colour: Color32, visuals: &Visuals) -> Color32 {
    let stands_out = least_contrast(colour, visuals) >= LINE_CONTRAST;
    if stands_out { colour } else { at_contrast(colour, visuals, LINE_CONTRAST) }
}

/// The opacity of a disabled button whose text is worth reading.
pub const DISABLED_TEXT: f32 = 0.72;

/// Draws a frame around the text field that has the focus, stronger than that of a field under the pointer. The colour that egui frames it
/// with is also that of selected texts, which are read on the accent.
pub fn focus_ui(context: &Context) {
    let focused = context.memory(|memory| memory.focused()).filter(|_| context.text_edit_focused());
    let Some(field) = focused.and_then(|id| context.read_response(id)) else { return };
    let stroke = Stroke::new(2.0, palette(&context.global_style().visuals).accent);
    let painter = context.layer_painter(field.layer_id).with_clip_rect(field.interact_rect);
    painter.rect_stroke(field.rect, CORNER, stroke, StrokeKind::Inside);
}

/// The scroll bars among painted shapes, if the pointer is on none of them.
#[cfg(test)]
pub fn painted_bars(shapes: &[ClippedShape]) -> Vec<Rect> {
    let bar = |clipped: &ClippedShape| match &clipped.shape {
        Shape::Rect(one) if (one.rect.width() - SCROLL_BAR).abs() < 0.1 && one.fill.a() > 100 => Some(one.rect),
        _ => None,
    };
    shapes.iter().filter_map(bar).collect()
}

fn light(style: &mut Style) {
    style.visuals = Visuals::light();
    let visuals = &mut style.visuals;
    visuals.panel_fill = Color32::from_rgb(0xf6, 0xf7, 0xf9);
    visuals.window_fill = Color32::WHITE;
    visuals.extreme_bg_color = Color32::WHITE;
    visuals.faint_bg_color = Color32::from_rgb(0xee, 0xf0, 0xf3);
    // Fields are drawn on white cards and menus as well as on the panel, and must be visible on all of them.
    visuals.text_edit_bg_color = Some(Color32::from_rgb(0xe8, 0xeb, 0xf0));
    for widget in [&mut visuals.widgets.noninteractive, &mut visuals.widgets.inactive] {
        widget.fg_stroke.color = Color32::from_rgb(0x1b, 0x20, 0x27);
    }
    visuals.widgets.inactive.weak_bg_fill = Color32::from_rgb(0xe6, 0xe9, 0xee);
    visuals.widgets.inactive.bg_fill = Color32::from_rgb(0xdd, 0xe1, 0xe7);
    common(style);
}

fn dark(style: &mut Style) {
    style.visuals = Visuals::dark();
    let visuals = &mut style.visuals;
    visuals.panel_fill = Color32::from_rgb(0x17, 0x1a, 0x1f);
    visuals.window_fill = Color32::from_rgb(0x20, 0x24, 0x2a);
    visuals.extreme_bg_color = Color32::from_rgb(0x10, 0x12, 0x16);
    visuals.faint_bg_color = Color32::from_rgb(0x1e, 0x22, 0x28);
    for widget in [&mut visuals.widgets.noninteractive, &mut visuals.widgets.inactive] {
        widget.fg_stroke.color = Color32::from_rgb(0xe2, 0xe6, 0xea);
    }
    visuals.widgets.inactive.weak_bg_fill = Color32::from_rgb(0x2c, 0x32, 0x3a);
    visuals.widgets.inactive.bg_fill = Color32::from_rgb(0x36, 0x3d, 0x46);
    common(style);
}

fn common(style: &mut Style) {
    let palette = palette(&style.visuals);
    let visuals = &mut style.visuals;
    visuals.selection.bg_fill = palette.accent;
    visuals.selection.stroke = Stroke::new(1.0, palette.on_accent);
    visuals.hyperlink_color = palette.accent;
    // Each blink would draw the whole window again, twice a second.
    visuals.text_cursor.blink = false;
    visuals.warn_fg_color = palette.warning;
    visuals.error_fg_color = palette.bad;
    visuals.weak_text_color = Some(palette.muted);
    visuals.widgets.noninteractive.bg_stroke = Stroke::new(1.0, palette.line);
    visuals.window_stroke = Stroke::new(1.0, palette.line);
    let widgets = &mut visuals.widgets;
    let states = [
        &mut widgets.noninteractive,
        &mut widgets.inactive,
        &mut widgets.hovered,
        &mut widgets.active,
        &mut widgets.open,
    ];
    for widget in states {
        widget.corner_radius = CORNER;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use eframe::egui::{RawInput, ScrollArea, TextEdit, ViewportId};

    use super::*;

    #[test]
    fn fields_stand_out_from_the_panel_cards_and_menus_and_texts_can_be_read_on_each() {
        for theme in [Theme::Light, Theme::Dark] {
            let context = Context::default();
            install(&context);
            let visuals = context.style_of(theme).visuals.clone();
            let palette = palette(&visuals);
            let field = visuals.text_edit_bg_color();
            for ground in [visuals.panel_fill, visuals.window_fill, palette.card] {
                assert!(contrast(field, ground) > 1.07, "{theme:?}: a field {field:?} on {ground:?}");
            }
            let tables = [field, visuals.window_fill, visuals.faint_bg_color];
            for ground in grounds(&visuals).into_iter().chain(tables) {
                for text in [visuals.text_color(), palette.muted, palette.warning, palette.bad, palette.good] {
                    let contrast = contrast(text, ground);
                    assert!(contrast >= 4.5, "{theme:?}: {text:?} on {ground:?}: {contrast}");
                }
            }
            let faded = |colour: Color32| visuals.panel_fill.lerp_to_gamma(colour, DISABLED_TEXT);
            let button = &visuals.widgets.noninteractive;
            let disabled = contrast(faded(button.fg_stroke.color), faded(button.weak_bg_fill));
            assert!(disabled >= 4.5, "{theme:?}: a disabled text: {disabled}");
            let contrast = contrast(palette.on_accent, palette.accent);
            assert!(contrast >= 4.5, "{theme:?}: text on the accent: {contrast}");
        }
    }

    #[test]
    fn a_colour_gets_the_contrast_that_is_wanted_whether_it_had_less_or_more() {
        for theme in [Theme::Light, Theme::Dark] {
            let context = Context::default();
            install(&context);
            let visuals = context.style_of(theme).visuals.clone();
            for colour in [Color32::from_rgb(0xf0, 0xe4, 0x42), Color32::from_rgb(0x00, 0x72, 0xb2), Color32::GRAY] {
                for wanted in [LINE_CONTRAST, 5.0, 8.0] {
                    let found = least_contrast(at_contrast(colour, &visuals, wanted), &visuals);
                    assert!(found >= wanted && found < 1.1 * wanted, "{theme:?}, {colour:?}, {wanted}: {found}");
                }
            }
        }
    }

    #[test]
    fn a_field_with_the_focus_has_a_frame_that_stands_out_in_both_themes() {
        for theme in [Theme::Light, Theme::Dark] {
            let (context, mut text) = (Context::default(), String::new());
            install(&context);
            context.set_theme(theme);
            let mut frames = |has_focus: bool| {
                let mut output = context.run_ui(RawInput::default(), |ui| {
                    let field = ui.add(TextEdit::singleline(&mut text));
                    if has_focus {
                        field.request_focus();
                    } else {
                        field.surrender_focus();
                    }
                    focus_ui(ui.ctx());
                });
                output.textures_delta.clear();
                let accent = palette(&context.style_of(theme).visuals).accent;
                let is_frame = |shape: &Shape| matches!(shape, Shape::Rect(rect) if rect.stroke.color == accent && rect.stroke.width == 2.0);
                output.shapes.iter().filter(|clipped| is_frame(&clipped.shape)).count()
            };
            assert_eq!([frames(false), frames(false)], [0, 0], "{theme:?}");
            frames(true);
            assert_eq!(frames(true), 1, "{theme:?}");
            let visuals = context.style_of(theme).visuals.clone();
            let contrast = contrast(palette(&visuals).accent, visuals.text_edit_bg_color());
            assert!(contrast >= LINE_CONTRAST, "{theme:?}: {contrast}");
        }
    }

    #[test]
    fn what_goes_on_behind_an_edge_has_a_bar_while_the_pointer_is_elsewhere_and_what_is_whole_has_none() {
        for theme in [Theme::Light, Theme::Dark] {
            let context = Context::default();
            install(&context);
            context.set_theme(theme);
            let bars = |rows: usize| {
                let mut output = context.run_ui(RawInput::default(), |ui| {
                    ScrollArea::vertical().id_salt(rows).max_height(100.0).show(ui, |ui| {
                        (0..rows).for_each(|row| drop(ui.label(row.to_string())));
                    });
                });
                output.textures_delta.clear();
                painted_bars(&output.shapes).len()
            };
            assert_eq!([bars(50), bars(50)][1], 1, "{theme:?}");
            assert_eq!([bars(2), bars(2)], [0, 0], "{theme:?}");
        }
    }

    #[test]
    fn a_field_with_the_focus_asks_for_no_frames() {
        let (context, mut text) = (Context::default(), String::new());
        install(&context);
        let mut wait = Duration::ZERO;
        for frame in 0..8 {
            let input = RawInput { time: Some(f64::from(frame)), ..RawInput::default() };
            let mut output = context.run_ui(input, |ui| ui.add(TextEdit::singleline(&mut text)).request_focus());
            wait = output.viewport_output[&ViewportId::ROOT].repaint_delay;
            output.textures_delta.clear();
        }
        assert!(wait > Duration::from_secs(60), "{wait:?}");
    }
}
