//! The ranks of a program on one node, and the environment variables with the numbers of each rank: the variables of torchrun, of Open MPI
//! and of Slurm.

use std::cell::OnceCell;
use std::net::TcpListener;

use crate::protocol::{Job, MASTER_ADDR, MASTER_PORT, node_name};

/// The address of the run's first node for runs on one node.
const HERE: &str = "127.0.0.1";

/// The ranks that one node starts.
pub(super) struct Ranks {
    /// The run's id.
    run: String,
    node: u32,
    nodes: u32,
    /// Ranks of each node; 0 if the program is started once and gets no such variables.
    per_node: u32,
    /// Threads for arithmetic of a rank.
    threads: u32,
    devices_per_node: u32,
    /// Whether Slurm started the node's runner.
    is_at_site: bool,
    /// A TCP port of the first node that was free when it was first requested.
    port: OnceCell<Option<u16>>,
}

impl Ranks {
    /// The ranks of the node with this number.
    pub fn new(job: &Job, node: u32) -> Self {
        let shape = &job.shape;
        let threads = job.ranks.first().map_or(1, |place| place.compute_threads);
        Self {
            run: job.run.clone(),
            node,
            nodes: shape.nodes(),
            per_node: shape.ranks_per_node,
            threads: (threads / shape.ranks_per_node.max(1)).max(1),
            devices_per_node: shape.devices_per_process,
            is_at_site: job.site.is_some(),
            port: OnceCell::new(),
        }
    }

    /// The node's number, from 0.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// How often the node starts the program.
    pub fn here(&self) -> u32 {
        self.per_node.max(1)
    }

    /// The run's first node. The supervisor of a run over several nodes sets it for all of them.
    pub fn master_addr(&self) -> String {
        self.supervisor_variable(MASTER_ADDR).unwrap_or_else(|| HERE.to_owned())
    }

    /// A free port of the run's first node.
    pub fn port(&self) -> Option<u16> {
        *self.port.get_or_init(|| {
            let port = self.supervisor_variable(MASTER_PORT).and_then(|port| port.parse().ok());
            port.or_else(free_port)
        })
    }

    /// A variable that the supervisor of a run over several nodes has set for this process. `None` on one node: no supervisor sets it there,
    /// and if it is set, it was meant for another program.
    fn supervisor_variable(&self, variable: &str) -> Option<String> {
        (self.nodes > 1).then(|| std::env::var(variable).ok())?
    }

    /// How a rank of this node is named in messages: `rank 3 on n2`; `None` for a program that is started once on one node.
    pub fn name(&self, local: u32) -> Option<String> {
        if self.per_node == 0 {
            return None;
        }
        let rank = self.node * self.per_node + local;
        if self.nodes == 1 {
            return Some(format!("rank {rank}"));
        }
        Some(format!("rank {rank} on {}", node_name()))
    }

