//! Readings from tables that a program appends to, or rewrites: comma- or tab-separated values, with names in the first row.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use super::fields::{Fields, Names};
use super::growing::{Growing, Part};
use super::records::Records;
use super::{Found, Lines, Source};
use crate::analysis::counted;
use crate::plan::command::ReadingsSpec;

/// The most rows of a table whose contents are remembered.
const MOST_ROWS: usize = 1 << 20;

/// A growing table.
pub(super) struct Csv {
    file: Growing,
    lines: Lines,
    table: Table,
}

/// Its rows so far.
struct Table {
    /// The file's name.
    name: String,
    names: Names,
    /// The columns, once the first row was read.
    columns: Option<Columns>,
    seen: Seen,
    /// Whether columns with the same name were reported.
    has_warned: bool,
    records: Records,
}

impl Csv {
    /// A table whose present rows are skipped.
    pub fn new(path: PathBuf, spec: &ReadingsSpec) -> Self {
        let (file, first) = Growing::after_now(path, true);
        let columns = first.map(|line| Columns::of(&String::from_utf8_lossy(&line)));
        let (name, names) = (file.name(), Names::new(&spec.names, true));
        let (seen, records) = (Seen::default(), Records::new("row"));
        let table = Table { name, names, columns, seen, has_warned: false, records };
        Self { table, file, lines: Lines::new() }
    }
}

impl Source for Csv {
    fn watch(&mut self) {
        self.file.watch();
    }

    fn poll(&mut self, last: bool, now_s: f64, found: &mut Vec<Found>) -> Result<(), String> {
        let Self { file, lines, table } = self;
        file.read(last, |part| match part {
            Part::Anew => {
                (*lines, table.columns) = (Lines::new(), None);
                table.seen.place = 0;
            }
            Part::Bytes(bytes, at_s) => {
                lines.push(bytes, |_, line| table.line(line, at_s.unwrap_or(now_s), found));
            }
        })?;
        if last {
            lines.finish(|_, line| table.line(line, now_s, found));
            table.records.end(file, true, found);
        }
        Ok(())
    }
}

impl Table {
    fn line(&mut self, line: &str, now_s: f64, found: &mut Vec<Found>) {
        let Some(columns) = &self.columns else {
            self.columns = Some(Columns::of(line));
            return;
        };
        let cells = cells(line, columns.separator);
        // A program that starts again may write the row of names again.
        if cells == columns.names {
            return;
        }
        let is_whole = cells.len() == columns.names.len();
        let hash = if is_whole { columns.hash(&cells) } else { hash_of(&line) };
        if !self.seen.is_new(hash) {
            return;
        }
        if let Some(twice) = columns.twice().filter(|_| !self.has_warned) {
            self.has_warned = true;
            found.push(Found::Warning(format!(
                "{}: the first row names {twice:?} more than once; only the first of these columns is read",
                self.name
            )));
        }
        let read = if is_whole {
            let mut fields = Fields::default();
            columns.values(&cells).for_each(|(name, _)| self.names.see(name, &self.name, found));
            let set = |(name, cell): (&str, &str)| {
                let meaning = self.names.meaning_of_text(name, cell, &self.name, found);
                meaning.map_or(Ok(()), |meaning| fields.text(meaning, cell))
            };
            columns.values(&cells).try_for_each(set).map(|()| fields)
        } else {
            Err(format!("it has {}, but the first row has {}", counted(cells.len(), "cell"), columns.names.len()))
        };
        let Self { name, seen, records, .. } = self;
        records.take(read, |_| format!("{name}, row {}", seen.place), now_s, found);
    }
}

/// The rows that were read. A table that is rewritten repeats these rows; only rows that are new or differ are read again.
#[derive(Default)]
struct Seen {
    /// The number of rows that were read since the table was last rewritten.
    place: usize,
    /// A hash of each row at its place, up to [`MOST_ROWS`].
    hashes: Vec<u64>,
    /// The most rows that the table had. Beyond [`MOST_ROWS`], a row is assumed to be equal to the row that was at its place before.
    most: usize,
}

