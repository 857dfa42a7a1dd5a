//! Work of a thread with its progress, which can be cancelled: opening, adding up, exporting.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use eframe::egui::Context;
use poll_promise::Promise;

use crate::app::plan::on_thread;
use crate::trace::Progress;

/// Work that is under way.
pub struct Task<T: Send + 'static> {
    shared: Arc<Shared>,
    work: Promise<T>,
}

#[derive(Default)]
struct Shared {
    cancelled: AtomicBool,
    /// In thousandths.
    done: AtomicU32,
}

impl<T: Send + 'static> Task<T> {
    /// Begins work on a thread; it is handed what its progress is told to, which says whether to go on.
    pub fn start(
        thread: &'static str,
        context: &Context,
        work: impl FnOnce(&mut dyn FnMut(Progress) -> ControlFlow<()>) -> T + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let (known, repaint) = (Arc::clone(&shared), context.clone());
        let work = on_thread(thread, context, move || {
            work(&mut |progress| {
                let done = (progress.fraction * 1000.0) as u32;
                if known.done.swap(done, Ordering::Relaxed) != done {
                    repaint.request_repaint();
                }
                if known.cancelled.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        });
        Self { shared, work }
    }

    /// Asks it to stop.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
    }

    /// The part that is done, from 0 to 1.
    pub fn done(&self) -> f32 {
        self.shared.done.load(Ordering::Relaxed) as f32 / 1000.0
    }

    /// What it came to, or itself while it is under way.
    pub fn try_take(self) -> Result<T, Self> {
        let Self { shared, work } = self;
        work.try_take().map_err(|work| Self { shared, work })
    }
}
