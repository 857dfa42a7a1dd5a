//! How much other programs use the machine while no run of multicard is active on it.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::gpu_use::signs_of_use;
use super::sampler::Sampler;
use super::ticker::Watch;
use crate::plan::{Node, counted};
use crate::protocol::Sample;

/// The number and the share of CPUs from which on the use by other programs is reported.
const BUSY_CPUS: f64 = 0.5;
const BUSY_SHARE: f64 = 0.1;
/// The time over which [`use_now`] looks at CPUs.
const LOOK: Duration = Duration::from_millis(250);
/// Rates are known from the second sample on.
const SAMPLES: usize = 3;

/// The use of a machine by other programs according to a sample, in words; `None` if there is none or if it is unknown.
pub fn use_by_programs(node: &Node, sample: &Sample) -> Option<String> {
    let cpus = f64::from(node.cpus);
    let busy = sample.host.cpus_busy.filter(|busy| *busy >= BUSY_CPUS.max(BUSY_SHARE * cpus));
    let busy = busy.map(|busy| format!("{busy:.1} of {} busy", counted(node.cpus, "CPU")));
    let gpus = sample.gpus.iter().filter_map(|gpu| {
        let signs = signs_of_use(gpu)?;
        let index = node.gpus.iter().find(|known| known.uuid == gpu.uuid)?.index;
        Some(format!("GPU {index} is used by other programs ({signs})"))
    });
    let signs: Vec<String> = busy.into_iter().chain(gpus).collect();
    (!signs.is_empty()).then(|| format!("other programs use this machine: {}", signs.join(", ")))
}

/// The present use of this machine by other programs, in words; `None` if there is none or if it is unknown. Sampling takes a quarter of a
/// second.
pub fn use_now(node: &Node) -> Option<String> {
    let (sink, samples) = sync_channel(SAMPLES);
    let sampler = Sampler::start(LOOK, sink).ok()?;
    let gpu_uuids = node.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
    sampler.watch(Watch { gpu_uuids, ..Watch::default() });
    let next = |_| samples.recv_timeout(4 * LOOK).ok().map(|(_, sample)| sample);
    let sample = (0..SAMPLES).filter_map(next).find(|sample| sample.host.cpus_busy.is_some())?;
    use_by_programs(node, &sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixture::cpu_node;
    use crate::protocol::HostSample;

    #[test]
    fn busy_cpus_are_told_from_half_a_cpu_and_a_tenth_of_all_on() {
        let use_of = |cpus: u32, busy: Option<f64>| {
            let host = HostSample { cpus_busy: busy, ..HostSample::default() };
            use_by_programs(&Node { cpus, ..cpu_node() }, &Sample { host, ..Sample::default() })
        };
        let text = "other programs use this machine: 1.5 of 4 CPUs busy";
        assert_eq!(use_of(4, Some(1.5)).as_deref(), Some(text));
        assert_eq!((use_of(4, Some(0.4)), use_of(64, Some(6.0)), use_of(4, None)), (None, None, None));
        assert!(use_of(64, Some(7.0)).is_some());
    }
}
