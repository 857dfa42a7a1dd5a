//! Reads the environment of a run that is about to start.

use std::collections::BTreeSet;
use std::fs;

use super::gpu::{self, GpuSettings};
use super::roots::{Roots, read_text};
use crate::plan::{Gpu, Node};
use crate::protocol::{Environment, build};

/// The environment of a run on these GPUs of this node, as far as the machine reports it. Takes some milliseconds.
pub fn read_environment(node: &Node, gpus: &[&Gpu]) -> Environment {
    let mut environment = read_host(&Roots::default(), node);
    if gpus.is_empty() {
        environment.set("gpus", Some("none"));
        return environment;
    }
    let names: Vec<String> = gpus.iter().map(|gpu| gpu.name.clone()).collect();
    environment.set("gpus", Some(counted(&names)));
    environment.set("driver", node.driver.clone());
    if let Ok(nvml) = gpu::open() {
        environment.set("cuda_driver", gpu::cuda_version(nvml));
        let settings: Vec<GpuSettings> = gpus.iter().map(|gpu| gpu::settings(nvml, &gpu.uuid)).collect();
        let gpus_fact = |fact: fn(&GpuSettings) -> Option<String>| {
            // A fact that is known only for some of the GPUs is left out.
            settings.iter().map(fact).collect::<Option<Vec<_>>>().map(|values| distinct(&values))
        };
        environment.set("gpu_power_limit_w", gpus_fact(|one| one.power_limit_w.map(|watts| watts.to_string())));
        environment.set("gpu_ecc", gpus_fact(|one| one.ecc.map(|on| on_off(on).to_owned())));
        environment.set("gpu_mig", gpus_fact(|one| one.mig.map(|on| on_off(on).to_owned())));
    }
    environment
}

/// Everything but GPUs.
fn read_host(roots: &Roots, node: &Node) -> Environment {
    let mut environment = Environment::default();
    let system = node.system.split_once(", Linux ").map_or(&*node.system, |(system, _)| system);
    let kernel = read_text(&roots.proc.join("sys/kernel/osrelease")).map(|text| text.trim().to_owned());
    environment.set("hostname", Some(&node.hostname));
    environment.set("system", Some(system));
    environment.set("kernel", kernel);
    environment.set("cpu_model", Some(&node.cpu_model));
    environment.set("cpus", Some(node.cpus.to_string()));
    environment.set("cpu_governor", governors(roots));
    if let Ok(worker) = &node.worker {
        environment.set("libtorch", Some(&worker.torch_version));
        environment.set("cuda_runtime", worker.versions.cuda_runtime.clone());
        environment.set("cudnn", worker.versions.cudnn.clone());
        environment.set("nccl", worker.versions.nccl.clone());
        environment.set("worker_build", worker.versions.build.clone());
    }
    environment.set("multicard", Some(env!("CARGO_PKG_VERSION")));
    environment.set("multicard_build", build());
    environment
}

/// The frequency governors of the CPUs, each once; `None` if the kernel offers no choice, as in virtual machines.
fn governors(roots: &Roots) -> Option<String> {
    let cpus = fs::read_dir(roots.sys.join("devices/system/cpu")).ok()?;
    let governor = |entry: fs::DirEntry| {
        let is_cpu = entry.file_name().to_str()?.strip_prefix("cpu")?.parse::<u32>().is_ok();
        is_cpu.then(|| read_text(&entry.path().join("cpufreq/scaling_governor"))).flatten()
    };
    let governors: Vec<String> = cpus.flatten().filter_map(governor).map(|text| text.trim().to_owned()).collect();
    (!governors.is_empty()).then(|| distinct(&governors))
}

/// Each value once: `700` or `500, 700`.
fn distinct(values: &[String]) -> String {
    values.iter().map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
}

/// Each value once with its count: `4 × NVIDIA H100 80GB HBM3`.
fn counted(values: &[String]) -> String {
    let count = |value: &str| values.iter().filter(|other| *other == value).count();
    let each = values.iter().map(String::as_str).collect::<BTreeSet<_>>();
    each.into_iter().map(|value| format!("{} × {value}", count(value))).collect::<Vec<_>>().join(", ")
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::fixture;
    use crate::telemetry::roots::write;

    #[test]
    fn the_host_is_read_as_far_as_it_tells() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        write(folder.path(), "proc/sys/kernel/osrelease", "6.1.0-28-amd64\n");
        let bare = read_host(&roots, &fixture::cpu_node());
        assert_eq!((bare.get("kernel"), bare.get("cpu_governor")), (Some("6.1.0-28-amd64"), None));
        for (cpu, governor) in [("cpu0", "powersave"), ("cpu1", "performance"), ("cpu10", "powersave")] {
            write(folder.path(), &format!("sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor"), governor);
        }
        write(folder.path(), "sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "ondemand");
        let environment = read_host(&roots, &fixture::cpu_node());
        assert_eq!(environment.get("cpu_governor"), Some("performance, powersave"));
        assert_eq!(environment.get("multicard"), Some(env!("CARGO_PKG_VERSION")));
        assert!(environment.get("libtorch").is_some() && environment.get("cudnn").is_none());
    }

    #[test]
    fn a_run_on_cpus_has_no_gpus_and_no_driver() {
        let environment = read_environment(&fixture::cpu_node(), &[]);
        assert_eq!((environment.get("gpus"), environment.get("driver")), (Some("none"), None));
    }

    #[test]
    fn values_of_several_gpus_are_told_once() {
        let text = |values: &[&str]| values.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(distinct(&text(&["700", "500", "700"])), "500, 700");
        assert_eq!(counted(&text(&["H100", "H100", "A100"])), "1 × A100, 2 × H100");
    }
}
