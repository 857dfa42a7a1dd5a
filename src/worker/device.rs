//! The device of a rank: finding it, and what its memory was used for.

use std::path::Path;

use multicard::plan::CudaState;
use multicard::protocol::{self, Event, FailureKind, RankPlace};
use tch::{Device, TchError};

use crate::report::Stop;
use crate::shim::cuda;

/// What a rank computes on.
#[derive(Clone, Debug)]
pub struct RankDevice {
    /// As libtorch names it.
    pub device: Device,
    /// As the log names it.
    pub described: protocol::Device,
}

/// Whether CUDA can be used by this process. The first thing that is done with libtorch.
pub fn cuda_state() -> CudaState {
    match cuda::open() {
        Ok(()) => CudaState::Available,
        Err(reason) => CudaState::Unavailable { reason },
    }
}

impl RankDevice {
    /// Opens the place's device. A GPU must be the only one that CUDA shows this process.
    pub fn open(place: &RankPlace, memory_limit_bytes: Option<u64>) -> Result<Self, Stop> {
        let Some(asked) = &place.gpu_uuid else {
            let described = protocol::Device { name: "cpu".into(), gpu_uuid: None };
            return Ok(Self { device: Device::Cpu, described });
        };
        cuda::open()
            .map_err(|reason| Stop::failed(FailureKind::Engine, format!("{asked} cannot be used: {reason}")))?;
        let gpu = cuda::gpu_info(0)?;
        if gpu.uuid != *asked {
            let message = format!(
                "rank {} belongs on {asked}, CUDA shows it {} first: CUDA_VISIBLE_DEVICES must name its GPU alone",
                place.rank, gpu.uuid
            );
            return Err(Stop::failed(FailureKind::Input, message));
        }
        cuda::set_device(0)?;
        if let Some(limit) = memory_limit_bytes {
            let fraction = limit as f64 / gpu.memory_bytes.max(1) as f64;
            cuda::set_memory_fraction(0, fraction.min(1.0))?;
        }
        let described = protocol::Device { name: gpu.name, gpu_uuid: Some(gpu.uuid) };
        Ok(Self { device: Device::Cuda(0), described })
    }

    /// Waits until the device has done everything it was told.
    pub fn synchronize(&self) -> Result<(), TchError> {
        if self.device.is_cuda() { cuda::synchronize() } else { Ok(()) }
    }

    /// The peaks of memory since the last call, as an event.
    pub fn memory(&self) -> Result<Event, TchError> {
        if let Device::Cuda(index) = self.device {
            let peaks = cuda::memory_peaks(index, true)?;
            return Ok(Event::Memory {
                peak_allocated_bytes: peaks.allocated_bytes,
                peak_reserved_bytes: peaks.reserved_bytes,
                peak_active_bytes: peaks.active_bytes,
            });
        }
        let peak = peak_resident_bytes().unwrap_or(0);
        // 5 resets the peak; where the kernel refuses, the peak is that of the whole process.
        let _ = std::fs::write(Path::new("/proc/self/clear_refs"), "5");
        Ok(Event::Memory { peak_allocated_bytes: peak, peak_reserved_bytes: peak, peak_active_bytes: peak })
    }
}

fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_has_a_resident_peak() {
        assert!(peak_resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
