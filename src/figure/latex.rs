//! A figure for a manuscript in LaTeX: `\includegraphics` with a caption that says what is shown, over how many repeats, and by which
//! method intervals were computed.

use std::collections::BTreeSet;
use std::path::Path;

use super::chart::{Geometry, Role};
use super::composed::ComposedFigure;
use super::drawing::Figure;
use super::number::capitalised;
use super::paper::panel_letter;
use super::style::Width;
use crate::text_table::latex_text;

/// A `figure` environment for a figure in the file `file`, a path that LaTeX can find. A figure that is wider than a column spans both
/// columns.
pub fn latex_figure(figure: &Figure, file: &str) -> String {
    environment(figure.study.style.width, file, &figure.study.file_name(), &sentences(figure).join(" "))
}

/// A `figure` environment for a composed figure. Its caption describes each panel; sentences that hold for all panels are in it only once.
pub fn latex_composed(composed: &ComposedFigure, file: &str) -> String {
    let drawn = composed.panels.iter().enumerate().filter_map(|(nth, figure)| Some((nth, figure.as_ref().ok()?)));
    // The first sentence says what a panel shows.
    let panels: Vec<(usize, Vec<String>)> = drawn.map(|(nth, figure)| (nth, sentences(figure))).collect();
    let is_of_all = |sentence: &&String| panels.iter().all(|(_, own)| own[1..].contains(sentence));
    let ended = |title: &String| format!("{}.", title.trim_end_matches('.'));
    let mut caption: Vec<String> = composed.composition.title.iter().map(ended).collect();
    for (nth, own) in &panels {
        let title = composed.composition.panels[*nth].title.as_ref().map_or(own[0].clone(), ended);
        let alone: String = own[1..].iter().filter(|one| !is_of_all(one)).map(|one| format!(" {one}")).collect();
        let letter = if composed.panels.len() > 1 { format!("({}) ", panel_letter(*nth)) } else { String::new() };
        caption.push(format!("{letter}{title}{alone}"));
    }
    caption.extend(panels.first().into_iter().flat_map(|(_, own)| own[1..].iter().filter(is_of_all).cloned()));
    let label = Path::new(file).file_stem().unwrap_or_default().to_string_lossy().replace(' ', "-");
    environment(composed.composition.style.width, file, &label, &caption.join(" "))
}

fn environment(width: Width, file: &str, label: &str, caption: &str) -> String {
    let star = if width.is_wide() { "*" } else { "" };
    format!(
        "% \\usepackage{{graphicx}}\n\\begin{{figure{star}}}\n  \\centering\n  \\includegraphics{{{file}}}\n  \\caption{{{}}}\n  \
         \\label{{fig:{label}}}\n\\end{{figure{star}}}\n",
        latex_text(caption)
    )
}

/// The sentences of a caption: the title, panels, settings of the cells, intervals with their method, published values.
fn sentences(figure: &Figure) -> Vec<String> {
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
    sentences
}
