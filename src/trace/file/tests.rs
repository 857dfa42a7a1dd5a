#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

use proptest::prelude::*;
use strum::VariantArray;

use super::block::{Content, HEADER_BYTES, Header, decode, encode};
use super::reader::EventsFile;
use super::writer::{EventsWriter, append_block};
use super::*;
use crate::trace::progress::Watch;
use crate::trace::source::{Reading, Source};
use crate::trace::tests::golden_report;
use crate::trace::{Window, import_bytes, keep_events};

fn kinds() -> impl Strategy<Value = Kind> {
    prop::sample::select(Kind::VARIANTS.to_vec())
}

fn row() -> impl Strategy<Value = Row> {
    let any_number = || prop_oneof![Just(0), Just(NONE), 0..9_i64, any::<i64>()];
    let start =
        prop_oneof![0..1000_i64, 1_700_000_000_000_000_000..1_700_000_001_000_000_000_i64, Just(-(i64::MAX / 2))];
    let length = prop_oneof![Just(0), 0..100_000_i64, Just(365 * 24 * 3600 * 1_000_000_000_i64)];
    (start, length, any::<u32>(), any_number(), prop::array::uniform6(any_number())).prop_map(
        |(start, length, name, correlation, extras)| Row { start, end: start + length, name, correlation, extras },
    )
}

/// A row with only the numbers that its kind has.
fn of_kind(kind: Kind, row: &Row) -> Row {
    let mut extras = row.extras;
    extras[extras_of(kind)..].fill(0);
    Row { extras, ..*row }
}

