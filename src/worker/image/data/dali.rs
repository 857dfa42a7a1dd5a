//! The DALI loader: feeds a pipeline in the epoch's order and passes its batches to libtorch without copying them.
//!
//! Pixels that are in memory are fed unchanged; files are read by a thread of the host and decoded by DALI. Interpolation, normalisation
//! and order are the same as in the host loader. Before they are rounded to the run's type, pixels are within 1e-5 of the host's. If DALI
//! also decodes and enlarges, they may differ by one more level of 256, and JPEG decoders differ by up to 4 levels.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use multicard::dataset::{decode, read_image};
use multicard::plan::image::{ImageSettings, Layout, Precision};
use tch::{Device, Kind, TchError, Tensor};

use super::loader::{Batch, Origin};
use super::samples::{Content, Samples};
use super::schedule::EpochWork;
use super::{PIXEL_DEVIATION, PIXEL_MEAN, run_kind};
use crate::image::dali::{Fed, Input, Pipeline, Spec};
use crate::shim;

/// Batches that the pipeline prepares ahead.
const PREFETCH: usize = 2;

/// The files of one batch, as the thread that reads files delivers them.
type Files = Result<Vec<Vec<u8>>, String>;

/// A pipeline over one part of the set.
pub struct DaliSource {
    // Declared before the samples, so that it is dropped before the bytes that it reads.
    pipeline: Option<Pipeline>,
    samples: Arc<Samples>,
    spec: Spec,
    kind: Kind,
    device: Device,
    persistent: bool,
    rank: usize,
    reader: Option<Reader>,
    /// Number of bytes of each batch that was fed and not yet taken.
    fed: VecDeque<usize>,
    next_fed: usize,
}

impl DaliSource {
    /// Creates the source. DALI is opened only in [`Self::begin`].
    pub fn new(samples: Arc<Samples>, settings: &ImageSettings, device: Device, rank: usize) -> Self {
        let input = match &samples.content {
            Content::Files(_) => Input::Encoded,
            Content::Bytes { shape, .. } => Input::Bytes(*shape),
        };
        let spec = Spec {
            device: if let Device::Cuda(index) = device { Some(index as i32) } else { None },
            batch_size: settings.batch_size.max(1),
            threads: settings.loader_workers.max(1),
            prefetch: PREFETCH,
            input,
            size: settings.image_size.max(1) as usize,
            channels_last: settings.layout == Layout::Nhwc,
            half: settings.precision == Precision::Fp16,
            normalise: [(255.0 * PIXEL_MEAN) as f32, (255.0 * PIXEL_DEVIATION) as f32],
        };
        Self {
            pipeline: None,
            samples,
            spec,
            kind: run_kind(settings.precision),
            device,
            persistent: settings.persistent_workers,
            rank,
            reader: None,
            fed: VecDeque::new(),
            next_fed: 0,
        }
    }

    /// Begins an epoch: builds the pipeline, or continues with the pipeline of the last epoch if loaders are persistent.
    pub fn begin(&mut self, task: &Arc<EpochWork>) -> Result<(), String> {
        if self.pipeline.is_none() {
            self.pipeline = Some(Pipeline::new(self.spec.clone())?);
        }
        (self.next_fed, self.reader) = (0, None);
        self.fed.clear();
        if let Content::Files(_) = &self.samples.content {
            self.reader = Some(Reader::start(&self.samples, task, self.rank)?);
        }
        Ok(())
    }

    /// Waits for a batch. Batches must be requested in order.
    pub fn receive(&mut self, task: &EpochWork, index: usize) -> Result<Batch, String> {
        let asked = Instant::now();
        while self.next_fed < task.batches.min(index + 1 + PREFETCH) {
            self.feed(task)?;
        }
        let stream = if self.spec.device.is_some() {
            Some(shim::cuda::current_stream().map_err(|error| error.to_string())?)
        } else {
            None
        };
        let pipeline = self.pipeline.as_mut().ok_or("no epoch has begun")?;
        let output = pipeline.pop(stream).map_err(|error| self.blame(task, index, error))?;
        let wait_s = asked.elapsed().as_secs_f64();
        let bytes = self.fed.pop_front().unwrap_or(0);

        let indices = task.batch(index).to_vec();
        let failed = |error: TchError| format!("taking a batch from DALI failed: {error}");
        let labels: Vec<_> = indices.iter().map(|&index| i64::from(self.samples.labels[index as usize])).collect();
        let labels =
            Tensor::f_from_slice(&labels).and_then(|labels| labels.f_to_device(self.device)).map_err(failed)?;
        let given = if self.spec.half { Kind::Half } else { Kind::Float };
        let shape = output.shape;
        let data = output.data;
        // SAFETY: the output owns this memory, which has the shape and type that were asked for.
        #[allow(unsafe_code)]
        let images = unsafe { shim::adopt(data, &shape, given, self.device, Box::new(output)) }.map_err(failed)?;
        let images = if self.spec.channels_last { images.f_permute([0, 3, 1, 2]).map_err(failed)? } else { images };
        // DALI produces neither bf16 nor fp64.
        let images = images.f_to_kind(self.kind).map_err(failed)?;
        Ok(Batch {
            inputs: [images, labels],
            count: indices.len(),
            bytes: (bytes + indices.len() * 8) as u64,
            indices,
            wait_s,
            received_batches: 1,
            origin: Origin::Dali { device: self.device },
        })
    }

