//! The page of one run: its state with the reason, and its tabs.

use eframe::egui::{Align, Button, Id, Label, Layout, Role, ScrollArea, Stroke, Ui, WidgetInfo};
use strum::IntoEnumIterator;

use super::text::{Lines, text_ui};
use super::{RunsCommand, Tab, advice, list, summary};
use crate::app::command::Command;
use crate::app::deliberate;
use crate::app::desk::Row;
use crate::app::engine::RunPage;
use crate::app::screens::runs::View;
use crate::app::theme::GRID;
use crate::app::widgets::{card, focus_left, muted, named_text, strong, text_field};
use crate::store::number_of;

/// A run's page, with long texts prepared for drawing.
pub struct Page {
    /// The page as read.
    pub read: RunPage,
    log: Lines,
    events: Lines,
    job: Lines,
    plan: Lines,
}

impl Page {
    /// Prepares a page for drawing.
    pub fn new(mut read: RunPage) -> Self {
        let log = Lines::new(std::mem::take(&mut read.log));
        let events = Lines::new(std::mem::take(&mut read.events).join("\n"));
        let job = Lines::new(laid_out(std::mem::take(&mut read.job)));
        let plan = Lines::new(std::mem::take(&mut read.plan));
        Self { read, log, events, job, plan }
    }
}

/// A job file with a line for each of its values: it is one line of JSON. Other text stays as it is.
fn laid_out(job: String) -> String {
    let read: Result<serde_json::Value, _> = serde_json::from_str(&job);
    read.and_then(|read| serde_json::to_string_pretty(&read)).unwrap_or(job)
}

/// Draws the page of the selected run.
pub fn page_ui(ui: &mut Ui, view: View<'_>, row: &Row, commands: &mut Vec<Command>) {
    title_ui(ui, view, row, commands);
    note_ui(ui, view, row, commands);
    let page = view.own.page.as_ref();
    if let Some(waits) = &row.waits {
        card(ui).show(ui, |ui| {
            ui.take_available_width();
            ui.add(Label::new(waits).wrap().selectable(true));
        });
    }
    reason_ui(ui, row, page);
    tabs_ui(ui, view.own.tab, commands);
    ui.add_space(GRID);
    let Some(page) = page else {
        ui.weak("reading …");
        return;
    };
    match view.own.tab {
        Tab::Summary => {
            ScrollArea::vertical().id_salt("run-summary").auto_shrink(false).show(ui, |ui| {
                summary::summary_ui(ui, row, &page.read);
            });
        }
        Tab::Log => text_ui(ui, "log", &page.log, "Nothing was written to stderr.", true),
        Tab::Events => text_ui(ui, "events", &page.events, "No events yet.", true),
        Tab::Job => text_ui(ui, "job", &page.job, "The run never started, so there is no job file.", false),
        Tab::Plan => text_ui(ui, "plan", &page.plan, "The session does not contain its plan.", false),
    }
}

fn title_ui(ui: &mut Ui, view: View<'_>, row: &Row, commands: &mut Vec<Command>) {
    let mut send = |command: RunsCommand| commands.push(Command::from(command));
    ui.horizontal(|ui| {
        let (symbol, color) = list::sign(ui, row.state);
        ui.label(strong(format!("Run {}", row.number)).size(crate::app::theme::TITLE)).on_hover_text(&row.run);
        ui.colored_label(color, format!("{symbol} {}", row.state.name()));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let close = ui.button("×").on_hover_text("Close the page (Esc)");
            close.widget_info(|| WidgetInfo::labeled(Role::Button, true, "Close the page"));
            if close.clicked() {
                send(RunsCommand::Select(None));
            }
            let why_not = view.locked();
            let mut button = |ui: &mut Ui, text: &str, command: RunsCommand| {
                let response = ui.add_enabled(why_not.is_none(), Button::new(text));
                let response = response.on_disabled_hover_text(why_not.unwrap_or_default());
                // One button takes the place of the other when the run ends.
                if deliberate::clicked(&response, (text, &row.run)) {
                    send(command);
                }
            };
            if row.can_retry() && row.retried_as.is_none() {
                button(ui, "Retry this run", RunsCommand::Retry(row.run.clone()));
            }
            if !row.state.is_final() {
                button(ui, "Cancel this run", RunsCommand::Cancel(row.run.clone()));
            }
            if let Some(successor) = &row.retried_as
                && ui.link(format!("Retried as run {}", number_of(successor))).clicked()
            {
                send(RunsCommand::Select(Some(successor.clone())));
            }
        });
    });
    if !row.cells.is_empty() {
        let repeat = row.repeat.map_or(String::new(), |repeat| format!("repeat {repeat}"));
        let named =
            view.runs.listing.columns.iter().zip(&row.cells).map(|(column, cell)| format!("{} {cell}", column.name));
        let text = named.chain([repeat]).collect::<Vec<_>>().join(" · ");
        ui.add(Label::new(muted(ui, text)).wrap());
    }
}