    /// The environment variables with the numbers of a rank of this node; empty for a program that is started once, without a rank's
    /// number.
    pub fn variables(&self, local: u32) -> Vec<(&'static str, String)> {
        let Self { run, node, nodes, per_node, threads, devices_per_node, is_at_site, .. } = self;
        if *per_node == 0 {
            return Vec::new();
        }
        let set = |name: &'static str, value: &dyn ToString| (name, value.to_string());
        let (rank, world) = (node * per_node + local, nodes * per_node);
        let (address, port) = (self.master_addr(), self.port().unwrap_or(0));
        let mut all = vec![
            set(MASTER_ADDR, &address),
            set(MASTER_PORT, &port),
            set("RANK", &rank),
            set("LOCAL_RANK", &local),
            set("WORLD_SIZE", &world),
            set("LOCAL_WORLD_SIZE", per_node),
            set("NODE_RANK", node),
            // What torchrun calls the ranks of a node and the only role of all ranks.
            set("GROUP_RANK", node),
            set("GROUP_WORLD_SIZE", nodes),
            set("ROLE_NAME", &"default"),
            set("ROLE_RANK", &rank),
            set("ROLE_WORLD_SIZE", &world),
            // Libraries that torchrun may have started ask for these. The first rank opens the store at MASTER_ADDR itself.
            set("TORCHELASTIC_RUN_ID", run),
            set("TORCHELASTIC_RESTART_COUNT", &0),
            set("TORCHELASTIC_MAX_RESTARTS", &0),
            set("TORCHELASTIC_USE_AGENT_STORE", &"False"),
            set("OMPI_COMM_WORLD_RANK", &rank),
            set("OMPI_COMM_WORLD_SIZE", &world),
            set("OMPI_COMM_WORLD_LOCAL_RANK", &local),
            set("OMPI_COMM_WORLD_LOCAL_SIZE", per_node),
            set("OMPI_COMM_WORLD_NODE_RANK", &local),
        ];
        if *is_at_site {
            // Slurm itself starts one task per node.
            all.extend([set("SLURM_PROCID", &rank), set("SLURM_LOCALID", &local), set("SLURM_NODEID", node)]);
            all.extend([set("SLURM_NTASKS", &world), set("SLURM_NPROCS", &world)]);
        }
        if *nodes > 1 && *per_node == 1 {
            // The program may be torchrun, which reads its settings from these variables.
            all.extend([set("PET_NNODES", nodes), set("PET_NODE_RANK", node)]);
            all.extend([set("PET_MASTER_ADDR", &address), set("PET_MASTER_PORT", &port)]);
            if *devices_per_node > 0 {
                all.push(set("PET_NPROC_PER_NODE", devices_per_node));
            }
        }
        if *per_node > 1 {
            all.extend(["OMP_NUM_THREADS", "MKL_NUM_THREADS"].map(|name| set(name, threads)));
        }
        all
    }
}

fn free_port() -> Option<u16> {
    let listener = TcpListener::bind((HERE, 0)).ok()?;
    listener.local_addr().ok().map(|address| address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Data, Levels, Shape};

    fn ranks(processes: u32, ranks_per_node: u32, node: u32) -> Ranks {
        let shape = Shape { processes, ranks_per_node, own_program: true, ..Shape::default() };
        let job = Job::new("command".into(), Levels::default(), shape, Data::default());
        Ranks::new(&Job { run: "0001-a-1".to_owned(), ..job }, node)
    }

    #[test]
    fn ranks_are_numbered_over_the_nodes_and_a_program_without_ranks_is_told_nothing() {
        assert!(ranks(1, 0, 0).variables(0).is_empty() && ranks(1, 0, 0).name(0).is_none());
        let last = ranks(2, 3, 1).variables(2);
        let value = |name: &str| last.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
        for (name, expected) in [
            ("RANK", "5"),
            ("LOCAL_RANK", "2"),
            ("WORLD_SIZE", "6"),
            ("LOCAL_WORLD_SIZE", "3"),
            ("NODE_RANK", "1"),
            ("GROUP_RANK", "1"),
            ("GROUP_WORLD_SIZE", "2"),
            ("TORCHELASTIC_RUN_ID", "0001-a-1"),
            ("TORCHELASTIC_USE_AGENT_STORE", "False"),
            ("OMPI_COMM_WORLD_RANK", "5"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "2"),
        ] {
            assert_eq!(value(name), Some(expected), "{name}");
        }
        assert_eq!((value("SLURM_PROCID"), value("PET_NNODES")), (None, None));
        let alone = ranks(2, 1, 1).variables(0);
        assert!(alone.iter().any(|(name, value)| *name == "PET_NODE_RANK" && value == "1"), "{alone:?}");
        assert!(ranks(2, 3, 1).name(2).is_some_and(|name| name.starts_with("rank 5 on ")));
        assert_eq!(ranks(1, 2, 0).name(1).as_deref(), Some("rank 1"));
    }

    #[test]
    fn ranks_of_one_node_share_a_free_port_of_it() {
        let ranks = ranks(1, 2, 0);
        let port = |local| ranks.variables(local).into_iter().find(|(name, _)| *name == MASTER_PORT);
        assert!(port(0).is_some() && port(0) == port(1));
        assert_eq!(ranks.master_addr(), HERE);
    }
}
