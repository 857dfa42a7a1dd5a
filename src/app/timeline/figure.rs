//! The view as a figure for paper: what each GPU of each run did when, as in Figures 7 and 8 of arXiv 2505.22905.

use std::path::Path;

use super::{Anchor, MOST_ITEMS, TimelineState};
use crate::analysis::{Interval, Method, Value};
use crate::figure::paper::{PaperFormat, Provenance, Style, Width, encode, lay_out, write_file};
use crate::figure::{Axis, Chart, Geometry, Look, Panel, Point, Role, Series};
use crate::trace::{Class, Item};

/// Columns into which the time shown is divided.
const COLUMNS: usize = 600;

/// What is told apart, with its place among colours.
const KINDS: [(&str, usize); 5] =
    [("computing", 4), ("communication", 5), ("data movement", 0), ("waiting for data", 6), ("other ranges", 1)];

fn kind(class: Class) -> Option<usize> {
    match class {
        Class::Convolution
        | Class::Matrix
        | Class::Normalisation
        | Class::Elementwise
        | Class::Optimizer
        | Class::Other => Some(0),
        Class::Communication => Some(1),
        Class::Copy => Some(2),
        Class::Load => Some(3),
        Class::Range => Some(4),
        Class::Call | Class::Wait | Class::Memory => None,
    }
}

/// Busy time by kind and column, in columns.
type Columns = Vec<[f64; KINDS.len()]>;

/// The view as a chart: a panel a run, a row a rank.
pub fn chart(state: &TimelineState) -> Chart {
    let (from, to) = state.view;
    let anchor = match state.anchor {
        Anchor::Start => "the first event".to_owned(),
        Anchor::Epoch(number) => format!("epoch {number}"),
        Anchor::Step(number) => format!("step {number}"),
    };
    let column_ns = (to - from) as f64 / COLUMNS as f64;
    let note = format!(
        "A bar stands where something went on for more than half of a column of {}.",
        super::layout::time_text(column_ns as i64)
    );
    let mut chart = Chart {
        title: "Activity".to_owned(),
        geometry: Geometry::Gantt,
        intervals: String::new(),
        x: Axis::new(format!("Time since {anchor}"), "s"),
        y: Axis::default(),
        panels: Vec::new(),
        notes: vec![note],
    };
    for (place, run) in state.runs.iter().enumerate() {
        let rows = run.timeline.rows();
        let has_gpus = rows.iter().any(crate::trace::TimelineRow::is_on_gpu);
        let mut ranks: Vec<(&str, Columns)> = Vec::new();
        for (row, of) in rows.iter().enumerate().filter(|(_, of)| of.is_on_gpu() || !has_gpus) {
            let known = ranks.iter().position(|(group, _)| *group == of.group);
            let known = known.unwrap_or_else(|| {
                ranks.push((&of.group, vec![[0.0; KINDS.len()]; COLUMNS]));
                ranks.len() - 1
            });
            for shelf in 0..of.shelves.len() {
                let span = state.span_of(place);
                for item in run.timeline.drawn(row, shelf, span, MOST_ITEMS).0 {
                    if let Some(kind) = kind(run.timeline.class(item.label)) {
                        add(&mut ranks[known].1, kind, &item, span.0, column_ns);
                    }
                }
            }
        }
        let mut series = Vec::new();
        for (group, columns) in &ranks {
            let categories = &mut chart.y.categories;
            let row = categories.iter().position(|known| known == group).unwrap_or_else(|| {
                categories.push((*group).to_owned());
                categories.len() - 1
            });
            for (kind, (name, look)) in KINDS.iter().enumerate() {
                let points: Vec<Point> =
                    stretches(columns, kind).map(|(first, last)| point(row, from, column_ns, first, last)).collect();
                if !points.is_empty() {
                    let (name, look) = ((*name).to_owned(), Look::Place(*look));
                    series.push(Series { name, look, variant: row, role: Role::Measured, points });
                }
            }
        }
        let title = if state.runs.len() > 1 { run.name.clone() } else { String::new() };
        chart.panels.push(Panel { title, series });
    }
    chart
}

/// Spreads an item's busy time evenly over the columns that it touches.
fn add(columns: &mut Columns, kind: usize, item: &Item, begin: i64, column_ns: f64) {
    let at = |time: i64| time.saturating_sub(begin) as f64 / column_ns;
    let (first, last) = (at(item.span.0), at(item.span.1));
    let density = item.busy_ns as f64 / item.span.1.abs_diff(item.span.0).max(1) as f64;
    let from = first.clamp(0.0, COLUMNS as f64);
    let to = last.clamp(0.0, COLUMNS as f64);
    let end = (to.ceil() as usize).min(COLUMNS);
    for (place, column) in columns.iter_mut().enumerate().take(end).skip(from as usize) {
        let covered = to.min(place as f64 + 1.0) - from.max(place as f64);
        column[kind] += density * covered.max(0.0);
    }
}

/// Neighbouring columns in which a kind goes on for more than half of the time: the first and the last.
fn stretches(columns: &Columns, kind: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
    let mut column = 0;
    std::iter::from_fn(move || {
        let is_busy = |column: usize| columns[column][kind] > 0.5;
        while column < COLUMNS && !is_busy(column) {
            column += 1;
        }
        let first = column;
        while column < COLUMNS && is_busy(column) {
            column += 1;
        }
        (first < column).then_some((first, column - 1))
    })
}

fn point(row: usize, from: i64, column_ns: f64, first: usize, last: usize) -> Point {
    let at = |column: usize| (from as f64 + column as f64 * column_ns) / 1e9;
    let (low, high) = (at(first), at(last + 1));
    let value = Value { median: low, interval: Some(Interval { low, high }), n: 1, method: Method::One };
    Point { x: row as f64, value, ratio: None, cell: None }
}

/// Writes a chart, a page wide.
pub fn write(chart: &Chart, path: &Path) -> Result<(), String> {
    if chart.is_empty() {
        return Err("Nothing to draw: no GPU, loader or collective is busy for long in this view; show another part."
            .to_owned());
    }
    let format = PaperFormat::of(path, 300).map_err(|error| error.to_string())?;
    let style = Style { width: Width::Page, ..Style::default() };
    let scene = lay_out(std::slice::from_ref(chart), &style);
    let bytes = encode(&scene, &Provenance::of_chart(chart), format).map_err(|error| error.to_string())?;
    write_file(path, &bytes).map_err(|error| error.to_string())
}
