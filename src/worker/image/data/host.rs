//! The host loader: threads that prepare whole batches ahead of the trainer, in a fixed order.
//!
//! It works like PyTorch's DataLoader with worker processes: batch `i` is made by thread `i % loader_workers`, and each thread is at most
//! [`PREFETCH`] batches ahead. Each thread has two bounded channels in which slots circulate: `free` to the thread, `ready` back.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use half::{bf16, f16};
use multicard::plan::image::{ImageSettings, Layout, Precision, WireDtype};
use tch::{Device, Kind};

use super::loader::{Batch, Origin};
use super::render::Renderer;
use super::run_kind;
use super::samples::Samples;
use super::schedule::EpochWork;
use super::staging::{Format, NewFence, Slot};
use super::upsample::{CHANNELS, Pixel};

/// Number of batches by which a thread may be ahead: PyTorch's `prefetch_factor`.
const PREFETCH: usize = 2;

/// Prepares batches of images on threads of the host.
pub struct HostSource {
    samples: Arc<Samples>,
    format: Arc<Format>,
    workers: usize,
    persistent: bool,
    rank: usize,
    new_fence: NewFence,
    crew: Option<Crew>,
}

impl HostSource {
    /// Creates the source. [`Self::begin`] starts the threads, which are named after `rank`.
    pub fn new(
        samples: Arc<Samples>,
        settings: &ImageSettings,
        device: Device,
        rank: usize,
        new_fence: NewFence,
    ) -> Self {
        let format = Format {
            batch_size: settings.batch_size.max(1),
            size: settings.image_size.max(1) as usize,
            channels_last: settings.layout == Layout::Nhwc,
            wire: wire_kind(settings.wire_dtype, settings.precision),
            model: if settings.precision == Precision::Fp64 { Kind::Double } else { Kind::Float },
            // Without a device there is no reason to lock pages.
            pinned: settings.pin_memory && device != Device::Cpu,
            device,
        };
        Self {
            samples,
            format: Arc::new(format),
            workers: settings.loader_workers.max(1),
            persistent: settings.persistent_workers,
            rank,
            new_fence,
            crew: None,
        }
    }

    /// Begins an epoch: starts the threads, or lets the threads of the last epoch continue if they are persistent.
    pub fn begin(&mut self, task: &Arc<EpochWork>) -> Result<(), String> {
        let crew = match &mut self.crew {
            Some(crew) => crew,
            empty => empty.insert(Crew::start(&self.samples, &self.format, self.workers, self.rank, self.new_fence)?),
        };
        for (index, hand) in crew.hands.iter().enumerate() {
            hand.tasks.send(Arc::clone(task)).map_err(|_| format!("loader thread {index} has ended"))?;
        }
        Ok(())
    }

    /// Waits for a batch and sends it to the device. Batches must be requested in order.
    pub fn receive(&mut self, task: &EpochWork, index: usize) -> Result<Batch, String> {
        let Some(crew) = &self.crew else { return Err("the loader has no threads".into()) };
        let thread = index % crew.hands.len();
        let hand = &crew.hands[thread];
        let asked = Instant::now();
        let ready = hand.ready.recv().map_err(|_| format!("loader thread {thread} has ended"))?;
        let wait_s = asked.elapsed().as_secs_f64();
        let mut slot = ready.map_err(|error| format!("loader thread {thread}: {error}"))?;
        let indices = task.batch(index).to_vec();
        let count = indices.len();
        let origin = Origin::Host { pinned: slot.is_pinned() };
        let inputs = slot.send(count)?;
        // A thread that has ended reports why in place of its next batch.
        let _ = hand.free.send(slot);
        let bytes = count * (CHANNELS * self.format.size.pow(2) * self.format.wire.elt_size_in_bytes() + 8);
        Ok(Batch { inputs, count, indices, wait_s, bytes: bytes as u64, received_batches: 1, origin })
    }

