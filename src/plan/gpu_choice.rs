//! The choice of a node's GPUs for a run.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Gpu, Level, Levels, Node};

/// The greatest index in a list of GPUs.
const LAST_GPU: u32 = 63;

/// How the GPUs of a run are chosen among the node's free GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum GpuChoice {
    /// The GPUs with the fastest interconnects between them.
    #[default]
    Nearest,
    /// GPUs that are all on one NUMA node.
    SameSocket,
    /// GPUs spread over as many NUMA nodes as possible, in turn.
    Spread,
    /// Only GPUs of this list; one bit for each index ([`Gpu::index`]).
    Only(u64),
}

impl GpuChoice {
    /// The key of the factor that makes the choice, in every workload that has it.
    pub const KEY: &'static str = "gpu_set";
    /// The named levels, the default first. A list of indexes (`0,2`) is a level, too.
    pub const NAMES: &'static [&'static str] = &["nearest", "same-socket", "spread"];

    /// Reads the level of a cell. Cells of earlier versions do not have the factor.
    ///
    /// # Errors
    /// The level is neither a name nor a list.
    pub(super) fn read(levels: &Levels) -> Result<Self, String> {
        levels.get(Self::KEY).map_or(Ok(Self::Nearest), |level| match level {
            Level::Text(text) => text.parse(),
            number => number.to_string().parse(),
        })
    }

    /// The indexes of a list, in order; `None` for a named choice.
    pub fn listed(self) -> Option<Vec<u32>> {
        let Self::Only(bits) = self else { return None };
        Some((0..=LAST_GPU).filter(|index| bits & (1 << index) != 0).collect())
    }

    /// Why a node cannot provide the wanted number of GPUs with this choice, and what to do; `None` if it can. `uses_gpus` says whether the
    /// run gets GPUs on this node at all.
    pub fn refusal(self, node: &Node, uses_gpus: bool, wanted: usize) -> Option<String> {
        if self == Self::Nearest {
            return None;
        }
        let (key, hostname) = (Self::KEY, &node.hostname);
        let remedy = format!("use {key} = nearest");
        if !uses_gpus || wanted == 0 {
            return Some(format!("{key} = {self} chooses among GPUs, but the run has no GPU on {hostname}: {remedy}"));
        }
        let usable: Vec<&Gpu> = node.gpus.iter().filter(|gpu| !gpu.mig).collect();
        if let Some(listed) = self.listed() {
            let find_gpu = |index: &u32| node.gpus.iter().find(|gpu| gpu.index == *index);
            let usable_indexes = usable.iter().map(|gpu| gpu.index.to_string()).collect::<Vec<_>>().join(", ");
            if let Some(index) = listed.iter().find(|index| find_gpu(index).is_none()) {
                return Some(format!(
                    "{key} = {self}: {hostname} has no GPU {index}, only {usable_indexes}: use those"
                ));
            }
            if let Some(index) = listed.iter().find(|index| find_gpu(index).is_some_and(|gpu| gpu.mig)) {
                return Some(format!(
                    "{key} = {self}: GPU {index} of {hostname} is in MIG mode: name others, or turn MIG off"
                ));
            }
            let count = listed.len();
            return (count < wanted).then(|| {
                format!(
                    "{key} = {self} names {count} of the {wanted} GPUs that the run needs: name more, or use fewer GPUs"
                )
            });
        }
        if wanted < 2 {
            return Some(format!("{key} = {self} has no effect with one GPU: {remedy}, or list the GPU"));
        }
        let by_node = by_numa_node(usable.iter().copied());
        if by_node.contains_key(&None) {
            return Some(format!("{key} = {self}: the NUMA nodes of the GPUs of {hostname} are unknown: list them"));
        }
        let most = by_node.values().map(Vec::len).max().unwrap_or(0);
        match self {
            Self::SameSocket if most < wanted => Some(format!(
                "{key} = {self}: no NUMA node of {hostname} has more than {most} of the {wanted} GPUs: use fewer"
            )),
            Self::Spread if by_node.len() < 2 => {
                Some(format!("{key} = {self}: all GPUs of {hostname} are on one NUMA node: {remedy}"))
            }
            _ => None,
        }
    }
}

