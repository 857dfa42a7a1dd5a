//! Opening a figure file: restores its study and opens its session if that is known.

use std::path::{Path, PathBuf};

use eframe::egui::Context;

use super::FiguresScreen;
use crate::app::command::ScreenName;
use crate::app::desk::Desk;
use crate::app::engine::Request;
use crate::app::task::{on_thread, taken_about};
use crate::figure::paper::{Provenance, read_file};
use crate::session::find_session;

impl FiguresScreen {
    /// Starts reading a figure file.
    pub(super) fn open(&mut self, file: PathBuf, desk: &mut Desk, context: &Context) {
        desk.screen = ScreenName::FIGURES;
        self.outcome = None;
        let path = file.clone();
        self.opening = Some((file, on_thread("figure reader", context, move || read_file(&path))));
    }

    /// Takes over a figure file that was read.
    pub(super) fn poll_open(&mut self, desk: &mut Desk, context: &Context) {
        let Some((file, read)) = taken_about(&mut self.opening) else { return };
        match read {
            Ok(provenance) => self.show_figure(&file, provenance, desk, context),
            Err(error) => self.outcome = Some((format!("{}: {error}", file.display()), false)),
        }
        self.opened_message = self.outcome.as_ref().map(|(message, _)| message.clone());
    }

    fn show_figure(&mut self, file: &Path, provenance: Provenance, desk: &mut Desk, context: &Context) {
        let before = self.edited();
        let is_composed = provenance.composition.is_some();
        let origin = provenance.sessions.first().map(|origin| origin.session.as_str());
        let is_open = origin.is_some_and(|origin| desk.session.as_ref().is_some_and(|open| open.name() == origin));
        let folder = origin.filter(|_| !is_open).and_then(|name| find_session(file, name, &desk.settings.recent));
        match provenance.composition {
            Some(composition) => {
                let opening = origin.filter(|_| folder.is_some());
                self.show_composition(composition, (file, opening), desk, context);
            }
            None => (self.study, self.composing.is_shown) = (provenance.study, false),
        }
        if self.edited() != before {
            self.history.edited(before, None);
        }
        self.stale = true;
        let problems = provenance.problems.iter().map(|problem| format!("\n{problem}"));
        let problems: String = problems.collect();
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        let Some(origin) = origin else {
            self.outcome = Some((format!("opened {name}, which names no session{problems}"), true));
            return;
        };
        let others: Vec<&str> = provenance.sessions[1..].iter().map(|origin| origin.session.as_str()).collect();
        let also = match (others.is_empty(), is_composed) {
            (true, _) => String::new(),
            (false, true) => format!(" and {}", others.join(", ")),
            (false, false) => format!("; it also shows {}: add it on the Compare screen", others.join(", ")),
        };
        // What its file says and cannot be read is left out of the picture.
        let also = also + &problems;
        match folder {
            _ if is_open => self.outcome = Some((format!("opened {name} of session {origin}{also}"), true)),
            Some(folder) => {
                self.outcome = Some((format!("opened {name} with session {origin}{also}"), true));
                desk.open_session(Request::OpenExisting(folder));
            }
            None => {
                let message = format!(
                    "{name} shows session {origin}, which is not known here: open that session to see the figure. \
                     multicard figure FILE --format json prints the contents of the file",
                );
                self.outcome = Some((message, false));
            }
        }
    }
}
