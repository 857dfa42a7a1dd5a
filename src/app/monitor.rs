//! The monitor that the window is on.

use eframe::egui::Vec2;

/// The monitor, recognised by its size in pixels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Monitor {
    /// `2560x1440`; empty while it is unknown.
    name: String,
    /// The name that the last frame gave, until another frame confirms it.
    unconfirmed: String,
    /// The pixels per point of the last frame.
    pixels_per_point: f32,
}

/// The finding of a frame about the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The window is on the known monitor.
    Same,
    /// The window may be on another monitor; the next frame decides.
    Unsure,
    /// The window moved to another monitor.
    Other,
}

impl Monitor {
    /// `2560x1440`; empty while the monitor is unknown.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes over the monitor's size, in points, and the pixels per point of this frame.
    ///
    /// The size was converted to points before the frame began. In the frame after a change of the zoom, the points are therefore still
    /// points of the earlier zoom, and give the size of a monitor that does not exist. Such a frame is ignored: another monitor counts only
    /// once two frames agree on it.
    pub fn see(&mut self, points: Vec2, pixels_per_point: f32) -> Seen {
        let is_comparable = pixels_per_point == std::mem::replace(&mut self.pixels_per_point, pixels_per_point);
        let pixels = points * pixels_per_point;
        let name = format!("{:.0}x{:.0}", pixels.x, pixels.y);
        if !is_comparable {
            self.unconfirmed.clear();
            return Seen::Unsure;
        }
        let is_confirmed = name == self.unconfirmed;
        self.unconfirmed.clone_from(&name);
        match (name == self.name, is_confirmed) {
            (true, _) => Seen::Same,
            (false, false) => Seen::Unsure,
            (false, true) => {
                self.name = name;
                Seen::Other
            }
        }
    }
}
