//! The device of a rank and its peak memory.

use std::path::Path;

use multicard::plan::CudaState;
use multicard::protocol::{self, FailureKind, Job, RankPlace};
use tch::{Device, TchError};

use crate::report::Stop;
use crate::shim::cuda;

/// The device or devices of a rank.
#[derive(Clone, Debug)]
pub struct RankDevice {
    /// The device, or the first one if there are several.
    pub device: Device,
    /// All devices; each holds one model.
    pub devices: Vec<Device>,
    /// How the log names the device.
    pub described: protocol::Device,
}

/// Whether this process can use CUDA. This must be the first use of libtorch.
pub fn cuda_state() -> CudaState {
    match cuda::open() {
        Ok(()) => CudaState::Available,
        Err(reason) => CudaState::Unavailable { reason },
    }
}

/// Stands for the UUID in messages about a GPU that the scheduler should have assigned.
const NOT_ASSIGNED: &str = "the GPU that Slurm should assign";

/// The place of a rank with the GPUs that a site's scheduler assigned to it. These are the GPUs that CUDA shows this
/// process; the place in the job names none.
pub fn assigned(job: &Job, place: &RankPlace) -> RankPlace {
    if !job.site.as_ref().is_some_and(|site| site.assigns_gpus(&job.shape)) {
        return place.clone();
    }
    let uuid = |index| cuda::open().ok().and_then(|()| cuda::gpu_info(index).ok()).map(|gpu| gpu.uuid);
    let mut uuids =
        (0..job.shape.devices_per_process as usize).map(|index| uuid(index).unwrap_or_else(|| NOT_ASSIGNED.into()));
    RankPlace { gpu_uuid: uuids.next(), more_gpu_uuids: uuids.collect(), ..place.clone() }
}

impl RankDevice {
    /// Opens the device of this place, or all of its devices. CUDA must show this process only its own GPUs, in the order of the place. On
    /// a CPU, the same device is used for each of the `models`.
    pub fn open(place: &RankPlace, models: usize, memory_limit_bytes: Option<u64>) -> Result<Self, Stop> {
        let Some(first) = &place.gpu_uuid else {
            let described = protocol::Device { name: "cpu".into(), gpu_uuid: None };
            return Ok(Self { device: Device::Cpu, devices: vec![Device::Cpu; models], described });
        };
        cuda::open()
            .map_err(|reason| Stop::failed(FailureKind::Engine, format!("{first} cannot be used: {reason}")))?;
        for (index, asked) in place.gpu_uuids().enumerate() {
            open_gpu(place.rank, index, asked, memory_limit_bytes)?;
        }
        cuda::set_device(0)?;
        let gpu = cuda::gpu_info(0)?;
        let described = protocol::Device { name: gpu.name, gpu_uuid: Some(gpu.uuid) };
        let devices = place.gpu_uuids().enumerate().map(|(index, _)| Device::Cuda(index)).collect();
        Ok(Self { device: Device::Cuda(0), devices, described })
    }

    /// Waits for all work launched on the device.
    pub fn synchronize(&self) -> Result<(), TchError> {
        if self.device.is_cuda() { cuda::synchronize() } else { Ok(()) }
    }

    /// The peaks of memory since the last call, as readings of the fullest device. The peak during the warm-up is a separate reading,
    /// because libraries then try algorithms that need memory of their own.
    pub fn memory(&self, warm_up: bool) -> Result<Vec<(&'static str, f64)>, TchError> {
        let [allocated, reserved, active] = self.peaks()?.map(|bytes| bytes as f64);
        Ok(if warm_up {
            vec![("warm_up_peak_bytes", allocated)]
        } else {
            vec![("peak_allocated_bytes", allocated), ("peak_reserved_bytes", reserved), ("peak_active_bytes", active)]
        })
    }

    /// Peak of allocated bytes since the last call.
    pub fn allocated(&self) -> Result<u64, TchError> {
        Ok(self.peaks()?[0])
    }

    /// Peaks of allocated, reserved and active bytes since the last call. On the CPU, all three are the resident memory of the process.
    fn peaks(&self) -> Result<[u64; 3], TchError> {
        if self.device.is_cuda() {
            let peaks = (0..self.devices.len()).map(|index| cuda::memory_peaks(index, true));
            let peaks = peaks.collect::<Result<Vec<_>, _>>()?;
            // The fullest device decides whether the run fits.
            let most = |peak_of: fn(&cuda::MemoryPeaks) -> u64| peaks.iter().map(peak_of).max().unwrap_or(0);
            return Ok([
                most(|peaks| peaks.allocated_bytes),
                most(|peaks| peaks.reserved_bytes),
                most(|peaks| peaks.active_bytes),
            ]);
        }
        let peak = peak_resident_bytes().unwrap_or(0);
        // Writing 5 resets the peak; if the kernel refuses, the value is the peak of the process's whole life.
        let _ = std::fs::write(Path::new("/proc/self/clear_refs"), "5");
        Ok([peak; 3])
    }
}

fn open_gpu(rank: u32, index: usize, asked: &str, memory_limit_bytes: Option<u64>) -> Result<(), Stop> {
    let gpu = cuda::gpu_info(index)?;
    if gpu.uuid != asked {
        let message = format!(
            "GPU {index} of rank {rank} should be {asked}, CUDA shows it {}: CUDA_VISIBLE_DEVICES must name its GPUs alone",
            gpu.uuid
        );
        return Err(Stop::failed(FailureKind::Input, message));
    }
    cuda::set_device(index)?;
    if let Some(limit) = memory_limit_bytes {
        let fraction = limit as f64 / gpu.memory_bytes.max(1) as f64;
        cuda::set_memory_fraction(index, fraction.min(1.0))?;
    }
    Ok(())
}

fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs a GPU: make test-gpu"]
    fn memory_on_a_gpu_is_held_to_the_limit() {
        const GIBIBYTE: i64 = 1 << 30;
        cuda::open().unwrap();
        let gpu = cuda::gpu_info(0).unwrap();
        open_gpu(0, 0, &gpu.uuid, Some(8 * GIBIBYTE as u64)).unwrap();
        let bytes = |count| tch::Tensor::f_zeros([count], (tch::Kind::Uint8, Device::Cuda(0)));
        let (within, beyond) = (bytes(GIBIBYTE), bytes(12 * GIBIBYTE));
        // Other tests of this process have all of it.
        cuda::set_memory_fraction(0, 1.0).unwrap();
        assert!(within.is_ok());
        assert!(beyond.unwrap_err().to_string().contains("out of memory"));
    }

    #[test]
    fn the_process_has_a_resident_peak() {
        assert!(peak_resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
