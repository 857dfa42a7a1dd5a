//! The view as a figure for print: the activity of each GPU of each run over time, as in Figures 7 and 8 of arXiv 2505.22905.

use std::path::Path;

use super::{Anchor, MOST_ITEMS, TimelineScreen};
use crate::analysis::{Interval, Method, Value};
use crate::figure::paper::{PaperFormat, Provenance, Style, Width, encode, lay_out, write_file};
use crate::figure::{Axis, Chart, Geometry, Look, Panel, Point, Role, Series};
use crate::trace::{Class, Item, TimelineRow};

/// The number of columns into which the displayed time is divided.
const COLUMNS: usize = 600;

/// Smaller shares of a column are not drawn, and shorter gaps do not split a bar.
const LEAST_SHARE: f64 = 0.005;

/// The kinds of activity, with their indexes among colours.
const KINDS: [(&str, usize); 5] =
    [("computing", 4), ("communication", 5), ("data movement", 0), ("waiting for data", 6), ("other ranges", 1)];

fn kind(class: Class) -> Option<usize> {
    match class {
        Class::Convolution
        | Class::Matrix
        | Class::Attention
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

/// The view as a chart: one panel for each run, one row for each rank, without those that are folded.
pub fn chart(state: &TimelineScreen) -> Chart {
    let (from, to) = state.view;
    let anchor = match &state.anchor {
        Anchor::Start => "the first event".to_owned(),
        other => other.name(),
    };
    let column_ns = (to - from) as f64 / COLUMNS as f64;
    let note = format!(
        "The time axis is divided into columns of {}. Bars fill the share of a column in which something was running; where kinds \
             overlap, they split that share.",
        super::layout::time_text(column_ns as i64)
    );
    let mut chart = Chart {
        title: "Activity".to_owned(),
        geometry: Geometry::Gantt,
        additions: Vec::new(),
        intervals: String::new(),
        cautions: Vec::new(),
        x: Axis::new(format!("Time since {anchor}"), "s"),
        y: Axis::default(),
        panels: Vec::new(),
        notes: vec![note],
        crowded: None,
    };
    for (place, run) in state.runs.iter().enumerate().filter(|(_, run)| !state.is_run_folded(run)) {
        let rows = run.timeline.rows();
        let has_gpus = rows.iter().any(TimelineRow::is_on_gpu);
        let mut ranks: Vec<(&str, Columns)> = Vec::new();
        let is_drawn = |row: &TimelineRow| (row.is_on_gpu() || !has_gpus) && !state.is_group_folded(run, &row.group);
        for (row, timeline_row) in rows.iter().enumerate().filter(|(_, row)| is_drawn(row)) {
            let known = ranks.iter().position(|(group, _)| *group == timeline_row.group);
            let known = known.unwrap_or_else(|| {
                ranks.push((&timeline_row.group, vec![[0.0; KINDS.len()]; COLUMNS]));
                ranks.len() - 1
            });
            for shelf in 0..timeline_row.shelves.len() {
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
                    bars(columns, kind).into_iter().map(|bar| point(row, from, column_ns, bar)).collect();
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

/// The beginnings and ends of the bars of a kind, in columns. Each column is divided among the kinds by their share of its time, so a GPU
/// that is busy half of the time fills half of the column. Bars that touch are joined.
fn bars(columns: &Columns, kind: usize) -> Vec<(f64, f64)> {
    let mut bars: Vec<(f64, f64)> = Vec::new();
    for (column, busy) in columns.iter().enumerate() {
        let all = busy.iter().sum::<f64>().max(1.0);
        let share = busy[kind] / all;
        if share < LEAST_SHARE {
            continue;
        }
        let low = column as f64 + busy[..kind].iter().sum::<f64>() / all;
        match bars.last_mut().filter(|(_, high)| low - *high < LEAST_SHARE) {
            Some((_, high)) => *high = low + share,
            None => bars.push((low, low + share)),
        }
    }
    bars
}

fn point(row: usize, from: i64, column_ns: f64, (low, high): (f64, f64)) -> Point {
    let at = |column: f64| (from as f64 + column * column_ns) / 1e9;
    let (low, high) = (at(low), at(high));
    let value = Value { median: low, interval: Some(Interval { low, high }), n: 1, method: Method::One };
    Point { x: row as f64, across: None, value, ratio: None, cell: None }
}

/// Writes a chart with the width of a page.
pub fn write(chart: &Chart, path: &Path) -> Result<(), String> {
    if chart.is_empty() {
        return Err(
            "Nothing to draw: no GPU, loader or collective is busy in this view; show another part, or unfold rows."
                .to_owned(),
        );
    }
    let format = PaperFormat::of(path, 300).map_err(|error| error.to_string())?;
    let style = Style { width: Width::Page, ..Style::default() };
    let scene = lay_out(std::slice::from_ref(chart), &style);
    let bytes = encode(&scene, &Provenance::of_chart(chart), format).map_err(|error| error.to_string())?;
    write_file(path, &bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_take_the_share_of_a_column_in_which_a_kind_went_on() {
        let columns =
            vec![[1.0, 0.0, 0.0, 0.0, 0.0], [0.5, 0.25, 0.0, 0.0, 0.0], [0.001; 5], [1.0, 1.0, 0.0, 0.0, 0.0]];
        assert_eq!(bars(&columns, 0), [(0.0, 1.5), (3.0, 3.5)]);
        assert_eq!(bars(&columns, 1), [(1.5, 1.75), (3.5, 4.0)], "beside computing, whose time it shares at last");
        assert_eq!(bars(&columns, 2), []);
    }
}
