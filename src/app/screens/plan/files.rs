//! Plan files: reading, writing and choosing them, in the background.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui::Context;
use poll_promise::Promise;

use super::PlanScreen;
use crate::analysis::{check_measures, check_search};
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
    Done(Arc<Plan>, PathBuf),
    /// Another file exists and was not replaced.
    Exists(PathBuf),
    /// It could not be written.
    Failed(String),
}

impl PlanScreen {
    /// Asks for a path, in a field and in the system's dialog.
    pub(super) fn ask(&mut self, purpose: Purpose, context: &Context) {
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

    /// Begins to save the plan.
    pub(super) fn save(&mut self, path: PathBuf, replace: bool, context: &Context) {
        let own = self.document.path() == Some(path.as_path());
        let from = self.document.path().map(PathBuf::from);
        self.saving = Some(write(self.document.plan().clone(), from, path, replace || own, context));
    }

    /// Opens or saves the file that was chosen in the system's dialog.
    pub(super) fn poll_question(&mut self, context: &Context) {
        let Some(question) = &mut self.question else { return };
        let Some(chosen) = taken(&mut question.dialog) else { return };
        match (chosen, question.purpose) {
            (Some(path), Purpose::Open) => {
                self.question = None;
                self.opening = Some(read(path, context));
            }
            (Some(path), Purpose::Save) => {
                self.question = None;
                // The dialog has already asked whether to replace an existing file.
                self.save(path, true, context);
            }
            (None, _) => {
                question.note = Some(NO_FILE_CHOSEN.to_owned());
            }
        }
    }

    /// The file that was just saved, if any.
    pub(super) fn poll_saving(&mut self) -> Result<Option<PathBuf>, String> {
        let Some(saved) = taken(&mut self.saving) else { return Ok(None) };
        match saved {
            Saved::Done(plan, path) => {
                self.document.saved(plan, path.clone());
                self.question = None;
                Ok(Some(path))
            }
            Saved::Exists(path) => match &mut self.question {
                Some(question) => {
                    question.note = Some(format!("{} exists: press Replace to overwrite it.", path.display()));
                    question.replace = Some(path);
                    Ok(None)
                }
                None => Err(format!("{} exists and was not replaced: choose another name", path.display())),
            },
            Saved::Failed(message) => Err(message),
        }
    }
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
pub(super) fn read(path: PathBuf, context: &Context) -> Promise<Result<(Plan, PathBuf), String>> {
    let read = |path: &Path| {
        let plan = Plan::read(path)?;
        check_measures(&plan, &path.display().to_string())?;
        check_search(&plan, &path.display().to_string())?;
        check_studies(&plan, &path.display().to_string())?;
        Ok::<_, PlanError>(plan)
    };
    on_thread("plan reader", context, move || match read(&path) {
        Ok(plan) => Ok((plan, path)),
        Err(error) => Err(format!("{error}\nThe plan on screen is unchanged.")),
    })
}

/// Writes a plan atomically. An existing file is replaced only if `replace` is set. `from` is the file that the plan came
/// from, whose comments and order are kept.
fn write(plan: Arc<Plan>, from: Option<PathBuf>, path: PathBuf, replace: bool, context: &Context) -> Promise<Saved> {
    on_thread("plan writer", context, move || {
        if !replace && path.exists() {
            return Saved::Exists(path);
        }
        let text = from.and_then(|from| std::fs::read_to_string(from).ok());
        let text = text.map_or_else(|| plan.to_toml(), |text| plan.to_toml_in(&text, &path.display().to_string()));
        match foreign::write(&path, text.as_bytes()) {
            Ok(()) => Saved::Done(plan, path),
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
