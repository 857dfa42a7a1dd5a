//! Which columns a table shows, and in which order: the user's choice is stored between starts.

use eframe::egui::{Button, Role, ScrollArea, Ui, WidgetInfo};
use serde::{Deserialize, Serialize};

use super::widgets::{check_ui, lasting_menu};

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
    /// Columns that the user wants to see although they hold no values.
    pub kept: Vec<String>,
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

    /// The indexes of the visible ones among `keys`, in the chosen order. The `empty` ones hold no values, so they are visible only if
    /// the user wants to see them. If none would be visible, all are.
    pub fn shown(&self, keys: &[String], empty: &[usize]) -> Vec<usize> {
        let is_shown = |place: usize| self.shows(&keys[place], empty.contains(&place));
        let mut shown = self.ordered(keys);
        if shown.iter().any(|place| is_shown(*place)) {
            shown.retain(|place| is_shown(*place));
        }
        shown
    }

    fn shows(&self, key: &str, is_empty: bool) -> bool {
        let has = |keys: &[String]| keys.iter().any(|known| known == key);
        !has(&self.hidden) && (!is_empty || has(&self.kept))
    }

    /// Shows or hides a column from now on.
    pub fn show(&mut self, key: &str, show: bool, is_empty: bool) {
        self.hidden.retain(|known| known != key);
        self.kept.retain(|known| known != key);
        match (show, is_empty) {
            (false, _) => self.hidden.push(key.to_owned()),
            (true, true) => self.kept.push(key.to_owned()),
            (true, false) => {}
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

/// Draws the menu with this name for choosing and ordering columns, followed by `more`; returns the new choice if it was changed. The
/// `empty` columns hold no values.
pub fn columns_ui(
    ui: &mut Ui,
    name: &str,
    now: &Columns,
    named: &[Named],
    empty: &[usize],
    more: impl FnOnce(&mut Ui),
) -> Option<Columns> {
    let mut asked = None;
    let menu = lasting_menu(ui, Button::new(name), |ui| {
        ScrollArea::vertical().max_height(420.0).show(ui, |ui| {
            asked = chooser_ui(ui, now, named, empty);
            more(ui);
        });
    });
    menu.response.on_hover_text("Choose the columns and their order");
    asked
}

fn chooser_ui(ui: &mut Ui, now: &Columns, named: &[Named], empty: &[usize]) -> Option<Columns> {
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
            let is_empty = empty.contains(index);
            let mut show = now.shows(key, is_empty);
            let check = check_ui(ui, &mut show, name.clone());
            check.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, show, format!("Column {name}")));
            if check.changed() {
                let mut columns = now.clone();
                columns.show(key, show, is_empty);
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
            columns.shown(&keys, &[]).into_iter().map(|place| keys[place].clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(columns_with(&columns, "a b c"), "a b c");
        columns.exchange(&keys("a b c"), (2, 1));
        assert_eq!(columns_with(&columns, "a b c"), "a c b");
        assert_eq!(columns_with(&columns, "a b new c"), "a c b new");
        columns.show("c", false, false);
        assert_eq!(columns_with(&columns, "a b c"), "a b");
        // In another session, columns that do not exist keep their places.
        columns.exchange(&keys("b x"), (0, 1));
        assert_eq!(columns_with(&columns, "b x"), "x b");
        columns.show("c", true, false);
        assert_eq!(columns_with(&columns, "a b c"), "b a c");
    }

    #[test]
    fn a_table_without_any_column_shows_them_all() {
        let columns = Columns { hidden: keys("a b"), ..Columns::default() };
        assert_eq!(columns.shown(&keys("a b"), &[]), [0, 1]);
        assert_eq!(Columns::default().shown(&keys("a b"), &[0, 1]), [0, 1]);
    }

    #[test]
    fn a_column_without_values_is_shown_once_the_user_wants_it() {
        let mut columns = Columns::default();
        assert_eq!(columns.shown(&keys("a b"), &[1]), [0]);
        columns.show("b", true, true);
        assert_eq!(columns.shown(&keys("a b"), &[1]), [0, 1]);
        columns.show("b", false, true);
        assert_eq!(columns.shown(&keys("a b"), &[1]), [0]);
        // What was hidden stays hidden when it gets values.
        assert_eq!(columns.shown(&keys("a b"), &[]), [0]);
    }
}
