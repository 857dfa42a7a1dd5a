//! The device loader: the bytes of all images live on the device, which gathers, normalises and upsamples them there.
//!
//! The arithmetic is the host loader's: bytes are normalised before they are upsampled, in fp64 for runs in fp64 and otherwise in fp32, and
//! rounded to the run's precision last. Only the order of the images is copied to the device, once an epoch.

use std::time::Instant;

use multicard::plan::image::{ImageSettings, Layout, Precision};
use tch::{Device, Kind, TchError, Tensor};

use super::loader::{Batch, Origin};
use super::samples::{Content, Samples};
use super::schedule::EpochWork;
use super::upsample::CHANNELS;
use super::{PIXEL_DEVIATION, PIXEL_MEAN, run_kind};

/// Number of bytes of an index that is copied to the device.
const INDEX_BYTES: usize = 8;

/// A data set that lives on the device.
pub struct DeviceSource {
    /// Bytes `[images, channels, rows, columns]`, with one channel, or with three that lie side by side in memory.
    pixels: Tensor,
    /// `[images]`, i64.
    labels: Tensor,
    size: i64,
    channels_last: bool,
    /// The type in which pixels are computed, and the type in which the model receives them.
    kinds: (Kind, Kind),
    /// The indices of this epoch's images, on the device.
    order: Option<Tensor>,
}

impl DeviceSource {
    /// Copies a data set to the device.
    pub fn new(samples: &Samples, settings: &ImageSettings, device: Device) -> Result<Self, TchError> {
        let Content::Bytes { shape: [rows, columns, channels], pixels } = &samples.content else {
            return Err(TchError::Torch("loader = device needs decoded images: use data.decode = once".into()));
        };
        let shape = [samples.len(), *rows, *columns, *channels].map(|count| count as i64);
        let pixels = Tensor::f_from_slice(pixels)?.f_reshape(shape)?.f_to_device(device)?.f_permute([0, 3, 1, 2])?;
        let labels: Vec<i64> = samples.labels.iter().copied().map(i64::from).collect();
        let labels = Tensor::f_from_slice(&labels)?.f_to_device(device)?;
        let computed = if settings.precision == Precision::Fp64 { Kind::Double } else { Kind::Float };
        Ok(Self {
            pixels,
            labels,
            size: settings.image_size.max(1),
            channels_last: settings.layout == Layout::Nhwc,
            kinds: (computed, run_kind(settings.precision)),
            order: None,
        })
    }

    /// Copies an epoch's order to the device.
    pub fn begin(&mut self, task: &EpochWork) -> Result<(), String> {
        let order: Vec<i64> = task.order().iter().map(|&index| i64::from(index)).collect();
        let order = Tensor::f_from_slice(&order).and_then(|order| order.f_to_device(self.pixels.device()));
        self.order =
            Some(order.map_err(|error| format!("bringing the order of images to the device failed: {error}"))?);
        Ok(())
    }

    /// Makes a batch on the device. On the CPU it is complete when this returns; on a GPU it is queued.
    pub fn prepare(&mut self, task: &EpochWork, index: usize) -> Result<Batch, String> {
        let asked = Instant::now();
        let indices = task.batch(index).to_vec();
        let count = indices.len();
        let inputs = self.gather(task.start(index), count);
        let inputs = inputs.map_err(|error| format!("making a batch on the device failed: {error}"))?;
        let set_bytes = self.pixels.numel() + self.labels.numel() * Kind::Int64.elt_size_in_bytes();
        Ok(Batch {
            inputs,
            count,
            indices,
            wait_s: asked.elapsed().as_secs_f64(),
            bytes: (count * INDEX_BYTES) as u64,
            received_batches: 1,
            origin: Origin::Resident { device: self.pixels.device(), bytes: set_bytes as u64 },
        })
    }

    fn gather(&self, start: usize, count: usize) -> Result<[Tensor; 2], TchError> {
        let order = self.order.as_ref().ok_or_else(|| TchError::Torch("no epoch has begun".into()))?;
        let indices = order.f_narrow(0, start as i64, count as i64)?;
        let (computed, given) = self.kinds;
        let mut pixels = self.pixels.f_index_select(0, &indices)?.f_to_kind(computed)?;
        let _ = pixels.f_mul_scalar_(1.0 / (255.0 * PIXEL_DEVIATION))?;
        let _ = pixels.f_sub_scalar_(PIXEL_MEAN / PIXEL_DEVIATION)?;
        // Decoded files already have the right size.
        if pixels.size()[2..] != [self.size; 2] {
            pixels = pixels.f_upsample_bilinear2d([self.size; 2], false, None, None)?;
        }

        let (count, size, channels) = (count as i64, self.size, CHANNELS as i64);
        let options = (given, self.pixels.device());
        let mut images = if self.channels_last {
            Tensor::f_empty([count, size, size, channels], options)?.f_permute([0, 3, 1, 2])?
        } else {
            Tensor::f_empty([count, channels, size, size], options)?
        };
        // One kernel turns one channel into three, sets their layout and rounds them.
        images.f_copy_(&pixels.f_expand([count, channels, size, size], false)?)?;
        Ok([images, self.labels.f_index_select(0, &indices)?])
    }
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
