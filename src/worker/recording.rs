//! The built-in trace, if the job asks for it. It records ranges and phases of this rank in the events file of its run. What CUDA does is
//! recorded by the tracer's library, in a raw file beside it.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use multicard::foreign::say;
use multicard::protocol::{EVENTS_FILE, Phase};
use multicard::trace::{Recorder, now_ns, this_thread};

/// Whether ranges are being recorded; every range checks this first.
static ON: AtomicBool = AtomicBool::new(false);
/// Whether the run is recorded in windows. Then each window is noted, and ranges around windows are recorded as a
/// whole.
static IN_WINDOWS: AtomicBool = AtomicBool::new(false);
/// The time at which the recording was begun or resumed, in nanoseconds.
static SINCE: AtomicI64 = AtomicI64::new(0);
static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);
static TRACER: Mutex<Option<Box<dyn Tracer>>> = Mutex::new(None);

thread_local! {
    static THREAD: i64 = this_thread();
}

/// Records what CUDA does in this process, from its first `resume` on.
pub trait Tracer: Send {
    /// Begins or resumes recording.
    fn resume(&self);

    /// Stops recording until it is resumed. Events that were recorded before may be written later.
    fn pause(&self);

    /// Writes everything that is left. Nothing is recorded after that.
    fn close(&self);
}

/// Prepares to record this rank, in windows or not. If it has a GPU, `tracer` is the tracer, or the reason why there is
/// none. [`resume`] begins the recording. Call it before CUDA is first used.
///
/// # Errors
///
/// The file cannot be written.
pub fn open(
    folder: &Path,
    rank: u32,
    in_windows: bool,
    tracer: Option<Result<Box<dyn Tracer>, String>>,
) -> io::Result<()> {
    let tracer = tracer.transpose();
    let missing = tracer.as_ref().err().map(|why| format!("CUDA calls and kernels are not recorded: {why}"));
    let recorder = Recorder::append(&folder.join(EVENTS_FILE), rank, missing)?;
    IN_WINDOWS.store(in_windows, Ordering::Release);
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
        SINCE.store(now_ns(), Ordering::Release);
    }
}

/// Stops recording until it is resumed. Phases, and ranges around windows, are still recorded.
pub fn pause() {
    let window = (SINCE.load(Ordering::Acquire), now_ns());
    ON.store(false, Ordering::Release);
    if IN_WINDOWS.load(Ordering::Acquire) {
        with(|recorder, _| recorder.window(window));
    }
    if let Some(tracer) = &*TRACER.lock().unwrap_or_else(PoisonError::into_inner) {
        tracer.pause();
    }
}

/// The time at which a range begins; `None` if nothing is being recorded.
pub fn begin() -> Option<i64> {
    ON.load(Ordering::Acquire).then(now_ns)
}

/// The time at which a range around windows begins, which is recorded as a whole. `None` if the run is not recorded in
/// windows.
pub fn begin_around() -> Option<i64> {
    IN_WINDOWS.load(Ordering::Acquire).then(now_ns)
}

/// Records a range that ends now. While the recording is paused, only ranges around windows are recorded.
pub fn end(name: &str, start: i64, is_around: bool) {
    if is_around || ON.load(Ordering::Acquire) {
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
    if ON.load(Ordering::Acquire) && IN_WINDOWS.load(Ordering::Acquire) {
        // The run ends within a window.
        pause();
    }
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
    say(format_args!("multicard-worker: the trace ends here, as writing it failed: {error}"));
}
