//! The other ranks of a run: how this rank joins them, its collectives with them, and which rank to blame when one is gone.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use multicard::protocol::{FailureKind, MEETING_VARIABLE};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tch::{Device, TchError, Tensor};

use super::connect::connect;
use super::meeting::{MEETING_TIMEOUT, Meeting};
use super::network;
use crate::report::Stop;
use crate::shim::{Backend, Combine, ProcessGroup, Store};
use crate::watchdog::Watchdog;

/// A rank that is this late for a collective counts as dead. Including the time to identify and kill it, a hanging rank ends its
/// group within 30 s.
const PEER_TIMEOUT: Duration = Duration::from_secs(20);
/// Extra time for NCCL's own watchdog to report what it knows about an eager step. It cannot see into replayed graphs.
const WATCHDOG_FIRST: Duration = Duration::from_secs(3);

/// Lets this process open as many files as the system allows: gloo ends a rank that has none left for one more connection, and every
/// user of the machine can connect to it.
fn allow_all_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    // Without it, the rank works as before.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// A rank's view of its group.
pub struct Peers {
    /// This rank, from 0.
    pub rank: u32,
    /// Number of ranks.
    pub world_size: u32,
    device: Device,
    meeting: Meeting,
    group: Rc<ProcessGroup>,
    /// Number of meetings so far.
    meetings: Cell<u64>,
}

impl Peers {
    /// Joins the other ranks, which are spread over this number of nodes in order; `None` for a single rank. `give_up`
    /// ends this rank from another thread if the others do not come: they wait for a rank that hangs, and gloo keeps
    /// trying to connect for five times its timeout.
    pub fn join(
        rank: u32,
        world_size: u32,
        nodes: u32,
        device: Device,
        give_up: impl FnOnce(Stop) + Send + 'static,
    ) -> Result<Option<Rc<Self>>, Stop> {
        if world_size < 2 {
            return Ok(None);
        }
        let folder = std::env::var_os(MEETING_VARIABLE).ok_or_else(|| {
            let message = format!("{MEETING_VARIABLE} is not set: only a supervisor can start a rank that has peers");
            Stop::failed(FailureKind::Input, message)
        })?;
        allow_all_files();
        let meeting = Meeting { folder: folder.into(), rank, world_size, nodes };
        let through = meeting.clone();
        // NCCL is watched by c10d.
        let limit = if meeting.is_shared() { MEETING_TIMEOUT } else { PEER_TIMEOUT + WATCHDOG_FIRST };
        let alarm = move || {
            let message = format!("the ranks did not connect within {} s", limit.as_secs());
            give_up(meeting.explain(Stop::failed(FailureKind::Peer, message)));
        };
        let watchdog = if device.is_cuda() { None } else { Some(watch(limit, alarm)?) };
        if let Some(watchdog) = &watchdog {
            watchdog.given();
        }
        Ok(Some(Rc::new(Self::join_through(through, device)?)))
    }

    /// Joins the other ranks of this node through a folder.
    #[cfg(test)]
    pub fn join_in(folder: &std::path::Path, rank: u32, world_size: u32, device: Device) -> Result<Self, Stop> {
        Self::join_through(Meeting { folder: folder.to_owned(), rank, world_size, nodes: 1 }, device)
    }

    fn join_through(meeting: Meeting, device: Device) -> Result<Self, Stop> {
        let Meeting { rank, world_size, .. } = meeting;
        let group = match device {
            Device::Cuda(index) => over_nccl(&meeting, index)?,
            _ => connect(&meeting, PEER_TIMEOUT)?,
        };
        let peers = Self { rank, world_size, device, meeting, group: Rc::new(group), meetings: Cell::new(0) };
        // NCCL creates its communicator in the first collective: do that here, not within the first step.
        let ranks = peers.combine(&[1], Combine::Sum).map_err(|error| peers.explain(error.into()))?;
        if ranks != [i64::from(world_size)] {
            let message = format!("{ranks:?} ranks joined instead of {world_size}");
            return Err(Stop::failed(FailureKind::Engine, message));
        }
        Ok(peers)
    }

    /// Waits on the host until all ranks have arrived. A collective would keep a kernel waiting on the device.
    pub fn meet(&self) -> Result<(), Stop> {
        let number = self.meetings.get();
        self.meetings.set(number + 1);
        let mark = |number: u64, rank: u32| format!("meeting-{number}-{rank}");
        self.meeting.gather(|rank| mark(number, rank))?;
        // All ranks have left the meeting before this one. A run with many windows would leave files without end.
        if let Some(before) = number.checked_sub(1) {
            self.meeting.unmark(&mark(before, self.rank));
        }
        Ok(())
    }

    /// Publishes a small number to the other ranks under a new name, for [`Self::read`].
    pub fn say(&self, name: &str, number: usize) -> Result<(), Stop> {
        self.meeting.mark(&format!("{name}-{number}"))
    }

    /// The number below `numbers` that another rank publishes under this name. Waits for it on the host.
    pub fn read(&self, name: &str, numbers: usize) -> Result<usize, Stop> {
        self.meeting.wait(
            || (0..numbers).find(|number| self.meeting.has(&format!("{name}-{number}"))),
            || format!("no rank published {name}"),
        )
    }

