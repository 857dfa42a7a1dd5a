//! What the window keeps between starts: theme, zoom, size, recent sessions. Not a session's business.

use std::path::{Path, PathBuf};

use eframe::egui::{Context, ThemePreference};
use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};

/// How many sessions are remembered.
const RECENT: usize = 10;
const ZOOM_STEPS: std::ops::RangeInclusive<i32> = -5..=20;

/// Light, dark, or as the system says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Theme {
    /// As the system says.
    #[default]
    System,
    /// As printed figures.
    Light,
    /// For the machine room.
    Dark,
}

impl Theme {
    /// All themes.
    pub const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];

    /// The name on screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "System theme",
            Self::Light => "Light theme",
            Self::Dark => "Dark theme",
        }
    }
}

/// What the window keeps between starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The theme.
    pub theme: Theme,
    /// Steps of 10 % over 100 %.
    pub zoom_steps: i32,
    /// The window's size in points.
    pub size: Option<[f32; 2]>,
    /// Sessions that were open, the latest first.
    pub recent: Vec<PathBuf>,
    /// Where it is kept; nowhere in tests.
    #[serde(skip)]
    file: Option<PathBuf>,
}

impl Settings {
    /// Reads them; the message says why they could not be.
    pub fn load() -> (Self, Option<String>) {
        let Ok(places) = etcetera::choose_base_strategy() else { return Self::default().unkept() };
        let file = places.config_dir().join("multicard").join("window.toml");
        let kept = |settings: Self| Self { file: Some(file.clone()), ..settings };
        match std::fs::read_to_string(&file) {
            Ok(text) => match toml::from_str(&text) {
                Ok(settings) => (kept(settings), None),
                Err(error) => {
                    let message = format!("{}: {}; the window starts as new", file.display(), error.message());
                    (kept(Self::default()), Some(message))
                }
            },
            Err(_) => (kept(Self::default()), None),
        }
    }

    fn unkept(self) -> (Self, Option<String>) {
        (self, Some("no home folder: the window's state will not be kept".to_owned()))
    }

    /// Keeps them; what cannot be kept is no loss to a session, so failing is not told.
    pub fn save(&self) {
        let Some(file) = &self.file else { return };
        let Ok(text) = toml::to_string(self) else { return };
        let new = file.with_extension("toml.new");
        let folder = file.parent().unwrap_or(file);
        let _ = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&new, text))
            .and_then(|()| std::fs::rename(&new, file));
    }

    /// Makes a window look as they say.
    pub fn apply(&self, context: &Context) {
        context.set_theme(match self.theme {
            Theme::System => ThemePreference::System,
            Theme::Light => ThemePreference::Light,
            Theme::Dark => ThemePreference::Dark,
        });
        context.set_zoom_factor(self.zoom_factor());
    }

    /// Larger or smaller by so many steps; 0 is back to 100 %.
    pub fn zoom(&mut self, steps: i32) {
        let wanted = if steps == 0 { 0 } else { self.zoom_steps + steps };
        self.zoom_steps = wanted.clamp(*ZOOM_STEPS.start(), *ZOOM_STEPS.end());
    }

    /// How large everything is drawn; 1 is normal.
    pub fn zoom_factor(&self) -> f32 {
        1.0 + 0.1 * self.zoom_steps as f32
    }

    /// The size of a new window in points.
    pub fn window_size(&self) -> [f32; 2] {
        self.size.filter(|size| size.iter().all(|side| (400.0..10_000.0).contains(side))).unwrap_or([1280.0, 800.0])
    }

    /// Remembers a session.
    pub fn opened(&mut self, folder: &Path) {
        self.recent.retain(|known| known != folder);
        self.recent.insert(0, folder.to_owned());
        self.recent.truncate(RECENT);
        self.save();
    }

    /// The session that was open last, if it is still there.
    pub fn last_session(&self) -> Option<&Path> {
        self.recent.first().map(PathBuf::as_path).filter(|folder| folder.join("session.toml").exists())
    }
}
