//! Errors on opening the window, with what to do.

use thiserror::Error;

/// The window could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No display server answers.
    #[error(
        "cannot open a window because no display answers: {0}; set DISPLAY or WAYLAND_DISPLAY (over ssh: `ssh -X`), or \
         use a subcommand (`multicard --help` lists them)"
    )]
    Display(String),
    /// OpenGL does not work on the display.
    #[error(
        "cannot open a window because OpenGL does not work: {0}; install its libraries (Debian: libgl1, \
         libegl1, libgl1-mesa-dri), try LIBGL_ALWAYS_SOFTWARE=1, or use a subcommand (`multicard --help` lists them)"
    )]
    OpenGl(String),
    /// Any other error.
    #[error("cannot open a window: {0}; use a subcommand (`multicard --help` lists them)")]
    Other(String),
}

impl From<eframe::Error> for OpenError {
    fn from(error: eframe::Error) -> Self {
        match error {
            eframe::Error::Winit(error) => Self::Display(without_place(&error.to_string())),
            eframe::Error::WinitEventLoop(error) => Self::Display(without_place(&error.to_string())),
            eframe::Error::Glutin(error) => Self::OpenGl(error.to_string()),
            // The requested configuration does not help the user.
            eframe::Error::NoGlutinConfigs(_, error) => Self::OpenGl(error.to_string()),
            eframe::Error::OpenGL(error) => Self::OpenGl(error.to_string()),
            error => Self::Other(error.to_string()),
        }
    }
}

/// Removes winit's source location before the reason: `os error at /…/mod.rs:788: reason`.
fn without_place(text: &str) -> String {
    let after_place = || {
        let (_, place) = text.split_once("os error at ")?;
        let (_, line) = place.split_once(".rs:")?;
        line.split_once(": ").map(|(_, reason)| reason)
    };
    after_place().unwrap_or(text).trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_shown_without_the_source_location() {
        let text = "os error at /home/x/winit-0.30.13/src/linux/mod.rs:788: Failed to open connection: to X server.";
        assert_eq!(without_place(text), "Failed to open connection: to X server");
        assert_eq!(without_place("the event loop was made twice"), "the event loop was made twice");
        assert_eq!(without_place("os error at somewhere"), "os error at somewhere");
    }

    #[test]
    fn a_missing_display_and_failing_opengl_have_their_own_advice() {
        let display = OpenError::Display("no X server".to_owned()).to_string();
        assert!(display.contains("no X server; set DISPLAY") && display.contains("subcommand"), "{display}");
        let opengl = OpenError::OpenGl("GLXBadFBConfig".to_owned()).to_string();
        assert!(opengl.contains("libgl1-mesa-dri") && !opengl.contains("DISPLAY"), "{opengl}");
    }
}
