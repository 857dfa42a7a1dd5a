//! Samples: the state of the machine at one moment. A value the machine does not report is `None`, never 0.

use serde::{Deserialize, Serialize};

use super::possible::{check_amount, check_duration, check_moment};

/// Sample of one GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuSample {
    /// UUID.
    pub uuid: String,
    /// Memory in use by all processes (NVML).
    pub memory_used_bytes: Option<u64>,
    /// Memory in use by the run's own ranks, which are recognised by their process ids.
    pub ranks_memory_bytes: Option<u64>,
    /// Number of processes on this GPU that do not belong to the run.
    pub foreign_processes: Option<u32>,
    /// Share of time in which a kernel ran, from 0 to 1 (NVML's "utilisation").
    pub busy: Option<f64>,
    /// Share of multiprocessor cycles with a warp on them, from 0 to 1 (GPM).
    pub sm_activity: Option<f64>,
    /// Share of cycles in which tensor cores worked, from 0 to 1 (GPM).
    pub tensor_activity: Option<f64>,
    /// Share of cycles in which the FP64 pipe worked, from 0 to 1 (GPM).
    pub fp64_activity: Option<f64>,
    /// Share of cycles in which the FP32 pipe worked, from 0 to 1 (GPM).
    pub fp32_activity: Option<f64>,
    /// Share of cycles in which the FP16 pipe worked, not counting tensor cores, from 0 to 1 (GPM).
    pub fp16_activity: Option<f64>,
    /// Share of cycles in which the integer pipe worked, from 0 to 1 (GPM).
    pub int_activity: Option<f64>,
    /// Share of the memory's bandwidth in use, from 0 to 1 (GPM).
    pub dram_activity: Option<f64>,
    /// Power drawn.
    pub power_w: Option<f64>,
    /// Energy since the driver was loaded.
    pub energy_j: Option<f64>,
    /// Temperature of the chip.
    pub temperature_c: Option<f64>,
    /// Clock of the multiprocessors.
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory.
    pub memory_clock_mhz: Option<u32>,
    /// NVML's names of the reasons why clocks are reduced; empty if clocks are not reduced.
    pub throttle_reasons: Vec<String>,
    /// Bytes received over PCIe per second.
    pub pcie_receive_bytes_per_s: Option<f64>,
    /// Bytes sent over PCIe per second.
    pub pcie_send_bytes_per_s: Option<f64>,
    /// Bytes received over all NVLinks per second (GPM).
    pub nvlink_receive_bytes_per_s: Option<f64>,
    /// Bytes sent over all NVLinks per second (GPM).
    pub nvlink_send_bytes_per_s: Option<f64>,
}

/// NVML's names of the reasons why clocks are reduced, in words: `the power limit`. Other names stay as they are.
pub fn throttle_words(reasons: &[String]) -> String {
    let words = |reason: &String| match reason.as_str() {
        "sw_power_cap" => "the power limit".to_owned(),
        "hw_slowdown" => "a slowdown of the hardware".to_owned(),
        "sync_boost" => "sync boost".to_owned(),
        "sw_thermal_slowdown" => "the temperature limit".to_owned(),
        "hw_thermal_slowdown" => "the temperature limit of the hardware".to_owned(),
        "hw_power_brake_slowdown" => "the power brake".to_owned(),
        _ => reason.clone(),
    };
    reasons.iter().map(words).collect::<Vec<_>>().join(", ")
}

/// Sample of one rank's process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankSample {
    /// The rank.
    pub rank: u32,
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    /// CPUs kept busy since the previous sample with this value; 1.0 is one whole CPU.
    pub cpus_busy: Option<f64>,
}

/// Sample of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSample {
    /// CPUs of the machine.
    pub cpus: Option<u32>,
    /// CPUs kept busy by all processes since the previous sample with this value.
    pub cpus_busy: Option<f64>,
    /// CPUs that a hypervisor gave to other machines since the previous sample with this value.
    pub stolen_cpus: Option<f64>,
    /// Tasks that run or wait for a CPU.
    pub runnable: Option<u32>,
    /// Memory in use by all processes.
    pub memory_used_bytes: Option<u64>,
    /// Bytes read from disks per second.
    pub disk_read_bytes_per_s: Option<f64>,
    /// Bytes written to disks per second.
    pub disk_write_bytes_per_s: Option<f64>,
}

