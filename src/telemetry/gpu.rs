//! Reads GPUs through NVML, which is loaded at run time.
//!
//! Limits of NVML: power is averaged over one second on recent GPUs (energy is not), utilisation covers NVML's last
//! sampling period, and GPM needs Hopper or newer.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, PcieUtilCounter, TemperatureSensor, TopologyLevel};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::gpm_metrics_get;
use nvml_wrapper::{Device, GpmSample, Nvml};

use super::roots::{Roots, read_text};
use super::visible::Identity;
use crate::plan::LinkKind;
use crate::protocol::GpuSample;

/// NVML, which is opened once and stays open. The error says why it cannot be used and what to do.
pub(super) fn open() -> Result<&'static Nvml, String> {
    static OPENED: OnceLock<Nvml> = OnceLock::new();
    let _alone = alone();
    match OPENED.get() {
        Some(nvml) => Ok(nvml),
        None => Nvml::init().map(|nvml| OPENED.get_or_init(|| nvml)).map_err(|error| reason(&error)),
    }
}

/// Hold this during each use of NVML. By its documentation, several threads may use NVML at the same time. But driver
/// 580.159 once ended the process with a segmentation fault, when two threads may have been reading the same GPU.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn reason(error: &NvmlError) -> String {
    let container = "or, in a container, start it with GPUs (NVIDIA Container Toolkit, `--gpus all`)";
    match error {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
            format!("no NVIDIA driver found (libnvidia-ml.so.1 cannot be opened): install the driver, {container}")
        }
        NvmlError::DriverNotLoaded => {
            format!("the NVIDIA driver is installed but not loaded: load it (`modprobe nvidia`), {container}")
        }
        NvmlError::LibRmVersionMismatch => {
            "the NVIDIA driver's library and kernel module differ in version: restart the machine".to_owned()
        }
        NvmlError::NoPermission => {
            "the NVIDIA driver refuses this user: ask for access to /dev/nvidia* and /dev/nvidiactl".to_owned()
        }
        other => format!("NVML cannot be used ({other}): check whether `nvidia-smi` works"),
    }
}

/// A GPU of the machine, visible to CUDA or not.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub identity: Identity,
    pub name: String,
    pub memory_bytes: u64,
    /// PCI bus id in NVML's form, such as `00000000:1B:00.0`.
    pub bus_id: Option<String>,
    pub mig: bool,
    pub compute_capability: Option<(u32, u32)>,
}

/// All GPUs that this process may open, in PCI bus order.
pub(super) fn list(nvml: &Nvml) -> Result<Vec<Listed>, String> {
    let _alone = alone();
    let count = nvml.device_count().map_err(|error| reason(&error))?;
    Ok((0..count).filter_map(|index| listed(&nvml.device_by_index(index).ok()?).ok()).collect())
}

fn listed(device: &Device<'_>) -> Result<Listed, NvmlError> {
    let mig = device.mig_mode().is_ok_and(|mode| mode.current == 1);
    let instances = if mig { device.mig_device_count().unwrap_or(0) } else { 0 };
    let instance_uuid = |index| device.mig_device_by_index(index).ok()?.uuid().ok();
    Ok(Listed {
        identity: Identity { uuid: device.uuid()?, mig_uuids: (0..instances).filter_map(instance_uuid).collect() },
        name: device.name()?,
        memory_bytes: device.memory_info()?.total,
        bus_id: device.pci_info().ok().map(|info| info.bus_id),
        mig,
        compute_capability: device
            .cuda_compute_capability()
            .ok()
            .and_then(|version| Some((u32::try_from(version.major).ok()?, u32::try_from(version.minor).ok()?))),
    })
}

/// The driver's version: `580.159.04`.
pub(super) fn driver_version(nvml: &Nvml) -> Option<String> {
    let _alone = alone();
    nvml.sys_driver_version().ok()
}

