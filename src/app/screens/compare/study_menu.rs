//! The Study menu: built-in studies and those of the session, to choose, save and delete.

use eframe::egui::{Button, Id, Key, Role, ScrollArea, Ui, WidgetInfo};

use super::View;
use super::{CompareCommand, CompareScreen};
use crate::app::command::{Command, ScreenName};
use crate::app::deliberate;
use crate::app::desk::{Deed, Desk, Inverse};
use crate::app::study_list::{Search, built_in_ui, search_ui};
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{lasting_menu, muted, named, text_field};
use crate::conduct::Order;
use crate::figure::{SavedStudy, Study, find_study, refused_name};

impl CompareScreen {
    /// The study in words: its name, and whether it differs from the saved study with that name.
    fn study_text(&self, saved: &[SavedStudy]) -> String {
        let study = &self.study;
        if study.name.is_empty() {
            return "Study".to_owned();
        }
        let is_kept = find_study(saved, &study.name).is_ok_and(|kept| kept == *study);
        format!("Study: {}{}", study.name, if is_kept { "" } else { " (changed)" })
    }
}

/// Why the session cannot save a study or a measure now; `None` if it can.
pub(super) fn cannot_save(desk: &Desk) -> Option<String> {
    match &desk.session {
        None => Some("No session is open, and studies and measures are saved in a session".to_owned()),
        Some(session) => session.read_only.clone(),
    }
}

impl CompareScreen {
    /// Saves what is shown as a study with this name.
    pub(super) fn save_study(&mut self, name: &str, desk: &mut Desk) {
        let name = name.trim();
        if let Some(reason) = refused_name(name) {
            return desk.problem(ScreenName::COMPARE, format!("saving the study: {reason}"));
        }
        let study = Study { name: name.to_owned(), ..self.held_study() };
        match serde_json::to_value(&study) {
            Ok(json) => {
                let before = kept(desk, name);
                let inverse = before.map_or_else(
                    || Order::DeleteStudy(name.to_owned()),
                    |before| Order::SaveStudy(name.to_owned(), before),
                );
                let what = format!("The study {name:?} was saved");
                let orders = vec![Order::SaveStudy(name.to_owned(), json)];
                desk.order_to_undo(Deed { what, orders, inverse: vec![Inverse::Order(inverse)] });
                self.study = study;
            }
            Err(error) => desk.problem(ScreenName::COMPARE, format!("saving the study {name:?}: {error}")),
        }
    }
}

/// A study as it is saved in the session, if it is.
fn kept(desk: &Desk, name: &str) -> Option<serde_json::Value> {
    let saved = desk.records.studies.iter().find(|saved| saved.name == name)?;
    serde_json::from_str(&saved.json).ok()
}

/// Deletes a saved study; this can be undone.
pub(super) fn delete_study(name: &str, desk: &mut Desk) {
    let Some(json) = kept(desk, name) else { return };
    let what = format!("The study {name:?} was deleted");
    let inverse = vec![Inverse::Order(Order::SaveStudy(name.to_owned(), json))];
    desk.order_to_undo(Deed { what, orders: vec![Order::DeleteStudy(name.to_owned())], inverse });
}

/// The description of a study without a name.
const PLAIN: &str =
    "One measure with its ratio to the baseline; accuracy and loss show whether cells did the same work";

