//! One process, a model and a thread a device, as DataParallel: each pass replicates the first model, scatters the images,
//! computes at the same time and gathers the logits; the backward pass runs through all of it and ends on the first model.
//!
//! Autograd's engine runs the backward passes of GPUs at the same time, each with a thread of its own, and those of replicas
//! on the CPU one after the other.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use multicard::plan::ImageSettings;
use tch::{Device, Kind, TchError, Tensor};

use super::{Pass, Strategy};
use crate::image::MobileNetV2;
use crate::precision::{self, Arithmetic};
use crate::shim;
use crate::trainer;

/// The models beside the first.
pub struct Replicas {
    replicas: Vec<Replica>,
    /// Images that each model has trained on, the first one's first.
    images: Vec<u64>,
    threads: Vec<JoinHandle<()>>,
}

/// A copy of the model on its device, with a thread that computes. (DataParallel starts threads anew for each pass; cuDNN keeps
/// what it learnt of a convolution a thread, and would try its algorithms anew too.)
struct Replica {
    parameters: Vec<Tensor>,
    buffers: Vec<Tensor>,
    work: SyncSender<Work>,
    done: Receiver<Result<Tensor, TchError>>,
}

/// One pass of a replica.
struct Work {
    images: Tensor,
    train: bool,
}

impl Replica {
    fn start(
        index: usize,
        model: MobileNetV2,
        device: Device,
        mixed: Option<Kind>,
    ) -> Result<(Self, JoinHandle<()>), TchError> {
        let (parameters, buffers) = (model.parameters(), model.buffers());
        let (work, tasks) = sync_channel(1);
        let (results, done) = sync_channel(1);
        let compute = move || {
            while let Ok(Work { images, train }) = tasks.recv() {
                let pass = || model.forward(&images.f_to_device_(device, images.kind(), true, false)?, train);
                // Neither autocast nor the absence of gradients passes from one thread to another.
                let pass = || precision::forward(device, mixed, pass);
                let logits = if train { pass() } else { tch::no_grad(pass) };
                if results.send(logits).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name(format!("replica-{index}")).spawn(compute);
        let thread = thread.map_err(|error| TchError::Torch(format!("starting a replica's thread failed: {error}")))?;
        Ok((Self { parameters, buffers, work, done }, thread))
    }

    fn begin(&self, work: Work) -> Result<(), TchError> {
        self.work.send(work).map_err(|_| ended())
    }

    fn end(&self) -> Result<Tensor, TchError> {
        self.done.recv().unwrap_or_else(|_| Err(ended()))
    }
}

fn ended() -> TchError {
    TchError::Torch("a replica's thread has ended".into())
}

impl Replicas {
    /// A replica on each device but the first, where the trainer's own model is.
    pub fn new(settings: &ImageSettings, arithmetic: &Arithmetic, devices: &[Device]) -> Result<Self, TchError> {
        let mut all = Self { replicas: Vec::new(), images: vec![0; devices.len()], threads: Vec::new() };
        for (index, &device) in devices.iter().enumerate().skip(1) {
            let model = trainer::build_model(settings, device, arithmetic.weights())?;
            let (replica, thread) = Replica::start(index, model, device, arithmetic.mixed())?;
            all.replicas.push(replica);
            all.threads.push(thread);
        }
        Ok(all)
    }

    /// Gives the replicas the first model's weights and running statistics. Theirs are lost, as in DataParallel.
    fn replicate(&self, model: &MobileNetV2) -> Result<(), TchError> {
        let (parameters, buffers) = (model.parameters(), model.buffers());
        for replica in &self.replicas {
            shim::copy_all(&replica.parameters, &parameters)?;
            shim::copy_all(&replica.buffers, &buffers)?;
        }
        Ok(())
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        // Closed channels end the threads.
        self.replicas.clear();
        for thread in self.threads.drain(..) {
            // A panic has been printed where it happened.
            let _ = thread.join();
        }
    }
}

impl Strategy for Replicas {
    fn forward(&mut self, pass: &Pass, images: &Tensor) -> Result<Tensor, TchError> {
        self.replicate(pass.model)?;
        // Fewer chunks than models where there are fewer images.
        let mut chunks = images.f_chunk(self.images.len() as i64, 0)?;
        if pass.train {
            self.images.iter_mut().zip(&chunks).for_each(|(sum, chunk)| *sum += chunk.size()[0].unsigned_abs());
        }
        let others = chunks.split_off(chunks.len().min(1));
        let working = &self.replicas[..others.len()];
        for (replica, images) in working.iter().zip(others) {
            replica.begin(Work { images, train: pass.train })?;
        }
        let first = chunks.iter().map(|images| pass.arithmetic.forward(|| pass.model.forward(images, pass.train)));
        // Every replica that was begun is waited for, also when another failed.
        let logits: Vec<_> = first.chain(working.iter().map(Replica::end)).collect();
        let gathered = logits.into_iter().map(|part| part?.f_to_device(images.device()));
        Tensor::f_cat(&gathered.collect::<Result<Vec<_>, _>>()?, 0)
    }

    fn after_backward(&mut self, model: &MobileNetV2) -> Result<(), TchError> {
        let own = model.parameters();
        self.replicas.iter().try_for_each(|replica| shim::add_gradients(&own, &replica.parameters))
    }

    fn seen(&self) -> Result<(u32, String), TchError> {
        let trained = self.images.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let working = self.images.iter().filter(|images| **images > 0).count();
        Ok((
            working as u32,
            format!("one process with {} models, which trained on {trained} images", self.images.len()),
        ))
    }
}
