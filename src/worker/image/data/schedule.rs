//! Decides how many batches a rank has in an epoch, and which images are in each.

use crate::order::{Deal, Mode, Shard, indices};

/// The epochs of one rank. The same epoch with the same seed gives the same batches, whatever prepares them.
pub struct Schedule {
    images: usize,
    batch_size: usize,
    mode: Mode,
    shard: Shard,
    seed: u64,
}

impl Schedule {
    /// Creates the schedule over this many images.
    pub fn new(images: usize, batch_size: usize, mode: Mode, shard: Shard, seed: u64) -> Self {
        Self { images, batch_size: batch_size.max(1), mode, shard, seed }
    }

    /// Number of batches that the rank processes in an epoch; it is the same for all ranks of a training.
    pub fn batches(&self) -> usize {
        let (count, ranks) = (self.images, self.shard.world_size);
        match (self.mode, self.shard.deal) {
            (Mode::Train, Deal::Sampled) => count.div_ceil(ranks) / self.batch_size,
            (Mode::Train, Deal::Repeated) => count / self.batch_size,
            (Mode::Train, Deal::RoundRobin) => count / self.batch_size / ranks,
            (Mode::Evaluate, _) => count.saturating_sub(self.shard.rank).div_ceil(ranks).div_ceil(self.batch_size),
        }
    }

    /// How many batches are copied to the device for each batch that is processed there, and the index of the processed batch among them.
    /// More than one are copied only where each rank loads the batches of all ranks.
    pub fn round(&self) -> (usize, usize) {
        let received = self.shard.received_batches(self.mode);
        (received, if received > 1 { self.shard.rank } else { 0 })
    }

    /// The work of an epoch.
    pub fn epoch(&self, epoch: u32) -> EpochWork {
        let order = indices(self.images, self.mode, self.shard, self.seed, epoch);
        EpochWork { order, batches: self.batches() * self.round().0, batch_size: self.batch_size }
    }
}

/// The work of one epoch: the batches that are copied to the device.
pub struct EpochWork {
    order: Vec<u32>,
    /// The number of batches.
    pub batches: usize,
    batch_size: usize,
}

impl EpochWork {
    /// The indices of all images in order. The last batch may take more images than there are and then begins again.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The position in the order at which a batch begins.
    pub fn start(&self, index: usize) -> usize {
        index * self.batch_size
    }

    /// The images of a batch.
    pub fn batch(&self, index: usize) -> &[u32] {
        let start = self.start(index);
        &self.order[start..self.order.len().min(start + self.batch_size)]
    }
}
