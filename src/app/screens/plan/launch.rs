//! Launches the plan. First computes what would run, and reports why it cannot.

use std::sync::Arc;

use eframe::egui::Context;

use super::outlook::Outlook;
use super::{PlanScreen, View};
use crate::app::command::ScreenName;
use crate::app::desk::Desk;
use crate::app::engine::Request;
use crate::app::task::{on_thread, taken};
use crate::plan::Plan;

/// Progress of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Launch {
    /// No launch was requested.
    #[default]
    Idle,
    /// Requested; sent as soon as the outlook is known.
    Wanted,
    /// Sent and not answered yet; another request now would launch twice.
    Sent,
}

impl PlanScreen {
    /// Stores an outlook that is ready, and starts to compute the next one if the plan or the machine changed.
    pub(super) fn poll_outlook(&mut self, desk: &Desk, context: &Context) {
        if let Some(outlook) = taken(&mut self.pending) {
            self.outlook = Some(Arc::new(outlook));
        }
        let Some(node) = desk.node.clone() else { return };
        if self.pending.is_none() && (View { own: self, desk }).outlook().is_none() {
            let (plan, shown) = (Arc::clone(self.document.plan()), Arc::clone(self.document.shown()));
            // What another machine has installed is unknown here.
            let is_here = desk.session.as_ref().is_none_or(|session| session.host().is_none());
            self.pending = Some(on_thread("plan outlook", context, move || {
                if is_here { Outlook::here(plan, shown, node) } else { Outlook::new(plan, shown, node) }
            }));
        }
    }

    /// Launches the plan, now or as soon as its outlook is known.
    pub(super) fn launch_plan(&mut self, desk: &mut Desk) {
        if self.launch == Launch::Sent {
            return;
        }
        self.launch = Launch::Idle;
        let view = View { own: self, desk };
        if let Some(reason) = view.launch_refusal() {
            return desk.problem(ScreenName::PLAN, format!("Nothing was launched. {reason}"));
        }
        if view.outlook().is_none() {
            self.launch = Launch::Wanted;
            return;
        }
        self.launch = Launch::Sent;
        desk.ask(Request::Launch {
            plan: Box::new(Plan::clone(self.document.plan())),
            only_missing: self.only_missing,
        });
    }
}

impl<'a> View<'a> {
    /// The outlook of the current plan on the current machine, once known.
    pub(super) fn outlook(self) -> Option<&'a Arc<Outlook>> {
        let node = self.desk.node.as_ref()?;
        let outlook = self.own.outlook.as_ref()?;
        let current = Arc::ptr_eq(&outlook.shown, self.own.document.shown()) && Arc::ptr_eq(&outlook.node, node);
        current.then_some(outlook)
    }

    /// Whether all runs of the open session were imported, so that runs launched now would be the first of its own.
    pub(super) fn is_of_imported_runs(self) -> bool {
        let rows = &self.desk.runs.rows;
        !rows.is_empty() && rows.iter().all(|row| row.is_imported)
    }

    /// Why nothing can be launched now; `None` if it can, or if that is not known yet.
    pub(super) fn launch_refusal(self) -> Option<String> {
        let session = self.session.as_ref().filter(|session| !session.is_sample());
        if let Some(reason) = session.and_then(|session| session.read_only.as_ref()) {
            return Some(reason.clone());
        }
        let Some(node) = &self.node else { return Some("Reading this machine …".to_owned()) };
        if let Some(error) = self.own.short_form_error() {
            return Some(error);
        }
        if self.own.program.is_trying() {
            return Some("A trial is running.".to_owned());
        }
        if let (true, Err(reason)) = (self.own.plan().needs_worker(), &node.worker) {
            return Some(format!("Runs need the worker: {reason}"));
        }
        let outlook = self.outlook()?;
        if let Some(trouble) = &outlook.search_trouble {
            return Some(trouble.clone());
        }
        if outlook.runs > 0 {
            let is_all_there =
                self.own.plan().search.is_none() && self.own.only_missing && self.own.kept_runs() >= outlook.runs;
            return is_all_there.then(|| {
                "Nothing is missing: the session holds all of these runs. Untick \"keep finished repeats\" to run them again."
                    .to_owned()
            });
        }
        let reason = outlook.matrix.invalid.first().map_or("no cell", |cell| cell.reason.as_str());
        Some(format!("No cell can run here: {reason}"))
    }
}
