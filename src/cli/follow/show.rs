//! How notices and the progress of the queue are shown on the terminal.

use std::path::Path;

use indicatif::ProgressBar;

use super::EventFormat;
use crate::analysis::counted;
use crate::cli::{print, say};
use crate::conduct::{QueueRow, QueueView};
use crate::figure::duration_text;
use crate::foreign;
use crate::plan::RunState;
use crate::protocol::{TraceOutcome, now_s};
use crate::session::Notice;

/// Shows a notice; events are printed if `format` asks for them.
///
/// # Errors
/// Events cannot be written to stdout.
pub(super) fn show(
    notice: &Notice,
    folder: &Path,
    bar: &ProgressBar,
    format: Option<EventFormat>,
) -> Result<(), std::io::Error> {
    match notice {
        Notice::Event(line) if format == Some(EventFormat::Json) => print(&serde_json::to_string(line)?)?,
        Notice::Event(_) | Notice::Sample { .. } => {}
        Notice::Importing { name, fraction } => {
            let message = format!("importing the report of {name}: {:.0} %", fraction * 100.0);
            bar.set_message(foreign::message(&message).into_owned());
        }
        Notice::Trace { name, outcome } => match outcome {
            Some(TraceOutcome::Imported(trace)) => {
                let lost = trace.evidence.iter().filter(|evidence| !evidence.in_effect);
                let lost =
                    lost.map(|lost| format!("; {} = {} is not in effect: {}", lost.factor, lost.asked, lost.seen));
                let lost: String = lost.collect();
                // A copy of a session on another machine has no recordings, and a report that stands alone is elsewhere.
                let file = folder.join("runs").join(name).join(&trace.file);
                let file = if file.exists() { format!(" in {}", file.display()) } else { String::new() };
                bar.suspend(|| {
                    let gpus = if trace.gpus > 0 {
                        format!(" of {}", counted(trace.gpus as usize, "GPU"))
                    } else {
                        String::new()
                    };
                    say(format_args!("run {name} traced: {:.1} s{gpus}{file}{lost}", trace.wall_s));
                });
            }
            Some(TraceOutcome::Failed(reason)) => {
                bar.suspend(|| say(format_args!("run {name} has no trace: {reason}")));
            }
            None => bar.suspend(|| say(format_args!("run {name}: import cancelled; opening the session resumes it"))),
        },
        Notice::Noise { message, .. } => bar.suspend(|| say(format_args!("unreadable line in a log: {message}"))),
        Notice::State { run, state, reason } if state.is_final() => {
            // A cancelled run has no further reason.
            let reason = reason.as_deref().filter(|reason| *reason != state.name());
            let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
            let log = if reason.is_empty() {
                String::new()
            } else {
                format!(" (log: {})", folder.join("runs").join(run).join("stderr.log").display())
            };
            bar.suspend(|| say(format_args!("run {run} {}{reason}{log}", state.name())));
        }
        // On a terminal, the bar names the runs that are under way.
        Notice::State { run, state: RunState::Running, .. } if bar.is_hidden() => {
            say(format_args!("run {run} started"));
        }
        Notice::Waits { run, reason: Some(reason) } => bar.suspend(|| say(format_args!("run {run}: {reason}"))),
        Notice::State { .. } | Notice::Waits { .. } => {}
    }
    Ok(())
}

/// Draws the progress of the queue.
pub(super) fn draw(bar: &ProgressBar, queue: &QueueView) {
    bar.set_length(queue.queued as u64);
    bar.set_position(queue.ended as u64);
    let running = queue.rows.iter().filter(|row| row.state.is_active()).map(|at| {
        let loss = at.loss.map_or(String::new(), |loss| format!(", loss {loss:.3}"));
        match at.steps {
            // Nothing is known of its steps yet.
            0 => format!("{} {}  ", at.run, at.state.name()),
            steps => format!("{} step {}/{steps}{loss}  ", at.run, at.step),
        }
    });
    let measuring = queue.measurement.as_ref().filter(|_| queue.is_measuring());
    let measuring = measuring.map_or(String::new(), |at| format!("rates: {}  ", at.doing()));
    let message = format!("{measuring}{}{}", running.collect::<String>(), eta_text(queue, now_s()));
    bar.set_message(foreign::message(&message).into_owned());
}

/// The estimated time until the queue is empty: `ETA about 3 min 5 s`; empty as long as nothing is known of it.
fn eta_text(queue: &QueueView, now_s: f64) -> String {
    if queue.remaining_s <= 0.0 {
        return String::new();
    }
    let remaining_s = (queue.remaining_s - (now_s - queue.time_s)).max(0.0);
    format!("ETA {}{}", queue.remaining_word(), duration_text(remaining_s))
}

/// The message about runs whose ends are not recorded because the journal is gone: those that have ended, and of the user's own runs those
/// that are being stopped.
pub(super) fn unrecorded(queue: &QueueView, is_own: impl Fn(&str) -> bool, folder: &Path) -> String {
    const NAMED: usize = 5;
    let is_lost =
        |row: &&QueueRow| queue.unrecordable.contains(&row.run) || !row.state.is_final() && is_own(row.run.as_str());
    let runs: Vec<&str> = queue.rows.iter().filter(is_lost).map(|row| row.run.as_str()).collect();
    let more = if runs.len() > NAMED { format!(" and {} more", runs.len() - NAMED) } else { String::new() };
    format!(
        "{}: the session's journal was deleted, replaced or moved away, so it is not recorded how {} ended: {}{more}. If the session was \
         moved, the next process that opens it where it is now records how its runs ended",
        folder.display(),
        counted(runs.len(), "run"),
        runs[..runs.len().min(NAMED)].join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Estimate;

    #[test]
    fn runs_whose_ends_are_not_recorded_are_named() {
        let row = |run: &str, state: RunState| QueueRow::in_state(run, state);
        let rows = vec![row("a", RunState::Finished), row("b", RunState::Cancelled), row("c", RunState::Running)];
        let mut queue = QueueView { rows, unrecordable: vec!["b".to_owned()], ..QueueView::default() };
        let message = |queue: &QueueView, own: &[&str]| unrecorded(queue, |run| own.contains(&run), Path::new("/s"));
        let text = message(&queue, &["a", "b", "c"]);
        assert!(text.starts_with("/s: ") && text.contains("not recorded how 2 runs ended: b, c."), "{text}");
        let text = message(&queue, &["a", "b"]);
        assert!(text.contains("not recorded how 1 run ended: b."), "{text}");
        queue.rows.extend(["d", "e", "f", "g"].map(|run| row(run, RunState::Queued)));
        let text = message(&queue, &["b", "c", "d", "e", "f", "g"]);
        assert!(text.contains("not recorded how 6 runs ended: b, c, d, e, f and 1 more."), "{text}");
    }

    #[test]
    fn a_time_that_nobody_can_foretell_yet_is_not_shown() {
        let queue = |remaining_s: f64| QueueView {
            remaining_s,
            remaining_is: Estimate::AtLeast,
            time_s: 100.0,
            ..QueueView::default()
        };
        assert_eq!(eta_text(&queue(0.0), 101.0), "");
        assert_eq!(eta_text(&queue(46.0), 101.0), "ETA at least 45 s");
    }
}
