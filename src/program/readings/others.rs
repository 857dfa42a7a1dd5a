//! Numbers in lines from which nothing was read, for users who test what multicard reads from a log.

use std::collections::HashSet;

use super::{Found, shapes};

/// The most lines in which numbers are looked for: logs may be long, and repeat the same names.
const MOST_LINES: u32 = 10_000;

/// The numbers of such lines.
#[derive(Default)]
pub(super) struct Others {
    /// Names of numbers that were reported.
    names: HashSet<String>,
    looked_at: u32,
}

impl Others {
    /// Adds the numbers of a line to `found`, if nothing was found in the line. Each name is reported once.
    pub fn look(&mut self, line: &str, found: &mut Vec<Found>) {
        self.names.extend(found.iter().filter_map(|found| match found {
            Found::Untaken(untaken) => Some(untaken.name.clone()),
            _ => None,
        }));
        // Of the loss of an evaluation, only its time may have been taken.
        let is_read = found.iter().any(|found| !matches!(found, Found::Evaluated { .. }));
        if is_read || self.looked_at >= MOST_LINES || self.names.len() >= shapes::MOST_UNTAKEN {
            return;
        }
        self.looked_at += 1;
        for untaken in shapes::numbers_of(line) {
            if self.names.len() < shapes::MOST_UNTAKEN && self.names.insert(untaken.name.clone()) {
                found.push(Found::Untaken(untaken));
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::plan::command::ReadingsSpec;
    use crate::program::readings::{Found, read_log};

    /// The numbers of a log that were not read, each with its line.
    fn untaken(patterns: &[&str], log: &str) -> Vec<(u64, String)> {
        let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let spec = ReadingsSpec { patterns, ..ReadingsSpec::default() };
        let mut untaken = Vec::new();
        let taken = read_log(&spec, log.as_bytes(), |line, found| {
            if let (Some((line, _)), Found::Untaken(found)) = (line, found) {
                untaken.push((line, found.number));
            }
        });
        taken.unwrap();
        untaken
    }

    #[test]
    fn numbers_of_lines_without_a_known_format_are_listed_once_with_their_lines() {
        let log = "ready\nlatency: 12.5 ms, requests 900\nEpoch 1/5\nstep 1 loss 0.5\nlatency: 11.0 ms\n";
        let expected = [(2, "latency 12.5 ms".to_owned()), (2, "requests 900".to_owned())];
        assert_eq!(untaken(&[], log), expected);
    }

    #[test]
    fn numbers_whose_value_is_unclear_are_listed() {
        let expected = [(1, "latency 12,5 ms".to_owned()), (2, "requests 1 900".to_owned())];
        assert_eq!(untaken(&[], "latency: 12,5 ms\nrequests: 1 900\n"), expected);
    }

    #[test]
    fn numbers_that_no_pattern_of_the_plan_reads_are_listed() {
        let log = "latency: 12.5 ms\nrequests 900\n";
        assert_eq!(untaken(&[r"latency: (?<latency_ms>[\d.]+) ms"], log), [(2, "requests 900".to_owned())]);
    }
}
