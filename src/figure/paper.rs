//! Charts on paper: laid out as a scene, then written as SVG, PDF or PNG together with the provenance of the figure.

mod annotations;
mod axis;
mod bars;
mod below;
mod blank;
mod clear;
mod drawn_values;
mod error;
mod field;
mod font;
mod grid;
mod heat;
mod layout;
mod legend;
mod letter;
mod look;
mod marks;
mod page;
mod panels;
mod path;
mod pdf;
mod png;
#[cfg(test)]
mod preset_tests;
mod provenance;
mod read;
mod scene;
mod side;
mod spot;
mod svg;
#[cfg(test)]
mod tests;
mod vision;
mod webfont;
mod write;

pub use super::style::{Family, PT_PER_MM, Palette, Style, VENUES, Width};
pub use drawn_values::{DrawnChart, DrawnPoint};
pub use error::FigureError;
pub use font::{Face, Glyph};
pub(super) use layout::lay_out_with;
pub use layout::{lay_out, lay_out_on, letter as panel_letter};
pub use legend::swatch;
pub use page::Page;
pub(super) use panels::{Panels, Shown, said_of_panels};
pub use path::{Area, Segment};
pub use png::{Pixels, rasterise};
pub use provenance::{CellFacts, NodeFacts, Origin, PlanText, Provenance};
pub use read::{ReadError, png_dpi, read_file, read_provenance};
pub use scene::{Colour, Item, Mark, Part, Placed, Scene, Stroke, Text};
pub(super) use spot::time_axes;
pub use svg::{PAGE, inline, page_style};
pub use vision::Vision;
pub use write::{PaperFormat, UnknownPaperFormat, encode, write_file};
