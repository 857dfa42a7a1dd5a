//! The list of studies to choose from: those of the session, then the built-in ones with their titles, grouped by the question that they
//! answer, and filtered by a search.

use eframe::egui::{Button, Id, Ui};

use super::theme::GRID;
use super::widgets::{muted, named_text, text_field};
use crate::figure::{Study, study_groups};

/// Draws the search field and returns its text, which is stored in egui's memory.
pub fn search_ui(ui: &mut Ui, id: Id) -> String {
    let mut text: String = ui.data(|data| data.get_temp(id)).unwrap_or_default();
    let field = ui.add(text_field(&mut text, "Search studies", 264.0));
    field.widget_info(|| named_text("Search studies", &text));
    ui.data_mut(|data| data.insert_temp(id, text.clone()));
    text
}

/// Whether the search finds a study: each of its words must occur in one of the texts.
pub fn is_sought(search: &str, texts: &[&str]) -> bool {
    let text = texts.join(" ").to_lowercase();
    search.to_lowercase().split_whitespace().all(|word| text.contains(word))
}

/// Draws the built-in studies that the search finds; returns the one that was clicked. `shown` is the name of the current study.
pub fn built_in_ui(ui: &mut Ui, search: &str, shown: &str) -> Option<Study> {
    let (mut chosen, mut is_empty) = (None, true);
    for group in study_groups() {
        let is_wanted = |texts: [&str; 3]| is_sought(search, &[texts[0], texts[1], texts[2], &group.question]);
        let sought: Vec<_> = group
            .studies
            .iter()
            .filter(|titled| is_wanted([&titled.title, &titled.study.name, &titled.study.about]))
            .collect();
        if sought.is_empty() {
            continue;
        }
        is_empty = false;
        ui.label(muted(ui, &group.question));
        for titled in sought {
            let name = &titled.study.name;
            let row = ui.add(Button::selectable(shown == *name, &titled.title).truncate());
            if row.on_hover_text(format!("{}\nIts name in commands: {name}", titled.study.about)).clicked() {
                chosen = Some(titled.study.clone());
            }
        }
        ui.add_space(GRID);
    }
    if is_empty {
        ui.label(muted(ui, "No built-in study contains these words"));
    }
    chosen
}
