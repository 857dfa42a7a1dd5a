//! Reads a table in parts on several threads.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::TraceError;
use super::open::NsysExport;
use super::progress::Watch;
use super::rows::{Column, Fields, Rows};

/// Pages per part: about a millisecond of reading. Progress and cancellation are handled between parts.
const PAGES_PER_PART: usize = 64;

/// What one thread read, and the part in which it failed.
type Done<T> = (T, Option<(usize, TraceError)>);

/// Reads a table on at most this many threads. Each keeps its own sums, which are returned, and reads rows in
/// order of their ids; the assignment of parts to threads varies.
pub(super) fn scan_parts<T: Default + Send>(
    report: &NsysExport<'_>,
    watch: &mut Watch<'_>,
    threads: usize,
    table: &str,
    columns: &[Column],
    each: impl Fn(&mut T, &Fields<'_>) -> Result<(), TraceError> + Sync,
) -> Result<Vec<T>, TraceError> {
    let Some(rows) = Rows::of(report, table, columns)? else { return Ok(Vec::new()) };
    let leaves = report.leaves(table)?;
    let (next, pages_done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let read = |look: &mut dyn FnMut(usize) -> Result<(), TraceError>| {
        let (mut sums, mut reader) = (T::default(), rows.reader());
        while !failed.load(Ordering::Relaxed) {
            let part = next.fetch_add(1, Ordering::Relaxed);
            let Some(pages) = leaves.chunks(PAGES_PER_PART).nth(part) else { break };
            let done = pages
                .iter()
                .try_for_each(|page| rows.read(&mut reader, *page, |fields| each(&mut sums, fields)))
                .and_then(|()| look(pages_done.fetch_add(pages.len(), Ordering::Relaxed) + pages.len()));
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
            named.spawn_scoped(scope, || read(&mut |_| Ok(()))).ok()
        };
        let wanted = threads.min(leaves.len().div_ceil(PAGES_PER_PART));
        let helpers: Vec<_> = (1..wanted).filter_map(helper).collect();
        let own = read(&mut |pages| watch.look(pages));
        let joined = helpers.into_iter().map(|helper| helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        std::iter::once(own).chain(joined).collect()
    });
    let (sums, errors): (Vec<T>, Vec<Option<(usize, TraceError)>>) = all.into_iter().unzip();
    // All earlier parts were read completely, so this is the first error of the table.
    if let Some((_, error)) = errors.into_iter().flatten().min_by_key(|(part, _)| *part) {
        return Err(error);
    }
    watch.table_done(leaves.len())?;
    Ok(sums)
}
