//! Shows the searches of the session below the list: the question, why each cell was dropped, and the answer with its
//! cost.

use eframe::egui::{Frame, Label, Margin, Panel, RichText, ScrollArea, Ui};

use super::View;
use crate::analysis::counted;
use crate::app::theme::SMALL;
use crate::app::widgets::{muted, strong};
use crate::session::SearchReport;

/// Height of the searches on screen.
const HEIGHT: f32 = 150.0;
/// The most lines before the answer that are laid out: a search over thousands of cells has thousands of lines.
const MOST_LINES: usize = 200;
/// The sign in front of lines of an answer.
const ANSWER: &str = "answer: ";

/// How far a search without an answer is, and how to continue it if nothing runs.
fn unfinished(search: &SearchReport, is_active: bool) -> String {
    let progress = search.progress().map_or(String::new(), |progress| format!(": {progress}"));
    let next = if is_active { "" } else { ". To continue it: multicard run PLAN --session DIR --resume" };
    format!("the search is not over{progress}{next}")
}

/// Draws the searches; nothing for a session without one.
pub(super) fn searches_ui(ui: &mut Ui, view: View<'_>) {
    if view.records.searches.is_empty() {
        return;
    }
    let frame = Frame::new().inner_margin(Margin { top: 8, ..Margin::ZERO });
    Panel::bottom("searches").frame(frame).resizable(true).default_size(HEIGHT).size_range(60.0..=400.0).show(
        ui,
        |ui| {
            ui.take_available_width();
            // While a search goes on, its newest lines are in sight.
            let goes_on = view.records.searches.last().is_some_and(|search| search.verdict().is_none());
            // Once it is over, the view begins again at the top, where the answer is.
            let id = ("searches", goes_on);
            ScrollArea::vertical().id_salt(id).auto_shrink(false).stick_to_bottom(goes_on).show(ui, |ui| {
                for search in view.records.searches.iter() {
                    ui.label(strong(format!("Search of {}: {}", search.name, search.title)));
                    let (left_out, lines) = search.last_lines(MOST_LINES);
                    let lines: Vec<&str> = lines.collect();
                    // The answer comes first: the rounds before it can be longer than the panel.
                    let answer = lines.iter().position(|line| line.starts_with(ANSWER)).unwrap_or(lines.len());
                    let (rounds, answer) = lines.split_at(answer);
                    for line in answer {
                        ui.add(Label::new(RichText::new(*line).size(SMALL)).wrap().selectable(true));
                    }
                    if left_out > 0 {
                        let left_out = counted(left_out, "earlier line");
                        let text = muted(ui, format!("{left_out} not shown: `multicard session show` has all"));
                        ui.add(Label::new(text.size(SMALL)).wrap().selectable(true));
                    }
                    for line in rounds {
                        // The first line repeats the question.
                        let line = line.replacen(&search.question, &search.title, 1);
                        ui.add(Label::new(muted(ui, line).size(SMALL)).wrap().selectable(true));
                    }
                    if search.verdict().is_none() {
                        let text = unfinished(search, view.queue.is_active());
                        ui.add(Label::new(muted(ui, text).size(SMALL)).wrap().selectable(true));
                    }
                }
            });
        },
    );
}
