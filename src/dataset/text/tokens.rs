//! Rows as tokens in memory, on which a rank trains.

use std::ops::Range;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::plan::llm::DataSet;

/// The label that the loss ignores.
pub const IGNORED_LABEL: i64 = -100;

/// A token in memory: its id, and whether it is masked.
pub const TOKEN_BYTES: u64 = 5;

/// The tokens at the beginning and the end of generated rows.
const MADE_BEGIN: u32 = 0;
pub(super) const MADE_END: u32 = 1;
/// The share of generated tokens that follow from the previous token; the others are drawn at random.
const FOLLOWS: f64 = 0.75;

/// Rows of tokens. A mask says for each token whether the loss ignores it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRows {
    tokens: Vec<u32>,
    masked: Vec<bool>,
    /// The end of each row.
    ends: Vec<usize>,
}

/// The buffers for one sample, each as long as the batch's samples.
pub struct Sample<'a> {
    /// Token ids.
    pub tokens: &'a mut [i64],
    /// The id of each token that counts in the loss, and [`IGNORED_LABEL`] for every other token.
    pub labels: &'a mut [i64],
    /// The position of each token in its row.
    pub positions: Option<&'a mut [i64]>,
}

impl TokenRows {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The number of tokens in all rows.
    pub fn token_count(&self) -> usize {
        self.tokens.len()
    }

    /// The number of learned tokens in all rows.
    pub fn learned_count(&self) -> usize {
        self.masked.iter().filter(|masked| !**masked).count()
    }

    /// Adds a row.
    pub fn push(&mut self, tokens: &[u32], masked: &[bool]) {
        self.tokens.extend(tokens);
        self.masked.extend(masked);
        self.ends.push(self.tokens.len());
    }

    /// A row's tokens, and for each whether it is masked.
    pub fn row(&self, index: usize) -> (&[u32], &[bool]) {
        let range = self.range(index..index + 1);
        (&self.tokens[range.clone()], &self.masked[range])
    }

    /// The number of tokens in a sample: a row, or several rows in one pack.
    pub fn sample_len(&self, rows: Range<usize>) -> usize {
        self.range(rows).len()
    }

    fn range(&self, rows: Range<usize>) -> Range<usize> {
        let begin = |row: usize| if row == 0 { 0 } else { self.ends[row - 1] };
        begin(rows.start)..begin(rows.end)
    }

    /// The samples of an epoch: each row, or packs of at most `limit` tokens that are filled with rows in order; rows are never split.
    pub fn samples(&self, packs_of: Option<usize>) -> Vec<Range<usize>> {
        let Some(limit) = packs_of else { return (0..self.len()).map(|row| row..row + 1).collect() };
        let mut packs = Vec::new();
        let mut begin = 0;
        for row in 0..self.len() {
            if row > begin && self.sample_len(begin..row + 1) > limit {
                packs.push(begin..row);
                begin = row;
            }
        }
        if begin < self.len() {
            packs.push(begin..self.len());
        }
        packs
    }

    /// Writes a sample and pads it to the length of the buffers. As in TorchTune 0.5, the positions of the last row continue into the
    /// padding.
    pub fn write(&self, rows: Range<usize>, padding: u32, into: Sample) {
        let range = self.range(rows.clone());
        let filled = range.len();
        let source = self.tokens[range.clone()].iter().zip(&self.masked[range]);
        for ((token, label), (from, masked)) in into.tokens.iter_mut().zip(into.labels.iter_mut()).zip(source) {
            *token = i64::from(*from);
            *label = if *masked { IGNORED_LABEL } else { i64::from(*from) };
        }
        into.tokens[filled..].fill(i64::from(padding));
        into.labels[filled..].fill(IGNORED_LABEL);
        let Some(positions) = into.positions else { return };
        let last = positions.len() as i64 - 1;
        let in_rows = rows.flat_map(|row| 0..self.sample_len(row..row + 1) as i64);
        let mut next = 0;
        for (position, place) in positions.iter_mut().zip(in_rows.map(Some).chain(std::iter::repeat(None))) {
            *position = place.unwrap_or(next).min(last);
            next = *position + 1;
        }
    }