/// The newest CUDA version that the driver supports: `13.0`.
pub(super) fn cuda_version(nvml: &Nvml) -> Option<String> {
    let _alone = alone();
    let version = nvml.sys_cuda_driver_version().ok()?;
    Some(format!("{}.{}", version / 1000, version % 1000 / 10))
}

/// Settings of a GPU; `None` where it does not report them.
#[derive(Clone, Debug, Default)]
pub(super) struct GpuSettings {
    /// The power limit in effect, in watts.
    pub power_limit_w: Option<u32>,
    /// Whether its memory corrects errors.
    pub ecc: Option<bool>,
    pub mig: Option<bool>,
}

/// Reads the settings of a GPU.
pub(super) fn settings(nvml: &Nvml, uuid: &str) -> GpuSettings {
    let _alone = alone();
    let Ok(device) = nvml.device_by_uuid(uuid) else { return GpuSettings::default() };
    GpuSettings {
        power_limit_w: device.enforced_power_limit().ok().map(|milliwatts| milliwatts / 1000),
        ecc: device.is_ecc_enabled().ok().map(|mode| mode.currently_enabled),
        mig: device.mig_mode().ok().map(|mode| mode.current == 1),
    }
}

/// Upper bound of NVLinks per GPU.
const MOST_NVLINKS: u32 = 36;

/// The interconnect between two GPUs; `None` if unknown.
pub(super) fn link(nvml: &Nvml, uuid: &str, other: &str) -> Option<LinkKind> {
    let _alone = alone();
    let (a, b) = (nvml.device_by_uuid(uuid).ok()?, nvml.device_by_uuid(other).ok()?);
    if let Some(links) = nvlinks(&a, &b) {
        return Some(LinkKind::NvLink(links));
    }
    Some(match a.topology_common_ancestor(b).ok()? {
        TopologyLevel::Internal | TopologyLevel::Single => LinkKind::Pix,
        TopologyLevel::Multiple => LinkKind::Pxb,
        TopologyLevel::HostBridge => LinkKind::Phb,
        TopologyLevel::Node => LinkKind::Node,
        TopologyLevel::System => LinkKind::Sys,
    })
}

/// Number of NVLinks between two GPUs: direct ones, or else the smaller number of links to switches, as a switch connects
/// to all GPUs.
fn nvlinks(a: &Device<'_>, b: &Device<'_>) -> Option<u32> {
    let target = b.pci_info().ok()?.bus_id;
    let ends = link_ends(a);
    let straight = ends.iter().filter(|end| **end == target).count();
    let switched = |ends: &[String]| ends.iter().filter(|end| !is_display_device(end)).count();
    let links = if straight > 0 { straight } else { switched(&ends).min(switched(&link_ends(b))) };
    u32::try_from(links).ok().filter(|links| *links > 0)
}

/// PCI bus ids of the remote ends of a GPU's active NVLinks.
fn link_ends(device: &Device<'_>) -> Vec<String> {
    let end = |number| {
        let link = device.link_wrapper_for(number);
        // The wrapper's `remote_device_type` is always "unknown"; the device type comes from sysfs instead.
        link.is_active().unwrap_or(false).then(|| link.remote_pci_info().map(|info| info.bus_id).ok()).flatten()
    };
    (0..MOST_NVLINKS).filter_map(end).collect()
}

/// Whether the device on this bus is a GPU. A switch is a bridge, and usually hidden from containers and guests.
fn is_display_device(bus_id: &str) -> bool {
    let folder = Roots::default().sys.join("bus/pci/devices");
    let class = sysfs_bus_id(bus_id).and_then(|name| read_text(&folder.join(name).join("class")));
    class.is_some_and(|class| class.trim().starts_with("0x03"))
}

/// PCI bus id as in sysfs: `0000:1b:00.0` for NVML's `00000000:1B:00.0`.
pub(super) fn sysfs_bus_id(bus_id: &str) -> Option<String> {
    let (domain, rest) = bus_id.split_once(':')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    Some(format!("{domain:04x}:{}", rest.to_ascii_lowercase()))
}

