//! The built-in trace: ranges and phases of this rank, in the events file of its run, if the job asks for it.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use multicard::protocol::Phase;
use multicard::trace::{Recorder, now_ns, this_thread};

/// Whether there is a recorder: ranges look here first.
static ON: AtomicBool = AtomicBool::new(false);
static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);

thread_local! {
    static THREAD: i64 = this_thread();
}

/// Begins to record this rank.
///
/// # Errors
///
/// If the file cannot be written.
pub fn start(file: &Path, rank: u32, has_gpu: bool) -> io::Result<()> {
    let recorder = Recorder::append(file, rank, has_gpu)?;
    *RECORDER.lock().unwrap_or_else(PoisonError::into_inner) = Some(recorder);
    ON.store(true, Ordering::Release);
    Ok(())
}

/// When a range begins; none if nothing is recorded.
pub fn begin() -> Option<i64> {
    ON.load(Ordering::Acquire).then(now_ns)
}

/// Records a range that ends now.
pub fn end(name: &str, start: i64) {
    let span = (start, now_ns());
    with(|recorder, thread| recorder.range(name, thread, span));
}

/// Records that a phase begins.
pub fn phase(phase: Phase) {
    let name = match phase {
        Phase::Start => "phase: start",
        Phase::Load => "phase: load",
        Phase::WarmUp => "phase: warm-up",
        Phase::Steady => "phase: steady",
        Phase::Evaluate => "phase: evaluate",
    };
    with(|recorder, thread| recorder.phase(Some(name), thread));
}

/// Ends the recording.
pub fn finish() {
    let recorder = RECORDER.lock().unwrap_or_else(PoisonError::into_inner).take();
    ON.store(false, Ordering::Release);
    if let Some(Err(error)) = recorder.map(|recorder| recorder.finish(THREAD.with(|thread| *thread))) {
        give_up(&error);
    }
}

fn with(record: impl FnOnce(&mut Recorder, i64) -> io::Result<()>) {
    if !ON.load(Ordering::Acquire) {
        return;
    }
    let mut recorder = RECORDER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Err(error)) = recorder.as_mut().map(|recorder| record(recorder, THREAD.with(|thread| *thread))) else {
        return;
    };
    *recorder = None;
    ON.store(false, Ordering::Release);
    give_up(&error);
}

/// A full disk must not end training; the trace says itself that its end is missing.
fn give_up(error: &io::Error) {
    eprintln!("multicard-worker: the trace ends here, as writing it failed: {error}");
}
