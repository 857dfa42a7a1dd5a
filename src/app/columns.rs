//! Which columns a table shows, and in which order: the user's choice is stored between starts.

use eframe::egui::containers::menu::{MenuButton, MenuConfig};
use eframe::egui::{Button, PopupCloseBehavior, Role, ScrollArea, Ui, WidgetInfo};
use serde::{Deserialize, Serialize};

use super::widgets::check_ui;

/// A table with columns that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listed {
    /// The list of runs.
    Runs,
    /// The table of cells on Compare.
    Compare,
}

/// The columns of a table as the user wants them. Columns are named by keys; the columns of other sessions keep their positions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Columns {
    /// Hidden columns.
    pub hidden: Vec<String>,
    /// The order of columns; a column that is not named follows the column that it follows by default.
    pub order: Vec<String>,
}

/// A column: its key and its name on screen.
pub type Named = (String, String);

impl Columns {
    /// The indexes of `keys` in the chosen order.
    fn ordered(&self, keys: &[String]) -> Vec<usize> {
        let place = |key: &String| keys.iter().position(|known| known == key);
        let mut ordered: Vec<usize> = self.order.iter().filter_map(place).collect();
        for (index, key) in keys.iter().enumerate() {
            if !self.order.contains(key) {
                let before = index.checked_sub(1).and_then(|before| ordered.iter().position(|known| *known == before));
                ordered.insert(before.map_or(0, |before| before + 1), index);
            }
        }
        ordered
    }

    /// The indexes of the visible ones among `keys`, in the chosen order. If none would be visible, all are.
    pub fn shown(&self, keys: &[String]) -> Vec<usize> {
        let mut shown = self.ordered(keys);
        if keys.iter().any(|key| !self.hidden.contains(key)) {
            shown.retain(|place| !self.hidden.contains(&keys[*place]));
        }
        shown
    }

    fn show(&mut self, key: &str, show: bool) {
        self.hidden.retain(|known| known != key);
        if !show {
            self.hidden.push(key.to_owned());
        }
    }

    /// Swaps the columns at two positions of the chosen order.
    fn exchange(&mut self, keys: &[String], (one, other): (usize, usize)) {
        let mut order: Vec<String> = self.ordered(keys).into_iter().map(|place| keys[place].clone()).collect();
        order.swap(one, other);
        // Columns of other sessions keep their positions at the end.
        let others: Vec<String> = self.order.iter().filter(|key| !order.contains(key)).cloned().collect();
        self.order = order.into_iter().chain(others).collect();
    }
}

/// Draws the menu with this name for choosing and ordering columns, followed by `more`; returns the new choice if it was changed.
pub fn columns_ui(
    ui: &mut Ui,
    name: &str,
    now: &Columns,
    named: &[Named],
    more: impl FnOnce(&mut Ui),
) -> Option<Columns> {
    let mut asked = None;
    let config = MenuConfig::new().close_behavior(PopupCloseBehavior::CloseOnClickOutside);
    let (response, _) = MenuButton::new(name).config(config).ui(ui, |ui| {
        ScrollArea::vertical().max_height(420.0).show(ui, |ui| {
            asked = chooser_ui(ui, now, named);
            more(ui);
        });
    });
    response.on_hover_text("Choose the columns and their order");
    asked
}

fn chooser_ui(ui: &mut Ui, now: &Columns, named: &[Named]) -> Option<Columns> {
    let mut asked = None;
    let keys: Vec<String> = named.iter().map(|(key, _)| key.clone()).collect();
    let ordered = now.ordered(&keys);
    for (place, index) in ordered.iter().enumerate() {
        let (key, name) = &named[*index];
        ui.horizontal(|ui| {
            for (sign, word, other) in [("▲", "up", place.checked_sub(1)), ("▼", "down", Some(place + 1))] {
                let other = other.filter(|other| *other < ordered.len());
                let button = ui.add_enabled(other.is_some(), Button::new(sign).small());
                let label = format!("Move column {name} {word}");
                button.widget_info(|| WidgetInfo::labeled(Role::Button, other.is_some(), &label));
                if let (true, Some(other)) = (button.clicked(), other) {
                    let mut columns = now.clone();
                    columns.exchange(&keys, (place, other));
                    asked = Some(columns);
                }
            }
            let mut show = !now.hidden.contains(key);
            let check = check_ui(ui, &mut show, name.clone());
            check.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, show, format!("Column {name}")));
            if check.changed() {
                let mut columns = now.clone();
                columns.show(key, show);
                asked = Some(columns);
            }
        });
    }
    if *now != Columns::default() && ui.button("Usual columns").clicked() {
        asked = Some(Columns::default());
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn columns_keep_their_order_and_new_ones_stand_behind_their_neighbours() {
        let mut columns = Columns::default();
        let columns_with = |columns: &Columns, text: &str| {
            let keys = keys(text);
            columns.shown(&keys).into_iter().map(|place| keys[place].clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(columns_with(&columns, "a b c"), "a b c");
        columns.exchange(&keys("a b c"), (2, 1));
        assert_eq!(columns_with(&columns, "a b c"), "a c b");
        assert_eq!(columns_with(&columns, "a b new c"), "a c b new");
        columns.show("c", false);
        assert_eq!(columns_with(&columns, "a b c"), "a b");
        // In another session, columns that do not exist keep their places.
        columns.exchange(&keys("b x"), (0, 1));
        assert_eq!(columns_with(&columns, "b x"), "x b");
        columns.show("c", true);
        assert_eq!(columns_with(&columns, "a b c"), "b a c");
    }

    #[test]
    fn a_table_without_any_column_shows_them_all() {
        let columns = Columns { hidden: keys("a b"), ..Columns::default() };
        assert_eq!(columns.shown(&keys("a b")), [0, 1]);
    }
}
