//! The host loader: threads that prepare whole batches ahead of the trainer, in a fixed order.
//!
//! As PyTorch's DataLoader with processes: batch `i` is made by thread `i % loader_workers`, each of which is at most
//! [`PREFETCH`] batches ahead. Two bounded channels a thread carry the slots round: `free` to the thread, `ready` back.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use half::{bf16, f16};
use multicard::dataset::Images;
use multicard::plan::{ImageSettings, Layout, Precision, WireDtype};
use tch::{Device, Kind, Tensor};

use super::order::{Deal, Mode, Shard, indices};
use super::staging::{Format, NewFence, Slot};
use super::upsample::{Pixel, Upsampler};

/// Batches that a thread may be ahead: PyTorch's `prefetch_factor`.
const PREFETCH: usize = 2;

/// Images and labels on the device.
#[derive(Debug)]
pub struct Batch {
    /// `[count, 3, size, size]`: fp64 for runs in fp64, else fp32; channels-last strides with `layout = nhwc`.
    pub images: Tensor,
    /// `[count]`, i64.
    pub labels: Tensor,
    /// Images in this batch.
    pub count: usize,
    /// Where its images are in the set.
    pub indices: Vec<u32>,
    /// How long the trainer waited for the host to prepare it, in seconds; the copy is not part of it.
    pub wait_s: f64,
    /// Bytes of images and labels on their way to the device.
    pub bytes: u64,
    /// Batches that came to the device for this one, itself included.
    pub received_batches: usize,
    /// Whether it travelled from page-locked memory.
    pub pinned: bool,
}

/// Prepares batches of images on threads of the host.
pub struct HostLoader {
    images: Arc<Images>,
    format: Arc<Format>,
    workers: usize,
    persistent: bool,
    mode: Mode,
    shard: Shard,
    seed: u64,
    new_fence: NewFence,
    crew: Option<Crew>,
}

impl HostLoader {
    /// A loader of `images` for one rank. Threads are started by [`Self::epoch`]. `new_fence` makes the events that let copies
    /// from page-locked memory run beside the trainer; where it gives none, copies block.
    pub fn new(
        images: Arc<Images>,
        settings: &ImageSettings,
        device: Device,
        seed: u64,
        mode: Mode,
        shard: Shard,
        new_fence: NewFence,
    ) -> Self {
        let format = Format {
            batch_size: settings.batch_size.max(1),
            size: settings.image_size.max(1) as usize,
            channels_last: settings.layout == Layout::Nhwc,
            wire: wire_kind(settings.wire_dtype, settings.precision),
            model: if settings.precision == Precision::Fp64 { Kind::Double } else { Kind::Float },
            // Without a device there is nothing to lock pages for.
            pinned: settings.pin_memory && device != Device::Cpu,
            device,
        };
        Self {
            images,
            format: Arc::new(format),
            workers: settings.loader_workers.max(1),
            persistent: settings.persistent_workers,
            mode,
            shard,
            seed,
            new_fence,
            crew: None,
        }
    }

    /// Batches that the rank processes in an epoch; all ranks of a training process as many.
    pub fn batches(&self) -> usize {
        let (count, ranks) = (self.images.len(), self.shard.world_size);
        match (self.mode, self.shard.deal) {
            (Mode::Train, Deal::Sampled) => count.div_ceil(ranks) / self.format.batch_size,
            (Mode::Train, Deal::Repeated) => count / self.format.batch_size,
            (Mode::Train, Deal::RoundRobin) => count / self.format.batch_size / ranks,
            (Mode::Evaluate, _) => {
                count.saturating_sub(self.shard.rank).div_ceil(ranks).div_ceil(self.format.batch_size)
            }
        }
    }

    /// Begins an epoch: starts the threads, or lets those of the last epoch go on where they are persistent. The same epoch
    /// of the same seed gives the same batches, whatever the number of threads.
    pub fn epoch(&mut self, epoch: u32) -> Epoch<'_> {
        let begin = Instant::now();
        let order = indices(self.images.len(), self.mode, self.shard, self.seed, epoch);
        let batches = self.batches() * self.shard.received_batches(self.mode);
        let task = Arc::new(Task { order, batches, batch_size: self.format.batch_size });
        let failure = self.begin(&task).err();
        Epoch { loader: self, task, next: 0, begin, start_s: None, failure }
    }

    fn begin(&mut self, task: &Arc<Task>) -> Result<(), String> {
        let crew = match &mut self.crew {
            Some(crew) => crew,
            empty => empty.insert(Crew::start(&self.images, &self.format, self.workers, self.shard, self.new_fence)?),
        };
        for (index, hand) in crew.hands.iter().enumerate() {
            hand.tasks.send(Arc::clone(task)).map_err(|_| format!("loader thread {index} has ended"))?;
        }
        Ok(())
    }
}

fn wire_kind(wire: WireDtype, precision: Precision) -> Kind {
    match (wire, precision) {
        (WireDtype::Uint8, _) => Kind::Uint8,
        (WireDtype::Fp32, _) | (WireDtype::Run, Precision::Fp32) => Kind::Float,
        (WireDtype::Run, Precision::Fp64) => Kind::Double,
        (WireDtype::Run, Precision::Fp16) => Kind::Half,
        (WireDtype::Run, Precision::Bf16) => Kind::BFloat16,
    }
}

