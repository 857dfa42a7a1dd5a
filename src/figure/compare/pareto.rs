//! The Pareto front: cells that no other cell beats in time, memory and energy at the same time; and the fastest cell within limits of
//! memory and accuracy.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::arrange::name_of;
use super::{Scene, shown_measure};
use crate::analysis::{
    Better, Cell, Check, Intervals, Judgement, Measure, Setting, Value, Verdict, check_between, counted, measure_of,
};
use crate::figure::chart::{Axis, Chart, Geometry, Look, Panel, Point, Role, Series};
use crate::figure::number::significant;
use crate::figure::ratio::{by_repeat, judge_cells, scaled};
use crate::figure::study::{MEMORY, Study};

/// Maximum number of cells of the front that have different looks.
const NAMED: usize = 8;
/// Maximum number of cells that are named as not distinguishable from the fastest.
const TIES: usize = 4;

/// The measures in which cells compete: the study's measure, then memory and energy if runs have them.
fn respects(study: &Study, cells: &[Cell]) -> Vec<String> {
    let is_told = |key: &str| cells.iter().any(|cell| !by_repeat(cell, key).is_empty());
    let memory = ["peak_device_bytes", MEMORY[0]].into_iter().find(|key| is_told(key));
    let energy = Some("energy_j").filter(|key| is_told(key));
    let first = study.own_measure();
    let others = memory.into_iter().chain(energy).filter(|key| *key != first);
    std::iter::once(first).chain(others).map(str::to_owned).collect()
}

fn value_of(cell: &Cell, key: &str, intervals: Intervals) -> Option<Value> {
    intervals.of(&by_repeat(cell, key).into_iter().map(|(_, value)| value).collect::<Vec<_>>())
}

/// For each cell that has all of these measures: its index and whether it is on the front.
fn standing(study: &Study, cells: &[Cell]) -> (Vec<String>, Vec<(usize, bool)>) {
    let keys = respects(study, cells);
    let point = |cell: &Cell| -> Option<Vec<f64>> {
        let values_of = |key: &String| {
            let median = value_of(cell, key, Intervals::ByCount)?.median;
            let higher = cell.measure(key).is_some_and(|measure| measure.better == Better::Higher);
            Some(if higher { -median } else { median })
        };
        keys.iter().map(values_of).collect()
    };
    let (places, points): (Vec<usize>, Vec<Vec<f64>>) =
        cells.iter().enumerate().filter_map(|(place, cell)| Some((place, point(cell)?))).unzip();
    let standing = places.into_iter().zip(front(&points)).collect();
    (keys, standing)
}

/// The text in the table for each cell. If a cell is on the front because it learned something else, the text says so.
pub(super) fn front_texts(study: &Study, cells: &[Cell], naming: &[Setting]) -> Vec<(usize, String)> {
    let standing = standing(study, cells).1;
    let others = || standing.iter().filter(|(_, is_on)| !is_on).map(|(place, _)| &cells[*place]);
    let text = |(place, is_on): &(usize, bool)| {
        let differs = |other: &Cell| match check_between(&cells[*place], other, study.own_measure()) {
            differs @ Check::Differs { .. } => Some(format!("{differs} in {}", name_of(other, naming))),
            _ => None,
        };
        let text = match (is_on, others().filter(|_| *is_on).find_map(differs)) {
            (true, Some(differs)) => format!("on the front, but {differs}"),
            (true, None) => "on the front".to_owned(),
            (false, _) => "bettered".to_owned(),
        };
        (*place, text)
    };
    standing.iter().map(text).collect()
}

/// The study's measure over memory, and over energy if GPUs report it.
pub(super) fn pareto(scene: &Scene, naming: &[Setting]) -> Vec<Chart> {
    let (keys, standing) = standing(scene.study, scene.cells);
    let of_front: Vec<usize> = standing.iter().filter(|(_, is_on)| *is_on).map(|(place, _)| *place).collect();
    let mut charts: Vec<Chart> =
        keys[1..].iter().map(|over| chart(scene, naming, (&keys[0], over), &standing, &of_front)).collect();
    let names: Vec<String> = keys.iter().map(|key| shown_measure(scene, key).0.to_lowercase()).collect();
    if let Some(chart) = charts.first_mut() {
        chart.notes.push(format!(
            "Pareto front: {} of {}. Every other cell is bettered: some cell is at least as good in all of {}, and better in one. Medians are \
             compared.",
            of_front.len(),
            counted(standing.len(), "cell"),
            names.join(", ")
        ));
    } else {
        charts.push(Chart {
            notes: vec!["No finished run reports both this measure and its memory or energy.".to_owned()],
            ..empty(scene, (&keys[0], &keys[0]))
        });
    }
    charts
}

