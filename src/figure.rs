//! Tables for screen and paper: one value, a few presets, four formats.

mod csv;
mod json;
mod latex;
mod markdown;
mod notes;
mod number;
mod palette;
mod preset;
mod render;
mod table;

pub use number::{grouped, significant};
pub use palette::{COLOURS, Dash, GREY, Hatch, Marker, Sign, colour, level_index, on_dark, sign};
pub use preset::{PRESETS, Preset, UnknownPreset, preset};
pub use render::{Format, UnknownFormat, render};
pub use table::{CellValue, Column, Row, Table, table};
