//! What a program writes record by record, as lines or rows: which records count, and what is said about the others.

use super::Found;
use super::fields::Fields;
use super::growing::Growing;
use super::whole_seconds::WholeSeconds;
use crate::plan::counted;

/// The number of unreadable records that are reported one by one; further ones are only counted.
pub(super) const MOST_REFUSED: u64 = 3;

/// Whether a record counts that names this rank. A step's units are those of all ranks, and all ranks report the same time, so only those
/// of rank 0 count, and those without a rank.
pub(super) fn is_of_first_rank(rank: Option<u64>) -> bool {
    rank.is_none_or(|rank| rank == 0)
}

/// How many records count, and how many do not because of their rank.
#[derive(Default)]
pub(super) struct Ranks {
    first: u64,
    others: u64,
}

impl Ranks {
    /// Counts a record that names this rank; returns [`is_of_first_rank`].
    pub fn count(&mut self, rank: Option<u64>) -> bool {
        let is_first = is_of_first_rank(rank);
        *(if is_first { &mut self.first } else { &mut self.others }) += 1;
        is_first
    }

    /// The warning about the records of an origin if none of them counts; `one` is the word for a record.
    pub fn warning(&self, origin: &str, one: &str) -> Option<Found> {
        let message = || {
            format!(
                "{origin}: no {one} of rank 0: only its {one}s count, and {one}s without a rank, which leaves out {} of other ranks; let \
                     rank 0 write the readings",
                counted(self.others, one)
            )
        };
        (self.first == 0 && self.others > 0).then(|| Found::Warning(message()))
    }
}

/// The records of a file.
pub(super) struct Records {
    /// The word for one: line or row.
    one: &'static str,
    read: u64,
    refused: u64,
    ranks: Ranks,
    seconds: WholeSeconds,
}

impl Records {
    /// No records yet; `one` is the word for one.
    pub fn new(one: &'static str) -> Self {
        Self { one, read: 0, refused: 0, ranks: Ranks::default(), seconds: WholeSeconds::default() }
    }

    /// Adds what a record says to `found`, or why it was left out. `place` turns the number of the record into its place, for messages;
    /// `now_s` is the time of a record without one.
    ///
    /// A record with an epoch but without a step ends the steps of that epoch.
    pub fn take(
        &mut self,
        read: Result<Fields, String>,
        place: impl FnOnce(u64) -> String,
        now_s: f64,
        found: &mut Vec<Found>,
    ) {
        self.read += 1;
        match read {
            Ok(mut fields) if self.ranks.count(fields.rank) => {
                self.seconds.mend(&mut fields, now_s);
                let has_step = fields.step.step.is_some() || fields.is_measured();
                let epoch = fields.step.epoch.filter(|_| !has_step);
                fields.found(now_s, found);
                found.extend(epoch.map(Found::Epoch));
            }
            Ok(_) => {}
            Err(why) => {
                self.refused += 1;
                if self.refused <= MOST_REFUSED {
                    let (place, one) = (place(self.read), self.one);
                    found.push(Found::Warning(format!("{place}: {why}; the {one} was left out")));
                }
            }
        }
    }

    /// Adds what is said of the records of a file once the program has ended. `is_declared` says whether the plan declares the file, so
    /// that it should have some.
    pub fn end(&self, file: &Growing, is_declared: bool, found: &mut Vec<Found>) {
        let Self { one, read, refused, ranks, seconds: _ } = self;
        let name = file.name();
        if *refused > MOST_REFUSED {
            found.push(Found::Warning(format!("{name}: {refused} of {read} {one}s could not be read")));
        }
        found.extend(ranks.warning(&name, one));
        if is_declared && *read == 0 {
            found.push(Found::Warning(format!("{}: the program wrote no {one}s", file.path().display())));
        }
        found.extend(file.doubt().map(|doubt| Found::Warning(doubt.to_owned())));
    }
}
