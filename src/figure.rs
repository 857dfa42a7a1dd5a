//! Tables and charts for screen and paper: each one value, whatever draws or writes it. [`paper`] sets charts as figures.

mod arguments;
mod baseline;
mod built_in;
mod chart;
mod claims;
mod compare;
mod csv;
mod difference;
mod drawing;
mod json;
mod latex;
mod markdown;
mod methods;
mod notes;
mod number;
mod palette;
pub mod paper;
mod published;
mod ratio;
mod render;
mod saved;
mod sibling;
mod study;
mod style;
mod table;
mod tabulate;

pub use arguments::{arguments, filter_of};
pub use baseline::{baseline_name, has_baseline};
pub use built_in::{UnknownPreset, preset, presets};
pub use chart::{
    Axis, BOX_REPEATS, Chart, Geometry, Look, PUBLISHED, Panel, Point, Role, Scale, Series, ticks, ticks_between,
};
pub use claims::{claimed, claims_table};
pub use compare::{Arrangement, Comparison, SettingLevels, compare, compare_with, level_name, table};
pub use csv::csv_text;
pub use difference::{Difference, difference};
pub use drawing::{Figure, figure};
pub use methods::methods;
pub use number::{capitalised, duration_text, from_to, grouped, precise, significant};
pub use palette::{COLOUR_NAMES, COLOURS, Dash, Hatch, Marker, Sign, level_index, on_dark};
pub use published::OfPaper;
pub use render::{Format, UnknownFormat, render};
pub use saved::{SavedStudy, check_studies, find_study, refused_name};
pub use study::{Form, Limits, Over, Place, Runs, SETTINGS, SPEEDUP, Study, known_measures};
pub use table::{CellValue, Column, Row, Table};
