//! Reads a recording in parts on several threads.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::trace::TraceError;
use crate::trace::progress::Watch;

/// The result of one thread, and the part in which it failed, if any.
type Done<T> = (T, Option<(usize, TraceError)>);

/// Reads `parts` parts on at most this many threads, each with its own reader and sums, and returns the sums. Each thread reads its parts
/// in order; which thread reads which part varies. `read` returns how many `units` of progress its part had. Cancellation is checked
/// between parts.
pub(in crate::trace) fn in_parts<T: Default + Send, R>(
    (parts, units): (usize, usize),
    threads: usize,
    watch: &mut Watch<'_>,
    reader: impl Fn() -> R + Sync,
    read: impl Fn(&mut R, &mut T, usize) -> Result<usize, TraceError> + Sync,
) -> Result<Vec<T>, TraceError> {
    let (next, units_done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let run = |look: &mut dyn FnMut(usize) -> Result<(), TraceError>| {
        let (mut sums, mut reader) = (T::default(), reader());
        while !failed.load(Ordering::Relaxed) {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                break;
            }
            let done = read(&mut reader, &mut sums, part)
                .and_then(|units| look(units_done.fetch_add(units, Ordering::Relaxed) + units));
            if let Err(error) = done {
                failed.store(true, Ordering::Relaxed);
                return (sums, Some((part, error)));
            }
        }
        (sums, None)
    };
    let all: Vec<Done<T>> = thread::scope(|scope| {
        let helper = |number: usize| {
            let named = thread::Builder::new().name(format!("trace {number}"));
            // If a thread cannot be started, the others read its parts.
            named.spawn_scoped(scope, || run(&mut |_| Ok(()))).ok()
        };
        let helpers: Vec<_> = (1..threads.min(parts)).filter_map(helper).collect();
        let own = run(&mut |units| watch.look(units));
        let joined = helpers.into_iter().map(|helper| helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        std::iter::once(own).chain(joined).collect()
    });
    let (sums, errors): (Vec<T>, Vec<Option<(usize, TraceError)>>) = all.into_iter().unzip();
    // All earlier parts were read completely, so this is the first error.
    if let Some((_, error)) = errors.into_iter().flatten().min_by_key(|(part, _)| *part) {
        return Err(error);
    }
    watch.done(units)?;
    Ok(sums)
}
