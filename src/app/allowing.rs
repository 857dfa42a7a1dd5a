//! Permission for programs that came with a session's archive: requests that would start them wait until the user has seen the command
//! lines and allows them, once a session.

use eframe::egui::{Label, RichText, ScrollArea, Ui};

use super::asking::{question_ui, title_ui};
use super::command::Command;
use super::deliberate;
use super::desk::Desk;
use super::engine::Request;
use super::widgets::muted;
use crate::conduct::Order;
use crate::session::digest_of_programs;

/// Height of the list of command lines, in points: longer ones scroll.
const LIST_HEIGHT: f32 = 120.0;

/// Whether a request may start a program that came with the session's archive.
fn may_start(request: &Request) -> bool {
    match request {
        Request::Order(order) => matches!(order, Order::Pause(false) | Order::Retry(_)),
        Request::Launch { plan, .. } => plan.blocks().any(|block| block.spec.command.is_some()),
        _ => false,
    }
}

impl Desk {
    /// Whether a request has to wait for the user's answer.
    pub(super) fn has_to_ask(&self, request: &Request) -> bool {
        !self.queue.asks.is_empty() && may_start(request)
    }

    /// Executes the answer. If the user allows the programs, the conductor gets the permission first and then the waiting requests.
    /// Otherwise only plans are sent, and the conductor refuses each plan that names one of the programs.
    pub(super) fn answer(&mut self, allows: bool) {
        let waiting_requests = std::mem::take(&mut self.waiting_requests);
        if allows {
            self.order(Order::Allow(digest_of_programs(&self.queue.asks)));
        }
        let goes = |request: &Request| allows || matches!(request, Request::Launch { .. });
        waiting_requests.into_iter().filter(goes).for_each(|request| self.send(request));
    }
}

/// Draws the question.
pub fn allow_ui(ui: &mut Ui, desk: &Desk, commands: &mut Vec<Command>) {
    if desk.waiting_requests.is_empty() {
        return;
    }
    let mut is_allowed = false;
    let stays = question_ui(ui.ctx(), "programs of an archive", |ui| {
        title_ui(ui, "This session came with an archive, and its runs start programs that somebody else wrote:");
        ScrollArea::vertical().max_height(LIST_HEIGHT).auto_shrink([false, true]).show(ui, |ui| {
            for line in &desk.queue.asks {
                let line = crate::foreign::printable(line);
                ui.add(Label::new(RichText::new(&*line).monospace()).wrap());
            }
        });
        ui.horizontal_wrapped(|ui| {
            let run = ui.button("Run these programs").on_hover_text("They run on this machine, under your account");
            is_allowed = deliberate::clicked(&run, "run the programs of an archive");
            let stays = ui.button("Don't run them").on_hover_text("No program of the archive starts");
            ui.label(muted(ui, "Asked once in this session."));
            stays
        })
        .inner
    });
    if is_allowed || stays {
        commands.push(Command::Allow(is_allowed));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;
    use crate::app::command::ScreenName;
    use crate::app::dressed::dressed;
    use crate::app::settings::Settings;
    use crate::conduct::QueueView;
    use crate::plan::Plan;

    fn desk() -> Desk {
        let mut desk = Desk::new(Settings::default(), ScreenName::RUNS);
        desk.queue = Arc::new(QueueView { asks: vec!["./theirs".to_owned()], ..QueueView::default() });
        desk
    }

    #[test]
    fn what_starts_programs_of_an_archive_waits_for_the_answer() {
        let mut desk = desk();
        let (resume, retry) = (Request::Order(Order::Pause(false)), Request::Order(Order::Retry("r".to_owned())));
        desk.order(Order::Pause(true));
        assert_eq!(desk.take_requests(), [Request::Order(Order::Pause(true))]);
        desk.ask(resume.clone());
        desk.ask(retry.clone());
        assert!(desk.take_requests().is_empty() && !desk.waiting_requests.is_empty());
        desk.answer(true);
        let allow = Request::Order(Order::Allow(digest_of_programs(&["./theirs".to_owned()])));
        assert_eq!(desk.take_requests(), [allow, resume.clone(), retry]);
        desk.ask(resume);
        desk.answer(false);
        assert!(desk.take_requests().is_empty() && desk.waiting_requests.is_empty());
    }

    #[test]
    fn an_own_plan_of_a_program_is_launched_whatever_the_answer_and_one_of_the_worker_unasked() {
        let mut desk = desk();
        let launch =
            |text: &str| Request::Launch { plan: Box::new(Plan::parse(text, "own").unwrap()), only_missing: false };
        desk.ask(launch("version = 1\n"));
        assert_eq!(desk.take_requests().len(), 1);
        let own = launch("version = 1\n[command]\nrun = [\"./own\"]\n");
        desk.ask(own.clone());
        assert!(desk.take_requests().is_empty());
        desk.answer(false);
        assert_eq!(desk.take_requests(), [own]);
    }

    #[test]
    fn the_question_shows_the_command_lines_and_its_answer_starts_what_waits() {
        let draw = |ui: &mut Ui, desk: &mut Desk| {
            let mut commands = Vec::new();
            allow_ui(ui, desk, &mut commands);
            for command in commands {
                let Command::Allow(allows) = command else { panic!("{command:?}") };
                desk.answer(allows);
            }
        };
        let mut window = dressed(Harness::builder().with_size([900.0, 400.0]), desk(), draw);
        assert!(window.query_by_label("Run these programs").is_none());
        for (button, requests) in [("Don't run them", 0), ("Run these programs", 2)] {
            window.state_mut().ask(Request::Order(Order::Pause(false)));
            window.run();
            assert!(window.query_by_label("./theirs").is_some(), "the command line is in sight");
            window.get_by_label(button).click();
            window.run();
            assert!(window.query_by_label(button).is_none());
            assert_eq!(window.state_mut().take_requests().len(), requests, "{button}");
        }
    }
}
