//! The interface of loaders for the trainer: epochs of batches, independent of the loader that prepares them.

use std::sync::Arc;
use std::time::Instant;

use multicard::plan::image::{ImageSettings, Loader as Level};
use tch::{Device, TchError, Tensor};

use super::dali::DaliSource;
use super::device::DeviceSource;
use super::host::HostSource;
use super::samples::Samples;
use super::schedule::{EpochWork, Schedule};
use super::staging::NewFence;
use crate::order::{Mode, Shard};

/// Images and labels on the device.
#[derive(Debug)]
pub struct Batch {
    /// Images `[count, 3, size, size]`, with channels-last strides if `layout = nhwc`, and labels `[count]`, i64. Images that the host
    /// prepared are fp64 for runs in fp64 and otherwise fp32; images that the device or DALI prepared have the run's precision.
    pub inputs: [Tensor; 2],
    /// Number of images in this batch.
    pub count: usize,
    /// The indices of its images in the set.
    pub indices: Vec<u32>,
    /// How long the trainer waited for the host to prepare the batch, in seconds, without the copy.
    pub wait_s: f64,
    /// Number of bytes that are being copied to the device.
    pub bytes: u64,
    /// Number of batches that were copied to the device for this one, itself included.
    pub received_batches: usize,
    /// The origin of its pixels.
    pub origin: Origin,
}

impl Batch {
    /// The images.
    pub fn images(&self) -> &Tensor {
        &self.inputs[0]
    }

    /// Their classes.
    #[cfg(test)]
    pub fn labels(&self) -> &Tensor {
        &self.inputs[1]
    }
}

/// The origin of the pixels of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Memory of the host.
    Host {
        /// Whether it is page-locked.
        pinned: bool,
    },
    /// Memory of the host, from which DALI copied them.
    Dali {
        /// The device to which they were copied.
        device: Device,
    },
    /// The whole set lives on a device: only indices are copied.
    Resident {
        /// The device.
        device: Device,
        /// Number of bytes that the set takes there.
        bytes: u64,
    },
}

/// Prepares the batches of one rank.
pub struct Loader {
    schedule: Schedule,
    pub(super) source: Source,
}

/// The loader that prepares the batches.
pub(super) enum Source {
    Host(HostSource),
    Dali(Box<DaliSource>),
    Device(DeviceSource),
}

impl Loader {
    /// Creates a loader of `samples` for one rank, as its cell says. `new_fence` makes the events with which copies from page-locked memory
    /// run beside the trainer; if it gives none, copies block.
    pub fn new(
        samples: Arc<Samples>,
        settings: &ImageSettings,
        device: Device,
        seed: u64,
        mode: Mode,
        shard: Shard,
        new_fence: NewFence,
    ) -> Result<Self, TchError> {
        let schedule = Schedule::new(samples.len(), settings.batch_size, mode, shard, seed);
        let source = match settings.loader {
            Level::Device => Source::Device(DeviceSource::new(&samples, settings, device)?),
            Level::Host => Source::Host(HostSource::new(samples, settings, device, shard.rank, new_fence)),
            Level::Dali => Source::Dali(Box::new(DaliSource::new(samples, settings, device, shard.rank))),
        };
        Ok(Self { schedule, source })
    }

    /// Number of batches that the rank processes in an epoch; it is the same for all ranks of a training.
    pub fn batches(&self) -> usize {
        self.schedule.batches()
    }

    /// Begins an epoch. The same epoch with the same seed gives the same batches, whatever prepares them.
    pub fn epoch(&mut self, epoch: u32) -> Epoch<'_> {
        let begin = Instant::now();
        let task = Arc::new(self.schedule.epoch(epoch));
        let failure = match &mut self.source {
            Source::Host(host) => host.begin(&task).err(),
            Source::Dali(dali) => dali.begin(&task).err(),
            Source::Device(device) => device.begin(&task).err(),
        };
        Epoch { loader: self, task, next: 0, begin, start_s: None, failure }
    }
}

/// One pass over the images. If it is dropped before its end, the threads that prepare batches are stopped.
pub struct Epoch<'a> {
    pub(super) loader: &'a mut Loader,
    pub(super) task: Arc<EpochWork>,
    next: usize,
    begin: Instant,
    start_s: Option<f64>,
    failure: Option<String>,
}

impl Epoch<'_> {
    /// The next batch, on the device; none after the last. After an error the epoch is over.
    pub fn next(&mut self) -> Result<Option<Batch>, String> {
        let batch = match &self.failure {
            Some(failure) => Err(failure.clone()),
            None if self.next == self.task.batches => return Ok(None),
            None => self.receive_round(),
        };
        match batch {
            Ok(batch) => Ok(Some(batch)),
            Err(failure) => {
                self.failure = Some(failure.clone());
                Err(failure)
            }
        }
    }

    /// Time from the beginning of the epoch until its first batch was prepared, in seconds; none before that.
    pub fn start_s(&self) -> Option<f64> {
        self.start_s
    }

    /// Receives the batch that this rank has to process, and the batches that come with it.
    fn receive_round(&mut self) -> Result<Batch, String> {
        let (count, own) = self.loader.schedule.round();
        let mut batches = (0..count).map(|_| self.receive()).collect::<Result<Vec<_>, _>>()?;
        let wait_s = batches.iter().map(|batch| batch.wait_s).sum();
        let own = batches.swap_remove(own);
        Ok(Batch { wait_s, received_batches: count, ..own })
    }

    fn receive(&mut self) -> Result<Batch, String> {
        let asked_s = self.begin.elapsed().as_secs_f64();
        let batch = match &mut self.loader.source {
            Source::Host(host) => host.receive(&self.task, self.next)?,
            Source::Dali(dali) => dali.receive(&self.task, self.next)?,
            Source::Device(device) => device.prepare(&self.task, self.next)?,
        };
        self.start_s.get_or_insert(asked_s + batch.wait_s);
        self.next += 1;
        Ok(batch)
    }
}

impl Drop for Epoch<'_> {
    fn drop(&mut self) {
        let whole = self.failure.is_none() && self.next == self.task.batches;
        match &mut self.loader.source {
            Source::Host(host) => host.end(whole),
            Source::Dali(dali) => dali.end(whole),
            Source::Device(_) => {}
        }
    }
}
