//! A window that a test opens on a session and drives until something has come true.

use std::path::Path;
use std::time::{Duration, Instant};

use egui_kittest::Harness;
use multicard::app::{App, Settings, Window};

/// Long enough for a slow machine; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn open(session: impl AsRef<Path>) -> Harness<'static, App> {
    let session = session.as_ref().to_owned();
    Harness::builder()
        .with_max_steps(24)
        .build_eframe(move |context| App::new(&context.egui_ctx, Settings::default(), Some(session)))
}

pub fn until(window: &mut Harness<'_, App>, what: &str, met: impl Fn(&Window) -> bool) {
    let start = Instant::now();
    while !met(window.state().window()) {
        let desk = &window.state().window().desk;
        assert!(start.elapsed() < PATIENCE, "{what}: {:?}, {:?}, {:?}", desk.session, desk.problems, desk.queue);
        window.step();
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Why the open session cannot be changed; nothing where it can, or none is open.
pub fn read_only(window: &Window) -> &str {
    window.desk.session.as_ref().and_then(|session| session.read_only.as_deref()).unwrap_or_default()
}

/// Whether a session is open that can be changed.
pub fn can_be_changed(window: &Window) -> bool {
    window.desk.session.as_ref().is_some_and(|session| session.read_only.is_none())
}
