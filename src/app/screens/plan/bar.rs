//! The bar above the cards: the plan's name, other plans, undo and redo, and the question for a path.

use std::path::Path;

use eframe::egui::{Id, Key, Response, Role, ScrollArea, Ui, WidgetInfo};

use super::PlanCommand;
use super::files::{Purpose, Question};
use super::start::STARTING_PLANS;
use crate::app::asking::{self, ask_ui, title_ui};
use crate::app::command::Command;
use crate::app::deliberate;
use crate::app::screens::plan::View;
use crate::app::task::typed_path;
use crate::app::theme::GRID;
use crate::app::widgets::{card, muted, text_field};
use crate::papers;
use crate::plan::{Plan, usual_workload};

/// Height of a list of plans; longer ones scroll.
const LIST_HEIGHT: f32 = 360.0;

/// Draws the bar.
pub(super) fn bar_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let mut asked = Vec::new();
    let document = &view.own.document;
    ui.horizontal(|ui| {
        ui.heading("Plan");
        ui.menu_button("Plans …", |ui| asked.extend(menu_ui(ui, view)));
        if button_ui(ui, document.can_undo(), "Undo", "Undo the last edit (Ctrl Z)").clicked() {
            asked.push(PlanCommand::Undo);
        }
        if button_ui(ui, document.can_redo(), "Redo", "Redo the edit (Ctrl Y)").clicked() {
            asked.push(PlanCommand::Redo);
        }
        let name = document.path().map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy());
        let mark = if view.own.is_unsaved() { " · unsaved changes" } else { "" };
        let text = name.map_or_else(|| format!("no file yet{mark}"), |name| format!("{name}{mark}"));
        let label = ui.add(eframe::egui::Label::new(muted(ui, text)).truncate());
        if let Some(path) = document.path() {
            label.on_hover_text(path.display().to_string());
        }
        if view.own.opening.is_some() {
            ui.label(muted(ui, "reading …"));
        }
    });
    if let Some((other, _)) = &view.own.replacing {
        let question = format!("Open {} in place of {}?", other.name, view.own.plan().name);
        let loss = format!(
            "The form of {} contains an error: what was typed into it is lost, and undo does not bring it back.",
            view.own.plan().name
        );
        let yes = format!("Open {} and lose the changes", other.name);
        let answer = ask_ui(ui.ctx(), "replace the plan", &question, &loss, &yes, "Stay");
        asked.extend(answer.map(PlanCommand::AnswerReplace));
    }
    if let Some(path) = &view.own.changed {
        asked.extend(changed_ui(ui, path));
    }
    if let Some(question) = &view.own.question {
        question_ui(ui, question, &mut asked);
    }
    ui.add_space(GRID);
    commands.extend(asked.into_iter().map(Command::from));
}

fn menu_ui(ui: &mut Ui, view: View<'_>) -> Option<PlanCommand> {
    let mut asked = None;
    let mut add = |ui: &mut Ui, name: &str, help: &str, command: &dyn Fn() -> PlanCommand| {
        if ui.button(name).on_hover_text(help).clicked() {
            asked = Some(command());
        }
    };
    ui.menu_button("Start from", |ui| {
        for start in STARTING_PLANS {
            add(ui, start.name, &start.help(), &|| PlanCommand::Start(start.name));
        }
        add(ui, "New plan", "One cell: every factor has its default", &|| {
            PlanCommand::Begin(Box::new(Plan::new("untitled", usual_workload())))
        });
    });
    ui.menu_button("A paper's setting", |ui| {
        ScrollArea::vertical().max_height(LIST_HEIGHT).show(ui, |ui| {
            for artefact in papers::artefacts() {
                if let Some(plan) = artefact.plan() {
                    add(ui, &artefact.id(), &artefact.shows, &|| PlanCommand::Begin(Box::new(plan.clone())));
                }
            }
        });
    });
    let plans = &view.records.plans;
    ui.add_enabled_ui(!plans.is_empty(), |ui| {
        ui.menu_button("Of this session", |ui| {
            ScrollArea::vertical().max_height(LIST_HEIGHT).show(ui, |ui| {
                for (number, plan) in plans.iter().enumerate().rev() {
                    add(ui, &plan.name, "As it was launched", &|| PlanCommand::OfSession(number));
                }
            });
        });
    });
    let recent = &view.settings.recent_plans;
    ui.add_enabled_ui(!recent.is_empty(), |ui| {
        ui.menu_button("Recent files", |ui| {
            for path in recent {
                let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
                add(ui, &name, &path.display().to_string(), &|| PlanCommand::OpenFile(path.clone()));
            }
        });
    });
    ui.separator();
    add(ui, "Open …", "Open a plan file (Ctrl O), or drop it on the window", &|| PlanCommand::Open);
    add(ui, "Save", "Save to its file (Ctrl S); keeps its comments", &|| PlanCommand::Save);
    add(ui, "Save as …", "Save to another file", &|| PlanCommand::SaveAs);
    if asked.is_some() {
        ui.close();
    }
    asked
}

