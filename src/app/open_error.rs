//! Why there is no window, in words that say what to do.

use thiserror::Error;

/// Why there is no window.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No display server answers.
    #[error(
        "no window can be opened, as no display answers: {0}; set DISPLAY or WAYLAND_DISPLAY (over ssh: `ssh -X`), or \
         use a subcommand (`multicard --help` lists them)"
    )]
    Display(String),
    /// There is a display, and OpenGL gives nothing to draw on.
    #[error(
        "no window can be opened, as OpenGL gives nothing to draw on: {0}; install its libraries (Debian: libgl1, \
         libegl1, libgl1-mesa-dri), try LIBGL_ALWAYS_SOFTWARE=1, or use a subcommand (`multicard --help` lists them)"
    )]
    OpenGl(String),
    /// Anything else.
    #[error("no window can be opened: {0}; use a subcommand (`multicard --help` lists them)")]
    Other(String),
}

impl From<eframe::Error> for OpenError {
    fn from(error: eframe::Error) -> Self {
        match error {
            eframe::Error::Winit(error) => Self::Display(without_place(&error.to_string())),
            eframe::Error::WinitEventLoop(error) => Self::Display(without_place(&error.to_string())),
            eframe::Error::Glutin(error) => Self::OpenGl(error.to_string()),
            // What was asked for says nothing to those who only want a window.
            eframe::Error::NoGlutinConfigs(_, error) => Self::OpenGl(error.to_string()),
            eframe::Error::OpenGL(error) => Self::OpenGl(error.to_string()),
            error => Self::Other(error.to_string()),
        }
    }
}

/// winit names the place in its source before the reason: `os error at /…/mod.rs:788: reason`.
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
    fn a_reason_is_told_without_the_place_in_somebodys_source() {
        let text = "os error at /home/x/winit-0.30.13/src/linux/mod.rs:788: Failed to open connection: to X server.";
        assert_eq!(without_place(text), "Failed to open connection: to X server");
        assert_eq!(without_place("the event loop was made twice"), "the event loop was made twice");
        assert_eq!(without_place("os error at somewhere"), "os error at somewhere");
    }

    #[test]
    fn a_display_that_is_missing_and_opengl_that_fails_are_told_apart_with_what_to_do() {
        let display = OpenError::Display("no X server".to_owned()).to_string();
        assert!(display.contains("no X server; set DISPLAY") && display.contains("subcommand"), "{display}");
        let opengl = OpenError::OpenGl("GLXBadFBConfig".to_owned()).to_string();
        assert!(opengl.contains("libgl1-mesa-dri") && !opengl.contains("DISPLAY"), "{opengl}");
    }
}
