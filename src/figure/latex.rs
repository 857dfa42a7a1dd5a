//! A figure for a manuscript in LaTeX: `\includegraphics` with a caption that says what is shown, over how many repeats, and by which
//! method intervals were made.

use std::collections::BTreeSet;

use super::chart::{Geometry, Role};
use super::drawing::Figure;
use super::number::capitalised;
use crate::text_table::latex_text;

/// A `figure` environment of a figure whose file lies at `file`, as LaTeX finds it; one that is wider than a column goes over both.
pub fn latex_figure(figure: &Figure, file: &str) -> String {
    let star = if figure.study.style.width.is_wide() { "*" } else { "" };
    let label = figure.study.file_name();
    format!(
        "% \\usepackage{{graphicx}}\n\\begin{{figure{star}}}\n  \\centering\n  \\includegraphics{{{file}}}\n  \\caption{{{}}}\n  \
         \\label{{fig:{label}}}\n\\end{{figure{star}}}\n",
        latex_text(&caption(figure))
    )
}

/// What a caption says: the title, panels, what stands for a cell, intervals with their method, published values.
fn caption(figure: &Figure) -> String {
    let shown: Vec<_> = figure.charts.iter().filter(|chart| !chart.is_empty()).collect();
    let title = figure.study.overrides.title.as_deref().unwrap_or(&figure.title);
    let mut sentences = vec![format!("{}.", capitalised(title.trim_end_matches('.')))];
    if shown.len() > 1 {
        let titles: Vec<&str> = shown.iter().map(|chart| chart.title.as_str()).collect();
        sentences.push(format!("Charts: {}.", titles.join("; ")));
    }
    let measured = || shown.iter().flat_map(|chart| chart.series()).filter(|series| series.role == Role::Measured);
    let counts: BTreeSet<usize> = measured().flat_map(|series| &series.points).map(|point| point.value.n).collect();
    let n = match (counts.first(), counts.last()) {
        (Some(least), Some(most)) if least < most => format!(" of {least} to {most} repeats"),
        (Some(only), _) if *only > 0 => format!(" of {only} {}", if *only == 1 { "repeat" } else { "repeats" }),
        _ => String::new(),
    };
    let is_of_repeats = shown.iter().any(|chart| matches!(chart.geometry, Geometry::Strip | Geometry::Gantt));
    if !is_of_repeats {
        sentences.push(format!("Values are medians{n}."));
    }
    let mut intervals: Vec<&str> = shown.iter().map(|chart| chart.intervals.as_str()).collect();
    intervals.dedup();
    sentences.extend(intervals.into_iter().filter(|text| !text.is_empty()).map(str::to_owned));
    if shown.iter().any(|chart| chart.has_published()) {
        sentences.push("Hollow marks: values of the paper.".to_owned());
    }
    sentences.join(" ")
}
