//! Lengths of rows: published ones where known, otherwise assumed. Stand-ins have exactly these lengths.

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use super::settings::{DataSet, LlmSettings};
use crate::plan::{CUDA_GRAPH_WARM_UP_STEPS, Shape};

/// Number of rows with known totals (the papers' subsets). Lengths repeat after them.
pub const STAND_IN_BLOCK: usize = 500;

/// Shape of the log-logistic distribution of lengths: the longest of 500 rows has about five times the mean. The papers only
/// give totals.
const SHAPE: f64 = 4.0;
/// Minimum length: the special tokens of two messages and a few words.
const LEAST_TOKENS: usize = 16;
/// Counting the packs of more rows takes too long while planning.
const MAX_PACKED_ROWS: u64 = 1_000_000;
/// Assumed length of the longest row in files of unknown content, without `max_tokens`.
const ASSUMED_LONGEST: usize = 1024;

impl DataSet {
    /// Tokens of the first 500 rows in Llama 3's vocabulary, including their template, and the fraction of them in prompts.
    ///
    /// The totals are published (2505.22905 section 5.4.3), except for `slimorca`, where 400 tokens per row are assumed. The fractions
    /// are assumed.
    fn counted(self) -> Option<(usize, f64)> {
        match self {
            Self::AlpacaCleaned => Some((59_330, 0.5)),
            Self::Samsum => Some((83_544, 0.8)),
            Self::Grammar => Some((28_683, 0.6)),
            Self::Slimorca => Some((400 * STAND_IN_BLOCK, 0.6)),
            Self::File | Self::Uniform => None,
        }
    }

    /// Which of a stand-in's lengths are assumed, in words; empty if all are published.
    pub fn assumed(self) -> &'static str {
        match self {
            Self::Slimorca => "400 tokens a row are assumed",
            _ => "",
        }
    }

    /// The lengths of a stand-in's first 500 rows, in tokens; empty for a set that is not published.
    pub fn stand_in_lengths(self) -> Vec<usize> {
        let Some((total, _)) = self.counted() else { return Vec::new() };
        let odds = |place: usize| {
            let below = (place as f64 + 0.5) / STAND_IN_BLOCK as f64;
            (below / (1.0 - below)).powf(1.0 / SHAPE)
        };
        let sum: f64 = (0..STAND_IN_BLOCK).map(odds).sum();
        let length = |place: usize| ((odds(place) / sum * total as f64) as usize).max(LEAST_TOKENS);
        let mut lengths: Vec<usize> = (0..STAND_IN_BLOCK).map(length).collect();
        // Corrects the total for rounding and for the minimum length, by one token per row from the longest on.
        let (mut now, mut place) = (lengths.iter().sum::<usize>(), STAND_IN_BLOCK);
        while now != total {
            place = if place == 0 { STAND_IN_BLOCK } else { place } - 1;
            if now < total {
                lengths[place] += 1;
                now += 1;
            } else if lengths[place] > LEAST_TOKENS {
                lengths[place] -= 1;
                now -= 1;
            }
        }
        lengths.shuffle(&mut ChaCha8Rng::seed_from_u64(self as u64));
        lengths
    }

    /// Tokens of a stand-in's prompt, including the begin-of-text token: at least 1 and less than `length`.
    pub fn prompt_tokens(self, length: usize) -> usize {
        let share = self.counted().map_or(0.0, |(_, share)| share);
        ((length as f64 * share) as usize).clamp(1, length.max(2) - 1)
    }

    /// Tokens of the rejected row that belongs to a stand-in, before truncation: the same prompt, followed by the prompt's own
    /// sentence for `grammar` and by the next row's answer for others.
    pub fn rejected_tokens(self, lengths: &[usize], row: usize) -> usize {
        let row_length = |row: usize| lengths[row % lengths.len()].max(2);
        let prompt = self.prompt_tokens(row_length(row));
        if self == Self::Grammar {
            2 * prompt
        } else {
            prompt + row_length(row + 1) - self.prompt_tokens(row_length(row + 1))
        }
    }
}

/// What is known about a cell's rows before they are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lengths {
    /// Samples (rows, packs or pairs) per epoch; `None` if unknown.
    pub samples: Option<u64>,
    /// Mean tokens per sample; `None` if unknown.
    pub mean_tokens: Option<f64>,
    /// Tokens of the longest sample; for pairs, of the longer row.
    pub longest: usize,
    /// Whether `longest` is a guess because the rows are in a file of unknown content.
    pub assumed: bool,
}

