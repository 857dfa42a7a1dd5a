//! `multicard trace --collectives`: lists the collectives of a recording by name and size.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

use serde::Serialize;

use super::Format;
use crate::foreign::cache_folder;
use crate::text_table::{Field, TextTable};
use crate::trace::{Collective, NoSize, Progress, Timeline, TraceError, keep_for_timeline};

/// All collectives of one name and size, summed over ranks; times in nanoseconds. Empty fields are unknown.
#[derive(Serialize)]
struct Row<'a> {
    collective: &'a str,
    bytes: Option<u64>,
    calls: u64,
    total_ns: u64,
    hidden_ns: u64,
    waiting_ns: Option<u64>,
    exposed_ns: u64,
    longest_ns: u64,
    /// Why the size is not known.
    no_size: Option<&'static str>,
}

/// Reads a recording's collectives, as the table on the Timeline screen shows them.
///
/// # Errors
/// The recording cannot be read, or `tell` cancelled.
pub(super) fn read(
    file: &Path,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Vec<Collective>, TraceError> {
    let cache = cache_folder().map(|folder| folder.join("multicard").join("traces"));
    let timeline = Timeline::open(&keep_for_timeline(file, cache, tell)?, tell)?;
    Ok(timeline.split(tell)?.collectives)
}

/// The table in the requested format.
pub(super) fn table(collectives: &[Collective], format: Format) -> Result<String, serde_json::Error> {
    let rows: Vec<Row> = collectives
        .iter()
        .map(|entry| Row {
            collective: &entry.name,
            bytes: entry.bytes,
            calls: entry.calls,
            total_ns: entry.total_ns,
            hidden_ns: entry.hidden_ns,
            waiting_ns: entry.waiting_ns,
            exposed_ns: entry.exposed_ns,
            longest_ns: (entry.longest.1 - entry.longest.0).unsigned_abs(),
            no_size: entry.no_size.map(NoSize::reason),
        })
        .collect();
    match format {
        Format::Md => Ok(markdown(&rows)),
        Format::Csv => Ok(csv(&rows)),
        Format::Json => serde_json::to_string_pretty(&rows),
    }
}

fn csv(rows: &[Row]) -> String {
    let head = "collective,bytes,calls,total_ns,hidden_ns,waiting_ns,exposed_ns,longest_ns,no_size";
    let mut table = TextTable::new("", head.split(','));
    for row in rows {
        let [calls, total_ns, hidden_ns] = [row.calls, row.total_ns, row.hidden_ns].map(Some);
        let numbers =
            [row.bytes, calls, total_ns, hidden_ns, row.waiting_ns, Some(row.exposed_ns), Some(row.longest_ns)];
        let fields = numbers.map(|number| number.map_or_else(|| "".into(), Field::from));
        let no_size = row.no_size.unwrap_or_default();
        table.row(std::iter::once(row.collective.into()).chain(fields).chain([no_size.into()]));
    }
    table.csv()
}

fn markdown(rows: &[Row]) -> String {
    let head = [
        "Collective",
        "Size (bytes)",
        "Calls",
        "Total (s)",
        "Hidden (s)",
        "Waiting for the slowest (s)",
        "Exposed (s)",
        "Longest (s)",
    ];
    let mut table = TextTable::new("lrrrrrrr", head);
    let seconds = |ns: u64| format!("{:.6}", ns as f64 * 1e-9);
    for row in rows {
        table.row([
            row.collective.into(),
            row.bytes.map_or_else(|| "–".into(), Field::from),
            row.calls.into(),
            seconds(row.total_ns).into(),
            seconds(row.hidden_ns).into(),
            row.waiting_ns.map_or_else(|| "not known".to_owned(), seconds).into(),
            seconds(row.exposed_ns).into(),
            seconds(row.longest_ns).into(),
        ]);
    }
    let reasons: BTreeSet<&str> = rows.iter().filter_map(|row| row.no_size).collect();
    let reasons: String = reasons.iter().map(|reason| format!("\n\nNo size: {reason}.")).collect();
    table.markdown()
        + "\nTime summed over all ranks. Hidden: other kernels or copies of the rank ran at the same time; without GPUs, the rank did \
             not wait. Waiting: nothing else ran, and the last rank had not begun; where this is unknown, it is part of exposed."
        + &reasons
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_empty_and_each_format_has_every_collective() {
        let known = Collective {
            name: "gloo:all_reduce".to_owned(),
            bytes: Some(4096),
            no_size: None,
            calls: 20,
            total_ns: 3_000_000,
            hidden_ns: 1_000_000,
            waiting_ns: Some(500_000),
            exposed_ns: 1_500_000,
            longest: (100, 400_100),
        };
        let no_size = Some(NoSize::Group);
        let unknown = Collective { name: "a|b, c".to_owned(), bytes: None, no_size, waiting_ns: None, ..known };
        let all = [known, unknown];
        let text = table(&all, Format::Csv).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "collective,bytes,calls,total_ns,hidden_ns,waiting_ns,exposed_ns,longest_ns,no_size");
        assert_eq!(lines[1], "gloo:all_reduce,4096,20,3000000,1000000,500000,1500000,400000,");
        let reason = NoSize::Group.reason();
        assert_eq!(lines[2], format!("\"a|b, c\",,20,3000000,1000000,,1500000,400000,\"{reason}\""));
        let text = table(&all, Format::Md).unwrap();
        assert!(
            text.contains("| gloo:all_reduce | 4096 | 20 | 0.003000 | 0.001000 | 0.000500 | 0.001500 | 0.000400 |"),
            "{text}"
        );
        assert!(text.contains("| a\\|b, c | – | 20 | 0.003000 | 0.001000 | not known |"), "{text}");
        assert!(text.ends_with(&format!("\n\nNo size: {reason}.")), "{text}");
        let json: serde_json::Value = serde_json::from_str(&table(&all, Format::Json).unwrap()).unwrap();
        assert_eq!((json[0]["bytes"].as_u64(), json[1]["waiting_ns"].is_null()), (Some(4096), true));
    }

    #[test]
    fn names_that_a_spreadsheet_would_compute_stay_text() {
        let one = Collective {
            name: "=HYPERLINK(\"http://a\")".to_owned(),
            bytes: None,
            no_size: None,
            calls: 1,
            total_ns: 1,
            hidden_ns: 0,
            waiting_ns: None,
            exposed_ns: 1,
            longest: (0, 1),
        };
        let text = table(&[one], Format::Csv).unwrap();
        assert!(text.ends_with("\n\"'=HYPERLINK(\"\"http://a\"\")\",,1,1,0,,1,1,\n"), "{text}");
    }
}
