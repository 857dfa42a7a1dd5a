//! The Figures screen: a study set for paper. The preview is exactly the picture that is exported.

mod controls;
mod drawn;
mod export;
mod open;
mod preview;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use eframe::egui::{CentralPanel, Context, Frame, Id, Margin, Panel, TextureHandle, TextureOptions, Ui};
use poll_promise::Promise;

use super::plan::on_thread;
use super::{Command, Request, Screen, State};
use crate::analysis::{Key, Level};
use crate::figure::paper::{Family, Palette, Provenance, ReadError, Width};
use crate::figure::{Format, Study, preset};
use drawn::Drawn;
use export::Exported;

/// Endings of the files of figures.
pub const ENDINGS: [&str; 3] = ["pdf", "svg", "png"];

/// A command of the Figures screen.
#[derive(Clone, Debug, PartialEq)]
pub enum FiguresCommand {
    /// Switch to another study of the same cells.
    Study(Box<Study>),
    /// Set the measure by its key; none means the form's default.
    Measure(Option<Key>),
    /// Focus the filter field.
    FocusFilter,
    /// Filter the cells.
    Filter(String),
    /// Show or hide the cells with a level: key, level, whether to show.
    Keep(Key, Level, bool),
    /// Show all cells.
    KeepAll,
    /// Use a logarithmic axis for values.
    Log(bool),
    /// Set the width: column or page.
    Width(Width),
    /// Set the typeface.
    Font(Family),
    /// Set the palette: colours or greys.
    Palette(Palette),
    /// Set the type size in points.
    Size(f64),
    /// Set the resolution of a PNG in dpi.
    Dpi(u32),
    /// Set the resolution of the preview in pixels per point.
    Resolution(f64),
    /// Set the format of the table.
    Table(Format),
    /// Copy the table as shown.
    Copy,
    /// Set the path to export to; empty means the suggested one.
    Path(String),
    /// Choose the path in the system's dialog.
    Choose,
    /// Write the file.
    Export,
    /// Copy a paragraph on how the figure's numbers were measured.
    CopyMethods,
    /// Open a figure file.
    Open(PathBuf),
}

/// State of the Figures screen.
pub struct FiguresState {
    /// What is shown and how.
    pub study: Study,
    /// Resolution of a PNG in dpi.
    pub dpi: u32,
    /// Typed path to export to; empty means the suggested one.
    pub path: String,
    /// Format of the table.
    pub table: Format,
    /// Outcome of the last export or opening: a message, and whether it succeeded.
    pub said: Option<(String, bool)>,
    /// Pixels per point.
    resolution: f64,
    drawn: Option<Result<Drawn, String>>,
    texture: Option<TextureHandle>,
    work: Option<Promise<Result<Drawn, String>>>,
    stale: bool,
    exporting: Option<Promise<Exported>>,
    describing: Option<Promise<Result<String, String>>>,
    choosing: Option<Promise<Option<PathBuf>>>,
    opening: Option<(PathBuf, Promise<Result<Provenance, ReadError>>)>,
}

impl Default for FiguresState {
    fn default() -> Self {
        Self {
            study: preset("times").unwrap_or_default(),
            dpi: 300,
            path: String::new(),
            table: Format::Markdown,
            said: None,
            resolution: 2.0,
            drawn: None,
            texture: None,
            work: None,
            stale: true,
            exporting: None,
            describing: None,
            choosing: None,
            opening: None,
        }
    }
}

impl FiguresState {
    /// The session's records changed.
    pub fn records_changed(&mut self) {
        self.stale = true;
    }

    /// The drawn figure, or why there is none.
    pub fn drawn(&self) -> Option<&Result<Drawn, String>> {
        self.drawn.as_ref()
    }

    /// Whether a figure is being drawn, exported, opened or chosen.
    pub fn is_busy(&self) -> bool {
        self.stale
            || self.work.is_some()
            || self.exporting.is_some()
            || self.describing.is_some()
            || self.opening.is_some()
    }
}

