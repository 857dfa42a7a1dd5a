//! Marks the steps of a program that does not mark them itself, by means of the lines that it prints.
//!
//! An unmodified script has no ranges that name its steps, so it would be unknown where a step's time goes. But its output lines report how
//! long each step was, and arrive when the step ends; both clocks belong to the same machine.

use std::collections::BTreeSet;
use std::path::Path;

use super::TraceError;
use super::event::{Kind, What};
use super::file::{EventsFile, EventsWriter, Lane, Row, extras};
use super::fold::is_step;
use super::source::{Head, Source as _};
use super::value::{BUILT_IN, REPORTED_STEPS};

/// The name of such a step.
const STEP: &str = "step";

/// A step as its program reported it, in seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReportedStep {
    /// Its start.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
}

/// Marks steps in an events file for each process that used a GPU. Nothing is marked if ranges already name steps, or if the file does not
/// contain the real time.
///
/// # Errors
///
/// If the file cannot be read or written.
pub(super) fn mark_steps(events: &Path, steps: &[ReportedStep]) -> Result<(), TraceError> {
    let failed = |source| TraceError::Io { file: events.to_owned(), source };
    let file = EventsFile::open(events)?;
    let Some(epoch_ns) = file.head()?.epoch_ns.filter(|_| !steps.is_empty()) else { return Ok(()) };
    let lanes = file.lanes();
    for (key, ..) in lanes.iter().filter(|(_, lane, _)| lane.kind == Kind::Range) {
        let mut has_steps = false;
        file.in_order(*key, (i64::MIN, i64::MAX), |event| {
            has_steps |= file.text(key.0, event.label).is_some_and(is_step);
            !has_steps
        })?;
        if has_steps {
            return Ok(());
        }
    }
    let works = |lane: &Lane| matches!(lane.kind, Kind::Call | Kind::Kernel);
    let processes: BTreeSet<i64> =
        lanes.iter().filter(|(_, lane, _)| works(lane)).map(|(_, lane, _)| lane.process).collect();
    let head = Head {
        schema_version: format!("{BUILT_IN} 1"),
        epoch_ns: Some(epoch_ns),
        without_cuda: true,
        notes: vec![REPORTED_STEPS.to_owned()],
        ..Head::default()
    };
    let mut writer = EventsWriter::append(events, file.next_writer(), head).map_err(failed)?;
    let name = writer.name(STEP).map_err(failed)?;
    for process in processes {
        // No thread of the process has this number.
        let lane = writer.lane(&Lane { kind: Kind::Range, process, gpu: None, track: 0 });
        let mut before = i64::MIN;
        for ReportedStep { start_s, end_s } in steps {
            let at = |time_s: f64| (time_s * 1e9) as i64 - epoch_ns;
            let (start, end) = (at(*start_s).max(before), at(*end_s));
            if start < end {
                let row = Row { start, end, name, correlation: 0, extras: extras(What::Range { domain: 0 }) };
                writer.push(lane, row).map_err(failed)?;
                before = end;
            }
        }
    }
    writer.finish().map_err(failed)
}
