//! The other ranks of the run: meeting them, collectives with them, and saying which of them is gone.

use std::cell::Cell;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use multicard::protocol::FailureKind;
use tch::{Device, TchError, Tensor};

use crate::report::Stop;
use crate::shim::{Backend, Combine, ProcessGroup, Store};

/// Tells a rank the port of its group's store.
pub const STORE_VARIABLE: &str = "MULTICARD_STORE_PORT";

/// A rank that does not come to a collective for so long is taken for dead. With the time to find out who it was and to end
/// it, a hanging rank ends its group within 30 s.
const PEER_TIMEOUT: Duration = Duration::from_secs(20);
/// What NCCL's own watchdog gets more, in eager steps, to say what it knows. It does not look into replayed graphs.
const WATCHDOG_FIRST: Duration = Duration::from_secs(3);
/// Ranks that live notice a failed collective about together; those that say nothing for so long are the cause.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// A rank that tells a profiler something may take so long to come to a meeting.
const MEETING_TIMEOUT: Duration = Duration::from_secs(120);
/// Between two looks for those who are still to come.
const MEETING_POLL: Duration = Duration::from_millis(2);
/// Between two looks at the store.
const POLL: Duration = Duration::from_millis(50);

/// A rank's view of its group.
pub struct Peers {
    /// This rank, from 0.
    pub rank: u32,
    /// Ranks in all.
    pub world_size: u32,
    device: Device,
    /// Of the store.
    port: u16,
    meeting: Meeting,
    group: Rc<ProcessGroup>,
    /// How often the ranks have met.
    meetings: Cell<u64>,
}

/// Where ranks find each other, and say that they are alive when one of them is not.
struct Meeting {
    store: Store,
    rank: u32,
    world_size: u32,
}

/// Opens the store of a group in the supervisor, which outlives every rank; gives its port.
pub fn serve_store() -> Result<(Store, u16), TchError> {
    Store::serve(PEER_TIMEOUT)
}

impl Peers {
    /// Meets the other ranks; none where there are no others.
    pub fn join(rank: u32, world_size: u32, device: Device) -> Result<Option<Rc<Self>>, Stop> {
        if world_size < 2 {
            return Ok(None);
        }
        let port = std::env::var(STORE_VARIABLE).ok().and_then(|port| port.parse().ok()).ok_or_else(|| {
            let message = format!("{STORE_VARIABLE} names no port: ranks of several are started by their group");
            Stop::failed(FailureKind::Input, message)
        })?;
        Ok(Some(Rc::new(Self::join_at(port, rank, world_size, device)?)))
    }

    /// Meets the other ranks in the store at the port.
    pub fn join_at(port: u16, rank: u32, world_size: u32, device: Device) -> Result<Self, Stop> {
        let meeting = Meeting { store: Store::connect(port, PEER_TIMEOUT)?, rank, world_size };
        let backend = match device {
            Device::Cuda(index) => Backend::Nccl(index),
            _ => Backend::Gloo,
        };
        let group = ProcessGroup::new(&meeting.store, backend, rank, world_size, PEER_TIMEOUT);
        let group = group.map_err(|error| meeting.explain(error.into()))?;
        let peers = Self { rank, world_size, device, port, meeting, group: Rc::new(group), meetings: Cell::new(0) };
        // NCCL makes its communicator with the first collective: here, and not within the first step.
        let ranks = peers.combine(&[1], Combine::Sum).map_err(|error| peers.explain(error.into()))?;
        if ranks != [i64::from(world_size)] {
            let message = format!("{ranks:?} ranks came together instead of {world_size}");
            return Err(Stop::failed(FailureKind::Engine, message));
        }
        Ok(peers)
    }

    /// Waits on the host until all ranks have come here: a collective would leave a kernel on the device until then.
    pub fn meet(&self) -> Result<(), Stop> {
        let number = self.meetings.get();
        self.meetings.set(number + 1);
        let key = |rank: u32| format!("meeting/{number}/{rank}");
        self.meeting.store.mark(&key(self.rank))?;
        let begin = Instant::now();
        for rank in 0..self.world_size {
            while !self.meeting.store.has(&key(rank))? {
                if begin.elapsed() > MEETING_TIMEOUT {
                    let message = format!("rank {rank} did not come within {} s", MEETING_TIMEOUT.as_secs());
                    return Err(self.explain(Stop::failed(FailureKind::Peer, message)));
                }
                thread::sleep(MEETING_POLL);
            }
        }
        Ok(())
    }

