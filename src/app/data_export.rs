//! Export of the runs that are shown as a long table: which rows, which format, where to, on a background thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use eframe::egui::containers::menu::{MenuButton, MenuConfig};
use eframe::egui::{Context, Label, PopupCloseBehavior, RichText, Role, Spinner, Ui, WidgetInfo};
use poll_promise::Promise;
use strum::VariantArray as _;

use super::plan::{on_thread, typed_path};
use super::theme::{SMALL, palette};
use super::widgets::{fields_on_cards, muted, radio_ui, strong, text_field};
use super::{Command, Screen, State};
use crate::export::{Exported, Format, What, export_to_file};
use crate::figure::filter_of;
use crate::plan::Filter;
use crate::session::open_reader;

/// A command of the export of data.
#[derive(Clone, Debug, PartialEq)]
pub enum DataCommand {
    /// Choose what the rows are.
    What(What),
    /// Choose the format.
    Format(Format),
    /// Type the file's path; an empty one stands for the suggestion.
    Path(String),
    /// Export.
    Export,
    /// Stop the export; nothing of it is kept.
    Stop,
}

/// State of the export of data.
pub struct DataState {
    what: What,
    format: Format,
    path: String,
    work: Option<Work>,
    /// How the last export ended, and whether it succeeded.
    said: Option<(String, bool)>,
}

struct Work {
    promise: Promise<Result<String, String>>,
    stop: Arc<AtomicBool>,
}

impl Default for DataState {
    fn default() -> Self {
        Self { what: What::Runs, format: Format::Csv, path: String::new(), work: None, said: None }
    }
}

impl DataState {
    /// Whether an export goes on.
    pub fn is_busy(&self) -> bool {
        self.work.is_some()
    }
}

impl State {
    /// The filter that leaves the runs that the screen shows.
    fn shown_runs(&self) -> String {
        match self.screen {
            Screen::Compare => filter_of(&self.compare.study),
            Screen::Figures => filter_of(&self.figures.study),
            _ => self.runs.filter().to_owned(),
        }
    }

    fn data_path(&self) -> Option<PathBuf> {
        let ending = self.data.format.name();
        let suggested = || {
            let folder = &self.session.as_ref()?.folder;
            Some(folder.join("figures").join(format!("{}.{ending}", self.data.what.name())))
        };
        typed_path(&self.data.path).or_else(suggested)
    }

    /// Executes a command of the export of data.
    pub(super) fn execute_data(&mut self, command: DataCommand, context: &Context) {
        match command {
            DataCommand::What(what) => self.data.what = what,
            DataCommand::Format(format) => {
                self.data.format = format;
                if let Some(typed) = typed_path(&self.data.path) {
                    self.data.path = typed.with_extension(format.name()).display().to_string();
                }
            }
            DataCommand::Path(text) => {
                self.data.path = text;
                // A path that says its format means it.
                let ending = typed_path(&self.data.path);
                let ending = ending.as_ref().and_then(|path| path.extension()).and_then(|ending| ending.to_str());
                let named = Format::VARIANTS.iter().find(|format| Some(format.name()) == ending);
                self.data.format = named.copied().unwrap_or(self.data.format);
            }
            DataCommand::Export => self.export_data(context),
            DataCommand::Stop => {
                if let Some(work) = &self.data.work {
                    work.stop.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    fn export_data(&mut self, context: &Context) {
        let (Some(session), Some(path), None) = (&self.session, self.data_path(), &self.data.work) else { return };
        let (folder, filter) = (session.folder.clone(), self.shown_runs());
        let (what, format, stop) = (self.data.what, self.data.format, Arc::<AtomicBool>::default());
        let stopped = Arc::clone(&stop);
        self.data.said = None;
        let work = move || export(&folder, &filter, what, format, &path, &|| stopped.load(Ordering::Relaxed));
        self.data.work = Some(Work { promise: on_thread("data export", context, work), stop });
    }

    /// Takes over the result of an export.
    pub(super) fn poll_data(&mut self) {
        let Some(Work { promise, stop }) = self.data.work.take() else { return };
        match promise.try_take() {
            Ok(Ok(said)) => self.data.said = Some((said, true)),
            Ok(Err(message)) => self.data.said = Some((message, false)),
            Err(promise) => self.data.work = Some(Work { promise, stop }),
        }
    }

    /// The words of `multicard export` that write the same file.
    pub(super) fn export_words(&self) -> Vec<String> {
        let mut words = vec!["--what".to_owned(), self.data.what.name().to_owned()];
        let filter = self.shown_runs();
        if !filter.trim().is_empty() {
            words.extend(["--filter".to_owned(), filter]);
        }
        let path = self.data_path().unwrap_or_default();
        words.extend(["--output".to_owned(), path.display().to_string()]);
        let ending = path.extension().and_then(|ending| ending.to_str());
        if ending != Some(self.data.format.name()) {
            words.extend(["--format".to_owned(), self.data.format.name().to_owned()]);
        }
        words
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
        // If it cannot be created, writing the file says why.
        let _ = std::fs::create_dir(folder);
    }
    let exported = export_to_file(&reader, &name, what, &filter, format, file, stop);
    let Exported { runs, rows } = exported.map_err(|error| error.to_string())?;
    Ok(format!("Written: {rows} rows of {runs} runs in {}", file.display()))
}

/// Draws the menu that exports the shown runs.
pub fn data_menu_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    if state.session.is_none() {
        return;
    }
    let config = MenuConfig::new().close_behavior(PopupCloseBehavior::CloseOnClickOutside);
    let (response, _) = MenuButton::new("Export data").config(config).ui(ui, |ui| {
        ui.set_width(380.0);
        fields_on_cards(ui);
        menu_ui(ui, state, commands);
    });
    response.on_hover_text("Write the runs that are shown as a long table for other programs");
}

fn menu_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    let data = &state.data;
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
    let path = state.data_path().map_or(String::new(), |path| path.display().to_string());
    let field = ui.add(text_field(&mut text, path.clone(), 360.0)).on_hover_text(path);
    field.widget_info(|| WidgetInfo::labeled(Role::TextInput, true, "File of the data"));
    if text != data.path {
        send(DataCommand::Path(text));
    }
    let filter = state.shown_runs();
    let whose =
        if filter.trim().is_empty() { "All runs of the session".to_owned() } else { format!("Runs with {filter}") };
    ui.add(Label::new(muted(ui, whose).size(SMALL)).wrap());
    if state.screen != Screen::Runs && state.compare_sources().len() > 1 {
        ui.add(
            Label::new(muted(ui, "Of the open session; others are exported from their own window.").size(SMALL)).wrap(),
        );
    }
    ui.horizontal(|ui| match &data.work {
        Some(_) => {
            ui.add(Spinner::new());
            ui.label("writing …");
            if ui.button("Stop").clicked() {
                send(DataCommand::Stop);
            }
        }
        None => {
            if ui.button("Write the file").clicked() {
                send(DataCommand::Export);
            }
            if ui.button("Copy as command").clicked() {
                let command = state.export_command();
                command.into_iter().for_each(|command| ui.ctx().copy_text(command));
            }
        }
    });
    if let Some((said, good)) = &data.said {
        let palette = palette(ui.visuals());
        let colour = if *good { palette.good } else { palette.bad };
        ui.add(Label::new(RichText::new(said).size(SMALL).color(colour)).wrap());
    }
}