impl Seen {
    /// Whether the next row differs from the row that was at its place before.
    fn is_new(&mut self, hash: u64) -> bool {
        let place = self.place;
        self.place += 1;
        let is_new = match self.hashes.get_mut(place) {
            Some(known) => std::mem::replace(known, hash) != hash,
            None => place >= self.most,
        };
        if place == self.hashes.len() && place < MOST_ROWS {
            self.hashes.push(hash);
        }
        self.most = self.most.max(self.place);
        is_new
    }
}

/// The columns of a table.
struct Columns {
    names: Vec<String>,
    /// Whether a column before this one has the same name.
    repeats: Vec<bool>,
    separator: u8,
}

impl Columns {
    /// The names in the first row, and the separator: the most frequent of the usual ones.
    fn of(line: &str) -> Self {
        let count = |separator: &u8| line.bytes().filter(|byte| byte == separator).count();
        // Of several equally frequent ones, `max_by_key` returns the last.
        let separator = [b';', b'\t', b','].into_iter().max_by_key(count).unwrap_or(b',');
        let line = line.trim_start_matches('\u{feff}');
        let name = |name: String| name.trim().trim_start_matches("# ").to_owned();
        let names: Vec<String> = cells(line, separator).into_iter().map(name).collect();
        let repeats = (0..names.len()).map(|place| names[..place].contains(&names[place])).collect();
        Self { names, repeats, separator }
    }

    /// A name that two columns have; columns without a name do not count, because they are not read.
    fn twice(&self) -> Option<&str> {
        let mut names = self.names.iter().zip(&self.repeats);
        names.find(|(name, repeats)| **repeats && !name.is_empty()).map(|(name, _)| name.as_str())
    }

