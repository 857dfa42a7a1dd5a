//! Export of the displayed runs as a long table: which rows, which format, which file; runs on a background thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use eframe::egui::{Button, Context, Label, RichText, Role, Spinner, Ui, WidgetInfo};
use poll_promise::Promise;
use strum::VariantArray as _;

use super::Desk;
use crate::analysis::counted;
use crate::app::command::{Command, DataCommand};
use crate::app::deliberate;
use crate::app::task::{on_thread, typed_path};
use crate::app::theme::{SMALL, palette};
use crate::app::widgets::{lasting_menu, muted, radio_ui, strong, text_field};
use crate::app::words::{runs_text, shell_word};
use crate::export::{Exported, Format, What, export_to_file};
use crate::plan::Filter;
use crate::session::open_reader;

/// The state of the export of data: the user's choices, and the file that is being written.
pub struct DataExport {
    what: What,
    format: Format,
    path: String,
    work: Option<Work>,
    /// How the last export ended, and whether it succeeded.
    outcome: Option<(String, bool)>,
}

struct Work {
    promise: Promise<Result<String, String>>,
    stop: Arc<AtomicBool>,
}

impl Default for DataExport {
    fn default() -> Self {
        Self { what: What::Runs, format: Format::Csv, path: String::new(), work: None, outcome: None }
    }
}

impl DataExport {
    /// Whether an export is running.
    pub fn is_busy(&self) -> bool {
        self.work.is_some()
    }
}

impl Desk {
    fn export_path(&self) -> Option<PathBuf> {
        let ending = self.export.format.name();
        let suggested = || {
            let folder = &self.session.as_ref()?.folder;
            Some(folder.join("figures").join(format!("{}.{ending}", self.export.what.name())))
        };
        typed_path(&self.export.path).or_else(suggested)
    }

