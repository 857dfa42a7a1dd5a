//! Exporting the open session and importing another, on a background thread.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use eframe::egui::{Button, Context, Label, ProgressBar, RichText, Ui};
use poll_promise::Promise;

use super::mapping::{Read, name_of};
use super::{EXPORT_FIELD, IMPORT_FIELD, Sessions, field};
use crate::app::command::SessionsCommand;
use crate::app::deliberate;
use crate::app::desk::Desk;
use crate::app::engine::Request;
use crate::app::task::{on_thread, typed_path};
use crate::app::theme::palette;
use crate::app::widgets::strong;
use crate::import::write_session;
use crate::session::default_sessions_folder;
use crate::store::{ArchiveError, export_session, import_session};

/// An export or import in progress.
pub(super) struct Transfer {
    /// Description, such as `exporting to /home/me/a.zip`.
    what: String,
    shared: Arc<Shared>,
    promise: Promise<Result<Done, ArchiveError>>,
}

#[derive(Default)]
struct Shared {
    thousandths: AtomicU32,
    stop: AtomicBool,
}

/// Result of a transfer.
enum Done {
    /// A written archive, with the message to show.
    Archive(String),
    Session(PathBuf),
}

impl Shared {
    /// Stores the progress; returns whether to continue.
    fn take(&self, done_bytes: u64, total_bytes: u64, context: &Context) -> ControlFlow<()> {
        let thousandths = (done_bytes as f64 / total_bytes.max(1) as f64 * 1000.0) as u32;
        if self.thousandths.swap(thousandths, Ordering::Relaxed) != thousandths {
            context.request_repaint();
        }
        if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Sessions {
    /// Starts an export or import, or cancels the current one.
    pub(super) fn execute_transfer(&mut self, command: SessionsCommand, desk: &mut Desk, context: &Context) {
        match (command, &self.transfer) {
            (SessionsCommand::StopTransfer, Some(transfer)) => transfer.shared.stop.store(true, Ordering::Relaxed),
            (SessionsCommand::Export(archive), None) => {
                let Some(session) = desk.session.as_ref().map(|session| session.folder.clone()) else { return };
                let archive = named_zip(archive);
                let what = format!("exporting to {}", archive.display());
                self.start_transfer(what, context, move |shared, context| {
                    let take = &mut |done, total| shared.take(done, total, context);
                    let left_out = export_session(&session, &archive, take)?;
                    Ok(Done::Archive(format!("{} written and checked{left_out}", archive.display())))
                });
            }
            (SessionsCommand::Import(archive), None) => match imported_folder(&archive) {
                Ok(folder) => {
                    let what = format!("importing {}", archive.display());
                    self.start_transfer(what, context, move |shared, context| {
                        import_session(&archive, &folder, &mut |done, total| shared.take(done, total, context))?;
                        Ok(Done::Session(folder))
                    });
                }
                Err(message) => desk.problem(desk.screen, message),
            },
            (SessionsCommand::TakeMapping, None) => self.take_mapping(desk, context),
            _ => {}
        }
    }

    /// Makes a session of the file whose columns are shown.
    fn take_mapping(&mut self, desk: &mut Desk, context: &Context) {
        // What was read before the last change is not what the user asks for.
        if let Some(dialog) = self.mapping.as_mut().filter(|dialog| dialog.is_reading()) {
            dialog.is_import_due = true;
            return;
        }
        let Some(dialog) = self.mapping.take_if(|dialog| dialog.can_import()) else { return };
        let Some(Ok(Read { table, mapping, results: Ok(results), .. })) = dialog.read else { return };
        let folder = match imported_folder(&dialog.file) {
            Ok(folder) => folder,
            Err(message) => return desk.problem(desk.screen, message),
        };
        let (what, file) = (format!("importing {}", dialog.file.display()), name_of(&dialog.file));
        self.start_transfer(what, context, move |shared, context| {
            let progress = &mut |done, total| shared.take(done, total, context);
            write_session(&folder, (&file, table.format), &mapping, &results, progress)?;
            Ok(Done::Session(folder))
        });
    }

    fn start_transfer(
        &mut self,
        what: String,
        context: &Context,
        work: impl FnOnce(&Shared, &Context) -> Result<Done, ArchiveError> + Send + 'static,
    ) {
        let shared = Arc::<Shared>::default();
        let (of_thread, waker) = (Arc::clone(&shared), context.clone());
        let promise = on_thread("session-transfer", context, move || work(&of_thread, &waker));
        self.transferred = None;
        self.transfer = Some(Transfer { what, shared, promise });
    }

    /// Forgets what came of the last transfer, because another session was opened.
    pub(in crate::app) fn forget_transfer(&mut self) {
        self.transferred = None;
    }

    /// Takes over the result of a transfer; an imported session is opened.
    pub(super) fn poll_transfer(&mut self, desk: &mut Desk) {
        let Some(ended) = self.transfer.take_if(|transfer| transfer.promise.ready().is_some()) else { return };
        match ended.promise.block_and_take() {
            Ok(Done::Archive(message)) => self.transferred = Some((message, true)),
            Ok(Done::Session(folder)) => desk.open_session(Request::OpenExisting(folder)),
            Err(ArchiveError::Cancelled) => {}
            Err(error) => {
                self.transferred = Some((error.to_string(), false));
                desk.problem(desk.screen, error.to_string());
            }
        }
    }
}

/// Whether a file's name is that of an archive.
pub(super) fn is_archive(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zip"))
}

/// The path with the ending that archives have.
fn named_zip(archive: PathBuf) -> PathBuf {
    if archive.extension().is_some_and(|extension| extension == "zip") {
        return archive;
    }
    let mut name = archive.into_os_string();
    name.push(".zip");
    name.into()
}

/// Folder for an imported session: in the default folder, named like the archive.
fn imported_folder(archive: &Path) -> Result<PathBuf, String> {
    let name = archive
        .file_stem()
        .ok_or_else(|| format!("{}: not the path of an archive; name a .zip file", archive.display()))?;
    Ok(default_sessions_folder().map_err(|error| error.to_string())?.join(name))
}

/// Draws the fields for archive paths, or the progress of the transfer.
pub(super) fn transfer_ui(ui: &mut Ui, sessions: &Sessions, desk: &Desk, send: &mut impl FnMut(&Ui, SessionsCommand)) {
    if let Some(Transfer { what, shared, .. }) = &sessions.transfer {
        ui.label(strong(what));
        ui.horizontal(|ui| {
            let share = shared.thousandths.load(Ordering::Relaxed) as f32 / 1000.0;
            ui.add(ProgressBar::new(share).desired_width(230.0).show_percentage());
            if deliberate::clicked(&ui.button("Cancel"), "cancel the transfer") {
                send(ui, SessionsCommand::StopTransfer);
            }
        });
        return;
    }
    let mut row =
        |ui: &mut Ui, title: &str, id: &str, name: &str, hint: &str, command: fn(PathBuf) -> SessionsCommand| {
            ui.label(strong(title));
            ui.horizontal(|ui| {
                let typed = field(ui, id, name, hint);
                let path = typed_path(&typed.text);
                let pressed = ui.add_enabled(path.is_some(), Button::new(title)).clicked() || typed.entered;
                if let (true, Some(path)) = (pressed, path) {
                    // The text stays, so that it can be corrected if the action fails.
                    send(ui, command(path));
                }
            });
        };
    if let Some(session) = &desk.session {
        // The path belongs to the session.
        let id = format!("export-path {}", session.folder.display());
        row(ui, "Export session", &id, EXPORT_FIELD, "a path that ends in .zip", SessionsCommand::Export);
    }
    row(ui, "Import session", "import-path", IMPORT_FIELD, "a .zip, .csv, .jsonl or .json", SessionsCommand::Import);
    if let Some((message, good)) = &sessions.transferred {
        let palette = palette(ui.visuals());
        let colour = if *good { palette.good } else { palette.bad };
        ui.add(Label::new(RichText::new(message).small().color(colour)).wrap());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_gets_the_ending_that_its_name_lacks() {
        let named = |name: &str| named_zip(PathBuf::from(name));
        assert_eq!(
            [named("a/night"), named("a/night.1"), named("a/night.zip")].map(|path| path.display().to_string()),
            ["a/night.zip", "a/night.1.zip", "a/night.zip"]
        );
    }
}
