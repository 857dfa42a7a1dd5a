//! Writes a scene as SVG. Text remains text, and typefaces are embedded with the letters that occur.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::font::Face;
use super::path::Segment;
use super::scene::{self, Colour, Item, Scene, Stroke, Text};
use super::webfont;
use crate::figure::number::without_zeros;
use crate::figure::style::PT_PER_MM;

/// Writes a scene. `metadata` is JSON, which is written to the element `metadata`.
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
    svg += &format!("<style>\n{}</style>\n", typefaces(&[scene]));
    let _ = writeln!(svg, "<rect width=\"{}\" height=\"{}\" fill=\"#fff\"/>", number(width), number(height));
    items(&mut svg, scene, &|_| None);
    svg + "</svg>\n"
}

/// Writes a scene as part of an HTML page that has the style [`page_style`]: without paper of its own, in greys that follow the page's
/// light or dark mode.
pub fn inline(scene: &Scene, title: &str) -> String {
    let (width, height) = (number(scene.width), number(scene.height));
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}pt\" role=\"img\" aria-label=\"{}\">\n",
        escape(title)
    );
    items(&mut svg, scene, &|colour| scene::on_dark(colour, PAGE).map(|_| hex(colour)));
    svg + "</svg>\n"
}

/// The style of an HTML page with these scenes: their typefaces, and the greys of dark mode.
pub fn page_style(scenes: &[&Scene]) -> String {
    let mut css = typefaces(scenes);
    let colours: BTreeSet<Colour> = scenes.iter().flat_map(|scene| &scene.items).flat_map(colours).collect();
    css += "@media screen and (prefers-color-scheme: dark) {\n";
    for (colour, dark) in colours.into_iter().filter_map(|colour| Some((colour, scene::on_dark(colour, PAGE)?))) {
        let (name, dark) = (&hex(colour)[1..], hex(dark));
        let _ = writeln!(css, ".f{name} {{ fill: {dark} }} .s{name} {{ stroke: {dark} }}");
    }
    css + "}\n"
}

/// The background of HTML pages in dark mode.
pub const PAGE: Colour = [0x16, 0x18, 0x1c];

fn colours(item: &Item) -> Vec<Colour> {
    match item {
        Item::Path { fill, stroke, .. } => {
            fill.iter().map(|fill| fill.0).chain(stroke.iter().map(|stroke| stroke.colour)).collect()
        }
        Item::Text(text) => vec![text.colour],
    }
}

/// Writes the items of a scene. `class` gives the class of a colour that the page's style may change: the colour's name, with `#` before
/// it.
fn items(svg: &mut String, scene: &Scene, class: &dyn Fn(Colour) -> Option<String>) {
    for item in &scene.items {
        match item {
            Item::Path { segments, fill, stroke } => path(svg, segments, *fill, stroke.as_ref(), class),
            Item::Text(text) => line(svg, text, class),
        }
    }
}

/// The attribute with the classes of an item's colours; empty if it has none.
fn classes(fill: Option<Colour>, stroke: Option<Colour>, class: &dyn Fn(Colour) -> Option<String>) -> String {
    let named = |letter: char, colour: Option<Colour>| Some(format!("{letter}{}", &class(colour?)?[1..]));
    let names: Vec<String> = [named('f', fill), named('s', stroke)].into_iter().flatten().collect();
    if names.is_empty() { String::new() } else { format!(" class=\"{}\"", names.join(" ")) }
}

/// The style rules for the typefaces of scenes, with the letters that occur.
fn typefaces(scenes: &[&Scene]) -> String {
    let mut letters: BTreeMap<Face, BTreeSet<char>> = BTreeMap::new();
    for text in scenes.iter().flat_map(|scene| scene.texts()) {
        letters.entry(text.face).or_default().extend(text.text.chars());
    }
    let mut css = String::from("text { font-kerning: none; font-variant-ligatures: none; white-space: pre }\n");
    for (face, letters) in &letters {
        let (family, weight) = face.name();
        // Without an embedded font, readers who have the typeface or a similar one still see the text with the same width.
        let Some(font) = webfont::subset(*face, letters) else { continue };
        let kind = if font.starts_with(b"OTTO") { "otf" } else { "ttf" };
        let _ = writeln!(
            css,
            "@font-face {{ font-family: '{family}'; font-weight: {weight}; src: url(data:font/{kind};base64,{}) }}",
            STANDARD.encode(font)
        );
    }
    css
}

fn path(
    svg: &mut String,
    segments: &[Segment],
    fill: Option<(Colour, f64)>,
    stroke: Option<&Stroke>,
    class: &dyn Fn(Colour) -> Option<String>,
) {
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
    let classes = classes(fill.map(|fill| fill.0), stroke.map(|stroke| stroke.colour), class);
    let _ = write!(svg, "<path d=\"{d}\"{classes}");
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

fn line(svg: &mut String, text: &Text, class: &dyn Fn(Colour) -> Option<String>) {
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
    // Text on a coloured area does not depend on the page's mode.
    let classes = if text.on_colour { String::new() } else { classes(Some(text.colour), None, class) };
    let weight = if weight == 400 { String::new() } else { format!(" font-weight=\"{weight}\"") };
    let _ = writeln!(
        svg,
        "<text {place} font-family=\"'{family}', {generic}\" font-size=\"{}\"{weight}{classes} fill=\"{}\" textLength=\"{}\">{}</text>",
        number(text.size),
        hex(text.colour),
        number(text.width()),
        escape(&text.text)
    );
}

fn hex([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Two decimals: hundredths of a point are finer than print.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = without_zeros(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Text as XML, without characters that XML does not allow.
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

/// The text that [`escape`] was given.
pub(super) fn unescape(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}
