//! The built-in trace, if the job asks for it. It records ranges and phases of this rank in the events file of its run. What CUDA does is
//! recorded by the tracer's library, in a raw file beside it.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use multicard::protocol::{EVENTS_FILE, Phase};
use multicard::trace::{Recorder, now_ns, this_thread};

/// Whether ranges are being recorded; every range checks this first.
static ON: AtomicBool = AtomicBool::new(false);
static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);
static TRACER: Mutex<Option<Box<dyn Tracer>>> = Mutex::new(None);

thread_local! {
    static THREAD: i64 = this_thread();
}

/// Records what CUDA does in this process, from its first `resume` on.
pub trait Tracer: Send {
    /// Begins or resumes recording.
    fn resume(&self);

    /// Stops recording until it is resumed. Waits for everything that still has to be finished.
    fn pause(&self);

    /// Writes everything that is left. Nothing is recorded after that.
    fn close(&self);
}

/// Prepares to record this rank. If it has a GPU, `tracer` is the tracer, or the reason why there is none. [`resume`] begins the recording.
/// Call it before CUDA is first used.
///
/// # Errors
///
/// The file cannot be written.
pub fn open(folder: &Path, rank: u32, tracer: Option<Result<Box<dyn Tracer>, String>>) -> io::Result<()> {
    let tracer = tracer.transpose();
    let missing = tracer.as_ref().err().map(|why| format!("CUDA calls and kernels are not recorded: {why}"));
    let recorder = Recorder::append(&folder.join(EVENTS_FILE), rank, missing)?;
    *TRACER.lock().unwrap_or_else(PoisonError::into_inner) = tracer.unwrap_or_default();
    *RECORDER.lock().unwrap_or_else(PoisonError::into_inner) = Some(recorder);
    Ok(())
}

/// Begins or resumes recording.
pub fn resume() {
    if RECORDER.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
        ON.store(true, Ordering::Release);
        if let Some(tracer) = &*TRACER.lock().unwrap_or_else(PoisonError::into_inner) {
            tracer.resume();
        }
    }
}

/// Stops recording everything but phases until it is resumed.
pub fn pause() {
    ON.store(false, Ordering::Release);
    if let Some(tracer) = &*TRACER.lock().unwrap_or_else(PoisonError::into_inner) {
        tracer.pause();
    }
}

/// The time at which a range begins; none if nothing is being recorded.
pub fn begin() -> Option<i64> {
    ON.load(Ordering::Acquire).then(now_ns)
}

/// Records a range that ends now.
pub fn end(name: &str, start: i64) {
    if ON.load(Ordering::Acquire) {
        let span = (start, now_ns());
        with(|recorder, thread| recorder.range(name, thread, span));
    }
}

/// Records a collective of this size that this thread has carried out and that ends now.
pub fn collective(name: &str, bytes: u64, start: i64) {
    if ON.load(Ordering::Acquire) {
        let span = (start, now_ns());
        with(|recorder, thread| recorder.collective(name, bytes, thread, span));
    }
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
    ON.store(false, Ordering::Release);
    if let Some(tracer) = TRACER.lock().unwrap_or_else(PoisonError::into_inner).take() {
        tracer.close();
    }
    let recorder = RECORDER.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Err(error)) = recorder.map(|recorder| recorder.finish(THREAD.with(|thread| *thread))) {
        give_up(&error);
    }
}

fn with(record: impl FnOnce(&mut Recorder, i64) -> io::Result<()>) {
    let mut recorder = RECORDER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Err(error)) = recorder.as_mut().map(|recorder| record(recorder, THREAD.with(|thread| *thread))) else {
        return;
    };
    *recorder = None;
    ON.store(false, Ordering::Release);
    give_up(&error);
}

/// Ends the recording after an error. A full disk must not end training; the trace itself shows that its end is missing.
fn give_up(error: &io::Error) {
    eprintln!("multicard-worker: the trace ends here, as writing it failed: {error}");
}
