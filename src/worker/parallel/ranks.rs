//! One process a device: gradients are averaged over ranks while the backward pass goes on, as DistributedDataParallel does.

use std::rc::Rc;

use multicard::plan::BatchNorm;
use tch::{TchError, Tensor};

use super::{Pass, Peers, Strategy};
use crate::image::MobileNetV2;
use crate::shim::{Combine, Reducer};

/// Gradients travel in buckets of so many bytes. The model's are 9 MB: DistributedDataParallel's 25 MB would be one bucket,
/// which overlaps with nothing. Measured on two H200s at 100 px, batch 64: 11.8 ms a step, with 25 MB 12.5 ms.
const BUCKET_BYTES: i64 = 2 << 20;
/// The first bucket is smaller, to begin early: DistributedDataParallel's size.
const FIRST_BUCKET_BYTES: i64 = 1 << 20;

/// This rank's part of the work.
pub struct Ranks {
    peers: Rc<Peers>,
    reducer: Reducer,
    batch_norm: BatchNorm,
}

impl Ranks {
    /// Gives all ranks the weights and buffers of rank 0, after checking that their shapes agree.
    pub fn new(peers: &Rc<Peers>, model: &MobileNetV2, batch_norm: BatchNorm) -> Result<Self, TchError> {
        let parameters = model.parameters();
        let reducer = Reducer::new(peers.group(), &parameters, BUCKET_BYTES, FIRST_BUCKET_BYTES)?;
        peers.group().broadcast(&parameters)?;
        peers.group().broadcast(&model.buffers())?;
        Ok(Self { peers: Rc::clone(peers), reducer, batch_norm })
    }

    fn broadcast_buffers(&self, model: &MobileNetV2) -> Result<(), TchError> {
        if self.batch_norm.broadcast_buffers { self.peers.group().broadcast(&model.buffers()) } else { Ok(()) }
    }
}

impl Strategy for Ranks {
    fn forward(&mut self, pass: &Pass, images: &Tensor) -> Result<Tensor, TchError> {
        self.peers.check()?;
        if !pass.train {
            return pass.arithmetic.forward(|| pass.model.forward(images, false));
        }
        self.reducer.before_forward()?;
        self.broadcast_buffers(pass.model)?;
        let group = self.batch_norm.synchronised.then(|| &**self.peers.group());
        let logits = pass.arithmetic.forward(|| pass.model.forward_over(images, true, group))?;
        self.reducer.before_backward()?;
        Ok(logits)
    }

    // Ranks may evaluate different numbers of batches, so that this cannot be done before each.
    fn before_evaluation(&mut self, model: &MobileNetV2) -> Result<(), TchError> {
        self.broadcast_buffers(model)
    }

    fn sum(&self, tensor: &Tensor) -> Result<(), TchError> {
        self.peers.group().reduce(tensor, Combine::Sum)
    }

    fn seen(&self) -> Result<(u32, String), TchError> {
        let size = self.peers.group().size()?;
        let (backend, buckets) = (self.peers.backend(), self.reducer.buckets()?);
        Ok((size, format!("world size {size} in c10d over {backend}, gradients in {buckets} buckets")))
    }
}
