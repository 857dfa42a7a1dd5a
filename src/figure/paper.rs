//! A chart on paper: laid out once as a scene, written as SVG, PDF or PNG with where it comes from.

mod axis;
mod drawn_values;
mod font;
mod layout;
mod legend;
mod letter;
mod look;
mod marks;
mod pdf;
mod png;
mod provenance;
mod read;
mod scene;
mod side;
mod style;
mod svg;
#[cfg(test)]
mod tests;
mod webfont;
mod write;

pub use drawn_values::{DrawnChart, DrawnPoint};
pub use font::{Face, Family, Glyph};
pub use layout::lay_out;
pub use png::{Pixels, rasterise};
pub use provenance::{CellFacts, NodeFacts, Origin, PlanText, Provenance};
pub use read::{ReadError, read_file, read_provenance};
pub use scene::{Area, Colour, Item, PT_PER_MM, Scene, Segment, Stroke, Text};
pub use style::{Palette, Style, Width};
pub use write::{FigureError, PaperFormat, UnknownPaperFormat, encode, write_file};
