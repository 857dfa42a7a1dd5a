//! The environment of a run: versions of software, and settings of the machine and its GPUs, as they were when it started.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::plan::Key;

/// The name of the file in a run's folder in which a site's node describes its environment.
pub const ENVIRONMENT_FILE: &str = "environment.json";

/// The fact about what differs between the nodes of a run.
pub const DIFFERENCES: &str = "node_differences";

/// The fact that names the file from which a run was imported, and the file's format.
pub const IMPORTED_FROM: &str = "imported_from";

/// The fact that tells when a program's commit was made, by git.
pub const COMMIT_TIME: &str = "program_git_time";

/// The name of the file in which one of a run's nodes describes its environment.
pub fn environment_file_of(node: u32) -> String {
    format!("environment-{node}.json")
}

static BUILD: OnceLock<&'static str> = OnceLock::new();

/// The git commit that this program was built from, with `-dirty` if files differed from it. `None` for builds without `make`.
pub fn build() -> Option<&'static str> {
    BUILD.get().copied()
}

/// Sets the program's git commit; to be called first. The commit is compiled into the programs and not into this library, which would
/// otherwise be compiled again with each commit.
pub fn set_build(commit: Option<&'static str>) {
    if let Some(commit) = commit {
        // Only the first call has an effect.
        let _ = BUILD.set(commit);
    }
}

/// The known facts, in the order in which they are shown: key and name.
const FACTS: [(&str, &str); 27] = [
    ("hostname", "Machine"),
    (DIFFERENCES, "Differs between nodes"),
    ("system", "System"),
    ("kernel", "Linux kernel"),
    ("cpu_model", "Processor"),
    ("cpus", "Usable CPUs"),
    ("cpu_governor", "CPU governor"),
    ("gpus", "GPUs of the run"),
    ("gpu_power_limit_w", "GPU power limit, W"),
    ("gpu_ecc", "GPU memory ECC"),
    ("gpu_mig", "GPU MIG mode"),
    ("driver", "NVIDIA driver"),
    ("cuda_driver", "CUDA of the driver"),
    ("cuda_runtime", "CUDA runtime"),
    ("cudnn", "cuDNN"),
    ("nccl", "NCCL"),
    ("libtorch", "libtorch"),
    ("multicard", "multicard"),
    ("multicard_build", "multicard's git commit"),
    ("worker_build", "Worker's git commit"),
    ("program_git", "Program's git commit"),
    (COMMIT_TIME, "Date of the program's commit"),
    ("program_files", "Program's files"),
    ("program_container", "Container"),
    ("program_python", "Python"),
    ("program_packages", "Python packages"),
    (IMPORTED_FROM, "Imported from"),
];

/// The keys of the known facts.
pub fn fact_keys() -> impl Iterator<Item = &'static str> {
    FACTS.iter().map(|(key, _)| *key)
}

/// The name of a fact; a fact of a later version is named by its key.
pub fn fact_name(key: &str) -> &str {
    FACTS.iter().find(|(known, _)| *known == key).map_or(key, |(_, name)| name)
}

/// The facts of an environment by their keys. A fact that is not known has no entry. Facts that a later version recorded are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Environment(BTreeMap<Key, String>);

impl Environment {
    /// Records a fact, if it is known.
    pub fn set(&mut self, key: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.0.insert(key.into(), value.into());
        }
    }

    /// A fact.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The environment of a run over several nodes, from the name and the environment of each node. A fact that differs between nodes has
    /// all its values, and is listed by node under [`DIFFERENCES`].
    pub fn of_nodes(nodes: &[(String, Self)]) -> Self {
        let mut whole = Self::default();
        let keys: BTreeSet<&Key> = nodes.iter().flat_map(|(_, environment)| environment.0.keys()).collect();
        let mut differences = Vec::new();
        for key in keys {
            let values: Vec<&str> = nodes.iter().map(|(_, one)| one.get(key.as_str()).unwrap_or("unknown")).collect();
            let distinct: BTreeSet<&str> = values.iter().copied().collect();
            let distinct: Vec<&str> = distinct.into_iter().collect();
            let is_of_one = key.as_str() == "gpus" && distinct.len() == 1 && distinct != ["none"];
            whole.set(key.as_str(), Some(distinct.join(", ") + if is_of_one { " on each node" } else { "" }));
            if distinct.len() > 1 && key.as_str() != "hostname" {
                let values = nodes.iter().zip(&values).map(|((node, _), value)| format!("{node}: {value}"));
                let values: Vec<String> = values.collect();
                differences.push(format!("{} ({})", fact_name(key.as_str()), values.join(", ")));
            }
        }
        let names: Vec<&str> = nodes.iter().map(|(name, _)| name.as_str()).collect();
        whole.set("hostname", Some(names.join(", ")));
        whole.set(DIFFERENCES, (!differences.is_empty()).then(|| differences.join("; ")));
        whole
    }

    /// The known facts: key, name and value. Facts that a later version recorded come last, and are named by their keys.
    pub fn facts(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let known = FACTS.iter().filter_map(|(key, name)| Some((*key, *name, self.get(key)?)));
        let is_new = |key: &Key| FACTS.iter().all(|(known, _)| key != known);
        let new = self.0.iter().filter(move |(key, _)| is_new(key));
        known.chain(new.map(|(key, value)| (key.as_str(), key.as_str(), value.as_str())))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_differ_are_named_with_what_differs() {
        let node = |name: &str, kernel: &str| {
            let mut one = Environment::default();
            one.set("hostname", Some("host"));
            one.set("gpus", Some("8 × H100"));
            one.set("kernel", Some(kernel));
            one.set("cpus", Some("8"));
            (name.to_owned(), one)
        };
        let alike = Environment::of_nodes(&[node("n1", "6.1"), node("n2", "6.1")]);
        assert_eq!((alike.get("hostname"), alike.get(DIFFERENCES)), (Some("n1, n2"), None));
        assert_eq!((alike.get("cpus"), alike.get("gpus")), (Some("8"), Some("8 × H100 on each node")));
        let unlike = Environment::of_nodes(&[node("n1", "6.1"), node("n2", "6.8")]);
        assert_eq!(unlike.get(DIFFERENCES), Some("Linux kernel (n1: 6.1, n2: 6.8)"));
    }

    #[test]
    fn facts_of_later_versions_are_kept_and_unknown_ones_are_absent() {
        let text = r#"{"driver":"580.65","firmware":"96.00"}"#;
        let mut environment: Environment = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&environment).unwrap(), text);
        environment.set("kernel", Some("6.1"));
        environment.set("nccl", None::<String>);
        let facts: Vec<_> = environment.facts().collect();
        let expected = [
            ("kernel", "Linux kernel", "6.1"),
            ("driver", "NVIDIA driver", "580.65"),
            ("firmware", "firmware", "96.00"),
        ];
        assert_eq!(facts, expected);
    }
}
