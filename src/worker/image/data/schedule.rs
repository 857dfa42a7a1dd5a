//! How many batches a rank has in an epoch, and which images are in each.

use crate::order::{Deal, Mode, Shard, indices};

/// The epochs of one rank. The same epoch of the same seed gives the same batches, whoever prepares them.
pub struct Schedule {
    images: usize,
    batch_size: usize,
    mode: Mode,
    shard: Shard,
    seed: u64,
}

impl Schedule {
    /// Over so many images.
    pub fn new(images: usize, batch_size: usize, mode: Mode, shard: Shard, seed: u64) -> Self {
        Self { images, batch_size: batch_size.max(1), mode, shard, seed }
    }

    /// Batches that the rank processes in an epoch; all ranks of a training process as many.
    pub fn batches(&self) -> usize {
        let (count, ranks) = (self.images, self.shard.world_size);
        match (self.mode, self.shard.deal) {
            (Mode::Train, Deal::Sampled) => count.div_ceil(ranks) / self.batch_size,
            (Mode::Train, Deal::Repeated) => count / self.batch_size,
            (Mode::Train, Deal::RoundRobin) => count / self.batch_size / ranks,
            (Mode::Evaluate, _) => count.saturating_sub(self.shard.rank).div_ceil(ranks).div_ceil(self.batch_size),
        }
    }

    /// Batches that come to the device for each that is processed there, and which of them that is.
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

/// An epoch's work: the batches that come to the device.
pub struct EpochWork {
    order: Vec<u32>,
    /// How many there are.
    pub batches: usize,
    batch_size: usize,
}

impl EpochWork {
    /// All images in order; those of the last batch may go on beyond it.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Where a batch begins in the order.
    pub fn start(&self, index: usize) -> usize {
        index * self.batch_size
    }

    /// The images of a batch.
    pub fn batch(&self, index: usize) -> &[u32] {
        let start = self.start(index);
        &self.order[start..self.order.len().min(start + self.batch_size)]
    }
}