fn empty(scene: &Scene, (y, x): (&str, &str)) -> Chart {
    let axis = |key: &str| {
        let (name, unit, _) = shown_measure(scene, key);
        Axis::new(name, unit)
    };
    let title = format!("{} over {}", axis(y).name, axis(x).name.to_lowercase());
    Chart::new(title, Geometry::Scatter, axis(x), axis(y))
}

fn chart(
    scene: &Scene,
    naming: &[Setting],
    (y, x): (&str, &str),
    standing: &[(usize, bool)],
    of_front: &[usize],
) -> Chart {
    let factor = |key: &str| shown_measure(scene, key).2;
    let mut series: Vec<Series> = Vec::new();
    let ranks: HashMap<usize, usize> = of_front.iter().copied().zip(0..).collect();
    for (place, is_on) in standing {
        let cell = &scene.cells[*place];
        let Some((value, across)) = value_of(cell, y, scene.intervals).zip(value_of(cell, x, scene.intervals)) else {
            continue;
        };
        let point = Point {
            x: across.median * factor(x),
            across: None,
            value: scaled(value, factor(y)),
            ratio: None,
            cell: Some(cell.key()),
        };
        let rank = ranks.get(place).copied().filter(|_| *is_on);
        let (name, look) = match rank {
            Some(rank) if rank < NAMED => (name_of(cell, naming), Look::Place(rank)),
            Some(_) => ("more on the front".to_owned(), Look::Place(NAMED)),
            None => ("bettered by another cell".to_owned(), Look::Grey),
        };
        match series.iter_mut().find(|known| known.name == name) {
            Some(known) => known.points.push(point),
            None => series.push(Series { points: vec![point], ..Series::measured(name, look) }),
        }
    }
    // The points that all others are compared with are drawn and named last.
    series.sort_by_key(|series| series.look == Look::Grey);
    if let Some(line) = front_line(scene, &series, y) {
        series.push(line);
    }
    Chart { panels: vec![Panel { title: String::new(), series }], ..empty(scene, (y, x)) }
}

/// The front in this chart's two measures, as a line of steps.
fn front_line(scene: &Scene, series: &[Series], y: &str) -> Option<Series> {
    let higher = measure_of(scene.cells, y).is_some_and(|measure| measure.better == Better::Higher);
    let points: Vec<&Point> = series.iter().flat_map(|series| &series.points).collect();
    let respects: Vec<Vec<f64>> = points
        .iter()
        .map(|point| vec![point.x, if higher { -point.value.median } else { point.value.median }])
        .collect();
    let on: Vec<bool> = front(&respects);
    let mut steps: Vec<&Point> = points.into_iter().zip(on).filter(|(_, on)| *on).map(|(point, _)| point).collect();
    steps.sort_by(|a, b| a.x.total_cmp(&b.x));
    let corner = |x: f64, point: &Point| Point {
        x,
        across: None,
        value: Value { interval: None, ..point.value },
        ratio: None,
        cell: None,
    };
    let mut line: Vec<Point> = Vec::new();
    for pair in steps.windows(2) {
        line.extend([corner(pair[0].x, pair[0]), corner(pair[1].x, pair[0])]);
    }
    line.extend(steps.last().map(|last| corner(last.x, last)));
    (steps.len() > 1).then(|| Series { role: Role::Ideal, points: line, ..Series::measured("front", Look::Grey) })
}

