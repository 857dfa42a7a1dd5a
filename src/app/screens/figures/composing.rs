//! Composing a figure of several panels: the figure that is shown becomes a panel, and keeps the session that is open at that time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui::{Button, Context, DragValue, Role, Ui, WidgetInfo};
use poll_promise::Promise;

use super::{FiguresCommand, FiguresScreen};
use crate::app::command::{Command, EditKind};
use crate::app::deliberate;
use crate::app::desk::{Desk, Source, figure_of};
use crate::app::engine::read_session;
use crate::app::screens::figures::View;
use crate::app::task::{on_thread, taken_about};
use crate::app::theme::GRID;
use crate::app::widgets::{check_ui, muted, named, text_field};
use crate::figure::paper::panel_letter;
use crate::figure::{ComposedFigure, ComposedPanel, Composition, Figure, Share};
use crate::session::find_session;

/// Most columns that are offered.
const MOST_COLUMNS: usize = 6;

/// The composed figure of the screen.
#[derive(Default)]
pub struct Composing {
    /// Its panels and their arrangement; its style is the style of the shown figure.
    pub composition: Composition,
    /// Whether the preview and the export show the composition instead of the figure.
    pub is_shown: bool,
    /// The sessions of its panels, in the state in which they were when the panels were added.
    pub known: Vec<Source>,
    /// The sessions of an opened file that are being read, with their names.
    reading: Option<(Vec<String>, Promise<Vec<Found>>)>,
    /// Sessions of an opened file that are not drawn, with the reasons.
    lost: Vec<(String, String)>,
}

/// A session by its name, or why it is not there.
type Found = (String, Result<Source, String>);

/// A composition with the sessions that its panels are of, ready to be drawn on a thread.
#[derive(Clone)]
pub struct Asked {
    composition: Composition,
    sources: Vec<Found>,
}