/// One pass over the images. Dropped before its end, it stops the threads.
pub struct Epoch<'a> {
    loader: &'a mut HostLoader,
    task: Arc<Task>,
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
        let count = self.loader.shard.received_batches(self.loader.mode);
        let mut batches = (0..count).map(|_| self.receive()).collect::<Result<Vec<_>, _>>()?;
        let wait_s = batches.iter().map(|batch| batch.wait_s).sum();
        let own = batches.swap_remove(if count > 1 { self.loader.shard.rank } else { 0 });
        Ok(Batch { wait_s, received_batches: count, ..own })
    }

    fn receive(&mut self) -> Result<Batch, String> {
        let Some(crew) = &self.loader.crew else { return Err("the loader has no threads".into()) };
        let thread = self.next % crew.hands.len();
        let hand = &crew.hands[thread];
        let asked = Instant::now();
        let ready = hand.ready.recv().map_err(|_| format!("loader thread {thread} has ended"))?;
        let wait_s = asked.elapsed().as_secs_f64();
        self.start_s.get_or_insert_with(|| self.begin.elapsed().as_secs_f64());
        let mut slot = ready.map_err(|error| format!("loader thread {thread}: {error}"))?;
        let indices = self.task.batch(self.next).to_vec();
        let count = indices.len();
        let pinned = slot.is_pinned();
        let (images, labels) = slot.send(count)?;
        // A thread that has ended says why with its next batch.
        let _ = hand.free.send(slot);
        let bytes = count * (3 * self.loader.format.size.pow(2) * self.loader.format.wire.elt_size_in_bytes() + 8);
        self.next += 1;
        Ok(Batch { images, labels, count, indices, wait_s, bytes: bytes as u64, received_batches: 1, pinned })
    }
}

impl Drop for Epoch<'_> {
    fn drop(&mut self) {
        let finished = self.failure.is_none() && self.next == self.task.batches;
        if !(finished && self.loader.persistent) {
            self.loader.crew = None;
        }
    }
}

/// An epoch's work.
struct Task {
    order: Vec<u32>,
    batches: usize,
    batch_size: usize,
}

impl Task {
    fn batch(&self, index: usize) -> &[u32] {
        let start = index * self.batch_size;
        &self.order[start..self.order.len().min(start + self.batch_size)]
    }
}

/// The threads of a loader. Dropping it ends and joins them.
struct Crew {
    hands: Vec<Hand>,
    threads: Vec<JoinHandle<()>>,
}

/// The trainer's side of one thread.
struct Hand {
    tasks: SyncSender<Arc<Task>>,
    free: SyncSender<Slot>,
    ready: Receiver<Result<Slot, String>>,
}

/// The thread's own side.
struct Bench {
    index: usize,
    step: usize,
    images: Arc<Images>,
    format: Arc<Format>,
    tasks: Receiver<Arc<Task>>,
    free: Receiver<Slot>,
    ready: SyncSender<Result<Slot, String>>,
}

impl Crew {
    fn start(
        images: &Arc<Images>,
        format: &Arc<Format>,
        count: usize,
        shard: Shard,
        new_fence: NewFence,
    ) -> Result<Self, String> {
        let mut crew = Self { hands: Vec::new(), threads: Vec::new() };
        for index in 0..count {
            let (tasks, task) = sync_channel(1);
            let (free, free_slots) = sync_channel(PREFETCH);
            let (ready_slots, ready) = sync_channel(PREFETCH);
            for _ in 0..PREFETCH {
                // There is room for exactly these.
                let _ = free.try_send(Slot::new(format, new_fence));
            }
            let bench = Bench {
                index,
                step: count,
                images: Arc::clone(images),
                format: Arc::clone(format),
                tasks: task,
                free: free_slots,
                ready: ready_slots,
            };
            let builder = thread::Builder::new().name(format!("loader-{}-{index}", shard.rank));
            let thread = builder.spawn(move || bench.run());
            crew.threads.push(thread.map_err(|error| format!("starting loader thread {index} failed: {error}"))?);
            crew.hands.push(Hand { tasks, free, ready });
        }
        Ok(crew)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // Closed channels end every thread, wherever it is; only then is joining safe.
        self.hands.clear();
        for thread in self.threads.drain(..) {
            // A panic was caught and told by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Bench {
    fn run(self) {
        match self.format.wire {
            Kind::Uint8 => self.work::<u8>(),
            Kind::Half => self.work::<f16>(),
            Kind::BFloat16 => self.work::<bf16>(),
            Kind::Double => self.work::<f64>(),
            _ => self.work::<f32>(),
        }
    }

    /// Prepares its share of each task's batches until the loader lets go of a channel, or a batch fails.
    fn work<P: Pixel>(&self) {
        let Format { size, channels_last, .. } = *self.format;
        let mut upsampler =
            Upsampler::<P>::new(self.images.rows.max(1), self.images.columns.max(1), size, channels_last);
        while let Ok(task) = self.tasks.recv() {
            for batch in (self.index..task.batches).step_by(self.step) {
                let Ok(slot) = self.free.recv() else { return };
                let prepare = AssertUnwindSafe(|| self.prepare(task.batch(batch), slot, &mut upsampler));
                let ready = catch_unwind(prepare).unwrap_or_else(|panic| Err(message(&*panic)));
                let failed = ready.is_err();
                if self.ready.send(ready).is_err() || failed {
                    return;
                }
            }
        }
    }

    fn prepare<P: Pixel>(&self, batch: &[u32], mut slot: Slot, upsampler: &mut Upsampler<P>) -> Result<Slot, String> {
        let (pixels, labels) = slot.room::<P>()?;
        let outputs = pixels.chunks_exact_mut(upsampler.output_len()).zip(labels);
        for (&index, (output, label)) in batch.iter().zip(outputs) {
            upsampler.upsample(self.images.image(index as usize), output);
            *label = i64::from(self.images.labels[index as usize]);
        }
        Ok(slot)
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_else(|| "without a message".into()))
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
