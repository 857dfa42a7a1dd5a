//! Tables and charts for screen and paper: each one value, whatever draws or writes it. [`paper`] sets charts as figures.

mod chart;
mod compare;
mod csv;
mod drawing;
mod json;
mod latex;
mod markdown;
mod notes;
mod number;
mod palette;
pub mod paper;
mod preset;
mod render;
mod sibling;
mod spec;
mod table;

pub use chart::{Axis, BOX_REPEATS, Chart, Form, Look, Panel, Point, Role, Scale, Series, ticks, ticks_between};
pub use compare::{Arrangement, Comparison, Kind, Over, Place, SPEEDUP, SettingLevels, View, compare, level_name};
pub use drawing::{Drawing, Figure, figure};
pub use number::{duration_text, grouped, significant};
pub use palette::{COLOURS, Dash, GREY, Hatch, Marker, Sign, colour, level_index, on_dark, sign, sign_at};
pub use preset::{PRESETS, Preset, UnknownPreset, preset};
pub use render::{Format, UnknownFormat, render};
pub use spec::Spec;
pub use table::{CellValue, Column, Row, Table, table};