    fn feed(&mut self, task: &EpochWork) -> Result<(), String> {
        let pipeline = self.pipeline.as_mut().ok_or("no epoch has begun")?;
        let (bytes, result) = match &self.samples.content {
            Content::Bytes { shape, pixels } => {
                let len = shape.iter().product::<usize>();
                let image = |&index: &u32| pixels.get(index as usize * len..(index as usize + 1) * len);
                let images: Option<Vec<_>> = task.batch(self.next_fed).iter().map(image).collect();
                let images = images.ok_or("the set holds fewer pixels than labels")?;
                // SAFETY: the pixels live, unchanged, as long as the samples, which are dropped after the pipeline.
                #[allow(unsafe_code)]
                let result = unsafe { pipeline.feed(Fed::Lasting(&images)) };
                (images.len() * len, result)
            }
            Content::Files(_) => {
                let reader = self.reader.as_ref().ok_or("no file is being read")?;
                let files = reader.files.recv().map_err(|_| "the thread that reads files has ended".to_owned())??;
                let images: Vec<_> = files.iter().map(Vec::as_slice).collect();
                // SAFETY: no bytes are passed as lasting.
                #[allow(unsafe_code)]
                let result = unsafe { pipeline.feed(Fed::Passing(&images)) };
                (files.iter().map(Vec::len).sum(), result)
            }
        };
        result?;
        self.fed.push_back(bytes);
        self.next_fed += 1;
        Ok(())
    }

    /// Names the file of a batch that cannot be decoded, because DALI does not say which file it was.
    fn blame(&self, task: &EpochWork, index: usize, error: String) -> String {
        let Content::Files(paths) = &self.samples.content else { return error };
        // A batch that was prepared ahead may have failed before this one.
        let last = task.batches.min(index + 1 + PREFETCH);
        let mut suspects = (index..last).flat_map(|batch| task.batch(batch)).map(|&image| &paths[image as usize]);
        let decode_error = suspects.find_map(|path: &PathBuf| decode(path).err());
        decode_error.map_or(error, |decode_error| decode_error.to_string())
    }

    /// Ends an epoch, and the pipeline with it unless the pipeline is persistent and the epoch was complete.
    pub fn end(&mut self, whole: bool) {
        self.reader = None;
        if !(whole && self.persistent) {
            self.pipeline = None;
        }
    }
}

/// The thread that reads the files of an epoch ahead. Dropping it stops the thread and joins it.
struct Reader {
    files: Receiver<Files>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn start(samples: &Arc<Samples>, task: &Arc<EpochWork>, rank: usize) -> Result<Self, String> {
        let (sender, files) = sync_channel(PREFETCH);
        let (samples, task) = (Arc::clone(samples), Arc::clone(task));
        let run = move || {
            let Content::Files(paths) = &samples.content else { return };
            for batch in 0..task.batches {
                let read = |&index: &u32| {
                    let path = &paths[index as usize];
                    read_image(path).map_err(|error| format!("reading {} failed: {error}", path.display()))
                };
                let files: Files = task.batch(batch).iter().map(read).collect();
                let failed = files.is_err();
                if sender.send(files).is_err() || failed {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name(format!("loader-{rank}-files")).spawn(run);
        let thread = thread.map_err(|error| format!("starting the thread that reads files failed: {error}"))?;
        Ok(Self { files, thread: Some(thread) })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Closing the channel ends the thread, whatever it is doing; only then is it safe to join it.
        let (_, closed) = sync_channel(1);
        drop(std::mem::replace(&mut self.files, closed));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[path = "dali_tests.rs"]
mod tests;
