//! Writes a scene as PDF. Text remains text, and typefaces are embedded with the letters that occur.

use krilla::Document;
use krilla::embed::{AssociationKind, EmbeddedFile, MimeType};
use krilla::geom::{Path, PathBuilder, Point, Transform};
use krilla::metadata::Metadata;
use krilla::num::NormalizedF32;
use krilla::page::PageSettings;
use krilla::paint::{Fill, LineCap, LineJoin, Stroke as KrillaStroke, StrokeDash};
use krilla::surface::Surface;
use krilla::text::{Font, GlyphId, KrillaGlyph};

use super::error::FigureError;
use super::font::Face;
use super::path::Segment;
use super::provenance::{ATTACHMENT, PROGRAM};
use super::scene::{Colour, Item, Scene, Stroke, Text};

/// Writes a scene. `metadata` is JSON, which is attached without compression, so that the bytes of the file contain it as text.
pub(super) fn write(scene: &Scene, title: &str, about: &str, metadata: &str) -> Result<Vec<u8>, FigureError> {
    let failed = |what: &str| FigureError::NotWritten { format: "PDF", reason: what.to_owned() };
    let mut fonts = Vec::new();
    for &face in Face::ALL {
        fonts.push(Font::new(face.bytes().into(), 0).ok_or_else(|| failed("a typeface cannot be read"))?);
    }
    let mut document = Document::new();
    let settings = PageSettings::from_wh(scene.width as f32, scene.height as f32);
    let mut page = document.start_page_with(settings.ok_or_else(|| failed("the page has no size"))?);
    let mut surface = page.surface();
    for item in &scene.items {
        match item {
            Item::Path { segments, fill, stroke } => {
                if let Some(path) = path(segments) {
                    surface.set_fill(fill.map(|(colour, opacity)| self::fill(colour, opacity)));
                    surface.set_stroke(stroke.as_ref().map(self::stroke));
                    surface.draw_path(&path);
                }
            }
            Item::Text(text) => line(&mut surface, text, &fonts),
        }
    }
    surface.finish();
    page.finish();
    document.embed_file(EmbeddedFile {
        path: ATTACHMENT.to_owned(),
        mime_type: MimeType::new("application/json"),
        description: Some("What the figure shows and where it comes from: opens with multicard figure FILE".to_owned()),
        association_kind: AssociationKind::Data,
        data: metadata.as_bytes().to_vec().into(),
        modification_date: None,
        compress: Some(false),
        location: None,
    });
    let metadata = Metadata::new()
        .title(title.to_owned())
        .description(about.to_owned())
        .creator(PROGRAM.to_owned())
        .producer(PROGRAM.to_owned());
    document.set_metadata(metadata);
    document.finish().map_err(|error| failed(&format!("{error:?}")))
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

fn fill(colour: Colour, opacity: f64) -> Fill {
    let opacity = NormalizedF32::new(opacity.clamp(0.0, 1.0) as f32).unwrap_or(NormalizedF32::ONE);
    Fill { paint: paint(colour), opacity, ..Fill::default() }
}

fn paint([red, green, blue]: Colour) -> krilla::paint::Paint {
    // Black and greys are printed with black ink only.
    if red == green && green == blue {
        return krilla::color::luma::Color::new(red).into();
    }
    krilla::color::rgb::Color::new(red, green, blue).into()
}

fn stroke(stroke: &Stroke) -> KrillaStroke {
    let dash = StrokeDash { array: stroke.dash.iter().map(|length| *length as f32).collect(), offset: 0.0 };
    KrillaStroke {
        paint: paint(stroke.colour),
        width: stroke.width as f32,
        line_cap: if stroke.round { LineCap::Round } else { LineCap::Butt },
        line_join: if stroke.round { LineJoin::Round } else { LineJoin::Miter },
        dash: (!stroke.dash.is_empty()).then_some(dash),
        ..KrillaStroke::default()
    }
}

fn line(surface: &mut Surface, text: &Text, fonts: &[Font]) {
    let place = Face::ALL.iter().position(|face| *face == text.face);
    let Some(font) = place.and_then(|place| fonts.get(place)) else { return };
    let glyph = |glyph: &super::font::Glyph| {
        let id = GlyphId::new(u32::from(glyph.id));
        KrillaGlyph::new(id, glyph.advance as f32, 0.0, 0.0, 0.0, glyph.range.clone(), None)
    };
    let glyphs: Vec<KrillaGlyph> = text.glyphs.iter().map(glyph).collect();
    surface.set_fill(Some(fill(text.colour, 1.0)));
    surface.set_stroke(None);
    let (x, y) = (text.x as f32, text.y as f32);
    // A rotation by 90° to the left.
    let turn = if text.upwards { (0.0, -1.0, 1.0, 0.0) } else { (1.0, 0.0, 0.0, 1.0) };
    surface.push_transform(&Transform::from_row(turn.0, turn.1, turn.2, turn.3, x, y));
    surface.draw_glyphs(Point::from_xy(0.0, 0.0), &glyphs, font.clone(), &text.text, text.size as f32, false);
    surface.pop();
}
