//! The other ranks of the run: meeting them, collectives with them, and saying which of them is gone.

use std::cell::Cell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use multicard::protocol::{FailureKind, MEETING_VARIABLE};
use tch::{Device, TchError, Tensor};

use crate::report::Stop;
use crate::shim::{Backend, Combine, ProcessGroup, Store};
use crate::watchdog::Watchdog;

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
/// Between two looks for answers.
const POLL: Duration = Duration::from_millis(50);

/// A rank's view of its group.
pub struct Peers {
    /// This rank, from 0.
    pub rank: u32,
    /// Ranks in all.
    pub world_size: u32,
    device: Device,
    meeting: Meeting,
    group: Rc<ProcessGroup>,
    /// How often the ranks have met.
    meetings: Cell<u64>,
}

/// The folder where ranks find each other, and say that they are alive when one of them is not. Marks are empty files: no rank can
/// keep another from leaving one or from looking for it.
#[derive(Clone)]
struct Meeting {
    folder: PathBuf,
    rank: u32,
    world_size: u32,
}

impl Peers {
    /// Meets the other ranks; none where there are no others. `give_up` ends this rank, on another thread, when gloo does not come
    /// back: it tries five times as long as it is told to connect to a rank that hangs after it has left its address.
    pub fn join(
        rank: u32,
        world_size: u32,
        device: Device,
        give_up: impl FnOnce(Stop) + Send + 'static,
    ) -> Result<Option<Rc<Self>>, Stop> {
        if world_size < 2 {
            return Ok(None);
        }
        let folder = std::env::var_os(MEETING_VARIABLE).ok_or_else(|| {
            let message =
                format!("{MEETING_VARIABLE} names no folder: ranks of several are started by their supervisor");
            Stop::failed(FailureKind::Input, message)
        })?;
        let meeting = Meeting { folder: folder.clone().into(), rank, world_size };
        // NCCL is watched by c10d.
        let limit = PEER_TIMEOUT + WATCHDOG_FIRST;
        let alarm = move || {
            let message = format!("the ranks did not connect within {} s", limit.as_secs());
            give_up(meeting.explain(Stop::failed(FailureKind::Peer, message)));
        };
        let watchdog = if device.is_cuda() { None } else { Some(watch(limit, alarm)?) };
        if let Some(watchdog) = &watchdog {
            watchdog.given();
        }
        Ok(Some(Rc::new(Self::join_in(Path::new(&folder), rank, world_size, device)?)))
    }

    /// Meets the other ranks in the folder.
    pub fn join_in(folder: &Path, rank: u32, world_size: u32, device: Device) -> Result<Self, Stop> {
        let meeting = Meeting { folder: folder.to_owned(), rank, world_size };
        let store = Store::open(&folder.join("store"), PEER_TIMEOUT)?;
        let backend = match device {
            Device::Cuda(index) => Backend::Nccl(index),
            _ => Backend::Gloo,
        };
        // The group keeps the store: NCCL makes communicators later on.
        let group = ProcessGroup::new(&store, backend, rank, world_size, PEER_TIMEOUT);
        let group = group.map_err(|error| meeting.explain(error.into()))?;
        let peers = Self { rank, world_size, device, meeting, group: Rc::new(group), meetings: Cell::new(0) };
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
        let mark = |rank: u32| format!("meeting-{number}-{rank}");
        self.meeting.mark(&mark(self.rank))?;
        let begin = Instant::now();
        for rank in 0..self.world_size {
            while !self.meeting.has(&mark(rank)) {
                if begin.elapsed() > MEETING_TIMEOUT {
                    let message = format!("rank {rank} did not come within {} s", MEETING_TIMEOUT.as_secs());
                    return Err(self.explain(Stop::failed(FailureKind::Peer, message)));
                }
                thread::sleep(MEETING_POLL);
            }
        }
        Ok(())
    }

    /// Tells the other ranks a small number under a name that was not used before: [`Self::read`] finds it.
    pub fn say(&self, name: &str, number: usize) -> Result<(), Stop> {
        self.meeting.mark(&format!("{name}-{number}"))
    }

    /// The number below `numbers` that another rank says under this name; waits for it on the host.
    pub fn read(&self, name: &str, numbers: usize) -> Result<usize, Stop> {
        let begin = Instant::now();
        loop {
            if let Some(said) = (0..numbers).find(|number| self.meeting.has(&format!("{name}-{number}"))) {
                return Ok(said);
            }
            if begin.elapsed() > MEETING_TIMEOUT {
                let message = format!("no rank said {name} within {} s", MEETING_TIMEOUT.as_secs());
                return Err(self.explain(Stop::failed(FailureKind::Peer, message)));
            }
            thread::sleep(MEETING_POLL);
        }
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

    /// A rank's number, a tensor on the device, over the mean of all ranks'.
    pub fn weight(&self, number: &Tensor) -> Result<Tensor, TchError> {
        let sum = number.f_detach()?.f_mul_scalar(1.0)?;
        self.group.reduce(&sum, Combine::Sum)?;
        number.f_mul_scalar(f64::from(self.world_size))?.f_div(&sum)
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
        let meeting = self.meeting.clone();
        let limit_s = limit.as_secs();
        move || meeting.explain(Stop::failed(FailureKind::Peer, format!("a step did not end within {limit_s} s")))
    }

    /// Ends the group; all ranks come to this point.
    pub fn leave(self: Rc<Self>) -> Result<(), Stop> {
        self.combine(&[0], Combine::Sum).map_err(|error| self.explain(error.into()))?;
        let in_use = || TchError::Torch("the group is still in use".into());
        let peers = Rc::into_inner(self).ok_or_else(in_use)?;
        Ok(Rc::into_inner(peers.group).ok_or_else(in_use)?.leave()?)
    }
}

/// A watchdog that can be started, or why not.
pub fn watch(limit: Duration, alarm: impl FnOnce() + Send + 'static) -> Result<Watchdog, Stop> {
    Watchdog::start(limit, alarm)
        .map_err(|error| Stop::failed(FailureKind::Engine, format!("starting the watchdog failed: {error}")))
}

impl Meeting {
    /// Leaves a mark.
    fn mark(&self, name: &str) -> Result<(), Stop> {
        let path = self.folder.join(name);
        File::create(&path).map(drop).map_err(|error| {
            Stop::failed(FailureKind::Engine, format!("the mark {} cannot be left: {error}", path.display()))
        })
    }

    /// Whether a rank has left the mark.
    fn has(&self, name: &str) -> bool {
        self.folder.join(name).exists()
    }

    /// Says which ranks caused a failure that this rank saw through them alone.
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
        let mark = |rank: u32| format!("answer-{rank}");
        // The folder is the supervisor's; if that is gone too, nobody answers.
        let _ = self.mark(&mark(self.rank));
        let begin = Instant::now();
        let mut silent: Vec<_> = (0..self.world_size).filter(|rank| *rank != self.rank).collect();
        loop {
            silent.retain(|rank| !self.has(&mark(*rank)));
            if silent.is_empty() || begin.elapsed() > ANSWER_TIMEOUT {
                return silent;
            }
            thread::sleep(POLL);
        }
    }
}