    /// Tells all ranks a text, and returns the texts of all ranks. `name` must be used once only.
    pub fn tell(&self, name: &str, text: &str) -> Result<Vec<String>, Stop> {
        let of_rank = |rank: u32| format!("{name}-of-{rank}");
        self.meeting.leave(&of_rank(self.rank), text)?;
        let all = || (0..self.world_size).map(|rank| self.meeting.read(&of_rank(rank))).collect();
        self.meeting.wait(all, || format!("rank {} did not arrive", self.meeting.late(of_rank).unwrap_or_default()))
    }

    /// The process group.
    pub fn group(&self) -> &Rc<ProcessGroup> {
        &self.group
    }

    /// The device of this rank.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The library that carries out collectives.
    pub fn backend(&self) -> &'static str {
        if self.device.is_cuda() { "NCCL" } else { "gloo" }
    }

    /// The library, with the network between nodes that its log names: `NCCL (IB through [0]mlx5_0:1/IB)`.
    pub fn backend_in_words(&self) -> String {
        let own = if self.meeting.is_shared() { network::of_this_process() } else { None };
        own.map_or_else(|| self.backend().to_owned(), |network| format!("{} ({network})", self.backend()))
    }

    /// The number of this rank's node, if the rank is the first one there and the node is not the run's first one.
    pub fn further_node(&self) -> Option<u32> {
        let node = self.meeting.node_of(self.rank);
        let is_first_of_node = self.rank > 0 && self.meeting.node_of(self.rank - 1) != node;
        (self.meeting.is_shared() && is_first_of_node).then_some(node)
    }

    /// Combines the numbers of all ranks, element by element.
    pub fn combine(&self, numbers: &[i64], combine: Combine) -> Result<Vec<i64>, TchError> {
        let tensor = Tensor::from_slice(numbers).f_to_device(self.device)?;
        self.group.reduce(&tensor, combine)?;
        let numbers = Vec::<i64>::try_from(&tensor.f_to_device(Device::Cpu)?)?;
        // Communicators with a dead peer are aborted, which leaves arbitrary numbers in the tensor.
        self.check()?;
        Ok(numbers)
    }

    /// This rank's number, a tensor on the device, divided by the mean over all ranks.
    pub fn weight(&self, number: &Tensor) -> Result<Tensor, TchError> {
        let sum = number.f_detach()?.f_mul_scalar(1.0)?;
        self.group.reduce(&sum, Combine::Sum)?;
        number.f_mul_scalar(f64::from(self.world_size))?.f_div(&sum)
    }

    /// Fails if a collective already queued on the device has failed.
    pub fn check(&self) -> Result<(), TchError> {
        self.group.error()?.map_or(Ok(()), |error| Err(TchError::Torch(error.into())))
    }

    /// Adds to a peer failure which ranks caused it.
    pub fn explain(&self, stop: Stop) -> Stop {
        self.meeting.explain(stop)
    }

    /// A step that takes a GPU longer than this is waiting for a rank that hangs. NCCL's own watchdog detects that too, but itself
    /// hangs if the other rank is stopped.
    pub fn step_timeout(cuda_graph: bool) -> Duration {
        if cuda_graph { PEER_TIMEOUT } else { PEER_TIMEOUT + WATCHDOG_FIRST }
    }

    /// Names the ranks that keep this one waiting. Called by another thread when the thread that owns this value hangs.
    pub fn hang(&self, limit: Duration) -> impl FnOnce() -> Stop + Send + 'static {
        let meeting = self.meeting.clone();
        let limit_s = limit.as_secs();
        move || meeting.explain(Stop::failed(FailureKind::Peer, format!("a step did not end within {limit_s} s")))
    }

    /// Ends the group. All ranks must call it.
    pub fn leave(self: Rc<Self>) -> Result<(), Stop> {
        self.combine(&[0], Combine::Sum).map_err(|error| self.explain(error.into()))?;
        let in_use = || TchError::Torch("the group is still in use".into());
        let peers = Rc::into_inner(self).ok_or_else(in_use)?;
        Ok(Rc::into_inner(peers.group).ok_or_else(in_use)?.leave()?)
    }
}

/// The group over NCCL, which keeps the store, because it also creates communicators later.
fn over_nccl(meeting: &Meeting, index: usize) -> Result<ProcessGroup, Stop> {
    if meeting.is_shared() {
        // Nodes read libraries from a shared file system at different times.
        meeting.gather(|rank| format!("here-{rank}"))?;
    }
    let store = Store::open(&meeting.folder.join("store"), PEER_TIMEOUT)?;
    let group = ProcessGroup::new(&store, Backend::Nccl(index), meeting.rank, meeting.world_size, PEER_TIMEOUT);
    group.map_err(|error| meeting.explain(error.into()))
}

/// Starts a watchdog.
pub fn watch(limit: Duration, alarm: impl FnOnce() + Send + 'static) -> Result<Watchdog, Stop> {
    Watchdog::start(limit, alarm)
        .map_err(|error| Stop::failed(FailureKind::Engine, format!("starting the watchdog failed: {error}")))
}
