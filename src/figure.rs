//! Tables and charts for screen and paper. Each is one value that the window draws and files are written from. [`paper`] lays charts out
//! as figures.

mod arguments;
mod baseline;
mod baseline_notes;
mod built_in;
mod chart;
mod claims;
mod compare;
mod composed;
mod composition;
mod csv;
mod difference;
mod drawing;
mod folded;
mod json;
mod latex;
mod launches;
mod lenient;
mod methods;
mod notes;
mod number;
mod overrides;
mod palette;
pub mod paper;
mod percent;
mod published;
mod questions;
mod ratio;
mod render;
mod saved;
mod sibling;
mod sign;
mod study;
mod style;
mod table;
mod tabulate;
mod ticks;
mod unlike_notes;
mod verdict_notes;
mod work;

pub use arguments::{arguments, filter_of, override_words};
pub use baseline::{baseline_name, has_baseline};
pub use built_in::{UnknownPreset, opening_study, preset, presets};
pub use chart::{
    Addition, AdditionKind, Axis, BOX_REPEATS, Chart, Geometry, Look, PUBLISHED, Panel, Point, Role, Scale, Series,
};
pub use claims::{claimed, claims_table};
pub use compare::{
    Arrangement, Comparison, LineLooks, SettingLevels, compare, compare_with, level_name, settings_of_lines, table,
};
pub use composed::ComposedFigure;
pub use composition::{ComposedPanel, Composition, CompositionFile, PanelTable, Share};
pub use difference::{Difference, DifferenceOutcome, difference};
pub use drawing::{Figure, compare_on_screen, figure};
pub use latex::{latex_composed, latex_figure};
pub use methods::methods;
pub use number::{
    capitalised, counted, duration_text, from_to, grouped, precise, short, significant, unit_of_times, without_zeros,
};
pub use overrides::{
    Annotation, AnnotationKind, AxisName, AxisOverride, LegendPlace, LevelOverride, Nth, Overrides, colour_of, units_of,
};
pub use palette::{COLOUR_NAMES, COLOURS, Dash, DashKind, Hatch, Marker, OwnLook, Sign, level_index, on_dark};
pub use percent::{percent_of, share_of};
pub use published::OfPaper;
pub use questions::{Group, Titled, study_groups};
pub use render::{Format, html, latex_parts, render};
pub use saved::{SavedStudy, check_studies, find_study, refused_name};
pub use study::{Along, Form, Law, Limits, Over, Place, Runs, SPEEDUP, Study, known_measures, recorded_names};
pub use table::{CellValue, Column, Row, Table};
pub use ticks::{decimals, multiples, round_up, tick_text, ticks, ticks_between};
pub use work::work_table;
