//! The arithmetic of training: types of weights and activations, autocast and loss scaling.

use tch::{Device, Kind, TchError, Tensor};

use crate::shim::{Autocast, LossScale};

/// Minimum loss scale, 32 halvings below the initial one: smaller scales leave no useful gradients.
const COLLAPSED_SCALE: f64 = 65536.0 / (1u64 << 32) as f64;

/// The arithmetic of a run.
pub struct Arithmetic {
    device: Device,
    weights: Kind,
    mixed: Option<Kind>,
    scale: Option<LossScale>,
}

impl Arithmetic {
    /// Arithmetic with this type of weights, autocast to the type `mixed` if given, and loss scaling if `scaled`.
    pub fn new(device: Device, weights: Kind, mixed: Option<Kind>, scaled: bool) -> Result<Self, TchError> {
        let scale = scaled.then(|| LossScale::new(device)).transpose()?;
        Ok(Self { device, weights, mixed, scale })
    }

    /// The type of weights.
    pub fn weights(&self) -> Kind {
        self.weights
    }

    /// The type in which convolutions and matrix products compute.
    pub fn products(&self) -> Kind {
        self.mixed.unwrap_or(self.weights)
    }

    /// Loss scaling, if the precision needs it.
    pub fn scale(&self) -> Option<&LossScale> {
        self.scale.as_ref()
    }

    /// The type of autocast, if used.
    pub fn mixed(&self) -> Option<Kind> {
        self.mixed
    }

    /// Computes a forward pass in the run's precision.
    pub fn forward(&self, pass: impl FnOnce() -> Result<Tensor, TchError>) -> Result<Tensor, TchError> {
        forward(self.device, self.mixed, pass)
    }

    /// The type of losses: at least single precision.
    pub fn losses(&self) -> Kind {
        if self.weights == Kind::Double { Kind::Double } else { Kind::Float }
    }

    /// Updates skipped so far, and whether the scale is still useful. Waits for the device.
    pub fn skipped(&self) -> Result<(u64, bool), TchError> {
        match &self.scale {
            None => Ok((0, true)),
            Some(scale) => scale.read().map(|(scale, skipped)| (skipped, scale > COLLAPSED_SCALE)),
        }
    }
}

/// Computes a forward pass on this thread, under autocast if a type is given.
pub fn forward(
    device: Device,
    mixed: Option<Kind>,
    pass: impl FnOnce() -> Result<Tensor, TchError>,
) -> Result<Tensor, TchError> {
    let _autocast = mixed.map(|kind| Autocast::enter(device, kind)).transpose()?;
    pass()
}
