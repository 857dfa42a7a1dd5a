//! One process, a model and a thread a device, as DataParallel: each pass replicates the first model, scatters the images,
//! computes at the same time and gathers the logits; the backward pass runs through all of it and ends on the first model.

use std::thread;

use multicard::plan::ImageSettings;
use tch::{Device, Kind, TchError, Tensor};

use super::{Pass, Strategy};
use crate::models::MobileNetV2;
use crate::precision::{self, Arithmetic};
use crate::shim;
use crate::trainer;

/// A copy of the model.
struct Replica {
    model: MobileNetV2,
    device: Device,
}

/// The models beside the first.
pub struct Replicas {
    replicas: Vec<Replica>,
    mixed: Option<Kind>,
    /// Images that each model has trained on, the first one's first.
    images: Vec<u64>,
}

impl Replicas {
    /// A replica on each device but the first, where the trainer's own model is.
    pub fn new(settings: &ImageSettings, arithmetic: &Arithmetic, devices: &[Device]) -> Result<Self, TchError> {
        let replica = |&device: &Device| {
            let model = trainer::build_model(settings, device, arithmetic.weights())?;
            Ok(Replica { model, device })
        };
        let replicas = devices.iter().skip(1).map(replica).collect::<Result<_, TchError>>()?;
        Ok(Self { replicas, mixed: arithmetic.mixed(), images: vec![0; devices.len()] })
    }

    /// Gives the replicas the first model's weights and running statistics. Theirs are lost, as in DataParallel.
    fn replicate(&self, model: &MobileNetV2) -> Result<(), TchError> {
        let own = [model.parameters(), model.buffers()].concat_tensors();
        for replica in &self.replicas {
            shim::copy_all(&[replica.model.parameters(), replica.model.buffers()].concat_tensors(), &own)?;
        }
        Ok(())
    }
}

/// Tensors cannot be cloned, only moved.
trait ConcatTensors {
    fn concat_tensors(self) -> Vec<Tensor>;
}

impl ConcatTensors for [Vec<Tensor>; 2] {
    fn concat_tensors(self) -> Vec<Tensor> {
        self.into_iter().flatten().collect()
    }
}

impl Strategy for Replicas {
    fn forward(&mut self, pass: &Pass, images: &Tensor) -> Result<Tensor, TchError> {
        self.replicate(pass.model)?;
        let count = self.replicas.len() + 1;
        // Fewer chunks than models where there are fewer images.
        let mut chunks = images.f_chunk(count as i64, 0)?.into_iter();
        let Some(first) = chunks.next() else { return Err(TchError::Torch("a batch without images".into())) };
        let mut parts = vec![images_of(&first)];
        let (mixed, train, home) = (self.mixed, pass.train, images.device());
        let logits = thread::scope(|scope| -> Result<Vec<Tensor>, TchError> {
            let mut threads = Vec::new();
            for (index, (replica, chunk)) in self.replicas.iter_mut().zip(chunks).enumerate() {
                parts.push(images_of(&chunk));
                let compute = move || {
                    let Replica { model, device } = replica;
                    let pass = || model.forward(&chunk.f_to_device_(*device, chunk.kind(), true, false)?, train);
                    // Neither autocast nor the absence of gradients passes from one thread to another.
                    let pass = || precision::forward(*device, mixed, pass);
                    if train { pass() } else { tch::no_grad(pass) }
                };
                let thread = thread::Builder::new().name(format!("replica-{}", index + 1));
                let started = thread.spawn_scoped(scope, compute);
                threads.push(started.map_err(|error| TchError::Torch(format!("starting a replica failed: {error}")))?);
            }
            let mut logits = vec![pass.arithmetic.forward(|| pass.model.forward(&first, train))];
            let panicked = |_| Err(TchError::Torch("a replica panicked".into()));
            logits.extend(threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)));
            logits.into_iter().collect()
        })?;
        if train {
            self.images.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
        let gathered: Vec<_> = logits.iter().map(|part| part.f_to_device(home)).collect::<Result<_, _>>()?;
        Tensor::f_cat(&gathered, 0)
    }

    fn after_backward(&mut self, model: &MobileNetV2) -> Result<(), TchError> {
        let own = model.parameters();
        self.replicas.iter().try_for_each(|replica| shim::add_gradients(&own, &replica.model.parameters()))
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

fn images_of(chunk: &Tensor) -> u64 {
    chunk.size().first().copied().unwrap_or(0).unsigned_abs()
}
