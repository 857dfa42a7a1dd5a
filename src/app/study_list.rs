//! The list of studies to choose from: the session's studies, then the built-in studies with their titles, grouped by the question that
//! they answer. A search filters both.

use eframe::egui::{Button, Id, Key, Response, Ui};

use super::theme::GRID;
use super::widgets::{muted, named_text, opens, text_field};
use crate::figure::{Group, Study, Titled, study_groups};

/// A search for studies, and the action on the first study that it finds.
pub struct Search {
    text: String,
    first: Option<First>,
}

/// The action that a key in the search field requests for the first study.
#[derive(Clone, Copy, PartialEq)]
enum First {
    /// Enter chooses it.
    Choose,
    /// The arrow gives it the focus.
    Focus,
}

impl Search {
    /// Whether it finds a study: each of its words must occur in one of the texts, and a number as a whole word: `2` is not in
    /// `2503`.
    pub fn finds(&self, texts: &[&str]) -> bool {
        let text = texts.join(" ").to_lowercase();
        let is_number = |word: &str| word.chars().all(|letter| letter.is_ascii_digit());
        let is_whole = |number: &str| text.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == number);
        let occurs = |word: &str| if is_number(word) { is_whole(word) } else { text.contains(word) };
        self.text.to_lowercase().split_whitespace().all(occurs)
    }

    /// Whether a title contains the typed text as a whole.
    fn is_in(&self, title: &str) -> bool {
        title.to_lowercase().contains(&self.text.trim().to_lowercase())
    }

    /// The studies that it finds, by group. Studies whose titles contain the typed text as a whole come first.
    fn found<'g>(&self, groups: &'g [Group]) -> Vec<(&'g Group, Vec<&'g Titled>)> {
        let of_group = |group: &'g Group| {
            let is_found = |titled: &&Titled| {
                self.finds(&[&titled.title, &titled.study.name, &titled.study.about, &group.question])
            };
            let mut found: Vec<&Titled> = group.studies.iter().filter(is_found).collect();
            found.sort_by_key(|titled| !self.is_in(&titled.title));
            (group, found)
        };
        let mut found: Vec<_> = groups.iter().map(of_group).filter(|(_, found)| !found.is_empty()).collect();
        found.sort_by_key(|(_, found)| !self.is_in(&found[0].title));
        found
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
    let mut chosen = None;
    let groups = study_groups();
    let found = search.found(&groups);
    if found.is_empty() {
        ui.label(muted(ui, "No built-in study contains these words"));
    }
    for (group, studies) in found {
        ui.label(muted(ui, &group.question));
        for titled in studies {
            let name = &titled.study.name;
            let row = ui.add(Button::selectable(shown == *name, &titled.title).truncate());
            let row = row.on_hover_text(format!("{}\nIts name in commands: {name}", titled.study.about));
            if search.has_chosen(&row) {
                chosen = Some(titled.study.clone());
            }
        }
        ui.add_space(GRID);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_found_by_its_number_and_not_by_a_digit_of_its_papers() {
        let search = Search { text: "table 2".to_owned(), first: None };
        let groups = study_groups();
        let found = search.found(&groups);
        assert!(found[0].1[0].title.starts_with("Table 2:"), "{}", found[0].1[0].title);
        assert!(!search.finds(&["Table 1: times", "Paper 2503.15252"]));
        assert!(search.finds(&["Table 2: times", "Paper 2503.15252"]));
    }
}