    /// The cells of a row that have a value, with the names of their columns.
    fn values<'r>(&'r self, cells: &'r [String]) -> impl Iterator<Item = (&'r str, &'r str)> {
        let all = self.names.iter().zip(cells).zip(&self.repeats);
        let of_first = all.filter(|(_, repeats)| !**repeats).map(|((name, cell), _)| (name.as_str(), cell.trim()));
        of_first.filter(|(_, cell)| !cell.is_empty())
    }

    /// A hash of the values in a row, whatever the order of the columns and however many have no value.
    fn hash(&self, cells: &[String]) -> u64 {
        self.values(cells).map(|value| hash_of(&value)).fold(0, u64::wrapping_add)
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn cells(line: &str, separator: u8) -> Vec<String> {
    let mut reader = ::csv::ReaderBuilder::new();
    let mut reader = reader.has_headers(false).delimiter(separator).from_reader(line.as_bytes());
    let row = reader.records().next().and_then(Result::ok).unwrap_or_default();
    row.iter().map(str::to_owned).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::path::Path;

    use super::super::{FoundStep, NamedPhase};
    use super::*;

    fn append(path: &Path, text: &str) {
        OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn poll(source: &mut Csv, last: bool) -> Vec<Found> {
        let mut found = Vec::new();
        source.poll(last, 7.0, &mut found).unwrap();
        found
    }

    fn step(step: u64, loss: Option<f64>) -> Found {
        Found::Step(FoundStep { step: Some(step), loss, at_s: 7.0, ..FoundStep::default() })
    }

    #[test]
    fn rows_are_read_as_they_come_and_empty_cells_say_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
        append(&path, "epoch,step,loss,\"lr, now\",name\n,1,0.5,,a\n,2,");
        assert_eq!(poll(&mut source, false), [step(1, Some(0.5))]);
        append(&path, "0.25,,a\nepoch,step,loss,\"lr, now\",name\n,2,,1e-3,a\n,3");
        let reading = Found::Reading { key: "lr,_now".into(), value: 1e-3, step: Some(2), epoch: None };
        assert_eq!(poll(&mut source, false), [step(2, Some(0.25)), reading]);
        let end = poll(&mut source, true);
        let [Found::Warning(warning)] = &end[..] else { panic!("{end:?}") };
        assert!(warning.starts_with("metrics.csv, row 4: it has 2 cells, but the first row has 5"), "{warning}");
    }

    #[test]
    fn a_table_that_is_written_anew_with_more_columns_gives_the_rows_that_are_new() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
        std::fs::write(&path, "step;loss\n1;0.5\n").unwrap();
        assert_eq!(poll(&mut source, false), [step(1, Some(0.5))]);
        std::fs::write(&path, "step;accuracy;loss\n1;;0.5\n2;0.9;0.25\n").unwrap();
        let reading = Found::Reading { key: "accuracy".into(), value: 0.9, step: Some(2), epoch: None };
        assert_eq!(poll(&mut source, true), [step(2, Some(0.25)), reading]);
    }

    #[test]
    fn each_row_of_a_table_that_is_replaced_or_rewritten_at_each_step_is_read_once() {
        for is_replaced in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let (path, other) = (folder.path().join("metrics.csv"), folder.path().join("metrics.csv.t"));
            let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
            let (mut text, mut found) = ("step,loss\n".to_owned(), Vec::new());
            for step in 1..=30 {
                let before = text.len();
                text += &format!("{step},{step}.5\n");
                if is_replaced {
                    std::fs::write(&other, &text).unwrap();
                    std::fs::rename(&other, &path).unwrap();
                } else {
                    // A part of the table, and the rest.
                    std::fs::write(&path, &text[..before / 2]).unwrap();
                    found.extend(poll(&mut source, false));
                    append(&path, &text[before / 2..]);
                }
                found.extend(poll(&mut source, false));
            }
            found.extend(poll(&mut source, true));
            let expected: Vec<Found> = (1..=30).map(|number| step(number, Some(number as f64 + 0.5))).collect();
            assert_eq!(found, expected, "replaced: {is_replaced}");
        }
    }

    #[test]
    fn rows_that_differ_in_a_table_that_is_written_anew_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
        std::fs::write(&path, "step,loss\n1,4\n2,3\n3,2\n").unwrap();
        assert_eq!(poll(&mut source, false).len(), 3);
        // From a checkpoint at the first step.
        std::fs::write(&path, "step,loss\n1,4\n2,9\n").unwrap();
        assert_eq!(poll(&mut source, true), [step(2, Some(9.0))]);
    }

    #[test]
    fn a_table_that_is_rewritten_at_the_same_size_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
        for number in 1..=3 {
            std::fs::write(&path, format!("step,loss\n{number},0.{number}\n")).unwrap();
            assert_eq!(poll(&mut source, number == 3), [step(number, Some(number as f64 / 10.0))]);
        }
    }

    #[test]
    fn of_a_table_that_is_longer_than_is_remembered_only_further_rows_are_new() {
        let mut seen = Seen { place: MOST_ROWS, hashes: vec![0; MOST_ROWS], most: MOST_ROWS };
        assert!(seen.is_new(1) && seen.is_new(2));
        seen.place = MOST_ROWS - 1;
        assert!(!seen.is_new(0) && !seen.is_new(1) && !seen.is_new(2) && seen.is_new(3));
        assert_eq!(seen.hashes.len(), MOST_ROWS);
    }

    #[test]
    fn of_columns_with_the_same_name_the_first_is_read_and_that_is_said_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
        append(&path, "step,loss,,loss,\n1,0.5,,9,\n2,0.25,,9,\n");
        let found = poll(&mut source, true);
        let [Found::Warning(warning), rest @ ..] = &found[..] else { panic!("{found:?}") };
        assert!(warning.starts_with("metrics.csv: the first row names \"loss\" more than once"), "{warning}");
        assert_eq!(rest, [step(1, Some(0.5)), step(2, Some(0.25))]);
    }

    #[test]
    fn a_column_counts_for_a_field_until_the_column_of_that_name_has_a_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
        append(&path, "step,train_loss,loss\n1,7,\n2,7,0.5\n3,7,0.25\n");
        let mut found = poll(&mut source, true);
        found.retain(|found| matches!(found, Found::Step(_)));
        assert_eq!(found, [step(1, Some(7.0)), step(2, Some(0.5)), step(3, Some(0.25))]);
    }

    #[test]
    fn a_usual_name_of_the_time_with_dates_gives_the_times_of_steps_and_with_other_texts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
        append(&path, "timestamp,step,loss\n2026-11-26T08:30:00.5Z,1,0.5\nsoon,2,0.25\n");
        let found = poll(&mut source, true);
        let [Found::Warning(warning), rest @ ..] = &found[..] else { panic!("{found:?}") };
        assert!(warning.starts_with("metrics.csv: \"timestamp\" was taken for time_s"), "{warning}");
        let at_s = 1_795_681_800.5;
        let dated = FoundStep { step: Some(1), loss: Some(0.5), at_s, read_s: Some(7.0), ..FoundStep::default() };
        assert_eq!(rest, [Found::Step(dated), step(2, Some(0.25))]);
    }

    #[test]
    fn a_column_that_tells_training_and_validation_apart_gives_the_phases_of_steps() {
        let of_phase = |loss: f64, name: &str| {
            let (epoch, phase) = (Some(0.0), NamedPhase::of(name));
            Found::Step(FoundStep { epoch, loss: Some(loss), phase, at_s: 7.0, ..FoundStep::default() })
        };
        for column in ["split", "stage", "mode", "subset", "dataset"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("metrics.csv");
            let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
            append(&path, &format!("epoch,{column},loss\n0,train,0.5\n0,val,5\n0,other,0.25\n"));
            let found = poll(&mut source, true);
            let [Found::Warning(warning), rest @ ..] = &found[..] else { panic!("{found:?}") };
            assert!(warning.contains(&format!("{column:?} was taken for phase")), "{warning}");
            assert_eq!(rest, [of_phase(0.5, "train"), of_phase(5.0, "val"), of_phase(0.25, "")], "{column}");
        }
    }

    #[test]
    fn rows_of_an_earlier_run_are_left_out_and_its_names_are_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.tsv");
        append(&path, "step\tloss\n1\t9\n");
        let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
        append(&path, "1\t0.5\n");
        assert_eq!(poll(&mut source, true), [step(1, Some(0.5))]);
    }

    #[test]
    fn rows_that_an_earlier_run_wrote_count_if_the_program_writes_them_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.csv");
        std::fs::write(&path, "step,loss\n1,0.5\n").unwrap();
        let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
        std::fs::write(&path, "step,loss\n1,0.5\n").unwrap();
        assert_eq!(poll(&mut source, true), [step(1, Some(0.5))], "the same");
        let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
        std::fs::write(&path, "step,loss\n1,0.5\n2,0.25\n").unwrap();
        let found = poll(&mut source, true);
        let [first, second, Found::Warning(warning)] = &found[..] else { panic!("{found:?}") };
        assert_eq!([first, second], [&step(1, Some(0.5)), &step(2, Some(0.25))]);
        assert!(warning.contains("results.csv: the program wrote this file anew"), "{warning}");
    }

    #[test]
    fn of_rows_with_a_rank_only_those_of_rank_0_count_and_others_alone_are_told_to_count_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
        append(&path, "rank,step,loss\n1,1,9\n0,1,0.5\n,2,0.25\n");
        assert_eq!(poll(&mut source, true), [step(1, Some(0.5)), step(2, Some(0.25))]);
        let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
        append(&path, "1,3,9\n");
        let found = poll(&mut source, true);
        let [Found::Warning(warning)] = &found[..] else { panic!("{found:?}") };
        assert!(
            warning.starts_with("metrics.csv: no row of rank 0") && warning.contains("leaves out 1 row of other ranks"),
            "{warning}"
        );
    }

    #[test]
    fn a_row_with_an_epoch_but_without_a_step_ends_the_steps_of_its_epoch() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
        append(&path, "epoch,step,loss,accuracy\n,1,0.5,\n1,,,0.9\n2,2,0.25,\n");
        let reading = Found::Reading { key: "accuracy".into(), value: 0.9, step: None, epoch: Some(1.0) };
        let of_next =
            FoundStep { step: Some(2), epoch: Some(2.0), loss: Some(0.25), at_s: 7.0, ..FoundStep::default() };
        assert_eq!(poll(&mut source, true), [step(1, Some(0.5)), reading, Found::Epoch(1.0), Found::Step(of_next)]);
    }

    #[test]
    fn a_table_that_never_comes_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let mut source = Csv::new(folder.path().join("metrics.csv"), &ReadingsSpec::default());
        assert!(poll(&mut source, false).is_empty());
        let end = poll(&mut source, true);
        assert!(
            matches!(&end[..], [Found::Warning(warning)] if warning.contains("the program wrote no row")),
            "{end:?}"
        );
    }
}
