//! Plan files: reading, writing and choosing them, in the background.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui::Context;
use poll_promise::Promise;

use super::PlanScreen;
use super::document::FileText;
use crate::analysis::{check_measures, check_search};
use crate::app::command::ScreenName;
use crate::app::desk::Desk;
use crate::app::task::{NO_FILE_CHOSEN, on_thread, taken};
use crate::figure::check_studies;
use crate::foreign;
use crate::plan::{Plan, PlanError};

/// Purpose of a question for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Open,
    Save,
}

/// The question for a path, answered in a text field or in the system's dialog.
pub(super) struct Question {
    /// Identifies the question, so that a new one starts with an empty field.
    pub(super) number: u64,
    pub(super) purpose: Purpose,
    /// Initial text of the field.
    pub(super) suggestion: String,
    /// The system's dialog, while it is open.
    pub(super) dialog: Option<Promise<Option<PathBuf>>>,
    /// A note to show.
    pub(super) note: Option<String>,
    /// An existing file that would be replaced.
    pub(super) replace: Option<PathBuf>,
}

/// Result of writing a plan.
pub(super) enum Saved {
    /// The file holds this plan.
    Done(Arc<Plan>, FileText),
    /// Another file exists and was not replaced.
    Exists(PathBuf),
    /// Another program changed the plan's file, which was not replaced.
    Changed(PathBuf),
    /// It could not be written.
    Failed(String),
}

/// Which existing file a save may replace.
enum Replaceable {
    /// None.
    Nothing,
    /// The plan's own file, if it still has this text.
    Text(Arc<str>),
    /// Any file.
    Any,
}

impl PlanScreen {
    /// Asks for a path, in a field and in the system's dialog, unless it is asked for a plan that cannot be saved.
    pub(super) fn ask(&mut self, purpose: Purpose, desk: &mut Desk, context: &Context) {
        if purpose == Purpose::Save && self.refuses_save(desk) {
            return;
        }
        let path = self.document.path().map(PathBuf::from);
        let path = path.unwrap_or_else(|| suggested_path(self.plan()));
        let suggestion = match (purpose, path.parent()) {
            (Purpose::Open, Some(folder)) => format!("{}/", folder.display()),
            _ => path.display().to_string(),
        };
        self.questions += 1;
        self.question = Some(Question {
            number: self.questions,
            purpose,
            suggestion,
            dialog: Some(dialog(purpose, &path, context)),
            note: None,
            replace: None,
        });
    }

    /// Begins to open a file.
    pub(super) fn begin_opening(&mut self, path: PathBuf, context: &Context) {
        self.changed = None;
        self.opening = Some(read(path, context));
    }

    /// Why the plan cannot be saved; `None` if it can. A file without the typed text would hold another plan than the screen shows.
    pub(super) fn save_refusal(&self) -> Option<String> {
        let name = &self.plan().name;
        self.form_error().map(|_| format!("The form of “{name}” contains an error, so the plan cannot be saved."))
    }

    /// Says why the plan cannot be saved, if it cannot; returns whether it cannot. Complete lines for new items are part of what is saved.
    fn refuses_save(&mut self, desk: &mut Desk) -> bool {
        self.add_lines();
        let (Some(refusal), Some(error)) = (self.save_refusal(), self.short_form_error()) else { return false };
        desk.problem(ScreenName::PLAN, format!("Nothing was saved. {refusal} {error}"));
        true
    }

    /// Begins to save the plan, if it can be saved. Its own file is replaced if no other program changed it, any other file only if
    /// `replace` is set.
    pub(super) fn save(&mut self, path: PathBuf, replace: bool, desk: &mut Desk, context: &Context) {
        self.changed = None;
        if self.refuses_save(desk) {
            return;
        }
        let replaceable = match self.document.file() {
            _ if replace => Replaceable::Any,
            Some(own) if own.path == path => Replaceable::Text(Arc::clone(&own.text)),
            _ => Replaceable::Nothing,
        };
        let from = self.document.path().map(PathBuf::from);
        self.saving = Some(write(self.document.plan().clone(), from, path, replaceable, context));
    }

    /// Opens or saves the file that was chosen in the system's dialog.
    pub(super) fn poll_question(&mut self, desk: &mut Desk, context: &Context) {
        let Some(question) = &mut self.question else { return };
        let Some(chosen) = taken(&mut question.dialog) else { return };
        match (chosen, question.purpose) {
            (Some(path), Purpose::Open) => {
                self.question = None;
                self.begin_opening(path, context);
            }
            (Some(path), Purpose::Save) => {
                self.question = None;
                // The dialog has already asked whether to replace an existing file.
                self.save(path, true, desk, context);
            }
            (None, _) => {
                question.note = Some(NO_FILE_CHOSEN.to_owned());
            }
        }
    }

