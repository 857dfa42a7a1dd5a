//! Which samples (images, rows of text) a rank sees in an epoch, and in which order.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The purpose of the batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Shuffled anew in each epoch; a last batch that is not full is left out.
    Train,
    /// In the order of the set, each sample once; the last batch may be smaller.
    Evaluate,
}

/// How training samples are distributed over ranks. Evaluation always uses [`Deal::Sampled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deal {
    /// Each rank loads a share of its own, as PyTorch's DistributedSampler distributes samples.
    Sampled,
    /// Each rank loads and processes all samples, in the same order.
    Repeated,
    /// Each rank loads all batches, and processes only those whose index modulo the number of ranks is its own number.
    RoundRobin,
}

/// A rank's share of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The rank, from 0.
    pub rank: usize,
    /// Number of ranks that share the samples, at least 1.
    pub world_size: usize,
    /// How the ranks share the training samples.
    pub deal: Deal,
}

impl Shard {
    /// All samples on one rank.
    #[cfg(test)]
    pub const ALL: Self = Self { rank: 0, world_size: 1, deal: Deal::Sampled };

    /// How many batches are copied to the device for each batch that is processed there.
    pub fn received_batches(self, mode: Mode) -> usize {
        if mode == Mode::Train && self.deal == Deal::RoundRobin { self.world_size } else { 1 }
    }

    /// Number of ranks that process each training sample.
    pub fn copies(self) -> usize {
        if self.deal == Deal::Repeated { self.world_size } else { 1 }
    }
}

/// The indices that a rank loads in one epoch: all of them, or every `world_size`th, as PyTorch's DistributedSampler does. For training,
/// the list is first extended with samples from its start, so that all ranks take the same number of steps. The order depends only on the
/// seed and the epoch, so all ranks have the same.
pub fn indices(count: usize, mode: Mode, shard: Shard, seed: u64, epoch: u32) -> Vec<u32> {
    let mut all: Vec<u32> = (0..count as u32).collect();
    if mode == Mode::Train {
        shuffle(&mut all, seed, epoch);
        if shard.deal != Deal::Sampled {
            return all;
        }
    }
    share(&all, mode, shard)
}

/// Every `world_size`th of a list. For training, the list is first extended with samples from its start, so that all shares have the same
/// length.
pub fn share(all: &[u32], mode: Mode, shard: Shard) -> Vec<u32> {
    let count = if mode == Mode::Train { all.len().next_multiple_of(shard.world_size) } else { all.len() };
    all.iter().copied().cycle().take(count).skip(shard.rank).step_by(shard.world_size).collect()
}

/// Fisher and Yates' shuffle. It is written here, so that a recorded order stays the same with every version of every library.
fn shuffle(list: &mut [u32], seed: u64, epoch: u32) {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut generator = ChaCha8Rng::from_seed(key);
    generator.set_stream(u64::from(epoch));
    for last in (1..list.len()).rev() {
        let chosen = (u128::from(generator.next_u64()) * (last as u128 + 1)) >> 64;
        list.swap(last, chosen as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(rank: usize) -> Shard {
        Shard { rank, world_size: 3, deal: Deal::Sampled }
    }

    #[test]
    fn ranks_that_load_everything_do_so_in_one_order_and_share_evaluation() {
        for deal in [Deal::Repeated, Deal::RoundRobin] {
            let indices_of = |rank, mode| indices(10, mode, Shard { rank, world_size: 3, deal }, 1, 0);
            assert_eq!(indices_of(0, Mode::Train), indices_of(2, Mode::Train));
            assert_eq!(indices_of(0, Mode::Train), indices(10, Mode::Train, Shard::ALL, 1, 0));
            assert_eq!(indices_of(2, Mode::Evaluate), [2, 5, 8]);
        }
    }

    #[test]
    fn an_epoch_holds_every_index_once_and_epochs_and_seeds_differ() {
        let first = indices(1000, Mode::Train, Shard::ALL, 1, 0);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        assert_ne!(first, sorted);
        assert_eq!(first, indices(1000, Mode::Train, Shard::ALL, 1, 0));
        assert_ne!(first, indices(1000, Mode::Train, Shard::ALL, 1, 1));
        assert_ne!(first, indices(1000, Mode::Train, Shard::ALL, 2, 0));
    }

    #[test]
    fn shuffling_favours_no_place() {
        // Where index 0 lands over many epochs: each of four places a quarter of the time.
        let mut places = [0; 4];
        for epoch in 0..4000 {
            let order = indices(4, Mode::Train, Shard::ALL, 7, epoch);
            places[order.iter().position(|&index| index == 0).expect("every index is there")] += 1;
        }
        assert!(places.iter().all(|place| (880..=1120).contains(place)), "{places:?}");
    }

    #[test]
    fn shards_of_training_are_of_one_length_and_cover_all() {
        let shards: Vec<_> = (0..3).map(|rank| indices(10, Mode::Train, sampled(rank), 1, 0)).collect();
        assert!(shards.iter().all(|shard| shard.len() == 4));
        let mut union = shards.concat();
        union.sort_unstable();
        union.dedup();
        assert_eq!(union.len(), 10);
        assert!(indices(0, Mode::Train, sampled(1), 1, 0).is_empty());
        // More ranks than images: filled up from the start.
        assert_eq!(indices(1, Mode::Train, sampled(2), 1, 0), [0]);
    }

    #[test]
    fn shards_of_evaluation_count_each_image_once() {
        let shards: Vec<_> = (0..3).map(|rank| indices(10, Mode::Evaluate, sampled(rank), 1, 0)).collect();
        assert_eq!(shards, [vec![0, 3, 6, 9], vec![1, 4, 7], vec![2, 5, 8]]);
    }
}
