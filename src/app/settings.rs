//! Settings of the window, kept between starts: theme, zoom, size, recent sessions and plans, columns, folded rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use eframe::egui::{Context, ThemePreference, Vec2};
use serde::{Deserialize, Deserializer, Serialize};
use strum::{EnumIter, IntoStaticStr};

use super::columns::{Columns, Listed};
use super::monitor::{Monitor, Seen};
use super::task::absolute;

/// Number of recent sessions, and of recent plans, kept.
const RECENT: usize = 10;
const ZOOM_STEPS: std::ops::RangeInclusive<i32> = -5..=20;

/// Light, dark, or the system's theme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, EnumIter, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
pub enum Theme {
    /// The system's theme.
    #[strum(serialize = "System theme")]
    #[default]
    System,
    /// Light, like the printed figures.
    #[strum(serialize = "Light theme")]
    Light,
    /// Dark, for the machine room.
    #[strum(serialize = "Dark theme")]
    Dark,
}

impl Theme {
    /// The name on screen.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The folded rows of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Folds {
    /// Whether all rows are folded.
    pub whole: bool,
    /// Ranks whose rows are folded, by the name above their rows.
    pub groups: BTreeSet<String>,
}

/// Settings of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The theme.
    pub theme: Theme,
    /// Zoom above 100 %, in steps of 10 %, on monitors without a zoom of their own.
    pub zoom_steps: i32,
    /// The zoom for each monitor, identified by its size in pixels: `2560x1440`.
    pub zoom_of_monitors: BTreeMap<String, i32>,
    /// The monitor that the window is on.
    #[serde(skip)]
    monitor: Monitor,
    /// The window's size in points.
    pub size: Option<[f32; 2]>,
    /// Recent sessions, latest first, by their paths from the root.
    #[serde(deserialize_with = "absolute_paths")]
    pub recent: Vec<PathBuf>,
    /// Folders in which sessions were deleted lately, latest first: a window that was killed left them hidden there.
    #[serde(deserialize_with = "absolute_paths", skip_serializing_if = "Vec::is_empty")]
    pub deleted_in: Vec<PathBuf>,
    /// Recent plan files, latest first, by their paths from the root.
    #[serde(deserialize_with = "absolute_paths")]
    pub recent_plans: Vec<PathBuf>,
    /// The columns of tables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<Listed, Columns>,
    /// The table's share of the height of Compare; `None` unless the user moved the boundary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare_table: Option<f32>,
    /// The folded rows of recordings on Timeline, by the recording's file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub folds: BTreeMap<PathBuf, Folds>,
    /// Whether the sample session was declined, or closed for good.
    pub sample_closed: bool,
    /// The settings file; `None` in tests.
    #[serde(skip)]
    file: Option<PathBuf>,
}

impl Settings {
    /// Reads the settings. The message says why they could not be read.
    pub fn load() -> (Self, Option<String>) {
        let folder = match crate::foreign::config_folder() {
            Ok(folder) => folder,
            Err(reason) => return (Self::default(), Some(format!("{reason}; window settings will not be saved"))),
        };
        let file = folder.join("multicard").join("window.toml");
        let kept = |settings: Self| Self { file: Some(file.clone()), ..settings };
        match std::fs::read_to_string(&file) {
            Ok(text) => match toml::from_str(&text) {
                Ok(settings) => (kept(settings), None),
                Err(error) => {
                    let message = format!("{}: {}; using default settings", file.display(), error.message());
                    (kept(Self::default()), Some(message))
                }
            },
            Err(_) => (kept(Self::default()), None),
        }
    }