/// The name by which a figure's file finds a session again.
fn name_of(source: &Source) -> String {
    source.records.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl FiguresScreen {
    /// Adds the shown figure to the composition.
    ///
    /// # Errors
    /// Another session of the same name has panels: a figure's file would name both alike.
    pub(super) fn add_panel(&mut self, desk: &Desk) -> Result<(), String> {
        let sources = desk.sources();
        if sources.is_empty() || self.figure().is_none_or(Figure::is_empty) {
            return Err("no figure is drawn, so there is no panel to add".to_owned());
        }
        for source in &sources {
            let name = name_of(source);
            let mut others = self.composing.known.iter().chain(&sources);
            let is_other = |other: &&Source| name_of(other) == name && other.records.folder != source.records.folder;
            if let Some(other) = others.find(is_other) {
                return Err(format!(
                    "{} and {} have the same name, but a figure's file finds a session by its name: rename one of the folders",
                    other.records.folder.display(),
                    source.records.folder.display()
                ));
            }
        }
        let sessions = sources.iter().map(name_of).collect();
        let panel = ComposedPanel { sessions, study: self.drawn_study(desk), ..ComposedPanel::default() };
        self.composing.composition.panels.push(panel);
        for source in sources {
            self.composing.known.retain(|known| known.records.folder != source.records.folder);
            self.composing.known.push(source);
        }
        Ok(())
    }

    /// Shows the composed figure of a file that was opened. Its sessions are read from their folders, except those on the desk and the
    /// session with the name `opening`.
    pub(super) fn show_composition(
        &mut self,
        composition: Composition,
        (file, opening): (&Path, Option<&str>),
        desk: &Desk,
        context: &Context,
    ) {
        self.study.style = composition.style;
        let own = &mut self.composing;
        let names = composition.sessions();
        own.known.retain(|known| !names.contains(&name_of(known).as_str()));
        let open: Vec<String> = desk.sources().iter().map(name_of).collect();
        let is_read = |name: &&&str| Some(**name) != opening && open.iter().all(|open| open != *name);
        let names: Vec<String> = names.iter().filter(is_read).map(|name| (*name).to_owned()).collect();
        own.lost.clear();
        own.reading = (!names.is_empty()).then(|| {
            let (asked, file, recent) = (names.clone(), file.to_owned(), desk.settings.recent.clone());
            let read = move || asked.into_iter().map(|name| found(name, &file, &recent)).collect();
            (names, on_thread("sessions of panels", context, read))
        });
        (own.composition, own.is_shown) = (composition, true);
        self.keep_sources(desk);
    }

    /// Takes over the sessions of an opened file once they are read.
    pub(super) fn poll_composing(&mut self) {
        let Some((_, read)) = taken_about(&mut self.composing.reading) else { return };
        let Composing { known, lost, .. } = &mut self.composing;
        for (name, source) in read {
            match source {
                // It may have been opened meanwhile.
                Ok(_) if known.iter().any(|known| name_of(known) == name) => {}
                Ok(source) => known.push(source),
                Err(reason) => lost.push((name, reason)),
            }
        }
        self.stale = true;
    }

    /// Restores the sessions of panels, in addition to sessions that became known since.
    pub(super) fn restore_sources(&mut self, mut known: Vec<Source>) {
        let own = std::mem::take(&mut self.composing.known);
        let is_new = |source: &Source| known.iter().all(|other| name_of(other) != name_of(source));
        let new: Vec<Source> = own.into_iter().filter(is_new).collect();
        known.extend(new);
        self.composing.known = known;
    }

    /// Keeps what the desk has of the sessions of panels, which stay when other ones are opened.
    pub(super) fn keep_sources(&mut self, desk: &Desk) {
        let Composing { composition, known, .. } = &mut self.composing;
        let names = composition.sessions();
        for source in desk.sources() {
            let (name, folder) = (name_of(&source), &source.records.folder);
            // What is still being read would be kept without its last runs.
            if source.records.pending > 0 || !names.contains(&name.as_str()) {
                continue;
            }
            match known.iter_mut().find(|known| name_of(known) == name) {
                Some(known) if known.records.folder == *folder => *known = source,
                Some(_) => {}
                None => known.push(source),
            }
        }
    }

    /// The composition to draw in place of the figure; `None` if no composition is shown.
    pub(super) fn asked_composition(&self, desk: &Desk) -> Option<Asked> {
        let Composing { composition, is_shown, known, .. } = &self.composing;
        if !is_shown || composition.panels.is_empty() {
            return None;
        }
        let open = desk.sources();
        let source = |name: &str| {
            let named = |all: &[Source]| all.iter().find(|source| name_of(source) == name).cloned();
            // A panel keeps to the session that it was made of, which on the desk is as it is now; another one of the same name does not
            // replace it.
            let now = |kept: Source| {
                open.iter().find(|own| own.records.folder == kept.records.folder).cloned().unwrap_or(kept)
            };
            let kept = named(known).map(now).or_else(|| named(&open));
            kept.ok_or_else(|| self.composing.why_absent(name, desk))
        };
        let composition = Composition { style: self.study.style, ..composition.clone() };
        let sources = composition.sessions().into_iter().map(|name| (name.to_owned(), source(name))).collect();
        Some(Asked { composition, sources })
    }
}

impl Composing {
    /// Whether sessions are being read.
    pub fn is_busy(&self) -> bool {
        self.reading.is_some()
    }

    /// Why a session of a panel is not there.
    fn why_absent(&self, name: &str, desk: &Desk) -> String {
        if self.reading.iter().any(|(names, _)| names.iter().any(|known| known == name)) {
            return format!("session {name} is being read");
        }
        if desk.opening.as_ref().is_some_and(|folder| folder.file_name().is_some_and(|own| own == name)) {
            return format!("session {name} is being opened");
        }
        let lost = self.lost.iter().find(|(known, _)| known == name).map(|(_, reason)| reason.clone());
        lost.unwrap_or_else(|| format!("session {name} is not open: open it, or add it on the Compare screen"))
    }
}

/// Finds a session that a file names, and reads it.
fn found(name: String, file: &Path, recent: &[PathBuf]) -> Found {
    let read = || {
        let folder = find_session(file, &name, recent).ok_or_else(|| {
            format!("session {name} is not known here: put its folder beside {}, or open it", file.display())
        })?;
        let records = read_session(&folder);
        let records = records.map_err(|error| format!("reading session {}: {error}", folder.display()))?;
        Ok(Source { name: name.clone(), records: Arc::new(records) })
    };
    let read = read();
    (name, read)
}

impl Asked {
    /// Makes the figure; a panel whose session is not known says why.
    pub fn figure(self) -> ComposedFigure {
        let panels = self.composition.panels.iter().map(|panel| self.panel(panel)).collect();
        ComposedFigure { panels, composition: self.composition }
    }

    fn panel(&self, panel: &ComposedPanel) -> Result<Figure, String> {
        let sources = self.sources_of(panel)?;
        let is_alone = sources.len() == 1;
        let named = sources.iter().zip(&panel.sessions).map(|(source, name)| Source {
            name: if is_alone { String::new() } else { name.clone() },
            records: Arc::clone(&source.records),
        });
        figure_of(&named.collect::<Vec<_>>(), &panel.study)
    }

    /// The sessions of a panel.
    fn sources_of(&self, panel: &ComposedPanel) -> Result<Vec<&Source>, String> {
        let find = |name: &String| {
            let (_, source) = self.sources.iter().find(|(known, _)| known == name)?;
            Some(source.as_ref().map_err(Clone::clone))
        };
        panel.sessions.iter().filter_map(find).collect()
    }

    /// The sessions that panels are of, each once, under the names by which they are found again.
    pub fn used(&self) -> Result<Vec<Source>, String> {
        let mut used: Vec<Source> = Vec::new();
        for panel in &self.composition.panels {
            for source in self.sources_of(panel)? {
                if used.iter().all(|known| known.records.folder != source.records.folder) {
                    used.push(Source { name: name_of(source), records: Arc::clone(&source.records) });
                }
            }
        }
        Ok(used)
    }
}

/// Draws the list of the composed figure's panels, with controls.
pub fn panels_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let Composing { composition, is_shown, .. } = &view.own.composing;
    let can_add = view.own.figure().is_some_and(|figure| !figure.is_empty());
    let add = ui.add_enabled(can_add, Button::new("Add this figure"));
    add.widget_info(|| named("Add this figure as a panel"));
    if add.on_hover_text("It becomes the next panel, (a), (b), … of one figure; change what is shown, or open another session, and add more").clicked() {
        commands.push(FiguresCommand::AddPanel.into());
    }
    if composition.panels.is_empty() {
        ui.label(muted(ui, "Several figures become one: panels in a grid, with aligned axes."));
        return;
    }
    ui.horizontal(|ui| {
        for (shows, name) in [(false, "Figure"), (true, "Panels")] {
            let option = ui.selectable_label(*is_shown == shows, name);
            option.widget_info(|| {
                WidgetInfo::selected(Role::RadioButton, true, *is_shown == shows, format!("Show {name}"))
            });
            if option.clicked() {
                commands.push(FiguresCommand::ShowPanels(shows).into());
            }
        }
    });
    for place in 0..composition.panels.len() {
        panel_ui(ui, composition, place, commands);
    }
    ui.add_space(GRID);
    ui.horizontal(|ui| {
        let label = ui.label("Columns");
        let mut columns = composition.columns;
        let drag = DragValue::new(&mut columns).range(1..=MOST_COLUMNS).speed(0.05);
        if ui.add(drag).labelled_by(label.id).changed() {
            edit(commands, composition, Some("columns"), |composition| composition.columns = columns);
        }
    });
    for (share, name) in [(Share::Legend, "One legend"), (Share::Y, "One scale of values")] {
        let mut on = composition.share.contains(&share);
        if check_ui(ui, &mut on, name).changed() {
            edit(commands, composition, None, |composition| {
                composition.share.retain(|known| *known != share);
                composition.share.extend(on.then_some(share));
            });
        }
    }
}

