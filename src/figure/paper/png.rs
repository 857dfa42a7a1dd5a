//! Draws a scene as pixels, and writes it as PNG with its resolution.

use png::{BitDepth, ColorType, Compression, Encoder, PixelDimensions, Unit};
use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke as SkiaStroke, StrokeDash, Transform,
};

use super::error::FigureError;
use super::path::Segment;
use super::provenance::{KEYWORD, PROGRAM};
use super::scene::{Colour, Item, Scene, Stroke, Text};

/// Maximum number of pixels of a picture: enough for 600 dpi of a page, and for a screen of any size.
const MOST_PIXELS: f64 = 120e6;

/// A picture: rows from the top, four bytes per pixel, opaque.
#[derive(Clone, Debug, PartialEq)]
pub struct Pixels {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Red, green, blue and 255 for each pixel.
    pub rgba: Vec<u8>,
}

/// Draws a scene with this number of pixels per point.
pub fn rasterise(scene: &Scene, pixels_per_pt: f64) -> Result<Pixels, FigureError> {
    let failed = |reason: String| FigureError::NotWritten { format: "PNG", reason };
    let (width, height) = ((scene.width * pixels_per_pt).round(), (scene.height * pixels_per_pt).round());
    if !(width >= 1.0 && height >= 1.0 && width * height <= MOST_PIXELS) {
        return Err(failed(format!("a picture of {width} x {height} pixels cannot be drawn: use another resolution")));
    }
    let pixmap = Pixmap::new(width as u32, height as u32);
    let mut pixmap = pixmap.ok_or_else(|| failed(format!("no memory for {width} x {height} pixels")))?;
    pixmap.fill(Color::WHITE);
    let scale = Transform::from_scale(pixels_per_pt as f32, pixels_per_pt as f32);
    for item in &scene.items {
        match item {
            Item::Path { segments, fill, stroke } => {
                let Some(path) = path(segments) else { continue };
                if let Some((colour, opacity)) = fill {
                    pixmap.fill_path(&path, &paint(*colour, *opacity), FillRule::Winding, scale, None);
                }
                if let Some(stroke) = stroke {
                    pixmap.stroke_path(&path, &paint(stroke.colour, 1.0), &self::stroke(stroke), scale, None);
                }
            }
            Item::Text(text) => line(&mut pixmap, text, scale),
        }
    }
    Ok(Pixels { width: pixmap.width(), height: pixmap.height(), rgba: pixmap.take_demultiplied() })
}

/// Writes a scene at a resolution. `metadata` is JSON, which is written to an international text chunk.
pub(super) fn write(scene: &Scene, dpi: u32, title: &str, metadata: &str) -> Result<Vec<u8>, FigureError> {
    let pixels = rasterise(scene, f64::from(dpi) / 72.0)?;
    let failed = |error: png::EncodingError| FigureError::NotWritten { format: "PNG", reason: error.to_string() };
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, pixels.width, pixels.height);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::High);
    let per_metre = (f64::from(dpi) / 0.0254).round() as u32;
    encoder.set_pixel_dims(Some(PixelDimensions { xppu: per_metre, yppu: per_metre, unit: Unit::Meter }));
    encoder.add_itxt_chunk("Title".to_owned(), title.to_owned()).map_err(failed)?;
    encoder.add_itxt_chunk("Software".to_owned(), PROGRAM.to_owned()).map_err(failed)?;
    encoder.add_itxt_chunk(KEYWORD.to_owned(), metadata.to_owned()).map_err(failed)?;
    let rgb: Vec<u8> = pixels.rgba.chunks_exact(4).flat_map(|pixel| pixel[..3].to_vec()).collect();
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&rgb).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes)
}

fn path(segments: &[Segment]) -> Option<Path> {
    let mut path = PathBuilder::new();
    for segment in segments {
        match segment {
            Segment::Move(x, y) => path.move_to(*x as f32, *y as f32),
            Segment::Line(x, y) => path.line_to(*x as f32, *y as f32),
            Segment::Cubic(points) => {
                let [ax, ay, bx, by, x, y] = points.map(|value| value as f32);
                path.cubic_to(ax, ay, bx, by, x, y);
            }
            Segment::Close => path.close(),
        }
    }
    path.finish()
}

fn paint([red, green, blue]: Colour, opacity: f64) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, (opacity.clamp(0.0, 1.0) * 255.0).round() as u8);
    paint
}

fn stroke(stroke: &Stroke) -> SkiaStroke {
    let dash = stroke.dash.iter().map(|length| *length as f32).collect();
    SkiaStroke {
        width: stroke.width as f32,
        line_cap: if stroke.round { LineCap::Round } else { LineCap::Butt },
        line_join: if stroke.round { LineJoin::Round } else { LineJoin::Miter },
        dash: StrokeDash::new(dash, 0.0),
        ..SkiaStroke::default()
    }
}

fn line(pixmap: &mut Pixmap, text: &Text, scale: Transform) {
    let (x, y) = (text.x as f32, text.y as f32);
    let turned =
        if text.upwards { Transform::from_row(0.0, -1.0, 1.0, 0.0, x, y) } else { Transform::from_translate(x, y) };
    let mut along = 0.0;
    for glyph in &text.glyphs {
        if let Some(path) = path(&text.face.outline(glyph.id, text.size)) {
            let place = scale.pre_concat(turned).pre_translate(along as f32, 0.0);
            pixmap.fill_path(&path, &paint(text.colour, 1.0), FillRule::Winding, place, None);
        }
        along += glyph.advance * text.size;
    }
}