/// A value that is read until NVML reports that it is not supported.
#[derive(Debug, Default)]
struct Value {
    absent: bool,
}

impl Value {
    fn read<T>(&mut self, call: impl FnOnce() -> Result<T, NvmlError>) -> Option<T> {
        if self.absent {
            return None;
        }
        let result = call();
        self.absent = matches!(
            result,
            Err(NvmlError::NotSupported
                | NvmlError::NoPermission
                | NvmlError::FunctionNotFound
                | NvmlError::FailedToLoadSymbol(_)
                | NvmlError::GpuLost)
        );
        result.ok()
    }
}

/// A process on a GPU as listed by NVML. In a container, its id may be 0 or belong to another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GpuProcess {
    pub pid: u32,
    pub memory_bytes: Option<u64>,
}

/// One reading of a GPU: the values common to all runs, and its processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub sample: GpuSample,
    pub processes: Option<Vec<GpuProcess>>,
}

/// Reads one GPU. For an unknown UUID or without NVML, all values are `None`.
pub(super) struct GpuReader {
    uuid: String,
    device: Option<Device<'static>>,
    memory: Value,
    processes: Value,
    utilisation: Value,
    power: Value,
    energy: Value,
    temperature: Value,
    sm_clock: Value,
    memory_clock: Value,
    throttle: Value,
    pcie: Value,
    gpm: Gpm,
}

impl GpuReader {
    pub fn new(nvml: Option<&'static Nvml>, uuid: &str) -> Self {
        let _alone = alone();
        let device = nvml.and_then(|nvml| nvml.device_by_uuid(uuid).ok());
        let supported = device.as_ref().is_some_and(|device| device.gpm_support().unwrap_or(false));
        Self {
            uuid: uuid.to_owned(),
            device,
            memory: Value::default(),
            processes: Value::default(),
            utilisation: Value::default(),
            power: Value::default(),
            energy: Value::default(),
            temperature: Value::default(),
            sm_clock: Value::default(),
            memory_clock: Value::default(),
            throttle: Value::default(),
            pcie: Value::default(),
            gpm: Gpm { nvml: nvml.filter(|_| supported), value: Value::default(), earlier: VecDeque::new() },
        }
    }

    /// Whether PCIe throughput has to be read with [`Self::read_pcie`], because GPM does not provide it.
    pub fn needs_slow_pcie(&self) -> bool {
        self.device.is_some() && !self.gpm.works() && !self.pcie.absent
    }

    /// Reads all values except slow ones.
    pub fn read(&mut self) -> Reading {
        let mut sample = GpuSample { uuid: self.uuid.clone(), ..GpuSample::default() };
        let Some(device) = &self.device else { return Reading { sample, processes: None } };
        let _alone = alone();
        sample.memory_used_bytes = self.memory.read(|| device.memory_info()).map(|memory| memory.used);
        let utilisation = self.utilisation.read(|| device.utilization_rates());
        sample.busy = utilisation.map(|rates| f64::from(rates.gpu) / 100.0);
        sample.power_w = self.power.read(|| device.power_usage()).map(|mw| f64::from(mw) / 1e3);
        sample.energy_j = self.energy.read(|| device.total_energy_consumption()).map(|mj| mj as f64 / 1e3);
        sample.temperature_c = self.temperature.read(|| device.temperature(TemperatureSensor::Gpu)).map(f64::from);
        sample.sm_clock_mhz = self.sm_clock.read(|| device.clock_info(Clock::SM));
        sample.memory_clock_mhz = self.memory_clock.read(|| device.clock_info(Clock::Memory));
        let throttle = self.throttle.read(|| device.current_throttle_reasons());
        sample.throttle_reasons = throttle.map(throttle_names).unwrap_or_default();
        self.gpm.read(device, &mut sample);
        let processes = self.processes.read(|| device.running_compute_processes());
        let processes = processes.map(|list| list.iter().map(process).collect());
        Reading { sample, processes }
    }