/// Draws the note on the run, which is saved when the field is left.
fn note_ui(ui: &mut Ui, view: View<'_>, row: &Row, commands: &mut Vec<Command>) {
    let id = Id::unique(("run-note", &row.run));
    let mut text: String = ui.data(|data| data.get_temp(id)).unwrap_or_else(|| row.note.clone());
    let field = ui.add_enabled(
        view.locked().is_none(),
        text_field(&mut text, "Note: what is special about this run; words with # are tags", f32::INFINITY),
    );
    field.widget_info(|| named_text("Note on the run", &text));
    if focus_left(ui.ctx(), id, field.has_focus()) && text.trim() != row.note {
        text = text.trim().to_owned();
        commands.push(Command::from(RunsCommand::Note(row.run.clone(), text.clone())));
    }
    let is_edited = field.has_focus() || text != row.note;
    ui.data_mut(|data| {
        if is_edited {
            data.insert_temp(id, text);
        } else {
            data.remove::<String>(id);
        }
    });
    ui.add_space(GRID);
}

/// Draws why it did not finish, and what to do.
fn reason_ui(ui: &mut Ui, row: &Row, page: Option<&Page>) {
    let Some(record) = page.map(|page| &page.read.record).filter(|record| record.state == row.state) else { return };
    let Some((heading, advice)) = advice::advice(record) else { return };
    let color = list::sign(ui, row.state).1;
    card(ui).stroke(Stroke::new(1.0, color)).show(ui, |ui| {
        ui.take_available_width();
        ui.label(strong(heading).color(color));
        let by_rank =
            || record.ranks.iter().find_map(|rank| rank.failure.as_ref()).map(|(_, message)| message.as_str());
        if let Some(reason) = record.reason.as_deref().or_else(by_rank).filter(|reason| *reason != "cancelled") {
            ScrollArea::vertical().id_salt("run-reason").max_height(140.0).show(ui, |ui| {
                ui.add(Label::new(reason).wrap().selectable(true));
            });
        }
        ui.add(Label::new(muted(ui, advice)).wrap());
    });
    ui.add_space(GRID);
}

fn tabs_ui(ui: &mut Ui, chosen: Tab, commands: &mut Vec<Command>) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = GRID;
        for tab in Tab::iter() {
            let response = ui.add(Button::selectable(chosen == tab, tab.name()));
            let name = format!("{} of the run", tab.name());
            response.widget_info(|| WidgetInfo::selected(Role::Tab, true, chosen == tab, &name));
            if response.clicked() {
                commands.push(Command::from(RunsCommand::Show(tab)));
            }
        }
    });
    ui.separator();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_a_line_for_each_of_its_values_and_other_text_stays() {
        assert_eq!(laid_out("{\"run\":1,\"seed\":7}".to_owned()), "{\n  \"run\": 1,\n  \"seed\": 7\n}");
        assert_eq!(laid_out("no job".to_owned()), "no job");
    }
}