/// Sample of the host, ranks and GPUs at one moment: one line of `samples.jsonl`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the Unix epoch.
    pub time_s: f64,
    /// Duration of the gap in sampling before this sample, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hole_s: Option<f64>,
    /// The host.
    pub host: HostSample,
    /// The run's ranks.
    pub ranks: Vec<RankSample>,
    /// The run's GPUs.
    pub gpus: Vec<GpuSample>,
}

/// The name of the file in the run's folder into which a node of a site writes its samples while the run is executed. `node` is the node's
/// number in the run. The session joins the samples of all nodes to `samples.jsonl`.
pub fn samples_of_node(node: u32) -> String {
    format!("samples-{node}.jsonl")
}

/// Earlier versions divided clock ticks, which come in steps, by a time that was read at another moment. Rates up to this share above the
/// number of CPUs come from these steps; larger ones say nothing.
const MOST_CPUS_SHARE: f64 = 1.25;

/// Parses one line of `samples.jsonl`, given without its line break. More busy CPUs than the machine has, which earlier versions recorded,
/// are left out.
///
/// # Errors
/// The line is not a sample, or holds a value that no machine reports.
pub fn read_sample_line(line: &[u8]) -> Result<Sample, String> {
    let mut sample: Sample = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    check_sample(&sample)?;
    if let Some(cpus) = sample.host.cpus.map(f64::from) {
        let ranks = sample.ranks.iter_mut().map(|rank| &mut rank.cpus_busy);
        for value in [&mut sample.host.cpus_busy, &mut sample.host.stolen_cpus].into_iter().chain(ranks) {
            *value = value.filter(|value| *value <= MOST_CPUS_SHARE * cpus);
        }
    }
    Ok(sample)
}

/// Rejects a sample with a value that no machine reports.
///
/// # Errors
/// The name and the value.
pub fn check_sample(sample: &Sample) -> Result<(), String> {
    check_moment(sample.time_s)?;
    sample.hole_s.map_or(Ok(()), |hole_s| check_duration("hole_s", hole_s))?;
    let host = &sample.host;
    for (name, value) in [
        ("cpus_busy", host.cpus_busy),
        ("stolen_cpus", host.stolen_cpus),
        ("disk_read_bytes_per_s", host.disk_read_bytes_per_s),
        ("disk_write_bytes_per_s", host.disk_write_bytes_per_s),
    ] {
        check_amount(name, value)?;
    }
    sample.ranks.iter().try_for_each(|rank| check_amount("cpus_busy", rank.cpus_busy))?;
    for gpu in &sample.gpus {
        for (name, value) in [
            ("busy", gpu.busy),
            ("sm_activity", gpu.sm_activity),
            ("tensor_activity", gpu.tensor_activity),
            ("fp64_activity", gpu.fp64_activity),
            ("fp32_activity", gpu.fp32_activity),
            ("fp16_activity", gpu.fp16_activity),
            ("int_activity", gpu.int_activity),
            ("dram_activity", gpu.dram_activity),
            ("power_w", gpu.power_w),
            ("energy_j", gpu.energy_j),
            ("pcie_receive_bytes_per_s", gpu.pcie_receive_bytes_per_s),
            ("pcie_send_bytes_per_s", gpu.pcie_send_bytes_per_s),
            ("nvlink_receive_bytes_per_s", gpu.nvlink_receive_bytes_per_s),
            ("nvlink_send_bytes_per_s", gpu.nvlink_send_bytes_per_s),
        ] {
            check_amount(name, value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn more_busy_cpus_than_a_machine_has_are_left_out_on_reading() {
        let busy = |cpus: &str, busy: f64| {
            let line = format!(
                "{{\"time_s\":1.0,\"host\":{{{cpus}\"cpus_busy\":{busy:?},\"stolen_cpus\":0.5}},\"gpus\":[],\
                 \"ranks\":[{{\"rank\":0,\"cpus_busy\":{busy:?}}}]}}"
            );
            let sample = read_sample_line(line.as_bytes()).unwrap();
            assert_eq!(sample.host.stolen_cpus, Some(0.5));
            (sample.host.cpus_busy, sample.ranks[0].cpus_busy)
        };
        assert_eq!(busy("\"cpus\":2,", 1834.0), (None, None));
        assert_eq!(busy("\"cpus\":2,", 2.05), (Some(2.05), Some(2.05)));
        assert_eq!(busy("", 1834.0), (Some(1834.0), Some(1834.0)), "the number of CPUs is unknown");
    }
}