    /// Reads PCIe throughput with NVML's blocking call, which takes 20 ms per direction.
    pub fn read_pcie(&mut self, sample: &mut GpuSample) {
        let Some(device) = &self.device else { return };
        let _alone = alone();
        let mut bytes_per_s = |counter| {
            let kb_per_s = self.pcie.read(|| device.pcie_throughput(counter))?;
            Some(f64::from(kb_per_s) * 1e3)
        };
        sample.pcie_receive_bytes_per_s = bytes_per_s(PcieUtilCounter::Receive);
        sample.pcie_send_bytes_per_s = bytes_per_s(PcieUtilCounter::Send);
    }
}

impl Drop for GpuReader {
    fn drop(&mut self) {
        let _alone = alone();
        self.gpm.earlier.clear();
    }
}

fn process(info: &nvml_wrapper::struct_wrappers::device::ProcessInfo) -> GpuProcess {
    let memory_bytes = match info.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    };
    GpuProcess { pid: info.pid, memory_bytes }
}

/// Reasons for throttling, named as in `nvidia-smi`. Idle GPUs and clocks set by the user do not count.
fn throttle_names(reasons: ThrottleReasons) -> Vec<String> {
    let names = [
        (ThrottleReasons::SW_POWER_CAP, "sw_power_cap"),
        (ThrottleReasons::HW_SLOWDOWN, "hw_slowdown"),
        (ThrottleReasons::SYNC_BOOST, "sync_boost"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw_thermal_slowdown"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw_thermal_slowdown"),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "hw_power_brake_slowdown"),
    ];
    names.iter().filter(|(reason, _)| reasons.contains(*reason)).map(|(_, name)| (*name).to_owned()).collect()
}

/// Least time between two GPM samples for a valid difference.
const GPM_SPAN: Duration = Duration::from_millis(100);

/// GPU performance monitoring: hardware counters as differences of two samples.
struct Gpm {
    nvml: Option<&'static Nvml>,
    value: Value,
    /// Earlier samples, oldest first; only the first may be older than [`GPM_SPAN`].
    earlier: VecDeque<(Instant, GpmSample<'static>)>,
}

impl Gpm {
    fn works(&self) -> bool {
        self.nvml.is_some() && !self.value.absent
    }