    /// Executes a command of the export of data.
    pub fn execute_export(&mut self, command: DataCommand, context: &Context) {
        match command {
            DataCommand::What(what) => self.export.what = what,
            DataCommand::Format(format) => {
                self.export.format = format;
                if let Some(typed) = typed_path(&self.export.path) {
                    self.export.path = typed.with_extension(format.name()).display().to_string();
                }
            }
            DataCommand::Path(text) => {
                self.export.path = text;
                // A path with the ending of a format selects that format.
                let ending = typed_path(&self.export.path);
                let ending = ending.as_ref().and_then(|path| path.extension()).and_then(|ending| ending.to_str());
                let named = Format::VARIANTS.iter().find(|format| Some(format.name()) == ending);
                self.export.format = named.copied().unwrap_or(self.export.format);
            }
            DataCommand::Export(filter) => self.export_runs(filter, context),
            DataCommand::Stop => {
                if let Some(work) = &self.export.work {
                    work.stop.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    fn export_runs(&mut self, filter: String, context: &Context) {
        let (Some(session), Some(path), None) = (&self.session, self.export_path(), &self.export.work) else { return };
        let folder = session.folder.clone();
        let (what, format, stop) = (self.export.what, self.export.format, Arc::<AtomicBool>::default());
        let stopped = Arc::clone(&stop);
        self.export.outcome = None;
        let work = move || export(&folder, &filter, what, format, &path, &|| stopped.load(Ordering::Relaxed));
        self.export.work = Some(Work { promise: on_thread("data export", context, work), stop });
    }

    /// Takes over the result of an export.
    pub fn poll_export(&mut self) {
        let Some(ended) = self.export.work.take_if(|work| work.promise.ready().is_some()) else { return };
        self.export.outcome = Some(match ended.promise.block_and_take() {
            Ok(message) => (message, true),
            Err(message) => (message, false),
        });
    }

    /// The command that writes the same file; `None` without a session.
    pub fn export_command(&self, filter: &str) -> Option<String> {
        let folder = self.session.as_ref()?.folder.display().to_string();
        let mut words = vec![folder, "--what".to_owned(), self.export.what.name().to_owned()];
        if !filter.trim().is_empty() {
            words.extend(["--filter".to_owned(), filter.to_owned()]);
        }
        let path = self.export_path().unwrap_or_default();
        words.extend(["--output".to_owned(), path.display().to_string()]);
        let ending = path.extension().and_then(|ending| ending.to_str());
        if ending != Some(self.export.format.name()) {
            words.extend(["--format".to_owned(), self.export.format.name().to_owned()]);
        }
        let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
        Some(format!("multicard export {}", words.join(" ")))
    }
}

fn export(
    folder: &Path,
    filter: &str,
    what: What,
    format: Format,
    file: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<String, String> {
    let filter = Filter::parse(filter).map_err(|error| format!("the filter cannot be read: {error}"))?;
    let reader = open_reader(folder).map_err(|error| error.to_string())?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(folder) = file.parent().filter(|folder| folder.ends_with("figures")) {
        // If it cannot be created, writing the file reports the reason.
        let _ = std::fs::create_dir(folder);
    }
    let exported = export_to_file(&reader, &name, what, &filter, format, file, stop);
    let Exported { runs, rows, meanings } = exported.map_err(|error| error.to_string())?;
    let written = format!("Written: {} from {} in {}", counted(rows as usize, "row"), runs_text(runs), file.display());
    Ok(std::iter::once(written).chain(meanings).collect::<Vec<_>>().join("; "))
}

/// Draws the menu that exports the runs that a screen shows, given by its filter. `others` says whether sessions besides the open one are
/// shown.
pub fn data_menu_ui(ui: &mut Ui, desk: &Desk, filter: &str, others: bool, commands: &mut Vec<Command>) {
    if desk.session.is_none() {
        return;
    }
    let menu = lasting_menu(ui, Button::new("Export data"), |ui| {
        ui.set_width(380.0);
        menu_ui(ui, desk, filter, others, commands);
    });
    menu.response
        .on_hover_text("Write the runs that are shown as a table for other programs, with one observation in each row");
}

fn menu_ui(ui: &mut Ui, desk: &Desk, filter: &str, others: bool, commands: &mut Vec<Command>) {
    let data = &desk.export;
    let mut send = |command| commands.push(Command::Data(command));
    ui.label(strong("Rows"));
    for &what in What::VARIANTS {
        let (chosen, name) = (data.what == what, what.name());
        let radio = radio_ui(ui, chosen, true, what.help());
        radio.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, chosen, format!("Rows of {name}")));
        if radio.clicked() {
            send(DataCommand::What(what));
        }
    }
    ui.horizontal(|ui| {
        ui.label(strong("Format"));
        for &format in Format::VARIANTS {
            let (chosen, name) = (data.format == format, format.name());
            let radio = radio_ui(ui, chosen, true, name).on_hover_text(format.help());
            radio.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, chosen, format!("Format {name}")));
            if radio.clicked() {
                send(DataCommand::Format(format));
            }
        }
    });
    let mut text = data.path.clone();
    let path = desk.export_path().map_or(String::new(), |path| path.display().to_string());
    let field = ui.add(text_field(&mut text, path.clone(), 360.0)).on_hover_text(path);
    field.widget_info(|| WidgetInfo::labeled(Role::TextInput, true, "File of the data"));
    if text != data.path {
        send(DataCommand::Path(text));
    }
    let which_runs =
        if filter.trim().is_empty() { "All runs of the session".to_owned() } else { format!("Runs with {filter}") };
    ui.add(Label::new(muted(ui, which_runs).size(SMALL)).wrap());
    if others {
        ui.add(
            Label::new(muted(ui, "Only the open session is exported; export others after opening them.").size(SMALL))
                .wrap(),
        );
    }
    ui.horizontal(|ui| match &data.work {
        Some(_) => {
            ui.add(Spinner::new());
            ui.label("writing …");
            if deliberate::clicked(&ui.button("Stop"), "stop the export") {
                send(DataCommand::Stop);
            }
        }
        None => {
            if ui.button("Write the file").clicked() {
                send(DataCommand::Export(filter.to_owned()));
            }
            if ui.button("Copy as command").clicked() {
                let command = desk.export_command(filter);
                command.into_iter().for_each(|command| ui.ctx().copy_text(command));
            }
        }
    });
    if let Some((message, good)) = &data.outcome {
        let palette = palette(ui.visuals());
        let colour = if *good { palette.good } else { palette.bad };
        ui.add(Label::new(RichText::new(message).size(SMALL).color(colour)).wrap());
    }
}
