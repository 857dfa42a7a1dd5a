//! The arithmetic of training: types of weights and activations, autocast, loss scaling, TF32 and determinism.

use multicard::plan::{ImageSettings, Precision, Tf32};
use tch::{Device, Kind, TchError, Tensor};

use crate::shim::{Autocast, Flags, LossScale};

/// Below this scale no gradient of use is left: 32 halvings from where a run begins.
const COLLAPSED_SCALE: f64 = 65536.0 / (1u64 << 32) as f64;

/// How one run computes.
pub struct Arithmetic {
    device: Device,
    weights: Kind,
    mixed: Option<Kind>,
    scale: Option<LossScale>,
}

impl Arithmetic {
    /// For a precision on a device.
    pub fn new(precision: Precision, device: Device) -> Result<Self, TchError> {
        let (weights, mixed) = match precision {
            Precision::Fp32 => (Kind::Float, None),
            Precision::Fp64 => (Kind::Double, None),
            Precision::Fp16 => (Kind::Float, Some(Kind::Half)),
            Precision::Bf16 => (Kind::Float, Some(Kind::BFloat16)),
        };
        let scale = (precision == Precision::Fp16).then(|| LossScale::new(device)).transpose()?;
        Ok(Self { device, weights, mixed, scale })
    }

    /// The type of weights, and of images given to the model.
    pub fn weights(&self) -> Kind {
        self.weights
    }

    /// The type in which convolutions compute.
    pub fn convolutions(&self) -> Kind {
        self.mixed.unwrap_or(self.weights)
    }

    /// Loss scaling, where the precision needs it.
    pub fn scale(&self) -> Option<&LossScale> {
        self.scale.as_ref()
    }

    /// The type that autocast casts to, where it does.
    pub fn mixed(&self) -> Option<Kind> {
        self.mixed
    }

    /// Computes a forward pass in the run's precision.
    pub fn forward(&self, pass: impl FnOnce() -> Result<Tensor, TchError>) -> Result<Tensor, TchError> {
        forward(self.device, self.mixed, pass)
    }

    /// Logits as losses want them: half precision would round the loss itself.
    pub fn logits(&self, logits: Tensor) -> Result<Tensor, TchError> {
        if self.mixed.is_some() { logits.f_to_kind(Kind::Float) } else { Ok(logits) }
    }

    /// The updates skipped so far, and whether the scale is still of use. Waits for the device.
    pub fn skipped(&self) -> Result<(u64, bool), TchError> {
        match &self.scale {
            None => Ok((0, true)),
            Some(scale) => scale.read().map(|(scale, skipped)| (skipped, scale > COLLAPSED_SCALE)),
        }
    }
}

/// Computes a forward pass on this thread, under autocast where there is a type for it.
pub fn forward(
    device: Device,
    mixed: Option<Kind>,
    pass: impl FnOnce() -> Result<Tensor, TchError>,
) -> Result<Tensor, TchError> {
    let _autocast = mixed.map(|kind| Autocast::enter(device, kind)).transpose()?;
    pass()
}

/// The process's switches that a cell asks for.
pub fn flags(settings: &ImageSettings) -> Flags {
    Flags {
        // Trying algorithms may choose another one each time.
        cudnn_benchmark: settings.cudnn_benchmark && !settings.deterministic,
        tf32_conv: settings.tf32 != Tf32::Off,
        tf32_matmul: settings.tf32 == Tf32::All,
        deterministic: settings.deterministic,
    }
}