    /// Saves the settings. Errors are ignored, as no data of a session is lost.
    pub fn save(&self) {
        let Some(file) = &self.file else { return };
        let Ok(text) = toml::to_string(self) else { return };
        let new = file.with_extension("toml.new");
        let folder = file.parent().unwrap_or(file);
        let _ = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&new, text))
            .and_then(|()| std::fs::rename(&new, file));
    }

    /// Applies theme and zoom to a window.
    pub fn apply(&self, context: &Context) {
        context.set_theme(match self.theme {
            Theme::System => ThemePreference::System,
            Theme::Light => ThemePreference::Light,
            Theme::Dark => ThemePreference::Dark,
        });
        context.set_zoom_factor(self.zoom_factor());
    }

    /// Zooms by this many steps; 0 resets to 100 %.
    pub fn zoom(&mut self, steps: i32) {
        let wanted = if steps == 0 { 0 } else { self.steps() + steps };
        let wanted = wanted.clamp(*ZOOM_STEPS.start(), *ZOOM_STEPS.end());
        match self.monitor.name() {
            "" => self.zoom_steps = wanted,
            name => {
                self.zoom_of_monitors.insert(name.to_owned(), wanted);
            }
        }
    }

    /// The window is on a monitor of this size, in points. On another monitor than before, applies the zoom that was chosen there.
    pub fn on_monitor(&mut self, size: Vec2, context: &Context) {
        match self.monitor.see(size, context.pixels_per_point()) {
            Seen::Same => {}
            Seen::Unsure => context.request_repaint(),
            Seen::Other => self.apply(context),
        }
    }

    fn steps(&self) -> i32 {
        let steps = self.zoom_of_monitors.get(self.monitor.name()).copied().unwrap_or(self.zoom_steps);
        steps.clamp(*ZOOM_STEPS.start(), *ZOOM_STEPS.end())
    }

    /// Zoom factor; 1 is normal.
    pub fn zoom_factor(&self) -> f32 {
        1.0 + 0.1 * self.steps() as f32
    }

    /// Size of a new window, in points.
    pub fn window_size(&self) -> [f32; 2] {
        self.size.filter(|size| size.iter().all(|side| (400.0..10_000.0).contains(side))).unwrap_or([1280.0, 800.0])
    }

    /// Adds a session to the recent ones.
    pub fn opened(&mut self, folder: &Path) {
        put_first(&mut self.recent, folder);
        self.save();
    }

    /// A session has another folder now.
    pub fn renamed(&mut self, from: &Path, to: &Path) {
        self.recent.iter_mut().filter(|known| *known == from).for_each(|known| *known = to.to_owned());
        self.save();
    }

    /// A session was deleted; returns its place among the recent ones, from 0, if it was one of them.
    pub fn deleted(&mut self, folder: &Path) -> Option<usize> {
        if let Some(parent) = folder.parent() {
            self.deleted_in.retain(|known| known != parent);
            self.deleted_in.insert(0, parent.to_owned());
            self.deleted_in.truncate(RECENT);
        }
        let place = self.recent.iter().position(|known| known == folder);
        place.map(|place| self.recent.remove(place));
        self.save();
        place
    }

    /// A deleted session was restored that had this place among the recent ones.
    pub fn restored(&mut self, folder: &Path, place: usize) {
        if !self.recent.iter().any(|known| known == folder) {
            self.recent.insert(place.min(self.recent.len()), folder.to_owned());
            self.recent.truncate(RECENT);
            self.save();
        }
    }

    /// Adds a plan file to the recent ones.
    pub fn used_plan(&mut self, file: &Path) {
        put_first(&mut self.recent_plans, file);
        self.save();
    }

    /// The columns that the user wants for a table.
    pub fn columns_of(&self, table: Listed) -> Columns {
        self.columns.get(&table).cloned().unwrap_or_default()
    }

    /// The folded rows of a recording.
    pub fn folds_of(&self, file: &Path) -> Folds {
        self.folds.get(&absolute(file)).cloned().unwrap_or_default()
    }

    /// Keeps which rows of a recording are folded. Those of recordings that no longer exist are forgotten.
    pub fn keep_folds(&mut self, file: &Path, folds: &Folds) {
        if self.folds_of(file) == *folds {
            return;
        }
        let file = absolute(file);
        self.folds.retain(|known, _| *known != file && known.exists());
        if *folds != Folds::default() {
            self.folds.insert(file, folds.clone());
        }
        self.save();
    }

    /// Whether a window without a session offers the sample session: the user has had no session yet, and has neither declined nor closed the
    /// sample.
    pub fn offers_sample(&self) -> bool {
        self.file.is_some() && self.recent.is_empty() && !self.sample_closed
    }

    /// The session opened last, if it still exists.
    pub fn last_session(&self) -> Option<&Path> {
        self.recent.first().map(PathBuf::as_path).filter(|folder| folder.join("session.toml").exists())
    }
}

