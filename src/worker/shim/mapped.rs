//! Files whose bytes are tensors.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use tch::{Device, Kind, TchError, Tensor};

use super::host::adopt;

/// A file mapped into memory: its pages are read when they are used.
#[derive(Clone)]
pub struct Mapped(Arc<Mmap>);

impl Mapped {
    /// Maps a file. Nobody may change the file while it is mapped.
    pub fn open(path: &Path) -> io::Result<Self> {
        // SAFETY: the file is a checkpoint that is only read. If it is overwritten meanwhile, it gives other numbers; if it is shortened,
        // the process ends.
        Ok(Self(Arc::new(unsafe { Mmap::map(&File::open(path)?) }?)))
    }

    /// A tensor over a range of the file's bytes, without copying them. It must not be written to.
    pub fn tensor(&self, range: Range<usize>, shape: &[i64], kind: Kind) -> Result<Tensor, TchError> {
        let length = shape.iter().product::<i64>() * kind.elt_size_in_bytes() as i64;
        let bytes = self.0.get(range.clone()).filter(|bytes| bytes.len() as i64 == length);
        let bytes = bytes.ok_or_else(|| TchError::Torch(format!("{range:?} is no {kind:?} tensor of {shape:?}")))?;
        let data: *mut c_void = bytes.as_ptr().cast_mut().cast();
        // SAFETY: there are as many bytes as the shape says, and they live as long as the owner.
        unsafe { adopt(data, shape, kind, Device::Cpu, Box::new(self.clone())) }
    }
}
