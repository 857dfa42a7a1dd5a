//! What the trainer sees of a loader: epochs of batches, whoever prepares them.

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
    /// Images `[count, 3, size, size]`, channels-last strides with `layout = nhwc`, and labels `[count]`, i64. Images are from
    /// the host in fp64 for runs in fp64, else fp32; made on the device, or by DALI, in the run's precision.
    pub inputs: [Tensor; 2],
    /// Images in this batch.
    pub count: usize,
    /// Where its images are in the set.
    pub indices: Vec<u32>,
    /// How long the trainer waited for the host to prepare it, in seconds; the copy is not part of it.
    pub wait_s: f64,
    /// Bytes on their way to the device.
    pub bytes: u64,
    /// Batches that came to the device for this one, itself included.
    pub received_batches: usize,
    /// Where its pixels were before.
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

/// Where pixels come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Memory of the host.
    Host {
        /// It is page-locked.
        pinned: bool,
    },
    /// Memory of the host, from where DALI brings them.
    Dali {
        /// To which device.
        device: Device,
    },
    /// The whole set lives on a device: only indices travel.
    Resident {
        /// The device.
        device: Device,
        /// What the set takes there.
        bytes: u64,
    },
}

/// Prepares the batches of one rank.
pub struct Loader {
    schedule: Schedule,
    pub(super) source: Source,
}

/// Who prepares them.
pub(super) enum Source {
    Host(HostSource),
    Dali(Box<DaliSource>),
    Device(DeviceSource),
}

impl Loader {
    /// A loader of `samples` for one rank, as its cell says. `new_fence` makes the events that let copies from page-locked memory
    /// run beside the trainer; where it gives none, copies block.
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

    /// Batches that the rank processes in an epoch; all ranks of a training process as many.
    pub fn batches(&self) -> usize {
        self.schedule.batches()
    }

    /// Begins an epoch. The same epoch of the same seed gives the same batches, whoever prepares them.
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

/// One pass over the images. Dropped before its end, it stops threads that prepare them.
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

    /// How long it took from the epoch's beginning until its first batch was prepared, in seconds; none before.
    pub fn start_s(&self) -> Option<f64> {
        self.start_s
    }

    /// The batch that is this rank's to process, and those that come with it.
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