proptest! {
    #[test]
    fn columns_give_back_the_rows(kind in kinds(), mut rows in prop::collection::vec(row(), 1..60)) {
        rows.sort_unstable_by_key(|row| (row.start, row.end));
        let bytes = encode(kind, &rows);
        let expected: Vec<Row> = rows.iter().map(|row| of_kind(kind, row)).collect();
        prop_assert_eq!(decode(kind, rows.len(), &bytes).unwrap(), expected);
        prop_assert!(decode(kind, usize::MAX, &bytes).is_err());
        // The header's checksum guards the count: with another one columns may by chance be read as others, but never as more than that.
        for count in [rows.len() - 1, rows.len() + 1] {
            prop_assert!(decode(kind, count, &bytes).map_or(true, |read| read.len() == count));
        }
        prop_assert!(decode(kind, rows.len(), &bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn numbers_of_a_kind_survive(kind in kinds(), row in row()) {
        let row = of_kind(kind, &row);
        prop_assert_eq!(extras(what(kind, row.extras)), row.extras);
    }
}

/// What a file holds: start, length and name of each call, and what was lost.
fn calls(bytes: &[u8]) -> (Vec<(i64, i64, String)>, Vec<String>) {
    let file = EventsFile::from_bytes(Path::new("cut"), bytes).unwrap();
    let found = Mutex::new(Vec::new());
    let mut tell = |_| ControlFlow::Continue(());
    let mut watch = Watch::new(&mut tell, 1);
    let each = |(): &mut (), event: &Event<'_>| {
        found.lock().unwrap().push((event.span, event.name.id()));
        Ok(())
    };
    file.scan(Kind::Call, Reading { threads: 1, ..file.for_sums() }, &mut watch, each).unwrap();
    let found = found.into_inner().unwrap();
    let names = file.names(&found.iter().map(|(_, id)| *id).collect()).unwrap().texts;
    let named = found.into_iter().map(|((start, end), id)| (start, end - start, names[&id].clone()));
    (named.collect(), file.losses())
}

/// Several writers take turns; each block of theirs holds `rows` calls. Returns the file and the places where blocks end.
fn written(writers: u16, blocks: i64, rows: i64) -> (Vec<u8>, Vec<usize>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.events");
    let size = || fs::metadata(&path).unwrap().len() as usize;
    let mut ends = Vec::new();
    let head = Head { schema_version: "test 1".to_owned(), ..Head::default() };
    let mut open: Vec<EventsWriter> = (0..writers)
        .map(|writer| {
            let opened = EventsWriter::append(&path, writer, head.clone()).unwrap();
            ends.push(size());
            opened
        })
        .collect();
    for block in 0..blocks {
        for (writer, to) in open.iter_mut().enumerate() {
            let lane = to.lane(&Lane { kind: Kind::Call, process: writer as i64, gpu: None, track: block % 2 });
            let name = to.name(&format!("call {} of {writer}", block % 3)).unwrap();
            for row in 0..rows {
                let start = block * 1000 + row * 7;
                to.push(lane, Row { start, end: start + 5, name, correlation: row, extras: [0; EXTRAS] }).unwrap();
            }
            to.flush().unwrap();
            ends.push(size());
        }
    }
    open.into_iter().for_each(|writer| writer.finish().unwrap());
    (fs::read(&path).unwrap(), ends)
}

#[test]
fn events_of_several_writers_are_read_with_their_own_names() {
    let (bytes, _) = written(3, 4, 10);
    let (found, losses) = calls(&bytes);
    assert_eq!(losses, Vec::<String>::new());
    let mut counts: HashMap<&str, usize> = HashMap::new();
    found.iter().for_each(|(_, _, name)| *counts.entry(name).or_default() += 1);
    assert_eq!(found.len(), 120);
    assert_eq!((counts["call 0 of 0"], counts["call 0 of 2"], counts["call 2 of 1"]), (20, 20, 10));
}

#[test]
fn a_file_cut_off_anywhere_is_read_up_to_the_cut_and_says_so() {
    let (bytes, ends) = written(2, 3, 20);
    let (all, _) = calls(&bytes);
    for cut in 4..bytes.len() {
        let (found, losses) = calls(&bytes[..cut]);
        let whole = ends.iter().filter(|end| **end <= cut).count().saturating_sub(2);
        assert_eq!(found, all[..20 * whole], "cut at {cut}");
        assert!(losses.iter().any(|loss| loss.contains("is missing: the recording was interrupted")), "{losses:?}");
    }
}

#[test]
fn a_changed_byte_costs_the_block_that_it_is_in_and_is_said() {
    let (bytes, _) = written(2, 3, 20);
    let (all, _) = calls(&bytes);
    for at in 4..bytes.len() {
        let mut broken = bytes.clone();
        broken[at] ^= 0x41;
        let (found, losses) = calls(&broken);
        assert!(!losses.is_empty(), "byte {at}");
        assert!(found.iter().all(|(start, length, name)| {
            all.contains(&(*start, *length, name.clone())) || name.contains("is missing")
        }));
        assert!(found.len() >= all.len() - 60, "byte {at}: {} of {} events, {losses:?}", found.len(), all.len());
    }
}

#[test]
fn a_block_that_lost_its_end_costs_no_other_writer_anything() {
    let (bytes, ends) = written(2, 3, 20);
    let (all, _) = calls(&bytes);
    // The third block of calls, which is the first writer's second.
    let (start, end) = (ends[3], ends[4]);
    for kept in [1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 9, end - start - 1] {
        let torn = [&bytes[..start + kept], &bytes[end..]].concat();
        let (found, losses) = calls(&torn);
        let expected = [&all[..40], &all[60..]].concat();
        let known: Vec<_> = found.iter().map(|(start, length, _)| (*start, *length)).collect();
        assert_eq!(known, expected.iter().map(|(start, length, _)| (*start, *length)).collect::<Vec<_>>(), "{kept}");
        assert!(!losses.is_empty());
    }
}

#[test]
fn a_block_whose_events_lie_outside_its_span_is_left_out_and_named() {
    let (bytes, _) = written(1, 3, 20);
    let (all, _) = calls(&bytes);
    let headers = bytes.windows(HEADER_BYTES).enumerate().filter_map(|(at, header)| {
        let header = Header::of(header.first_chunk()?).ok()?;
        matches!(header.content, Content::Rows { start: 1000, end: 1138, .. }).then_some(at)
    });
    let second = headers.collect::<Vec<_>>()[0];
    for (at, number) in [(16, 1001_i64), (24, 1137)] {
        let mut lying = bytes.clone();
        let header = &mut lying[second..][..HEADER_BYTES];
        header[at..at + 8].copy_from_slice(&number.to_le_bytes());
        let sum = block::checksum(&header[..HEADER_BYTES - 4]).to_le_bytes();
        header[HEADER_BYTES - 4..].copy_from_slice(&sum);
        let (found, losses) = calls(&lying);
        assert_eq!(found, [&all[..20], &all[40..]].concat());
        assert!(losses.iter().any(|loss| loss.contains("they lie outside the block's span")), "{losses:?}");
    }
}

#[test]
fn events_of_a_later_version_are_refused_by_name() {
    let (mut bytes, _) = written(1, 0, 0);
    let header: [u8; HEADER_BYTES] = bytes[..HEADER_BYTES].try_into().unwrap();
    bytes.truncate(HEADER_BYTES);
    bytes[4] = 9;
    let sum = block::checksum(&bytes[..HEADER_BYTES - 4]).to_le_bytes();
    bytes[HEADER_BYTES - 4..].copy_from_slice(&sum);
    assert_ne!(header[..], bytes[..]);
    let message = import_bytes(Path::new("new.events"), &bytes, &Window::default()).unwrap_err().to_string();
    assert!(
        message.contains("new.events: events of version 9, but this program knows version 1; open it with"),
        "{message}"
    );
}

#[test]
fn the_events_of_real_reports_say_what_the_reports_say_in_a_fraction_of_the_space() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let tell = &mut |_| ControlFlow::Continue(());
    for name in ["single_100", "ddp2_100_pin", "ddp2_100_nopin"] {
        let report = golden_report(name);
        fs::write(path("report.sqlite"), &report).unwrap();
        let (once, twice) = (path(&format!("{name}.events")), path(&format!("{name}.again")));
        keep_events(&path("report.sqlite"), &once, tell).unwrap();
        keep_events(&once, &twice, tell).unwrap();
        let kept = fs::read(&once).unwrap();
        assert!(kept.len() * 5 < report.len(), "{name}: {} bytes of {}", kept.len(), report.len());
        let gaps = import_bytes(Path::new("r"), &report, &Window::default()).unwrap().gaps;
        let at = |place: usize| Some(gaps[place].start_ns as f64 * 1e-9);
        let (some, half) = (at(gaps.len() / 4), at(gaps.len() / 2));
        for (from_s, to_s) in [(None, None), (half, None), (some, half), (None, some)] {
            let window = Window { from_s, to_s };
            let expected = import_bytes(Path::new("r"), &report, &window).unwrap();
            assert!(from_s.is_some() || !expected.api.is_empty() && !expected.kernels.is_empty(), "{name} {window:?}");
            for bytes in [&kept, &fs::read(&twice).unwrap()] {
                assert_eq!(import_bytes(Path::new("e"), bytes, &window).unwrap(), expected, "{name} {window:?}");
            }
        }
    }
    let again = keep_events(&path("report.sqlite"), &path("single_100.events"), tell).unwrap_err().to_string();
    assert!(again.contains("something has this name already and is not overwritten: choose another name"), "{again}");
}

#[test]
fn kinds_of_events_that_a_later_version_added_cost_their_lanes_alone_and_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.events");
    let mut writer =
        EventsWriter::append(&path, 0, Head { schema_version: "test 1".to_owned(), ..Head::default() }).unwrap();
    let known = writer.lane(&Lane { kind: Kind::Call, process: 1, gpu: None, track: 2 });
    let name = writer.name("cudaMalloc").unwrap();
    let row = Row { start: 5, end: 9, name, correlation: 0, extras: [0; EXTRAS] };
    writer.push(known, row).unwrap();
    writer.finish().unwrap();
    let lane = br#"[{"lane":[7,{"kind":"teleport","process":1,"track":2}]}]"#;
    append_block(&path, 0, Content::Entries, lane).unwrap();
    let content = Content::Rows { lane: 7, count: 1, start: 5, end: 9 };
    append_block(&path, 0, content, &encode(Kind::Copy, &[row])).unwrap();
    let (found, losses) = calls(&fs::read(&path).unwrap());
    assert_eq!(found, [(5, 4, "cudaMalloc".to_owned())]);
    let message = losses.join("\n");
    assert!(
        message.contains("is unknown to this version") && message.contains("lanes that are missing had 1 event"),
        "{message}"
    );
    assert_eq!(losses.len(), 2, "{message}");
}
