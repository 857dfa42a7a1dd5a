//! The Figures screen: a preset of cells, set for paper. The preview is the very picture that is exported.

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

/// What can be asked for on the Figures screen.
#[derive(Clone, Debug, PartialEq)]
pub enum FiguresCommand {
    /// Draw another study of the same cells.
    Study(Box<Study>),
    /// Draw another measure: its key; none: the form's usual one.
    Measure(Option<Key>),
    /// Put the cursor into the filter.
    FocusFilter,
    /// Show the cells that this filter admits.
    Filter(String),
    /// Show the cells with a level, or leave them out: key, level, whether to show.
    Keep(Key, Level, bool),
    /// Show all cells.
    KeepAll,
    /// Draw the axis of values logarithmically.
    Log(bool),
    /// One column or the page.
    Width(Width),
    /// The typeface.
    Font(Family),
    /// Colours or greys.
    Palette(Palette),
    /// The size of type in points.
    Size(f64),
    /// Pixels in an inch of a PNG.
    Dpi(u32),
    /// Pixels for a point of the preview, as the screen has room.
    Resolution(f64),
    /// Show the table in this form.
    Table(Format),
    /// Copy the table as it is shown.
    Copy,
    /// Where to export to; empty: where it is suggested.
    Path(String),
    /// Choose where in the system's dialog.
    Choose,
    /// Write the file.
    Export,
    /// Open a figure's file again.
    Open(PathBuf),
}

/// The Figures screen.
pub struct FiguresState {
    /// What is shown and how.
    pub study: Study,
    /// Pixels in an inch of a PNG.
    pub dpi: u32,
    /// What was typed as the place to export to; empty: the suggestion.
    pub path: String,
    /// The form of the table.
    pub table: Format,
    /// How the last export or opening went: its message, and whether it is good news.
    pub said: Option<(String, bool)>,
    /// Pixels for a point.
    resolution: f64,
    drawn: Option<Result<Drawn, String>>,
    texture: Option<TextureHandle>,
    work: Option<Promise<Result<Drawn, String>>>,
    stale: bool,
    exporting: Option<Promise<Exported>>,
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
            choosing: None,
            opening: None,
        }
    }
}

impl FiguresState {
    /// The runs are others now.
    pub fn records_changed(&mut self) {
        self.stale = true;
    }

    /// What is drawn, or why nothing is.
    pub fn drawn(&self) -> Option<&Result<Drawn, String>> {
        self.drawn.as_ref()
    }

    /// Whether something is being made, written, read or chosen.
    pub fn is_busy(&self) -> bool {
        self.stale || self.work.is_some() || self.exporting.is_some() || self.opening.is_some()
    }
}

impl State {
    /// Does what was asked for on the Figures screen.
    pub fn execute_figures(&mut self, command: FiguresCommand, context: &Context, _requests: &mut Vec<Request>) {
        let figures = &mut self.figures;
        let before = (figures.study.clone(), figures.resolution);
        let style = &mut figures.study.style;
        match command {
            FiguresCommand::Study(study) => {
                // The cells, what they are held against and the style stay as they are.
                let Study { filter, hidden, baseline, log, style, .. } = figures.study.clone();
                figures.study = Study { filter, hidden, baseline, log, style, ..*study };
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
                figures.study.hidden.clear();
                figures.study.filter.clear();
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
            FiguresCommand::Open(file) => self.open_figure(file, context),
        }
        let figures = &mut self.figures;
        figures.stale |= before != (figures.study.clone(), figures.resolution);
    }

    /// Takes over what background work has done, and begins it where something has changed.
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
        self.poll_export();
        self.poll_open_figure(requests);
        // One at a time, and only for somebody who looks; what changes meanwhile is worked in afterwards.
        if self.figures.stale && self.figures.work.is_none() && self.screen == Screen::Figures {
            self.figures.stale = false;
            let sources = self.figure_sources();
            let (study, resolution) = (self.figures.study.clone(), self.figures.resolution);
            let work = on_thread("figure", context, move || Drawn::new(&sources, &study, resolution));
            self.figures.work = Some(work);
        }
    }

    /// The sessions that figures are of: those that are compared.
    fn figure_sources(&self) -> Vec<drawn::Source> {
        self.compare_sources().into_iter().map(|source| (source.name, source.records)).collect()
    }
}

/// The id of the filter's field, which a key puts the cursor into.
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
        .show(ui, |ui| preview::table_ui(ui, &state.figures, commands));
    let picture = Frame::new().inner_margin(Margin { bottom: 8, ..Margin::ZERO });
    CentralPanel::default().frame(picture).show(ui, |ui| preview::preview_ui(ui, &state.figures, commands));
}