/// GPUs grouped by NUMA node, in order.
pub fn by_numa_node<'a>(gpus: impl Iterator<Item = &'a Gpu>) -> BTreeMap<Option<u32>, Vec<&'a Gpu>> {
    let mut by_node: BTreeMap<Option<u32>, Vec<&Gpu>> = BTreeMap::new();
    gpus.for_each(|gpu| by_node.entry(gpu.numa_node).or_default().push(gpu));
    by_node
}

/// The level as plans write it: a name, or the indexes in order.
impl fmt::Display for GpuChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |place: usize| Self::NAMES.get(place).copied().unwrap_or_default();
        match self {
            Self::Nearest => f.write_str(named(0)),
            Self::SameSocket => f.write_str(named(1)),
            Self::Spread => f.write_str(named(2)),
            Self::Only(_) => {
                let listed = self.listed().unwrap_or_default();
                f.write_str(&listed.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl FromStr for GpuChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named =
            [Self::Nearest, Self::SameSocket, Self::Spread].into_iter().find(|choice| choice.to_string() == text);
        if let Some(named) = named {
            return Ok(named);
        }
        let mut bits = 0_u64;
        for word in text.split(',').map(str::trim) {
            let index = word.parse::<u32>().ok().filter(|index| *index <= LAST_GPU);
            let Some(index) = index.filter(|_| word.bytes().all(|byte| byte.is_ascii_digit())) else {
                let names = Self::NAMES.join(", ");
                let shown: String = text.chars().take(40).collect();
                return Err(format!("{shown:?} is neither {names} nor a list of GPUs such as 0,2"));
            };
            let bit = 1_u64 << index;
            if bits & bit != 0 {
                return Err(format!("GPU {index} is listed twice in {text:?}"));
            }
            bits |= bit;
        }
        Ok(Self::Only(bits))
    }
}

impl From<GpuChoice> for String {
    fn from(choice: GpuChoice) -> Self {
        choice.to_string()
    }
}

impl TryFrom<String> for GpuChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::fixture::{cpu_node, gpu_node};

    fn choice(text: &str) -> GpuChoice {
        text.parse().unwrap()
    }

    #[test]
    fn a_list_is_read_in_any_order_and_written_in_one() {
        assert_eq!(choice("2, 0").to_string(), "0,2");
        assert_eq!(choice("2,0"), choice("0,2"));
        for name in GpuChoice::NAMES {
            assert_eq!(choice(name).to_string(), *name);
        }
        assert_eq!(serde_json::to_value(choice("0,63")).unwrap(), serde_json::json!("0,63"));
        for (text, part) in
            [("nearer", "neither nearest"), ("0,,1", "neither"), ("64", "neither"), ("1,1", "twice"), ("", "neither")]
        {
            let error = text.parse::<GpuChoice>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_a_node_lacks_is_named() {
        // Even GPUs are on NUMA node 0, odd ones on 1.
        let mut node = gpu_node(4);
        node.gpus[3].mig = true;
        let refusal_of = |text: &str, wanted| choice(text).refusal(&node, true, wanted);
        for (text, wanted) in [("nearest", 1), ("0,2", 2), ("0,2", 1), ("same-socket", 2), ("spread", 2), ("spread", 3)]
        {
            assert_eq!(refusal_of(text, wanted), None, "{text}");
        }
        for (text, wanted, part) in [
            ("0,7", 2, "has no GPU 7, only 0, 1, 2"),
            ("0,3", 2, "GPU 3 of node is in MIG mode"),
            ("0", 2, "names 1 of the 2 GPUs"),
            ("same-socket", 3, "has more than 2 of the 3 GPUs"),
            ("spread", 1, "no effect with one GPU"),
        ] {
            let reason = refusal_of(text, wanted).unwrap_or_default().replace(&node.hostname, "node");
            assert!(reason.contains(part), "{text}: {reason}");
        }
        assert!(choice("spread").refusal(&gpu_node(1), true, 2).unwrap().contains("on one NUMA node"));
        assert!(choice("0").refusal(&cpu_node(), false, 1).unwrap().contains("has no GPU"));
        node.gpus[0].numa_node = None;
        assert!(choice("spread").refusal(&node, true, 2).unwrap().contains("unknown"));
    }
}
