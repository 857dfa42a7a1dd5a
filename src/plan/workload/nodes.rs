//! Spreads the ranks of a built-in workload over nodes: the factors, and the check that their levels fit together.

use super::machine::no_nodes;
use super::typed::count;
use super::{GPUS, GPUS_PER_NODE, NODES};
use crate::plan::{Factor, Level, Levels, Node};

/// The largest number of nodes of a run.
const MOST_NODES: i64 = 1024;
/// The largest number of GPUs of a node.
const MOST_GPUS: i64 = 64;

/// The factors that spread ranks over nodes.
pub(super) fn factors() -> [Factor; 2] {
    [
        Factor::count(NODES, "Nodes", 1..=MOST_NODES, 1)
            .usual(&[1.0, 2.0, 4.0, 8.0])
            .help("Nodes that the ranks are spread over evenly. More than one needs a site (`multicard help slurm`)."),
        Factor::count(GPUS_PER_NODE, "GPUs per node", 0..=MOST_GPUS, 0).usual(&[0.0, 1.0, 2.0, 4.0, 8.0]).help(
            "GPUs of each node. 0: the GPUs of all nodes (gpus) are divided evenly among the nodes. Without the factor \
                   gpus, a cell has nodes times gpus_per_node GPUs.",
        ),
    ]
}

/// How the GPUs of a cell are spread over nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// Nodes of the run.
    pub count: u32,
    /// The GPUs of each node; 0 if the plan does not name them.
    gpus_of_each: usize,
}

impl Default for Nodes {
    /// One node.
    fn default() -> Self {
        Self { count: 1, gpus_of_each: 0 }
    }
}

impl Nodes {
    /// Reads the levels of a cell.
    ///
    /// # Errors
    /// A level is missing or out of range.
    pub(super) fn read(levels: &Levels) -> Result<Self, String> {
        Ok(Self {
            count: u32::try_from(count(levels, NODES)?).unwrap_or(u32::MAX),
            gpus_of_each: count(levels, GPUS_PER_NODE)?,
        })
    }

    /// The number of GPUs that one node has of all `gpus`; at least 1.
    pub(super) fn share(self, gpus: usize) -> usize {
        gpus.div_ceil(self.count.max(1) as usize).max(1)
    }

    /// Why `gpus` cannot be spread over nodes in this way; `None` if they can.
    pub(super) fn refusal(self, gpus: usize, node: &Node) -> Option<String> {
        let Self { count, gpus_of_each } = self;
        if !gpus.is_multiple_of(count.max(1) as usize) {
            return Some(format!(
                "{GPUS} = {gpus} cannot be divided evenly by {NODES} = {count}: {GPUS} counts the GPUs of all nodes, and {GPUS_PER_NODE} \
                 those of one node"
            ));
        }
        if gpus_of_each > 0 && gpus_of_each * count as usize != gpus {
            return Some(format!(
                "{GPUS} = {gpus} is not {NODES} = {count} with {GPUS_PER_NODE} = {gpus_of_each}: name only one of {GPUS} and {GPUS_PER_NODE}"
            ));
        }
        no_nodes(node, count)
    }
}

/// The levels of `gpus` for a plan that names `gpus_per_node` only, in ascending order. `None` if it does not name that
/// either.
pub(in crate::plan) fn gpus_of(nodes: &[Level], gpus_per_node: &[Level]) -> Option<Vec<Level>> {
    let numbers =
        |levels: &[Level]| levels.iter().filter_map(Level::as_integer).filter(|count| *count > 0).collect::<Vec<_>>();
    let (nodes, of_each) = (numbers(nodes), numbers(gpus_per_node));
    let mut all: Vec<i64> = nodes.iter().flat_map(|nodes| of_each.iter().map(move |gpus| nodes * gpus)).collect();
    all.sort_unstable();
    all.dedup();
    (!all.is_empty()).then(|| all.into_iter().map(Level::Integer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Data, Mode, Tracer, fixture, identity, image};

    fn numbers(levels: &[i64]) -> Vec<Level> {
        levels.iter().copied().map(Level::Integer).collect()
    }

    #[test]
    fn gpus_of_each_node_give_those_of_all() {
        assert_eq!(gpus_of(&numbers(&[1, 2, 4]), &numbers(&[4, 2])), Some(numbers(&[2, 4, 8, 16])));
        assert_eq!(gpus_of(&numbers(&[2]), &numbers(&[0])), None);
    }

    #[test]
    fn gpus_that_nodes_do_not_have_are_refused() {
        let node = |nodes| Node { nodes, ..fixture::cpu_node() };
        let spread = |count, gpus_of_each, gpus, node: &Node| {
            Nodes { count, gpus_of_each }.refusal(gpus, node).unwrap_or_default()
        };
        assert_eq!(spread(2, 0, 4, &node(2)), "");
        assert_eq!(spread(2, 2, 4, &node(2)), "");
        assert!(spread(2, 0, 3, &node(2)).contains("cannot be divided evenly by nodes = 2"));
        assert!(spread(2, 2, 2, &node(2)).contains("gpus = 2 is not nodes = 2 with gpus_per_node = 2"));
        assert!(spread(3, 0, 3, &node(2)).contains("has 2 nodes"));
        assert!(spread(2, 0, 2, &node(1)).contains("--site"));
    }

    #[test]
    fn cells_on_one_node_have_the_identity_that_they_had_before_there_were_nodes() {
        let identity = |levels: &[(&str, Level)]| {
            identity(&image::spec(), &Data::of_set("digits"), Tracer::Off, Mode::Full, &Levels::new(levels.to_vec()))
        };
        let before = [(GPUS, Level::Integer(2))];
        let one = [(GPUS, Level::Integer(2)), (NODES, Level::Integer(1)), (GPUS_PER_NODE, Level::Integer(0))];
        let two = [(GPUS, Level::Integer(2)), (NODES, Level::Integer(2)), (GPUS_PER_NODE, Level::Integer(0))];
        assert_eq!(identity(&before), identity(&one));
        assert_ne!(identity(&before), identity(&two));
    }
}