/// A sentence that names the best cell within the study's limits; `None` for a study without limits.
pub(super) fn fastest(study: &Study, cells: &[Cell], naming: &[Setting]) -> Option<String> {
    let limits = &study.limits;
    if !limits.is_set() {
        return None;
    }
    let key = study.own_measure();
    let measure = measure_of(cells, key)?;
    let worst = |cell: &Cell, key: &str, low: bool| {
        let values = by_repeat(cell, key).into_iter().map(|(_, value)| if low { -value } else { value });
        values.max_by(f64::total_cmp).map(|value| if low { -value } else { value })
    };
    // A cell's worst repeat counts, because every repeat must keep the limits.
    let keeps = |cell: &Cell| -> Option<bool> {
        let memory = || worst(cell, "peak_device_bytes", false).or_else(|| worst(cell, MEMORY[0], false));
        let in_memory = limits.memory_bytes.map_or(Some(true), |most| memory().map(|peak| peak <= most))?;
        let accurate =
            limits.accuracy.map_or(Some(true), |least| worst(cell, "accuracy", true).map(|seen| seen >= least))?;
        Some(in_memory && accurate)
    };
    let mut asked = Vec::new();
    asked.extend(limits.memory_bytes.map(|bytes| format!("memory ≤ {} GB", significant(bytes * 1e-9))));
    asked.extend(limits.accuracy.map(|share| format!("accuracy ≥ {} %", significant(share * 100.0))));
    let asked = asked.join(", ");
    let median = |cell: &Cell| value_of(cell, key, Intervals::ByCount).map(|value| value.median);
    let measured = || cells.iter().filter(|cell| median(cell).is_some());
    let over = measured().filter(|cell| keeps(cell) == Some(false)).count();
    let unknown = measured().filter(|cell| keeps(cell).is_none()).count();
    let mut within: Vec<&Cell> = measured().filter(|cell| keeps(cell) == Some(true)).collect();
    let sign = if measure.better == Better::Higher { -1.0 } else { 1.0 };
    within.sort_by(|a, b| (sign * median(a).unwrap_or(f64::NAN)).total_cmp(&(sign * median(b).unwrap_or(f64::NAN))));
    let count = |count: usize, what: &str| match count {
        0 => String::new(),
        count => format!("; {} {what}", counted(count, "cell")),
    };
    let left_out = count(over, "outside the limits") + &count(unknown, "without the values to tell");
    let Some((best, others)) = within.split_first() else {
        return Some(format!("no cell keeps to {asked}{left_out}"));
    };
    let pairs: Vec<(&Cell, &Cell)> = others.iter().map(|cell| (*cell, *best)).collect();
    let verdicts = judge_cells(&pairs, key, study.equal_within);
    // The best cell is the first argument, so each difference gives its check value first.
    let differ: Vec<String> = others
        .iter()
        .filter_map(|cell| match check_between(best, cell, key) {
            differs @ Check::Differs { .. } => Some(format!("{differs} in {}", name_of(cell, naming))),
            _ => None,
        })
        .collect();
    let differ = match differ.as_slice() {
        [] => String::new(),
        [one] => format!("; but {one}"),
        [one, ..] => format!("; but {one}, and check values differ from {} more", differ.len() - 1),
    };
    let is_open = |one: &Judgement| [Verdict::Undecided, Verdict::Equal, Verdict::NotComparable].contains(&one.verdict);
    let open = others.iter().zip(verdicts).filter(|(_, one)| is_open(one));
    let ties: Vec<String> = open.map(|(cell, _)| name_of(cell, naming)).collect();
    let ties = match ties.len() {
        0 => String::new(),
        count if count > TIES => {
            format!("; not distinguishable from it: {} and {} more", ties[..TIES].join(", "), count - TIES)
        }
        _ => format!("; not distinguishable from it: {}", ties.join(", ")),
    };
    let Measure { name, shown_unit, shown_factor, .. } = measure;
    let value = median(best).map_or(String::new(), |median| significant(median * shown_factor));
    let (name, best) = (name.to_lowercase(), name_of(best, naming));
    let which = if measure.is_speed() { "fastest" } else { "best" };
    Some(
        format!("{which} with {asked}: {best} ({name} {value} {shown_unit}){differ}{ties}{left_out}")
            .replace(" )", ")"),
    )
}

/// For each point, whether it is on the Pareto front: no other point is at most as high in all coordinates and lower in one. Low values
/// are good.
fn front(points: &[Vec<f64>]) -> Vec<bool> {
    let beats = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a <= b) && a.iter().zip(b).any(|(a, b)| a < b);
    // A point that beats another one comes before it in the order of coordinates, and one that is beaten is beaten by one on the front.
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|a, b| {
        // 0 and -0 are equal.
        let by_coordinate = points[*a].iter().zip(&points[*b]).map(|(a, b)| (a + 0.0).total_cmp(&(b + 0.0)));
        by_coordinate.fold(Ordering::Equal, Ordering::then)
    });
    let mut front: Vec<usize> = Vec::new();
    for place in order {
        if !front.iter().rev().any(|other| beats(&points[*other], &points[place])) {
            front.push(place);
        }
    }
    let mut is_on = vec![false; points.len()];
    front.into_iter().for_each(|place| is_on[place] = true);
    is_on
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_points_that_no_other_betters_are_on_the_front() {
        let points = [[1.0, 9.0], [2.0, 5.0], [2.0, 6.0], [3.0, 5.0], [4.0, 1.0], [2.0, 5.0]].map(Vec::from);
        assert_eq!(front(&points), [true, true, false, false, true, true]);
        // With a third coordinate, a point can be on the front that is not there with two.
        let three = [[1.0, 1.0, 5.0], [2.0, 2.0, 1.0], [2.0, 2.0, 6.0]].map(Vec::from);
        assert_eq!(front(&three), [true, true, false]);
        assert!(front(&[]).is_empty());
    }
}
