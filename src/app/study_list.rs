//! The list of studies to choose from: those of the session, then the built-in ones with their titles, grouped by the question that they
//! answer, and filtered by a search.

use eframe::egui::{Button, Id, Key, Response, Ui};

use super::theme::GRID;
use super::widgets::{muted, named_text, opens, text_field};
use crate::figure::{Study, study_groups};

/// A search, and what the first study that it finds is to do.
pub struct Search {
    text: String,
    first: Option<First>,
}

/// What a key in the search field asks of the first study.
#[derive(Clone, Copy, PartialEq)]
enum First {
    /// Enter chooses it.
    Choose,
    /// The arrow gives it the focus.
    Focus,
}

impl Search {
    /// Whether it finds a study: each of its words must occur in one of the texts.
    pub fn finds(&self, texts: &[&str]) -> bool {
        let text = texts.join(" ").to_lowercase();
        self.text.to_lowercase().split_whitespace().all(|word| text.contains(word))
    }

    /// Whether the user chose the study of this row, by a click or with Enter in the search field.
    pub fn has_chosen(&mut self, row: &Response) -> bool {
        let first = self.first.take();
        if first == Some(First::Focus) {
            row.request_focus();
        }
        first == Some(First::Choose) || row.clicked()
    }
}

/// Draws the search field, which is empty and has the focus when its menu opens. Its text is stored in egui's memory.
pub fn search_ui(ui: &mut Ui, id: Id) -> Search {
    let is_new = opens(ui.ctx(), id);
    let stored = ui.data(|data| data.get_temp(id)).filter(|_| !is_new);
    let mut text: String = stored.unwrap_or_default();
    let field = ui.add(text_field(&mut text, "Search studies", 264.0));
    field.widget_info(|| named_text("Search studies", &text));
    // The field cannot take the focus while the menu is only measured, and the click that opens the menu would take it away again.
    let waits = id.with("waits for the focus");
    let is_waiting = is_new || ui.data(|data| data.get_temp(waits)).unwrap_or(false);
    let can_take = !ui.is_sizing_pass() && !ui.input(|input| input.pointer.any_click());
    if is_waiting && can_take {
        field.request_focus();
    }
    ui.data_mut(|data| data.insert_temp(waits, is_waiting && !can_take));
    if is_waiting && !can_take {
        ui.ctx().request_repaint();
    }
    let pressed = |key| ui.input(|input| input.key_pressed(key));
    let first = if field.lost_focus() && pressed(Key::Enter) && !text.trim().is_empty() {
        Some(First::Choose)
    } else if field.has_focus() && pressed(Key::ArrowDown) {
        Some(First::Focus)
    } else {
        None
    };
    ui.data_mut(|data| data.insert_temp(id, text.clone()));
    Search { text, first }
}

/// Draws the built-in studies that the search finds; returns the one that was clicked. `shown` is the name of the current study.
pub fn built_in_ui(ui: &mut Ui, search: &mut Search, shown: &str) -> Option<Study> {
    let (mut chosen, mut is_empty) = (None, true);
    for group in study_groups() {
        let is_wanted = |texts: [&str; 3]| search.finds(&[texts[0], texts[1], texts[2], &group.question]);
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
            let row = row.on_hover_text(format!("{}\nIts name in commands: {name}", titled.study.about));
            if search.has_chosen(&row) {
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