    /// Ends an epoch, and the threads with it unless they are persistent and the epoch was complete.
    pub fn end(&mut self, whole: bool) {
        if !(whole && self.persistent) {
            self.crew = None;
        }
    }
}

fn wire_kind(wire: WireDtype, precision: Precision) -> Kind {
    match wire {
        WireDtype::Uint8 => Kind::Uint8,
        WireDtype::Fp32 => Kind::Float,
        WireDtype::Run => run_kind(precision),
    }
}

/// The threads of a loader. Dropping it stops them and joins them.
struct Crew {
    hands: Vec<Hand>,
    threads: Vec<JoinHandle<()>>,
}

/// The trainer's side of one thread.
struct Hand {
    tasks: SyncSender<Arc<EpochWork>>,
    free: SyncSender<Slot>,
    ready: Receiver<Result<Slot, String>>,
}

/// The thread's own side.
struct Bench {
    index: usize,
    step: usize,
    samples: Arc<Samples>,
    format: Arc<Format>,
    tasks: Receiver<Arc<EpochWork>>,
    free: Receiver<Slot>,
    ready: SyncSender<Result<Slot, String>>,
}

impl Crew {
    fn start(
        samples: &Arc<Samples>,
        format: &Arc<Format>,
        count: usize,
        rank: usize,
        new_fence: NewFence,
    ) -> Result<Self, String> {
        let mut crew = Self { hands: Vec::new(), threads: Vec::new() };
        for index in 0..count {
            let (tasks, task) = sync_channel(1);
            let (free, free_slots) = sync_channel(PREFETCH);
            let (ready_slots, ready) = sync_channel(PREFETCH);
            for _ in 0..PREFETCH {
                // The channel has room for exactly these.
                let _ = free.try_send(Slot::new(format, new_fence));
            }
            let bench = Bench {
                index,
                step: count,
                samples: Arc::clone(samples),
                format: Arc::clone(format),
                tasks: task,
                free: free_slots,
                ready: ready_slots,
            };
            let builder = thread::Builder::new().name(format!("loader-{rank}-{index}"));
            let thread = builder.spawn(move || bench.run());
            crew.threads.push(thread.map_err(|error| format!("starting loader thread {index} failed: {error}"))?);
            crew.hands.push(Hand { tasks, free, ready });
        }
        Ok(crew)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // Closing the channels ends every thread, whatever it is doing; only then is it safe to join them.
        self.hands.clear();
        for thread in self.threads.drain(..) {
            // The thread itself has caught and reported a panic.
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

    /// Prepares its share of each task's batches until the loader drops a channel or a batch fails.
    fn work<P: Pixel>(&self) {
        let Format { size, channels_last, .. } = *self.format;
        let mut renderer = Renderer::<P>::new(&self.samples, size, channels_last);
        while let Ok(task) = self.tasks.recv() {
            for batch in (self.index..task.batches).step_by(self.step) {
                let Ok(slot) = self.free.recv() else { return };
                let prepare = AssertUnwindSafe(|| self.prepare(task.batch(batch), slot, &mut renderer));
                let ready = catch_unwind(prepare).unwrap_or_else(|panic| Err(message(&*panic)));
                let failed = ready.is_err();
                if self.ready.send(ready).is_err() || failed {
                    return;
                }
            }
        }
    }

    fn prepare<P: Pixel>(&self, batch: &[u32], mut slot: Slot, renderer: &mut Renderer<P>) -> Result<Slot, String> {
        let (pixels, labels) = slot.room::<P>()?;
        let outputs = pixels.chunks_exact_mut(renderer.output_len()).zip(labels);
        for (&index, (output, label)) in batch.iter().zip(outputs) {
            renderer.render(&self.samples, index as usize, output)?;
            *label = i64::from(self.samples.labels[index as usize]);
        }
        Ok(slot)
    }
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_else(|| "without a message".into()))
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