/// Asks whether to replace a plan file that another program changed; returns the answer.
fn changed_ui(ui: &Ui, path: &Path) -> Option<PlanCommand> {
    let mut answer = None;
    let stays = asking::question_ui(ui.ctx(), "replace a changed file", |ui| {
        title_ui(ui, &format!("Another program has changed {} since it was opened or saved here.", path.display()));
        let loss = "Replacing the file loses the changes of the other program. Reading it again takes the plan on screen \
                    away; undo brings it back.";
        ui.label(muted(ui, loss));
        ui.add_space(2.0 * GRID);
        ui.horizontal_wrapped(|ui| {
            if deliberate::clicked(&ui.button("Replace the file"), ("changed file", "replace")) {
                answer = Some(PlanCommand::SaveFile { path: path.to_owned(), replace: true });
            }
            if deliberate::clicked(&ui.button("Read it again"), ("changed file", "read")) {
                answer = Some(PlanCommand::OpenFile(path.to_owned()));
            }
            ui.button("Cancel")
        })
        .inner
    });
    answer.or_else(|| stays.then_some(PlanCommand::CloseQuestion))
}

fn button_ui(ui: &mut Ui, enabled: bool, name: &str, help: &str) -> Response {
    ui.add_enabled(enabled, eframe::egui::Button::new(name)).on_hover_text(help)
}

fn question_ui(ui: &mut Ui, question: &Question, asked: &mut Vec<PlanCommand>) {
    let id = Id::unique(("path of a plan", question.number));
    let typed: Option<String> = ui.data(|data| data.get_temp(id));
    if typed.is_none() {
        ui.memory_mut(|memory| memory.request_focus(id));
    }
    let mut text = typed.unwrap_or_else(|| question.suggestion.clone());
    ui.add_space(GRID);
    card(ui).show(ui, |ui| {
        ui.set_width(ui.available_width() - super::SCROLL_BAR);
        ui.horizontal_wrapped(|ui| {
            ui.label(match question.purpose {
                Purpose::Open => "Open a plan",
                Purpose::Save => "Save the plan",
            });
            let waiting = question.dialog.is_some();
            let note = if waiting { "Choose a file in the dialog, or type its path." } else { "Type its path." };
            ui.label(muted(ui, question.note.as_deref().unwrap_or(note)));
        });
        ui.horizontal(|ui| {
            let width = (ui.available_width() - 210.0).max(120.0);
            let field = ui.add(text_field(&mut text, "", width).id(id));
            field.widget_info(|| WidgetInfo::labeled(Role::TextInput, true, "Path of the plan"));
            let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
            if entered {
                // If the file cannot be read, the question stays and the next key belongs to the path field, not to the window.
                field.request_focus();
            }
            // Letters may arrive in the same frame as Enter: the field has added them to the text.
            let path = typed_path(&text);
            let replace = question.replace.is_some() && question.replace == path;
            let verb = match question.purpose {
                Purpose::Open => "Open this file",
                Purpose::Save if replace => "Replace",
                Purpose::Save => "Save here",
            };
            let pressed = ui.add_enabled(path.is_some(), eframe::egui::Button::new(verb)).clicked();
            if let (true, Some(path)) = (entered || pressed, path) {
                asked.push(match question.purpose {
                    Purpose::Open => PlanCommand::OpenFile(path),
                    Purpose::Save => PlanCommand::SaveFile { path, replace },
                });
            }
            let escaped = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Escape));
            if ui.button("Close").clicked() || escaped {
                asked.push(PlanCommand::CloseQuestion);
            }
        });
    });
    ui.data_mut(|data| data.insert_temp(id, text));
}