/// Draws the menu.
pub fn study_menu_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let text = format!("{} ⏷", view.own.study_text(&view.records.studies));
    let response = lasting_menu(ui, Button::new(text), |ui| {
        ui.set_min_width(320.0);
        ui.set_max_width(420.0);
        save_ui(ui, view, commands);
        ui.separator();
        let mut search = search_ui(ui, Id::unique("study-search"));
        // At most the height that the window leaves below the button.
        let height = (ui.ctx().content_rect().bottom() - ui.cursor().top() - 6.0 * GRID).clamp(120.0, 560.0);
        ui.scope(|ui| {
            ui.set_max_height(height);
            ScrollArea::vertical().max_height(height).show(ui, |ui| {
                let saved = view.records.studies.iter().filter(|saved| search.finds(&[&saved.name]));
                let saved: Vec<_> = saved.collect();
                if !saved.is_empty() {
                    ui.label(muted(ui, "Saved in this session"));
                    saved.into_iter().for_each(|saved| saved_ui(ui, view, saved, &mut search, commands));
                    ui.add_space(GRID);
                }
                if search.finds(&["plain", PLAIN]) {
                    let plain = Study { about: PLAIN.to_owned(), ..Study::default() };
                    let name = "Plain: one measure and its ratio";
                    study_ui(ui, view, (name, &plain), &mut search, commands);
                }
                if let Some(study) = built_in_ui(ui, &mut search, &view.own.study.name) {
                    commands.push(Command::from(CompareCommand::Study(Box::new(study))));
                    ui.close();
                }
            });
        });
    })
    .response;
    response.widget_info(|| named(&view.own.study_text(&view.records.studies)));
    response.on_hover_text("Choose what is shown (a measure, charts, a table), or save it under a name");
}

fn study_ui(
    ui: &mut Ui,
    view: View<'_>,
    (name, study): (&str, &Study),
    search: &mut Search,
    commands: &mut Vec<Command>,
) {
    let about = if study.about.is_empty() { study.form.help() } else { &study.about };
    let row = ui.selectable_label(view.own.study.name == study.name, name).on_hover_text(about);
    if search.has_chosen(&row) {
        let study = if study.name.is_empty() { Study::default() } else { study.clone() };
        commands.push(Command::from(CompareCommand::Study(Box::new(study))));
        ui.close();
    }
}

fn saved_ui(ui: &mut Ui, view: View<'_>, saved: &SavedStudy, search: &mut Search, commands: &mut Vec<Command>) {
    ui.horizontal(|ui| {
        let delete = ui.add_enabled(cannot_save(view.desk).is_none(), Button::new("✗").small());
        let delete = delete.on_hover_text("Delete this study; the notice can restore it");
        delete.widget_info(|| named(&format!("Delete study {}", saved.name)));
        if deliberate::clicked(&delete, ("delete study", &saved.name)) {
            commands.push(Command::from(CompareCommand::DeleteStudy(saved.name.clone())));
        }
        match &saved.study {
            Ok(study) => study_ui(ui, view, (saved.name.as_str(), study), search, commands),
            Err(reason) => {
                let text = muted(ui, format!("⚠ {}", saved.name));
                ui.add_enabled(false, Button::selectable(false, text)).on_disabled_hover_text(reason);
            }
        }
    });
}

/// A field for a name and its button.
fn save_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    // The text being typed is local and is stored in egui's own memory.
    let id = Id::unique("study-name");
    let mut name: String = ui.data(|data| data.get_temp(id)).unwrap_or_default();
    let cannot = cannot_save(view.desk);
    let refused = ui.horizontal(|ui| {
        let field = text_field(&mut name, "Save what is shown as …", 200.0);
        let field = ui.add_enabled(cannot.is_none(), field);
        field.widget_info(|| WidgetInfo::labeled(Role::TextInput, cannot.is_none(), "Name of the study"));
        let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
        let is_known = view.records.studies.iter().any(|saved| saved.name == name.trim());
        let refused = refused_name(&name).filter(|_| !name.is_empty());
        let can = cannot.is_none() && refused.is_none() && !name.trim().is_empty();
        let save = ui.add_enabled(can, Button::new(if is_known { "Replace" } else { "Save" }));
        save.widget_info(|| WidgetInfo::labeled(Role::Button, can, "Save study"));
        let save = match &cannot {
            Some(reason) => save.on_disabled_hover_text(reason),
            None => {
                save.on_hover_text(if is_known { "Replaces the study of this name" } else { "Keeps it in the session" })
            }
        };
        if can && (save.clicked() || entered) {
            commands.push(Command::from(CompareCommand::SaveStudy(name.trim().to_owned())));
            name.clear();
            ui.close();
        }
        refused
    });
    ui.data_mut(|data| data.insert_temp(id, name));
    if let Some(reason) = refused.inner {
        ui.colored_label(palette(ui.visuals()).warning, reason);
    }
}
