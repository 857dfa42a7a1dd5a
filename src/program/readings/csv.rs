//! Readings from tables that a program appends to: comma- or tab-separated values, with names in the first row.

use std::path::PathBuf;

use super::fields::{Fields, Names};
use super::growing::{Growing, Part};
use super::json::SAID;
use super::{Found, Lines, Source};
use crate::analysis::counted;
use crate::plan::command::ReadingsSpec;

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
    /// The names of the columns and the separator, once the first row was read.
    columns: Option<(Vec<String>, u8)>,
    /// Rows that were read.
    rows: u64,
    /// Rows that could not be read.
    refused: u64,
}

impl Csv {
    /// A table whose present rows are skipped.
    pub fn new(path: PathBuf, spec: &ReadingsSpec) -> Self {
        let (file, first) = Growing::after_now(path);
        let columns = first.map(|line| columns(&String::from_utf8_lossy(&line)));
        let names = Names::new(&spec.names, true);
        Self { table: Table { name: file.name(), names, columns, rows: 0, refused: 0 }, file, lines: Lines::new() }
    }
}

impl Source for Csv {
    fn poll(&mut self, last: bool, now_s: f64, found: &mut Vec<Found>) -> Result<(), String> {
        let Self { file, lines, table } = self;
        file.read(last, |part| match part {
            Part::Anew => (*lines, table.columns) = (Lines::new(), None),
            Part::Bytes(bytes) => lines.push(bytes, |_, line| table.line(line, now_s, found)),
        })?;
        if last {
            lines.finish(|_, line| table.line(line, now_s, found));
            let Table { name, rows, refused, .. } = table;
            if *refused > SAID {
                found.push(Found::Warning(format!("{name}: {refused} of {rows} rows could not be read")));
            }
            if *rows == 0 {
                found.push(Found::Warning(format!("{}: the program wrote no rows", file.path().display())));
            }
        }
        Ok(())
    }
}

impl Table {
    fn line(&mut self, line: &str, now_s: f64, found: &mut Vec<Found>) {
        let Some((columns, separator)) = &self.columns else {
            self.columns = Some(columns(line));
            return;
        };
        let cells = cells(line, *separator);
        // A program that starts again may write the row of names again.
        if cells == *columns {
            return;
        }
        self.rows += 1;
        let read = if cells.len() == columns.len() {
            let mut fields = Fields::default();
            let set = |(name, cell): (&String, &String)| {
                let cell = cell.trim();
                let meaning = self.names.meaning(name, &self.name, found);
                let is_text = !super::fields::WORDS.contains(&meaning) && cell.parse::<f64>().is_err();
                if cell.is_empty() || is_text { Ok(()) } else { fields.text(meaning, cell) }
            };
            columns.iter().zip(&cells).try_for_each(set).map(|()| fields)
        } else {
            Err(format!("it has {}, but the first row has {}", counted(cells.len(), "cell"), columns.len()))
        };
        match read {
            Ok(fields) => fields.found(now_s, found),
            Err(why) => {
                self.refused += 1;
                if self.refused <= SAID {
                    let Self { name, rows, .. } = self;
                    found.push(Found::Warning(format!("{name}, row {rows}: {why}; the row was left out")));
                }
            }
        }
    }
}

/// The names in the first row, and the separator: the most frequent of the usual ones.
fn columns(line: &str) -> (Vec<String>, u8) {
    let count = |separator: &u8| line.bytes().filter(|byte| byte == separator).count();
    // Of several equally frequent ones, `max_by_key` returns the last.
    let separator = [b';', b'\t', b','].into_iter().max_by_key(count).unwrap_or(b',');
    let line = line.trim_start_matches('\u{feff}');
    let names = cells(line, separator).into_iter().map(|name| name.trim().trim_start_matches("# ").to_owned());
    (names.collect(), separator)
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

    use super::super::FoundStep;
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
        let [Found::Warning(said)] = &end[..] else { panic!("{end:?}") };
        assert!(said.starts_with("metrics.csv, row 4: it has 2 cells, but the first row has 5"), "{said}");
    }

    #[test]
    fn a_table_that_is_written_anew_with_more_columns_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut source = Csv::new(path.clone(), &ReadingsSpec::default());
        std::fs::write(&path, "step;loss\n1;0.5\n").unwrap();
        assert_eq!(poll(&mut source, false), [step(1, Some(0.5))]);
        std::fs::write(&path, "step;loss;accuracy\n1;0.5;\n2;0.25;0.9\n").unwrap();
        let reading = Found::Reading { key: "accuracy".into(), value: 0.9, step: Some(2), epoch: None };
        assert_eq!(poll(&mut source, true), [step(1, Some(0.5)), step(2, Some(0.25)), reading]);
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
    fn a_table_that_never_comes_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let mut source = Csv::new(folder.path().join("metrics.csv"), &ReadingsSpec::default());
        assert!(poll(&mut source, false).is_empty());
        let end = poll(&mut source, true);
        assert!(matches!(&end[..], [Found::Warning(said)] if said.contains("the program wrote no row")), "{end:?}");
    }
}