/// Draws a panel's row: its letter and study, its title, and buttons that move and remove it.
fn panel_ui(ui: &mut Ui, composition: &Composition, place: usize, commands: &mut Vec<Command>) {
    let (panel, letter) = (&composition.panels[place], panel_letter(place));
    let study = if panel.study.name.is_empty() { panel.study.form.key() } else { &panel.study.name };
    ui.add_space(GRID);
    ui.label(format!("({letter}) {study}")).on_hover_text(format!("Session {}", panel.sessions.join(" and ")));
    let mut title = panel.title.clone().unwrap_or_default();
    let field = ui.add(text_field(&mut title, "Title", 224.0));
    field.widget_info(|| WidgetInfo::labeled(Role::TextInput, true, format!("Title of panel {letter}")));
    if field.changed() {
        let title = Some(title).filter(|title| !title.is_empty());
        edit(commands, composition, Some("title of a panel"), |composition| composition.panels[place].title = title);
    }
    ui.horizontal(|ui| {
        let button = |ui: &mut Ui, enabled: bool, text: &str, name: String| {
            let button = ui.add_enabled(enabled, Button::new(text).small());
            button.widget_info(|| named(&name));
            button.on_hover_text(name)
        };
        if button(ui, place > 0, "↑", format!("Move panel {letter} up")).clicked() {
            edit(commands, composition, None, |composition| composition.panels.swap(place, place - 1));
        }
        if button(ui, place + 1 < composition.panels.len(), "↓", format!("Move panel {letter} down")).clicked() {
            edit(commands, composition, None, |composition| composition.panels.swap(place, place + 1));
        }
        let widest = composition.columns.max(1);
        let width = if panel.span > 1 { "Narrow" } else { "Wide" };
        if button(ui, widest > 1, width, format!("Width of panel {letter}")).clicked() {
            let span = if panel.span > 1 { 1 } else { widest };
            edit(commands, composition, None, |composition| composition.panels[place].span = span);
        }
        // Another panel comes to the place of one that is removed.
        let remove = button(ui, true, "Remove", format!("Remove panel {letter}"));
        if deliberate::clicked(&remove, ("remove panel", place)) {
            edit(commands, composition, None, |composition| drop(composition.panels.remove(place)));
        }
    });
}

/// Asks for a change of the composition, sent whole.
fn edit(
    commands: &mut Vec<Command>,
    composition: &Composition,
    kind: Option<EditKind>,
    change: impl FnOnce(&mut Composition),
) {
    let mut composition = composition.clone();
    change(&mut composition);
    commands.push(FiguresCommand::Compose(Box::new(composition), kind).into());
}
