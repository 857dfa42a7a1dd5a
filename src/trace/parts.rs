//! Reads a table in parts, on several threads at a time, and tells how far an import is.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use super::TraceError;
use super::import::{Progress, Stage};
use super::open::Report;
use super::rows::{Column, Ends, Fields, Part, Rows, last_id, most_rows};

/// So many rows are a part: some milliseconds of reading. Progress is told, and cancelling noticed, as often.
const ROWS_PER_PART: i64 = 4096;

/// Who is told how far an import is, and who may stop it.
pub(super) struct Watch<'a> {
    tell: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    rows_total: u64,
    rows_done: u64,
}

impl<'a> Watch<'a> {
    /// Counts on the rows of these tables.
    pub fn new(tell: &'a mut dyn FnMut(Progress) -> ControlFlow<()>, report: &Report<'_>, tables: &[&str]) -> Self {
        let rows =
            |table: &&str| u64::try_from(last_id(report, table).unwrap_or(0)).unwrap_or(0).min(most_rows(report));
        Self { tell, rows_total: tables.iter().filter(|table| report.has(table)).map(rows).sum(), rows_done: 0 }
    }

    /// Tells of `rows` more than before this table.
    fn look(&mut self, rows: u64) -> Result<(), TraceError> {
        let fraction = (self.rows_done + rows) as f64 / self.rows_total.max(1) as f64;
        match (self.tell)(Progress { stage: Stage::Reading, fraction: fraction.clamp(0.0, 1.0) }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(TraceError::Cancelled),
        }
    }
}

/// What one thread read.
struct Done<T> {
    sums: T,
    /// Where the parts begin and end, by their numbers.
    ends: Vec<(usize, Ends)>,
    error: Option<(usize, TraceError)>,
}

/// Reads a table in the order of its rows' ids on at most so many threads. Each has sums of its own, which are returned,
/// and reads its rows in their order. Which rows a thread reads differs each time.
pub(super) fn scan_parts<T: Default + Send>(
    report: &Report<'_>,
    watch: &mut Watch<'_>,
    threads: usize,
    table: &str,
    columns: &[Column],
    each: impl Fn(&mut T, &Fields<'_>) -> Result<(), TraceError> + Sync,
) -> Result<Vec<T>, TraceError> {
    let Some(rows) = Rows::of(report, table, columns)? else { return Ok(Vec::new()) };
    let Some(last) = rows.last_id() else {
        let mut sums = T::default();
        watch.rows_done += rows.read_all(|fields| each(&mut sums, fields))?;
        watch.look(0)?;
        return Ok(vec![sums]);
    };
    // Ids go from 1 without holes. Where they do not, some parts are larger than others or empty.
    let most = i64::try_from(most_rows(report)).unwrap_or(i64::MAX);
    let parts = (last.clamp(1, most.max(1)) as usize).div_ceil(ROWS_PER_PART as usize);
    let start = |part: usize| if part == 0 { i64::MIN } else { part as i64 * ROWS_PER_PART + 1 };
    let (next, rows_done, failed) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let read = |look: &mut dyn FnMut(u64) -> Result<(), TraceError>| {
        let mut done = Done { sums: T::default(), ends: Vec::new(), error: None };
        let mut part = 0;
        let read = report.on_connection(|connection| {
            while !failed.load(Ordering::Relaxed) {
                part = next.fetch_add(1, Ordering::Relaxed);
                if part >= parts {
                    break;
                }
                let bounds = Part { from: start(part), to: (part + 1 < parts).then(|| start(part + 1)) };
                let ends = rows.read_part(connection, &bounds, |fields| each(&mut done.sums, fields))?;
                done.ends.push((part, ends));
                look(rows_done.fetch_add(ROWS_PER_PART as u64, Ordering::Relaxed) + ROWS_PER_PART as u64)?;
            }
            Ok(())
        });
        if let Err(error) = read {
            failed.store(true, Ordering::Relaxed);
            done.error = Some((part, error));
        }
        done
    };
    let all: Vec<Done<T>> = thread::scope(|scope| {
        let helper = |number: usize| {
            let named = thread::Builder::new().name(format!("trace {number}"));
            // The parts of a thread that cannot be had are read by the others.
            named.spawn_scoped(scope, || read(&mut |_| Ok(()))).ok()
        };
        let helpers: Vec<_> = (1..threads.min(parts)).filter_map(helper).collect();
        let own = read(&mut |rows| watch.look(rows.min(last.unsigned_abs())));
        let joined = helpers.into_iter().map(|helper| helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        std::iter::once(own).chain(joined).collect()
    });
    let (mut sums, mut ends, mut errors) = (Vec::with_capacity(all.len()), Vec::with_capacity(parts), Vec::new());
    for done in all {
        sums.push(done.sums);
        ends.extend(done.ends);
        errors.extend(done.error);
    }
    // All parts before one with an error were read to their end, so this is the first error of the table.
    if let Some((_, error)) = errors.into_iter().min_by_key(|(part, _)| *part) {
        return Err(error);
    }
    ends.sort_unstable_by_key(|(part, _)| *part);
    if ends.windows(2).any(|pair| pair[0].1.beyond != pair[1].1.first) {
        return Err(report.damaged(table, "rows cannot be found by their ids"));
    }
    watch.rows_done += u64::try_from(last).unwrap_or(0);
    watch.look(0)?;
    Ok(sums)
}
