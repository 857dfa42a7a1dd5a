//! One process a device: gradients are averaged over ranks while the backward pass goes on, as DistributedDataParallel does.

use std::rc::Rc;

use tch::{TchError, Tensor};

use super::{Peers, Strategy};
use crate::module::{Module, Pass, byte_count};
use crate::shim::{Combine, Reducer};

/// Gradients travel in buckets of so many bytes. Those of a small network are 9 MB: DistributedDataParallel's 25 MB would be one
/// bucket, which overlaps with nothing. Measured on two H200s with MobileNetV2 at 100 px, batch 64: 11.8 ms a step, with 25 MB
/// 12.5 ms.
const BUCKET_BYTES: i64 = 2 << 20;
/// The first bucket is smaller, to begin early: DistributedDataParallel's size.
const FIRST_BUCKET_BYTES: i64 = 1 << 20;
/// Gradients of a large network travel in no more buckets than this.
const MOST_BUCKETS: i64 = 128;

/// This rank's part of the work.
pub struct Ranks {
    peers: Rc<Peers>,
    reducer: Reducer,
}

impl Ranks {
    /// Gives all ranks the weights and buffers of rank 0, after checking that their shapes agree.
    pub fn new(peers: &Rc<Peers>, module: &impl Module) -> Result<Self, TchError> {
        let parameters = module.parameters();
        let bytes: u64 = parameters.iter().map(byte_count).sum();
        let bucket_bytes = BUCKET_BYTES.max(bytes as i64 / MOST_BUCKETS);
        let reducer = Reducer::new(peers.group(), &parameters, bucket_bytes, FIRST_BUCKET_BYTES)?;
        peers.group().broadcast(&parameters)?;
        let buffers = module.buffers();
        if !buffers.is_empty() {
            peers.group().broadcast(&buffers)?;
        }
        Ok(Self { peers: Rc::clone(peers), reducer })
    }
}

impl<M: Module> Strategy<M> for Ranks {
    fn before_forward(&mut self, module: &M, train: bool) -> Result<(), TchError> {
        self.peers.check()?;
        if !train {
            return Ok(());
        }
        self.reducer.before_forward()?;
        module.agree(self.peers.group())
    }

    fn pass(&self, train: bool) -> Pass<'_> {
        Pass { train, group: Some(self.peers.group()), hooks: None }
    }

    fn before_backward(&mut self) -> Result<(), TchError> {
        self.reducer.before_backward()
    }

    // Ranks may evaluate different numbers of batches, so that this cannot be done before each.
    fn before_evaluation(&mut self, module: &M) -> Result<(), TchError> {
        module.agree(self.peers.group())
    }

    fn weight(&self, counted: &Tensor) -> Result<Option<Tensor>, TchError> {
        self.peers.weight(counted).map(Some)
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
