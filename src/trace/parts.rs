//! Reads a table in parts, on several threads at a time, and tells how far an import is.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::TraceError;
use super::import::{Progress, Stage};
use super::open::Report;
use super::rows::{Column, Fields, Rows};

/// So many pages are a part: about a millisecond of reading. Progress is told, and cancelling noticed, as often.
const PAGES_PER_PART: usize = 64;

/// Who is told how far an import is, and who may stop it.
pub(super) struct Watch<'a> {
    tell: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    pages_total: usize,
    pages_done: usize,
}

impl<'a> Watch<'a> {
    /// Counts on the pages of these tables.
    pub fn new(
        tell: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
        report: &Report<'_>,
        tables: &[&str],
    ) -> Result<Self, TraceError> {
        let mut pages_total = 0;
        for table in tables {
            pages_total += report.leaves(table)?.len();
        }
        Ok(Self { tell, pages_total, pages_done: 0 })
    }

    /// Tells of `pages` more than those of the tables before.
    fn look(&mut self, pages: usize) -> Result<(), TraceError> {
        let fraction = (self.pages_done + pages) as f64 / self.pages_total.max(1) as f64;
        match (self.tell)(Progress { stage: Stage::Reading, fraction: fraction.clamp(0.0, 1.0) }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(TraceError::Cancelled),
        }
    }
}

/// What one thread read, and in which part of the table it failed.
type Done<T> = (T, Option<(usize, TraceError)>);

/// Reads a table on at most so many threads. Each has sums of its own, which are returned, and reads its rows in the
/// order of their ids; which parts of the table it reads differs each time.
pub(super) fn scan_parts<T: Default + Send>(
    report: &Report<'_>,
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
            // The parts of a thread that cannot be had are read by the others.
            named.spawn_scoped(scope, || read(&mut |_| Ok(()))).ok()
        };
        let wanted = threads.min(leaves.len().div_ceil(PAGES_PER_PART));
        let helpers: Vec<_> = (1..wanted).filter_map(helper).collect();
        let own = read(&mut |pages| watch.look(pages));
        let joined = helpers.into_iter().map(|helper| helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        std::iter::once(own).chain(joined).collect()
    });
    let (sums, errors): (Vec<T>, Vec<Option<(usize, TraceError)>>) = all.into_iter().unzip();
    // All parts before one with an error were read to their end, so this is the first error of the table.
    if let Some((_, error)) = errors.into_iter().flatten().min_by_key(|(part, _)| *part) {
        return Err(error);
    }
    watch.pages_done += leaves.len();
    watch.look(0)?;
    Ok(sums)
}
