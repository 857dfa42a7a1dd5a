//! Counts which images all ranks processed in an epoch, and how many they received: this shows how a strategy distributes them.

use multicard::plan::image::{ImageSettings, Strategy as Level};
use multicard::protocol::Evidence;
use tch::TchError;

use crate::parallel::Peers;
use crate::shim::Combine;

/// How often this rank processed each image in one epoch.
pub struct Coverage {
    times: Vec<i64>,
    processed: u64,
    received: u64,
}

/// The numbers of images that a strategy implies for one epoch of one process.
#[derive(Debug, PartialEq, Eq)]
struct Implied {
    processed: u64,
    received: u64,
    /// The most times, over all ranks, that one image may be processed.
    most: i64,
}

impl Coverage {
    /// Starts counting for a training set with this many images.
    pub fn new(images: usize) -> Self {
        Self { times: vec![0; images], processed: 0, received: 0 }
    }

    /// Counts a processed batch, for which `received` images were copied to the device.
    pub fn see(&mut self, indices: &[u32], received: usize) {
        indices.iter().for_each(|&index| self.times[index as usize] += 1);
        self.processed += indices.len() as u64;
        self.received += received as u64;
    }

    /// Compares the counts over all ranks with the numbers that the strategy implies.
    pub fn evidence(self, settings: &ImageSettings, peers: Option<&Peers>) -> Result<Evidence, TchError> {
        let times = match peers {
            Some(peers) => peers.combine(&self.times, Combine::Sum)?,
            None => self.times,
        };
        let (least, most) = (times.iter().min().copied().unwrap_or(0), times.iter().max().copied().unwrap_or(0));
        let (processed, received, world_size) =
            (self.processed, self.received, peers.map_or(1, |peers| peers.world_size));
        let seen = format!(
            "this rank processed {processed} of {} images in an epoch and received {received}; over {world_size} processes \
             each image was processed {least} to {most} times",
            times.len()
        );
        let implied = implied(settings, u64::from(world_size));
        let in_effect = (processed, received) == (implied.processed, implied.received) && most <= implied.most;
        let asked = settings.strategy.name().to_owned();
        Ok(Evidence { factor: Level::KEY.into(), asked, seen, in_effect })
    }
}

fn implied(settings: &ImageSettings, world_size: u64) -> Implied {
    let (images, batch) = (settings.train_images as u64, settings.batch_size as u64);
    let full_batches = |images: u64, batch: u64| images / batch * batch;
    match settings.strategy {
        Level::Single => {
            Implied { processed: full_batches(images, batch), received: full_batches(images, batch), most: 1 }
        }
        Level::Dp => {
            let all = full_batches(images, batch * settings.gpus as u64);
            Implied { processed: all, received: all, most: 1 }
        }
        Level::Ddp => {
            let all = full_batches(images, batch);
            Implied { processed: all, received: all, most: world_size as i64 }
        }
        Level::DdpRr => {
            let received = full_batches(images, batch * world_size);
            Implied { processed: received / world_size, received, most: 1 }
        }
        Level::DdpDs | Level::Fsdp => {
            let share = full_batches(images.div_ceil(world_size), batch);
            // To give all ranks equally many images, a few images are repeated.
            let most = 1 + i64::from(images % world_size != 0);
            Implied { processed: share, received: share, most }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::image::testing::settings;

    #[test]
    fn what_a_strategy_implies_is_counted_in_full_batches() {
        let cells_of = |strategy, gpus| {
            implied(&ImageSettings { strategy, gpus, train_images: 100, batch_size: 8, ..settings() }, 3)
        };
        let counts = |processed, received, most| Implied { processed, received, most };
        assert_eq!(cells_of(Level::Single, 1), counts(96, 96, 1));
        assert_eq!(cells_of(Level::Dp, 3), counts(96, 96, 1));
        assert_eq!(cells_of(Level::Ddp, 3), counts(96, 96, 3));
        assert_eq!(cells_of(Level::DdpRr, 3), counts(32, 96, 1));
        assert_eq!(cells_of(Level::DdpDs, 3), counts(32, 32, 2));
    }

    #[test]
    fn an_image_that_is_processed_twice_or_not_at_all_shows() {
        let settings = ImageSettings { strategy: Level::Single, train_images: 4, batch_size: 2, ..settings() };
        let evidence = |indices: &[u32]| {
            let mut coverage = Coverage::new(4);
            indices.chunks(2).for_each(|batch| coverage.see(batch, batch.len()));
            coverage.evidence(&settings, None).unwrap()
        };
        assert!(evidence(&[3, 1, 0, 2]).in_effect);
        let twice = evidence(&[3, 1, 0, 1]);
        assert!(!twice.in_effect && twice.seen.contains("0 to 2 times"), "{twice:?}");
        assert!(!evidence(&[3, 1]).in_effect);
    }
}
