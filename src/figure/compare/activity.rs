//! What each rank of a run did at each time. There is one panel for each cell, which shows its first finished repeat.

use super::Scene;
use super::arrange::{name_of, place_of};
use crate::analysis::{Interval, Method, Phase, Value, varying};
use crate::figure::chart::{Axis, Chart, Geometry, Look, Panel, Point, Series};
use crate::figure::ratio::finished;

/// Maximum number of panels.
const PANELS: usize = 8;

/// Maximum number of cells without a panel that a note names.
const NAMED: usize = 6;

/// The phases of the first cells' runs.
pub(super) fn activity(scene: &Scene) -> Chart {
    let settings = varying(scene.cells);
    let x = Axis::new("Time since start", "s");
    let mut chart = Chart::new("Activity of ranks", Geometry::Gantt, x, Axis::default());
    chart.notes.push("Each panel is the first finished repeat of its cell.".to_owned());
    let runs = scene.cells.iter().filter_map(|cell| Some((cell, finished(cell).find(|run| !run.activity.is_empty())?)));
    let mut runs: Vec<_> = runs.collect();
    if runs.len() > PANELS {
        // The selected cell is always drawn.
        runs.sort_by_key(|(cell, _)| scene.foremost != Some(&cell.key()));
        let left_out: Vec<String> = runs[PANELS..].iter().map(|(cell, _)| name_of(cell, &settings)).collect();
        let more = left_out.len().saturating_sub(NAMED);
        let names = left_out[..left_out.len() - more].join("; ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let (count, all) = (runs.len(), format!("{names}{more}"));
        chart.notes.push(format!("{PANELS} of {count} cells are drawn, without {all}: filter to see these."));
    }
    for (cell, run) in runs.into_iter().take(PANELS) {
        let mut series: Vec<Series> = Vec::new();
        for one in &run.activity {
            let row = place_of(&mut chart.y.categories, format!("rank {}", one.rank));
            let name = one.phase.name();
            let place = match series.iter().position(|series| series.name == name && series.variant == row) {
                Some(place) => place,
                None => {
                    // Start-up is grey, steps that count are blue.
                    let look = match one.phase {
                        Phase::Start => Look::Grey,
                        Phase::WarmUp => Look::Place(1),
                        Phase::Training => Look::Place(4),
                        Phase::Test => Look::Place(2),
                    };
                    series.push(Series { variant: row, ..Series::measured(name, look) });
                    series.len() - 1
                }
            };
            let interval = Some(Interval { low: one.start_s, high: one.end_s });
            let value = Value { median: one.start_s, interval, n: 1, method: Method::One };
            series[place].points.push(Point {
                x: row as f64,
                across: None,
                value,
                ratio: None,
                cell: Some(cell.key()),
            });
        }
        let title = if settings.is_empty() { String::new() } else { name_of(cell, &settings) };
        chart.panels.push(Panel { title, series });
    }
    chart
}