    /// The group itself.
    pub fn group(&self) -> &Rc<ProcessGroup> {
        &self.group
    }

    /// What carries the collectives.
    pub fn backend(&self) -> &'static str {
        if self.device.is_cuda() { "NCCL" } else { "gloo" }
    }

    /// Combines a list of numbers of all ranks.
    pub fn combine(&self, numbers: &[i64], combine: Combine) -> Result<Vec<i64>, TchError> {
        let tensor = Tensor::from_slice(numbers).f_to_device(self.device)?;
        self.group.reduce(&tensor, combine)?;
        let numbers = Vec::<i64>::try_from(&tensor.f_to_device(Device::Cpu)?)?;
        // The communicator of a dead peer is aborted, which leaves anything in the tensor.
        self.check()?;
        Ok(numbers)
    }

    /// Whether collectives given to the device have failed since.
    pub fn check(&self) -> Result<(), TchError> {
        self.group.error()?.map_or(Ok(()), |error| Err(TchError::Torch(error.into())))
    }

    /// Says which ranks caused a failure that this rank saw through them alone.
    pub fn explain(&self, stop: Stop) -> Stop {
        self.meeting.explain(stop)
    }

    /// A step that a GPU does not end for so long waits for a rank that hangs. NCCL's own watchdog finds that too, and hangs
    /// itself where the other rank is stopped.
    pub fn step_timeout(cuda_graph: bool) -> Duration {
        if cuda_graph { PEER_TIMEOUT } else { PEER_TIMEOUT + WATCHDOG_FIRST }
    }

    /// Says which ranks keep this one waiting: for another thread, when the one that owns this value hangs.
    pub fn hang(&self, limit: Duration) -> impl FnOnce() -> Stop + Send + 'static {
        let (port, rank, world_size) = (self.port, self.rank, self.world_size);
        let limit_s = limit.as_secs();
        move || {
            let stop = Stop::failed(FailureKind::Peer, format!("a step did not end within {limit_s} s"));
            // A store of its own: that of the group belongs to the thread that hangs.
            match Store::connect(port, ANSWER_TIMEOUT) {
                Ok(store) => Meeting { store, rank, world_size }.explain(stop),
                Err(_) => stop,
            }
        }
    }

    /// Ends the group; all ranks come to this point.
    pub fn leave(self: Rc<Self>) -> Result<(), Stop> {
        self.combine(&[0], Combine::Sum).map_err(|error| self.explain(error.into()))?;
        let in_use = || TchError::Torch("the group is still in use".into());
        let peers = Rc::into_inner(self).ok_or_else(in_use)?;
        Ok(Rc::into_inner(peers.group).ok_or_else(in_use)?.leave()?)
    }
}

impl Meeting {
    fn explain(&self, stop: Stop) -> Stop {
        let Stop::Failed { kind: FailureKind::Peer, message } = stop else { return stop };
        let silent = self.silent();
        let who = match &silent[..] {
            [] => "all ranks answer".to_owned(),
            [one] => format!("rank {one} does not answer"),
            several => {
                format!("ranks {} do not answer", several.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
            }
        };
        Stop::failed(FailureKind::Peer, format!("working together with the other ranks failed, {who}: {message}"))
    }

    /// The ranks that do not notice the failure too.
    fn silent(&self) -> Vec<u32> {
        let key = |rank: u32| format!("answers/{rank}");
        // The store is the supervisor's; if that is gone too, nobody answers.
        let _ = self.store.mark(&key(self.rank));
        let begin = Instant::now();
        let mut silent: Vec<_> = (0..self.world_size).filter(|rank| *rank != self.rank).collect();
        loop {
            silent.retain(|rank| !self.store.has(&key(*rank)).unwrap_or(false));
            if silent.is_empty() || begin.elapsed() > ANSWER_TIMEOUT {
                return silent;
            }
            thread::sleep(POLL);
        }
    }
}