    /// Generated rows for `data_set` from row `first` on: lengths as published, tokens of a simple language, and the prompt's share masked
    /// unless it is learned. Every run gets the same rows.
    ///
    /// Three of four tokens follow from the previous token; the others are drawn so that token `k` is about `1 / k` as frequent as the
    /// first. A model can learn that, so its loss decreases.
    pub fn stand_in(
        data_set: DataSet,
        rows: Range<usize>,
        lengths: &[usize],
        vocabulary: usize,
        train_on_input: bool,
    ) -> Self {
        let mut generated = Self::default();
        for row in rows {
            let tokens = made_row(data_set, row, lengths, vocabulary);
            // The first mark is never learned; the answer always is.
            let prompt = if train_on_input { 1 } else { data_set.prompt_tokens(tokens.len()) };
            let masked: Vec<bool> = (0..tokens.len()).map(|place| place < prompt).collect();
            generated.push(&tokens, &masked);
        }
        generated
    }
}

/// The tokens of a generated row.
pub(super) fn made_row(data_set: DataSet, row: usize, lengths: &[usize], vocabulary: usize) -> Vec<u32> {
    let length = lengths[row % lengths.len()].max(2);
    let words = (vocabulary.max(4) - 2) as f64;
    let mut random = ChaCha8Rng::seed_from_u64(row as u64);
    random.set_stream(data_set as u64);
    let mut word = 0;
    let middle = (2..length).map(|_| {
        word = if random.random::<f64>() < FOLLOWS {
            (word * 5 + 7) % words as u64
        } else {
            (((random.random::<f64>() * words.ln()).exp() - 1.0) as u64).min(words as u64 - 1)
        };
        word as u32 + 2
    });
    std::iter::once(MADE_BEGIN).chain(middle).chain([MADE_END]).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn rows(lengths: &[usize]) -> TokenRows {
        let mut rows = TokenRows::default();
        for (row, length) in lengths.iter().enumerate() {
            let tokens: Vec<u32> = (0..*length).map(|place| (100 * row + place) as u32).collect();
            let masked: Vec<bool> = (0..*length).map(|place| place == 0).collect();
            rows.push(&tokens, &masked);
        }
        rows
    }

    #[test]
    fn samples_are_padded_and_masked_tokens_have_no_label() {
        let rows = rows(&[3, 2]);
        let (mut tokens, mut labels) = ([0; 4], [0; 4]);
        rows.write(1..2, 9, Sample { tokens: &mut tokens, labels: &mut labels, positions: None });
        assert_eq!((tokens, labels), ([100, 101, 9, 9], [-100, 101, -100, -100]));
    }

    #[test]
    fn rows_share_a_pack_in_order_and_positions_start_anew_in_each() {
        let rows = rows(&[3, 2, 4, 1]);
        let packs = rows.samples(Some(6));
        assert_eq!(packs, [0..2, 2..4]);
        let (mut tokens, mut labels, mut positions) = ([0; 6], [0; 6], [0; 6]);
        let sample = Sample { tokens: &mut tokens, labels: &mut labels, positions: Some(&mut positions) };
        rows.write(packs[0].clone(), 0, sample);
        assert_eq!(tokens, [0, 1, 2, 100, 101, 0]);
        assert_eq!(labels, [-100, 1, 2, -100, 101, -100]);
        // TorchTune goes on counting in the padding.
        assert_eq!(positions, [0, 1, 2, 0, 1, 2]);
        assert_eq!(rows.samples(None).len(), 4);
    }

    #[test]
    fn made_rows_have_their_lengths_and_a_language_and_are_the_same_every_time() {
        let lengths = DataSet::Samsum.stand_in_lengths();
        let rows = TokenRows::stand_in(DataSet::Samsum, 0..500, &lengths, 1024, false);
        assert_eq!(rows, TokenRows::stand_in(DataSet::Samsum, 0..500, &lengths, 1024, false));
        assert_eq!((rows.len(), rows.token_count()), (500, 83_544));
        let later = TokenRows::stand_in(DataSet::Samsum, 500..600, &lengths, 1024, false);
        assert_eq!(later.row(0).0.len(), lengths[0]);
        assert_ne!(later.row(0).0, rows.row(0).0);
        let (tokens, masked) = rows.row(7);
        assert!(tokens.iter().all(|token| *token < 1024));
        let masked_count = masked.iter().filter(|masked| **masked).count();
        assert_eq!(masked_count, (tokens.len() as f64 * 0.8) as usize);
        // A token often tells the next one.
        let follows = |pair: &[u32]| pair[1] == ((pair[0].saturating_sub(2)) * 5 + 7) % 1022 + 2;
        let share = rows.tokens.windows(2).filter(|pair| follows(pair)).count() as f64 / rows.token_count() as f64;
        assert!((0.65..0.85).contains(&share), "{share}");
        let learned = TokenRows::stand_in(DataSet::AlpacaCleaned, 0..10, &[50], 64, true);
        assert_eq!(learned.learned_count(), 10 * 49);
    }
}
