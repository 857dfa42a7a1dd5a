//! Work on threads, with progress and cancellation; dialogs; paths that the user types.

use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use eframe::egui::Context;
use poll_promise::Promise;

use crate::session::default_sessions_folder;
use crate::trace::Progress;

/// Runs a job on a new thread, and wakes the window when it is done.
pub fn on_thread<T: Send + 'static>(
    name: &str,
    context: &Context,
    work: impl FnOnce() -> T + Send + 'static,
) -> Promise<T> {
    let (sender, promise) = Promise::new();
    let context = context.clone();
    let job = move || {
        sender.send(work());
        // From now on the result is visible.
        context.request_repaint();
    };
    // The job is shared, so that it can run here if no thread can be started.
    let job = Arc::new(Mutex::new(Some(job)));
    let shared = job.clone();
    let take = |job: &Mutex<Option<_>>| job.lock().ok().and_then(|mut job| job.take());
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        if let Some(job) = take(&shared) {
            job();
        }
    });
    if started.is_err()
        && let Some(job) = take(&job)
    {
        job();
    }
    promise
}

/// The message if a dialog gave no file: the user cancelled it, or the system has no dialogs.
pub const NO_FILE_CHOSEN: &str = "No file was chosen. If no dialog appeared, type the path here.";

/// Takes the result of work that has ended, which then is no longer there; `None` while the work goes on, or if there is none.
pub fn taken<T: Send + 'static>(work: &mut Option<Promise<T>>) -> Option<T> {
    work.take_if(|work| work.ready().is_some()).map(Promise::block_and_take)
}

/// Takes a finished result as [`taken`] does, for work that is kept together with its subject.
pub fn taken_about<S, T: Send + 'static>(work: &mut Option<(S, Promise<T>)>) -> Option<(S, T)> {
    let (subject, work) = work.take_if(|(_, work)| work.ready().is_some())?;
    Some((subject, work.block_and_take()))
}

/// Asks for a session's folder in the system's file dialog; `None` if it is cancelled or missing.
pub fn choose_session(context: &Context, title: &'static str) -> Promise<Option<PathBuf>> {
    on_thread("session-dialog", context, move || {
        let dialog = rfd::FileDialog::new().set_title(title);
        let start = default_sessions_folder().ok().filter(|folder| folder.is_dir());
        start.map_or(dialog.clone(), |folder| dialog.set_directory(folder)).pick_folder()
    })
}

/// A typed path; `~` is the home folder. The address of a session on another machine is not changed.
pub fn typed_path(text: &str) -> Option<PathBuf> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    if text.starts_with("ssh://") {
        return Some(PathBuf::from(text));
    }
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    match text.strip_prefix("~/").zip(home()) {
        Some((rest, home)) => Some(home.join(rest)),
        None => std::path::absolute(text).ok(),
    }
}

/// The path from the root to a file or folder, without `..`, so that it has the same path in windows that were opened in other folders. The
/// address of a session on another machine is not changed.
pub fn absolute(path: &Path) -> PathBuf {
    if path.to_string_lossy().starts_with("ssh://") {
        return path.to_owned();
    }
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if !whole.components().any(|part| part == Component::ParentDir) {
        return whole;
    }
    // The file or folder may not exist yet, and keeps its name if it is a link.
    let above = whole.parent().and_then(|above| above.canonicalize().ok());
    let plain = above.zip(whole.file_name()).map(|(above, name)| above.join(name));
    plain.or_else(|| whole.canonicalize().ok()).unwrap_or(whole)
}

/// Work in progress.
pub struct Task<T: Send + 'static> {
    shared: Arc<Shared>,
    work: Promise<T>,
}

#[derive(Default)]
struct Shared {
    cancelled: AtomicBool,
    /// The finished part in thousandths.
    done: AtomicU32,
}

impl<T: Send + 'static> Task<T> {
    /// Begins work on a thread. The work reports its progress to a function, which returns whether to continue.
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

    /// Requests it to stop.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
    }

    /// The finished part, from 0 to 1.
    pub fn done(&self) -> f32 {
        self.shared.done.load(Ordering::Relaxed) as f32 / 1000.0
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.work.ready().is_some()
    }

    /// Its result; waits while it is still running.
    pub fn result(self) -> T {
        self.work.block_and_take()
    }
}
