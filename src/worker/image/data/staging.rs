//! Buffers on the host in which batches wait for the device, and the copies from there to the device.

use std::sync::Arc;

use tch::{Device, Kind, TchError, Tensor};

use super::upsample::{CHANNELS, Pixel};
use super::{PIXEL_DEVIATION, PIXEL_MEAN};
use crate::shim;

/// Tells when a non-blocking copy has finished reading its buffer: an event of the device.
pub trait CopyFence {
    /// Marks the work that the current stream was given until now; called by the trainer's thread.
    fn record(&self) -> Result<(), String>;
    /// Waits until the marked work is done, or returns immediately if nothing was marked; called by a loader's thread.
    fn wait(&self) -> Result<(), String>;
}

/// Makes a fence for the current device; `None` if the device has no events.
pub type NewFence = fn() -> Option<Box<dyn CopyFence + Send>>;

/// For devices without events: every copy blocks.
#[cfg(test)]
pub fn no_fence() -> Option<Box<dyn CopyFence + Send>> {
    None
}

/// The form of a loader's batches, and the device to which they go.
#[derive(Clone, Debug)]
pub struct Format {
    /// Number of images in a full batch.
    pub batch_size: usize,
    /// Width and height, in pixels.
    pub size: usize,
    /// Whether images are laid out with channels last; otherwise they are contiguous.
    pub channels_last: bool,
    /// The type in which images are copied.
    pub wire: Kind,
    /// The type that the model receives.
    pub model: Kind,
    /// Whether buffers are page-locked.
    pub pinned: bool,
    /// The device that holds the model.
    pub device: Device,
}

/// The tensors of one batch on the host.
struct Tensors {
    /// `[batch, 3, size, size]`, or `[batch, size, size, 3]` with channels last; contiguous.
    images: Tensor,
    /// `[batch]`, i64.
    labels: Tensor,
    /// Whether the images are page-locked, as libtorch sees it.
    pinned: bool,
}

/// Buffers for one batch on the host. A slot circulates between a loader's thread, which fills it, and the trainer's thread, which sends
/// its content to the device.
pub struct Slot {
    format: Arc<Format>,
    tensors: Option<Tensors>,
    fence: Option<Box<dyn CopyFence + Send>>,
}

impl Slot {
    /// An empty slot. Its memory is allocated by the thread that first fills it.
    pub fn new(format: &Arc<Format>, new_fence: NewFence) -> Self {
        let fence = if format.pinned { new_fence() } else { None };
        Self { format: Arc::clone(format), tensors: None, fence }
    }

    /// Room for the pixels and labels of a full batch, as soon as an earlier copy has finished reading it.
    pub fn room<P: Pixel>(&mut self) -> Result<(&mut [P], &mut [i64]), String> {
        if let Some(fence) = &self.fence {
            fence.wait()?;
        }
        let format = Arc::clone(&self.format);
        let tensors = match &mut self.tensors {
            Some(tensors) => tensors,
            empty => empty.insert(Tensors::new(&format).map_err(|error| {
                let kind = if format.pinned { "page-locked " } else { "" };
                format!("taking {kind}memory for a batch failed: {error}")
            })?),
        };
        Ok((elements(&mut tensors.images, P::KIND)?, elements(&mut tensors.labels, Kind::Int64)?))
    }

    /// Whether its memory is page-locked.
    pub fn is_pinned(&self) -> bool {
        self.tensors.as_ref().is_some_and(|tensors| tensors.pinned)
    }

    /// Sends the first `count` images and labels to the device and returns them in the form that the model needs: `[count, 3, size, size]`
    /// and `[count]`. The slot may then be returned and filled again immediately.
    pub fn send(&mut self, count: usize) -> Result<[Tensor; 2], String> {
        let tensors = self.tensors.as_ref().ok_or("a batch was sent before it was filled")?;
        let _range = shim::NvtxRange::new(c"copy");
        let failed = |error: TchError| format!("copying a batch to the device failed: {error}");
        // Without a fence nothing would tell when the buffer may be filled again, so the copy blocks.
        let (images, labels) = tensors.copy(count as i64, &self.format, self.fence.is_some()).map_err(failed)?;
        if let Some(fence) = &self.fence {
            fence.record()?;
        }
        if self.format.device == Device::Cpu {
            // Nothing was copied: the batch keeps this memory, and the slot will allocate new memory.
            self.tensors = None;
        }
        Ok([self.format.present(images).map_err(failed)?, labels])
    }
}

impl Format {
    /// The copied images, in the form that the model needs.
    fn present(&self, images: Tensor) -> Result<Tensor, TchError> {
        let images = if self.channels_last { images.f_permute([0, 3, 1, 2])? } else { images };
        let mut images = images.f_to_kind(self.model)?;
        if self.wire == Kind::Uint8 {
            let _ = images.f_mul_scalar_(1.0 / (255.0 * PIXEL_DEVIATION))?;
            let _ = images.f_sub_scalar_(PIXEL_MEAN / PIXEL_DEVIATION)?;
        }
        Ok(images)
    }
}

impl Tensors {
    fn new(format: &Format) -> Result<Self, TchError> {
        let [batch, channels, size] = [format.batch_size, CHANNELS, format.size].map(|count| count as i64);
        let shape = if format.channels_last { [batch, size, size, channels] } else { [batch, channels, size, size] };
        let empty = |shape: &[i64], kind| {
            if format.pinned { shim::pinned_empty(shape, kind) } else { Tensor::f_empty(shape, (kind, Device::Cpu)) }
        };
        let (images, labels) = (empty(&shape, format.wire)?, empty(&[batch], Kind::Int64)?);
        let pinned = format.pinned && shim::is_pinned(&images)?;
        Ok(Self { images, labels, pinned })
    }

    /// The first `count` images and labels on the device; if that is the host, this is the same memory.
    fn copy(&self, count: i64, format: &Format, non_blocking: bool) -> Result<(Tensor, Tensor), TchError> {
        let to_device = |tensor: &Tensor| {
            tensor.f_narrow(0, 0, count)?.f_to_device_(format.device, tensor.kind(), non_blocking, false)
        };
        Ok((to_device(&self.images)?, to_device(&self.labels)?))
    }
}

/// The elements of a contiguous tensor on the host. Its type must be `kind` and as wide as `T`.
fn elements<T: Copy>(tensor: &mut Tensor, kind: Kind) -> Result<&mut [T], String> {
    let fits = tensor.kind() == kind && kind.elt_size_in_bytes() == size_of::<T>();
    if !fits || tensor.device() != Device::Cpu || !tensor.is_contiguous() {
        return Err(format!("a buffer of {:?} was used as one of {kind:?}", tensor.kind()));
    }
    // SAFETY: the tensor is contiguous, on the host, and its elements are as wide as `T`, a number for which all bit patterns are valid and
    // whose alignment libtorch's allocators exceed. So the slice is exactly the tensor's memory, which it owns for as long as the borrow
    // lasts. Nothing else reads or writes that memory meanwhile: a tensor that shares it lives only in `send`, non-blocking copies were
    // waited for in `room`, and on the CPU the memory has left the slot.
    #[allow(unsafe_code)]
    Ok(unsafe { std::slice::from_raw_parts_mut(tensor.data_ptr().cast::<T>(), tensor.numel()) })
}
