//! How the work of a step is spread over devices: a strategy is a value that the trainer asks at each pass.
//!
//! [`Single`] is one model; [`Ranks`] is one model a process, with averaged gradients (DistributedDataParallel);
//! [`Replicas`] is one process with a model and a thread a device (DataParallel). Which images a rank sees is decided by its
//! [`crate::image::data::Shard`].

mod peers;
mod proof;
mod ranks;
mod replicas;

use std::rc::Rc;

use multicard::plan::{ImageSettings, Strategy as Level};
use tch::{Device, TchError, Tensor};

pub use peers::{Peers, STORE_VARIABLE, serve_store};
pub use proof::{Coverage, weights};

use crate::image::MobileNetV2;
use crate::image::data::{Deal, Shard};
use crate::precision::Arithmetic;
use crate::trainer::Trainer;
use ranks::Ranks;
use replicas::Replicas;

/// One pass over the network.
pub struct Pass<'a> {
    /// The model of the first device.
    pub model: &'a MobileNetV2,
    /// How it computes.
    pub arithmetic: &'a Arithmetic,
    /// A backward pass follows; otherwise running statistics are used and nothing is dropped out.
    pub train: bool,
}

/// How the work is spread.
pub trait Strategy {
    /// Logits of all images, on the first device.
    fn forward(&mut self, pass: &Pass, images: &Tensor) -> Result<Tensor, TchError>;

    /// After the backward pass: brings the gradients to the first device's model.
    fn after_backward(&mut self, _model: &MobileNetV2) -> Result<(), TchError> {
        Ok(())
    }

    /// Before the first pass of an evaluation.
    fn before_evaluation(&mut self, _model: &MobileNetV2) -> Result<(), TchError> {
        Ok(())
    }

    /// Adds a tensor up over all ranks, in place.
    fn sum(&self, _tensor: &Tensor) -> Result<(), TchError> {
        Ok(())
    }

    /// How many models compute, and how that was seen.
    fn seen(&self) -> Result<(u32, String), TchError>;
}

/// One model.
pub struct Single;

impl Strategy for Single {
    fn forward(&mut self, pass: &Pass, images: &Tensor) -> Result<Tensor, TchError> {
        pass.arithmetic.forward(|| pass.model.forward(images, pass.train))
    }

    fn seen(&self) -> Result<(u32, String), TchError> {
        Ok((1, "one process with one model, no group".into()))
    }
}

/// The cell's strategy for a trainer whose models go to `devices`, beside `peers` where there are other ranks.
///
/// A strategy over one device is the same as none: it forms no group and communicates nothing.
pub fn strategy(
    settings: &ImageSettings,
    trainer: &Trainer,
    devices: &[Device],
    peers: Option<&Rc<Peers>>,
) -> Result<Box<dyn Strategy>, TchError> {
    Ok(match peers {
        Some(peers) => Box::new(Ranks::new(peers, trainer.model(), settings.batch_norm)?),
        None if devices.len() > 1 => Box::new(Replicas::new(settings, trainer.arithmetic(), devices)?),
        None => Box::new(Single),
    })
}

/// What a rank sees of the images.
pub fn shard(settings: &ImageSettings, peers: Option<&Rc<Peers>>) -> Shard {
    let (rank, world_size) = peers.map_or((0, 1), |peers| (peers.rank as usize, peers.world_size as usize));
    let deal = match settings.strategy {
        Level::Ddp => Deal::Repeated,
        Level::DdpRr => Deal::RoundRobin,
        Level::DdpDs | Level::Single | Level::Dp => Deal::Sampled,
    };
    Shard { rank, world_size, deal }
}

#[cfg(test)]
#[path = "parallel_tests.rs"]
mod tests;