    /// Fills in the GPM metrics since the latest sample that is old enough.
    fn read(&mut self, device: &Device<'static>, sample: &mut GpuSample) {
        let Some(nvml) = self.nvml else { return };
        let Some(current) = self.value.read(|| device.gpm_sample()) else {
            self.earlier.clear();
            return;
        };
        let now = Instant::now();
        let old = |(time, _): &(Instant, GpmSample<'static>)| now.saturating_duration_since(*time) > GPM_SPAN;
        while self.earlier.get(1).is_some_and(old) {
            self.earlier.pop_front();
        }
        if let Some((_, first)) = self.earlier.front().filter(|first| old(first)) {
            let ids = [
                GpmMetricId::SmUtil,
                GpmMetricId::AnyTensorUtil,
                GpmMetricId::Fp64Util,
                GpmMetricId::Fp32Util,
                GpmMetricId::Fp16Util,
                GpmMetricId::IntegerUtil,
                GpmMetricId::DramBwUtil,
                GpmMetricId::PcieRxPerSec,
                GpmMetricId::PcieTxPerSec,
                GpmMetricId::NvlinkTotalRxPerSec,
                GpmMetricId::NvlinkTotalTxPerSec,
            ];
            let metrics = self.value.read(|| gpm_metrics_get(nvml, first, &current, &ids)).unwrap_or_default();
            let metric = |index: usize| metrics.get(index)?.as_ref().ok().map(|m| m.value).filter(|v| v.is_finite());
            let share = |index: usize| metric(index).map(|percent| percent / 100.0);
            let bytes_per_s = |index: usize| metric(index).map(|mib_per_s| mib_per_s * f64::from(1 << 20));
            (sample.sm_activity, sample.tensor_activity) = (share(0), share(1));
            (sample.fp64_activity, sample.fp32_activity, sample.fp16_activity) = (share(2), share(3), share(4));
            (sample.int_activity, sample.dram_activity) = (share(5), share(6));
            (sample.pcie_receive_bytes_per_s, sample.pcie_send_bytes_per_s) = (bytes_per_s(7), bytes_per_s(8));
            (sample.nvlink_receive_bytes_per_s, sample.nvlink_send_bytes_per_s) = (bytes_per_s(9), bytes_per_s(10));
        }
        self.earlier.push_back((now, current));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_gpu_and_set_clocks_are_not_throttling() {
        let calm = ThrottleReasons::GPU_IDLE
            | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING
            | ThrottleReasons::DISPLAY_CLOCK_SETTING;
        assert!(throttle_names(calm).is_empty());
        let slow = calm | ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_THERMAL_SLOWDOWN;
        assert_eq!(throttle_names(slow), ["sw_power_cap", "hw_thermal_slowdown"]);
    }

    #[test]
    fn a_value_the_machine_lacks_is_asked_for_once_and_one_that_failed_again() {
        let mut calls = 0;
        let mut value = Value::default();
        for _ in 0..3 {
            value.read(|| -> Result<u32, _> {
                calls += 1;
                Err(NvmlError::NotSupported)
            });
        }
        assert_eq!(calls, 1);
        let mut value = Value::default();
        assert_eq!(value.read(|| -> Result<u32, _> { Err(NvmlError::Timeout) }), None);
        assert_eq!(value.read(|| Ok(7)), Some(7));
    }

    #[test]
    fn without_nvml_a_gpu_has_only_its_uuid() {
        let mut reader = GpuReader::new(None, "GPU-a");
        let reading = reader.read();
        assert_eq!(reading.sample, GpuSample { uuid: "GPU-a".to_owned(), ..GpuSample::default() });
        assert!(reading.processes.is_none() && !reader.needs_slow_pcie());
    }

    #[test]
    #[ignore = "needs a GPU: make test-gpu"]
    fn threads_that_read_at_the_same_time_all_have_values_on_a_gpu() {
        let uuid = &list(open().unwrap()).unwrap()[0].identity.uuid;
        let read = || GpuReader::new(open().ok(), uuid).read().sample;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|_| assert!(read().memory_used_bytes.is_some())));
            }
        });
    }

    #[test]
    #[ignore = "needs a GPU: make test-gpu"]
    fn samples_of_a_hopper_gpu_have_all_activities_on_a_gpu() {
        let nvml = open().unwrap();
        let mut reader = GpuReader::new(Some(nvml), &list(nvml).unwrap()[0].identity.uuid);
        if !reader.gpm.works() {
            return;
        }
        let samples: Vec<GpuSample> = (0..4)
            .map(|_| {
                std::thread::sleep(2 * GPM_SPAN);
                reader.read().sample
            })
            .collect();
        let last = samples.last().unwrap();
        let shares =
            [last.sm_activity, last.tensor_activity, last.fp64_activity, last.fp32_activity, last.fp16_activity];
        let all = shares.into_iter().chain([last.int_activity, last.dram_activity]).collect::<Option<Vec<f64>>>();
        assert!(all.is_some_and(|all| all.iter().all(|share| (0.0..=1.0).contains(share))), "{last:?}");
        assert!(last.pcie_receive_bytes_per_s.is_some(), "{last:?}");
    }

    #[test]
    fn a_missing_driver_has_an_error_with_what_to_do() {
        let reason = reason(&NvmlError::LibraryNotFound);
        assert!(reason.starts_with("no NVIDIA driver found") && reason.contains("install the driver"), "{reason}");
    }
}