/// Reads remembered paths. Earlier versions kept relative ones, too, which are left out: the folder that they began in is unknown.
fn absolute_paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    let mut paths = Vec::<PathBuf>::deserialize(deserializer)?;
    paths.retain(|path| path.is_absolute());
    Ok(paths)
}

fn put_first(recent: &mut Vec<PathBuf>, path: &Path) {
    let path = absolute(path);
    recent.retain(|known| *known != path);
    recent.insert(0, path);
    recent.truncate(RECENT);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use eframe::egui::{RawInput, Ui, ViewportId};
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;
    use crate::app::command::{Command, ScreenName};
    use crate::app::engine::{Request, UiEvent};
    use crate::app::{Window, install_theme, shell_ui};

    #[test]
    fn a_theme_and_a_zoom_are_kept_when_they_are_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("window.toml");
        let settings = Settings { file: Some(file.clone()), ..Settings::default() };
        let (mut window, context) = (Window::new(settings), Context::default());
        window.execute(Command::Theme(Theme::Light), &context);
        let kept = || toml::from_str::<Settings>(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(kept().theme, Theme::Light);
        window.execute(Command::Zoom(2), &context);
        assert_eq!(kept().zoom_steps, 2);
    }

    /// A window of the shell with the commands that it sent.
    type Shown = (Window, Vec<Command>);

    fn shown(settings: Settings) -> Harness<'static, Shown> {
        let mut is_fresh = true;
        let draw = move |ui: &mut Ui, (window, sent): &mut Shown| {
            if std::mem::take(&mut is_fresh) {
                // Fonts are there from the next frame on.
                install_theme(ui.ctx());
                return ui.ctx().request_repaint();
            }
            let before = sent.len();
            shell_ui(ui, window, sent);
            sent[before..].iter().cloned().for_each(|command| window.execute(command, ui.ctx()));
        };
        let shown = (Window::new(settings), Vec::new());
        let mut harness = Harness::builder().with_max_steps(24).with_size([1000.0, 700.0]).build_ui_state(draw, shown);
        harness.run();
        harness
    }

    #[test]
    fn a_new_user_is_offered_the_sample_session_which_one_click_opens() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("window.toml");
        let new = || Settings { file: Some(file.clone()), ..Settings::default() };
        let (open, no) = ("Open the sample session", "No, thanks");
        let mut window = shown(new());
        for button in [open, no] {
            let place = window.get_by_label(button).rect();
            assert!(place.left() >= 0.0 && place.right() <= 1000.0, "{button}: {place:?}");
            assert!(place.top() >= 0.0 && place.bottom() <= 40.0, "{button} is in the bar: {place:?}");
        }
        window.get_by_label(open).click();
        window.run();
        let desk = &mut window.state_mut().0.desk;
        assert_eq!(desk.screen, ScreenName::COMPARE);
        assert_eq!(desk.take_requests(), [Request::OpenSample]);
        let session = UiEvent::Session { folder: "/data/multicard/samples/one-h100".into(), read_only: None };
        window.state_mut().0.take(session);
        window.run();
        assert!(window.query_by_label(open).is_none());

        let mut window = shown(new());
        window.get_by_label(no).click();
        window.run();
        let refused: Settings = toml::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let experienced = Settings { recent: vec!["/sessions/mine".into()], ..new() };
        for settings in [Settings { file: Some(file.clone()), ..refused }, experienced] {
            assert!(shown(settings).query_by_label(open).is_none());
        }
    }

    const LARGE: Vec2 = Vec2::new(2560.0, 1440.0);
    const SMALL: Vec2 = Vec2::new(1280.0, 800.0);

    /// Draws frames on a monitor of this size, in pixels, after zooming by these steps; returns the zoom factor of each frame.
    ///
    /// As in a window, the size is converted to points before a frame begins, and a new zoom is in force from the next frame on.
    fn zooms(settings: &mut Settings, context: &Context, pixels: Vec2, mut steps: Option<i32>) -> Vec<f32> {
        let native = 1.25;
        let mut frame = || {
            let mut input = RawInput::default();
            let viewport = input.viewports.get_mut(&ViewportId::ROOT).unwrap();
            viewport.native_pixels_per_point = Some(native);
            viewport.monitor_size = Some(pixels / (native * context.zoom_factor()));
            let mut drawn = context.run_ui(input, |ui| {
                if let Some(steps) = steps.take() {
                    settings.zoom(steps);
                    settings.apply(ui.ctx());
                }
                let points = ui.ctx().input(|input| input.viewport().monitor_size).unwrap();
                settings.on_monitor(points, ui.ctx());
            });
            drawn.textures_delta.clear();
            context.zoom_factor()
        };
        (0..8).map(|_| frame()).collect()
    }

    #[test]
    fn a_zoom_stays_whatever_sizes_of_monitors_were_stored_before() {
        let (context, mut settings) = (Context::default(), Settings::default());
        // Earlier versions took the frame after a change of the zoom for another monitor.
        for (monitor, steps) in [("2816x1584", 0), ("2327x1309", 0), ("2560x1440", 0)] {
            settings.zoom_of_monitors.insert(monitor.to_owned(), steps);
        }
        assert_eq!(zooms(&mut settings, &context, LARGE, None), [1.0; 8]);
        assert_eq!(zooms(&mut settings, &context, LARGE, Some(1))[1..], [1.1; 7]);
        assert_eq!(zooms(&mut settings, &context, LARGE, Some(1))[1..], [1.2; 7]);
        assert_eq!(zooms(&mut settings, &context, LARGE, Some(0))[1..], [1.0; 7]);
        assert_eq!(settings.zoom_of_monitors.len(), 3, "{:?}", settings.zoom_of_monitors);
    }

    #[test]
    fn each_monitor_keeps_its_zoom() {
        let (context, mut settings) = (Context::default(), Settings::default());
        let last = |settings: &mut Settings, context: &Context, pixels: Vec2, steps: Option<i32>| {
            zooms(settings, context, pixels, steps).last().copied()
        };
        assert_eq!(last(&mut settings, &context, LARGE, None), Some(1.0));
        assert_eq!(last(&mut settings, &context, LARGE, Some(3)), Some(1.3));
        assert_eq!(last(&mut settings, &context, SMALL, None), Some(1.0));
        assert_eq!(last(&mut settings, &context, SMALL, Some(-1)), Some(0.9));
        let text = toml::to_string(&settings).unwrap();
        let (context, mut again) = (Context::default(), toml::from_str::<Settings>(&text).unwrap());
        assert_eq!(last(&mut again, &context, LARGE, None), Some(1.3));
        assert_eq!(last(&mut again, &context, SMALL, None), Some(0.9));
        assert_eq!(last(&mut again, &context, SMALL, Some(0)), Some(1.0));
    }

    #[test]
    fn sessions_and_plans_are_kept_by_their_paths_from_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("window.toml");
        let mut settings = Settings { file: Some(file.clone()), ..Settings::default() };
        let here = std::env::current_dir().unwrap();
        settings.opened(Path::new("S"));
        settings.opened(&here.join("S"));
        settings.used_plan(Path::new("p.toml"));
        let kept: Settings = toml::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!((kept.recent, kept.recent_plans), (vec![here.join("S")], vec![here.join("p.toml")]));
    }

    #[test]
    fn relative_paths_that_earlier_versions_kept_are_ignored() {
        let text = "recent = [\"S\", \"/sessions/study\"]\nrecent_plans = [\"p.toml\"]\n";
        let kept: Settings = toml::from_str(text).unwrap();
        assert_eq!((kept.recent, kept.recent_plans), (vec![PathBuf::from("/sessions/study")], Vec::new()));
    }

    #[test]
    fn folded_rows_are_kept_for_recordings_that_exist() {
        let folder = tempfile::tempdir().unwrap();
        let [file, gone, recording] =
            ["window.toml", "gone.events", "run 1.events"].map(|name| folder.path().join(name));
        std::fs::write(&recording, "").unwrap();
        let mut settings = Settings { file: Some(file.clone()), ..Settings::default() };
        let folds = Folds { whole: false, groups: BTreeSet::from(["rank 1".to_owned()]) };
        settings.keep_folds(&gone, &folds);
        settings.keep_folds(&recording, &folds);
        let kept = || toml::from_str::<Settings>(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!((kept().folds_of(&recording), kept().folds.len()), (folds, 1));
        settings.keep_folds(&recording, &Folds::default());
        assert!(kept().folds.is_empty());
    }
}