impl State {
    /// Executes a command of the Figures screen.
    pub fn execute_figures(&mut self, command: FiguresCommand, context: &Context, _requests: &mut Vec<Request>) {
        let figures = &mut self.figures;
        let before = (figures.study.clone(), figures.resolution);
        let style = &mut figures.study.style;
        match command {
            FiguresCommand::Study(study) => {
                let Study { filter, hidden, held, baseline, log, style, .. } = figures.study.clone();
                // A built-in study does not say which cells, baseline and style: those stay.
                figures.study = if preset(&study.name).is_ok() {
                    Study { filter, hidden, held, baseline, log, style, ..*study }
                } else {
                    *study
                };
            }
            FiguresCommand::Measure(key) => figures.study.measure = key,
            FiguresCommand::FocusFilter => context.memory_mut(|memory| memory.request_focus(filter_id())),
            FiguresCommand::Filter(text) => figures.study.filter = text,
            FiguresCommand::Keep(key, level, keep) => {
                let hidden = (key, level);
                figures.study.hidden.retain(|known| *known != hidden);
                if !keep {
                    figures.study.hidden.push(hidden);
                }
            }
            FiguresCommand::KeepAll => {
                figures.study.show_all();
            }
            FiguresCommand::Log(log) => figures.study.log = log,
            FiguresCommand::Width(width) => style.width = width,
            FiguresCommand::Font(font) => style.font = font,
            FiguresCommand::Palette(palette) => style.palette = palette,
            FiguresCommand::Size(size_pt) => style.size_pt = size_pt,
            FiguresCommand::Dpi(dpi) => figures.dpi = dpi,
            FiguresCommand::Resolution(resolution) => figures.resolution = resolution,
            FiguresCommand::Table(format) => figures.table = format,
            FiguresCommand::Copy => {
                if let Some(Ok(drawn)) = &figures.drawn {
                    context.copy_text(drawn.table(figures.table).to_owned());
                }
            }
            FiguresCommand::Path(text) => figures.path = text,
            FiguresCommand::Choose => self.choose_export(context),
            FiguresCommand::Export => self.export_figure(context),
            FiguresCommand::CopyMethods => self.describe_figure(context),
            FiguresCommand::Open(file) => self.open_figure(file, context),
        }
        let figures = &mut self.figures;
        figures.stale |= before != (figures.study.clone(), figures.resolution);
    }

    /// Takes over the results of background work, and starts it if something has changed.
    pub fn poll_figures(&mut self, context: &Context, requests: &mut Vec<Request>) {
        let figures = &mut self.figures;
        if let Some(work) = figures.work.take() {
            match work.try_take() {
                Ok(drawn) => {
                    if let Ok(drawn) = &drawn {
                        let options = TextureOptions::LINEAR;
                        figures.texture = Some(context.load_texture("figure", drawn.image.clone(), options));
                    }
                    figures.drawn = Some(drawn);
                }
                Err(work) => figures.work = Some(work),
            }
        }
        self.poll_export(context);
        self.poll_open_figure(requests);
        // One at a time, and only while the screen is shown; later changes start another one.
        if self.figures.stale && self.figures.work.is_none() && self.screen == Screen::Figures {
            self.figures.stale = false;
            let sources = self.figure_sources();
            let (study, resolution) = (self.figure_study(), self.figures.resolution);
            let work = on_thread("figure", context, move || Drawn::new(&sources, &study, resolution));
            self.figures.work = Some(work);
        }
    }

    /// The study that is drawn: the chosen one, with the order and the colours of levels that Compare shows unless it has its own.
    pub(in crate::app) fn figure_study(&self) -> Study {
        let (mut study, shown) = (self.figures.study.clone(), &self.compare.study);
        if study.order.is_empty() {
            study.order.clone_from(&shown.order);
        }
        if study.colours.is_empty() {
            study.colours.clone_from(&shown.colours);
        }
        study
    }

    /// The sessions shown in figures: the compared ones.
    fn figure_sources(&self) -> Vec<drawn::Source> {
        self.compare_sources().into_iter().map(|source| (source.name, source.records)).collect()
    }
}

/// Id of the filter field, for the key that focuses it.
fn filter_id() -> Id {
    Id::unique("figures-filter")
}

/// Draws the Figures screen.
pub fn figures_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    if state.records.summaries.is_empty() && state.compare_sources().iter().all(|one| one.records.summaries.is_empty())
    {
        preview::empty_ui(ui, state, commands);
        return;
    }
    let side = Frame::new().inner_margin(Margin { right: 12, ..Margin::ZERO });
    Panel::left("figures-side").frame(side).resizable(false).exact_size(264.0).show_separator_line(false).show(
        ui,
        |ui| {
            ui.take_available_width();
            controls::side_ui(ui, state, commands);
        },
    );
    let below = Frame::new().inner_margin(Margin { top: 8, ..Margin::ZERO });
    let height = ui.available_height();
    Panel::bottom("figures-table")
        .frame(below)
        .resizable(true)
        .default_size((height * 0.3).round())
        .size_range(96.0..=(height - 160.0).max(97.0))
        .show(ui, |ui| {
            // An empty panel would shrink, and keep that height once a table comes.
            ui.take_available_height();
            preview::table_ui(ui, &state.figures, commands);
        });
    let picture = Frame::new().inner_margin(Margin { bottom: 8, ..Margin::ZERO });
    CentralPanel::default().frame(picture).show(ui, |ui| preview::preview_ui(ui, &state.figures, commands));
}