impl Lengths {
    pub(super) fn of(settings: &LlmSettings) -> Self {
        let cut = |length: usize| settings.max_tokens.map_or(length, |limit| length.min(limit));
        let wanted = settings.rows.map(|rows| rows as u64);
        let rows = match settings.data_set.published_rows() {
            Some(published) => Some(wanted.map_or(published, |wanted| wanted.min(published))),
            None => wanted,
        };
        let mut lengths = settings.data_set.stand_in_lengths();
        if settings.data_set == DataSet::Uniform {
            lengths = vec![settings.row_tokens];
        }
        lengths.iter_mut().for_each(|length| *length = cut(*length));
        if let (true, Some(limit)) = (settings.packed, settings.max_tokens) {
            let packs = rows.filter(|rows| *rows <= MAX_PACKED_ROWS).and_then(|rows| packs(&lengths, rows, limit));
            return Self { samples: packs, mean_tokens: Some(limit as f64), longest: limit, assumed: false };
        }
        if settings.technique.prefers() {
            let with_rejected = |row| [lengths[row], cut(settings.data_set.rejected_tokens(&lengths, row))];
            let pairs: Vec<[usize; 2]> = (0..lengths.len()).map(with_rejected).collect();
            return Self::of_samples(settings, rows, &pairs);
        }
        let alone: Vec<[usize; 1]> = lengths.into_iter().map(|length| [length]).collect();
        Self::of_samples(settings, rows, &alone)
    }

    /// Samples of `ROWS` rows each with these lengths, repeated.
    fn of_samples<const ROWS: usize>(settings: &LlmSettings, rows: Option<u64>, lengths: &[[usize; ROWS]]) -> Self {
        let first = rows.map_or(lengths.len(), |rows| lengths.len().min(rows as usize));
        let Some(longest) = lengths[..first].iter().flatten().max() else {
            let longest = settings.max_tokens.unwrap_or(ASSUMED_LONGEST);
            return Self { samples: rows, mean_tokens: None, longest, assumed: settings.max_tokens.is_none() };
        };
        let mean = lengths[..first].iter().flatten().sum::<usize>() as f64 / first as f64;
        Self { samples: rows, mean_tokens: Some(mean), longest: *longest, assumed: false }
    }
}

/// Number of packs of `limit` tokens that rows of these lengths, repeated, fill in order. Rows are never split.
fn packs(lengths: &[usize], rows: u64, limit: usize) -> Option<u64> {
    if lengths.is_empty() {
        return None;
    }
    let (mut packs, mut filled) = (0, 0);
    for length in lengths.iter().cycle().take(rows as usize) {
        if filled + length > limit && filled > 0 {
            packs += 1;
            filled = 0;
        }
        filled += length;
    }
    Some(packs + u64::from(filled > 0))
}

impl LlmSettings {
    /// Lengths of rows, as far as known before reading them.
    pub fn lengths(&self) -> Lengths {
        Lengths::of(self)
    }

    /// The shape of a run with rows of these lengths.
    pub fn shape(&self, rows: &Lengths) -> Shape {
        Shape {
            processes: u32::try_from(self.gpus).unwrap_or(u32::MAX),
            devices_per_process: 1,
            binding: self.numa,
            gpu_choice: self.gpu_choice,
            steps: rows.samples.map_or(0, |samples| self.steps(samples)),
            units_per_step: rows.mean_tokens.map_or(0, |mean| (mean * self.step_rows() as f64).round() as u64),
            warm_up_steps: if self.cuda_graph { CUDA_GRAPH_WARM_UP_STEPS } else { 0 },
            cuda_graph: self.cuda_graph,
            own_program: false,
            ranks_per_node: 0,
            rank_nodes: self.nodes.count,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_have_the_published_totals() {
        for (set, total) in [(DataSet::AlpacaCleaned, 59_330), (DataSet::Samsum, 83_544), (DataSet::Grammar, 28_683)] {
            let lengths = set.stand_in_lengths();
            assert_eq!((lengths.len(), lengths.iter().sum::<usize>()), (500, total));
            let (least, longest) = (*lengths.iter().min().unwrap(), *lengths.iter().max().unwrap());
            assert!(least >= LEAST_TOKENS && longest < total / 80, "{least} {longest}");
            assert!((4..=6).contains(&(longest * 500 / total)), "the longest has about five times the mean: {longest}");
            assert_eq!(lengths, set.stand_in_lengths());
        }
        assert!(DataSet::File.stand_in_lengths().is_empty());
    }

    #[test]
    fn rows_fill_packs_one_after_the_other_and_are_never_cut() {
        assert_eq!(packs(&[40, 50, 60], 3, 100), Some(2));
        assert_eq!(packs(&[40, 50, 60], 6, 100), Some(4));
        assert_eq!(packs(&[100], 3, 100), Some(3));
        assert_eq!(packs(&[], 3, 100), None);
    }
}