    /// Takes over a plan that was read.
    pub(super) fn poll_opening(&mut self, desk: &mut Desk) {
        match taken(&mut self.opening) {
            Some(Ok((opened, file))) => {
                self.question = None;
                tell(desk, None);
                desk.settings.used_plan(&file.path);
                self.open(opened, Some(file));
            }
            Some(Err(message)) => tell(desk, Some(message)),
            None => {}
        }
    }

    /// Takes over what came of saving.
    pub(super) fn poll_saving(&mut self, desk: &mut Desk) {
        let Some(saved) = taken(&mut self.saving) else { return };
        match saved {
            Saved::Done(plan, file) => {
                tell(desk, None);
                desk.settings.used_plan(&file.path);
                self.document.saved(plan, &file);
                self.question = None;
            }
            Saved::Exists(path) => match &mut self.question {
                Some(question) => {
                    question.note = Some(format!("{} exists: press Replace to overwrite it.", path.display()));
                    question.replace = Some(path);
                }
                None => {
                    let message = format!("{} exists and was not replaced: choose another name", path.display());
                    tell(desk, Some(message));
                }
            },
            Saved::Changed(path) => {
                self.changed = Some(path);
                // The plan may have been saved from another screen, and the question is on this one.
                desk.screen = ScreenName::PLAN;
            }
            Saved::Failed(message) => tell(desk, Some(message)),
        }
    }
}

/// Shows why a plan file could not be opened or saved. The message about the file before is obsolete, also after a success.
fn tell(desk: &mut Desk, failure: Option<String>) {
    desk.begin("a plan file".to_owned());
    if let Some(message) = failure {
        desk.problem(ScreenName::PLAN, message);
    }
    desk.end();
}

/// Opens the system's dialog. The answer is `None` if it is cancelled or missing.
fn dialog(purpose: Purpose, suggestion: &Path, context: &Context) -> Promise<Option<PathBuf>> {
    let folder = suggestion.parent().map(Path::to_owned);
    let name = suggestion.file_name().map(|name| name.to_string_lossy().into_owned());
    on_thread("file dialog", context, move || {
        let mut dialog = rfd::FileDialog::new().add_filter("plans", &["toml"]);
        if let Some(folder) = folder {
            dialog = dialog.set_directory(folder);
        }
        match purpose {
            Purpose::Open => dialog.pick_file(),
            Purpose::Save => dialog.set_file_name(name.unwrap_or_default()).save_file(),
        }
    })
}

/// Reads a plan; the error lists all of its problems.
fn read(path: PathBuf, context: &Context) -> Promise<Result<(Plan, FileText), String>> {
    let read = |path: &Path| {
        let (plan, text) = Plan::read_with_text(path)?;
        check_measures(&plan, &path.display().to_string())?;
        check_search(&plan, &path.display().to_string())?;
        check_studies(&plan, &path.display().to_string())?;
        Ok::<_, PlanError>((plan, text))
    };
    on_thread("plan reader", context, move || match read(&path) {
        Ok((plan, text)) => Ok((plan, FileText { path, text: text.into() })),
        Err(error) => Err(format!("{error}\nThe plan on screen is unchanged.")),
    })
}

/// Whether a plan file has another text than this one. A file that is no longer there has none, so that nothing is lost by writing it.
fn has_other_text(path: &Path, known: &str) -> bool {
    match foreign::read(path, known.len() as u64) {
        Ok(now) => now != known.as_bytes(),
        Err(error) => error.kind() == io::ErrorKind::FileTooLarge,
    }
}

/// Writes a plan atomically. `from` is the file that the plan came from, whose comments and order are kept.
fn write(
    plan: Arc<Plan>,
    from: Option<PathBuf>,
    path: PathBuf,
    replaceable: Replaceable,
    context: &Context,
) -> Promise<Saved> {
    on_thread("plan writer", context, move || {
        match replaceable {
            Replaceable::Nothing if path.exists() => return Saved::Exists(path),
            Replaceable::Text(known) if has_other_text(&path, &known) => return Saved::Changed(path),
            _ => {}
        }
        let text = from.and_then(|from| std::fs::read_to_string(from).ok());
        let text = text.map_or_else(|| plan.to_toml(), |text| plan.to_toml_in(&text, &path.display().to_string()));
        match foreign::write(&path, text.as_bytes()) {
            Ok(()) => Saved::Done(plan, FileText { path, text: text.into() }),
            Err(error) => {
                Saved::Failed(format!("cannot save the plan to {}: {error}; choose a writable folder", path.display()))
            }
        }
    })
}

/// Suggested path of a plan without a file: in the working folder, named after the plan.
fn suggested_path(plan: &Plan) -> PathBuf {
    let plain = |c: char| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = plan.name.chars().map(plain).collect();
    let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
    let name = if words.is_empty() { "plan".to_owned() } else { words.join("-") };
    std::env::current_dir().unwrap_or_default().join(format!("{name}.toml"))
}
