//! A scene as SVG: text stays text, in typefaces that travel within the file as far as its letters need them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::font::Face;
use super::path::Segment;
use super::scene::{Colour, Item, Scene, Stroke, Text};
use super::webfont;
use crate::figure::number::without_zeros;
use crate::figure::style::PT_PER_MM;

/// Writes a scene. `metadata` is JSON, which stands in the file's `metadata`.
pub(super) fn write(scene: &Scene, title: &str, metadata: &str) -> String {
    let mut svg = String::new();
    let (width, height) = (scene.width, scene.height);
    let mm = |length: f64| number(length / PT_PER_MM);
    // Writing to a string cannot fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}mm\" height=\"{}mm\" viewBox=\"0 0 {} {}\">\n\
         <title>{}</title>\n<metadata id=\"multicard-figure\">{}</metadata>\n",
        mm(width),
        mm(height),
        number(width),
        number(height),
        escape(title),
        escape(metadata),
    );
    svg += &typefaces(scene);
    let _ = writeln!(svg, "<rect width=\"{}\" height=\"{}\" fill=\"#fff\"/>", number(width), number(height));
    for item in &scene.items {
        match item {
            Item::Path { segments, fill, stroke } => path(&mut svg, segments, *fill, stroke.as_ref()),
            Item::Text(text) => line(&mut svg, text),
        }
    }
    svg + "</svg>\n"
}

fn typefaces(scene: &Scene) -> String {
    let mut letters: BTreeMap<Face, BTreeSet<char>> = BTreeMap::new();
    for text in scene.texts() {
        letters.entry(text.face).or_default().extend(text.text.chars());
    }
    let mut css =
        String::from("<style>\ntext { font-kerning: none; font-variant-ligatures: none; white-space: pre }\n");
    for (face, letters) in &letters {
        let (family, weight) = face.name();
        // Without it, whoever has the typeface or a like one still sees the text, in the same width.
        let Some(font) = webfont::subset(*face, letters) else { continue };
        let kind = if font.starts_with(b"OTTO") { "otf" } else { "ttf" };
        let _ = writeln!(
            css,
            "@font-face {{ font-family: '{family}'; font-weight: {weight}; src: url(data:font/{kind};base64,{}) }}",
            STANDARD.encode(font)
        );
    }
    css + "</style>\n"
}

fn path(svg: &mut String, segments: &[Segment], fill: Option<(Colour, f64)>, stroke: Option<&Stroke>) {
    let mut d = String::new();
    for segment in segments {
        let (letter, numbers): (char, &[f64]) = match segment {
            Segment::Move(x, y) => ('M', &[*x, *y]),
            Segment::Line(x, y) => ('L', &[*x, *y]),
            Segment::Cubic(points) => ('C', points),
            Segment::Close => ('Z', &[]),
        };
        d.push(letter);
        d += &numbers.iter().map(|value| number(*value)).collect::<Vec<_>>().join(" ");
    }
    let _ = write!(svg, "<path d=\"{d}\"");
    match fill {
        Some((colour, opacity)) => {
            let _ = write!(svg, " fill=\"{}\"", hex(colour));
            if opacity < 1.0 {
                let _ = write!(svg, " fill-opacity=\"{}\"", number(opacity));
            }
        }
        None => *svg += " fill=\"none\"",
    }
    if let Some(stroke) = stroke {
        let _ = write!(svg, " stroke=\"{}\" stroke-width=\"{}\"", hex(stroke.colour), number(stroke.width));
        if !stroke.dash.is_empty() {
            let dash: Vec<String> = stroke.dash.iter().map(|length| number(*length)).collect();
            let _ = write!(svg, " stroke-dasharray=\"{}\"", dash.join(" "));
        }
        if stroke.round {
            *svg += " stroke-linejoin=\"round\" stroke-linecap=\"round\"";
        }
    }
    *svg += "/>\n";
}

fn line(svg: &mut String, text: &Text) {
    let (family, weight) = text.face.name();
    let generic = match text.face {
        Face::Sans | Face::SansStrong => "Helvetica, Arial, sans-serif",
        Face::Serif | Face::SerifStrong => "Georgia, 'Times New Roman', serif",
    };
    let place = if text.upwards {
        format!("transform=\"translate({} {}) rotate(-90)\"", number(text.x), number(text.y))
    } else {
        format!("x=\"{}\" y=\"{}\"", number(text.x), number(text.y))
    };
    let weight = if weight == 400 { String::new() } else { format!(" font-weight=\"{weight}\"") };
    let _ = writeln!(
        svg,
        "<text {place} font-family=\"'{family}', {generic}\" font-size=\"{}\"{weight} fill=\"{}\" textLength=\"{}\">{}</text>",
        number(text.size),
        hex(text.colour),
        number(text.width()),
        escape(&text.text)
    );
}

fn hex([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Hundredths of a point are finer than any print.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = without_zeros(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Text as XML; characters that XML does not know are left out.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' | '\t' => escaped.push(character),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {}
            _ => escaped.push(character),
        }
    }
    escaped
}

/// The opposite of writing text as XML.
pub(super) fn unescape(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}
