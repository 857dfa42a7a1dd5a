//! Connects the ranks of a group over gloo, which does not ask who connects. For ranks on one machine, its ports are on
//! the loopback interface, where every user of the machine can take a rank's place. For ranks on several nodes, they
//! are on the cluster's network, where everybody on that network can. Ranks therefore prove to each other who they are,
//! and try again on new ports if somebody came between them.
//!
//! An attempt:
//!
//! 1. Each rank leaves a card in the folder that only their user can enter: its host, its process, and a random number for each rank. It
//!    waits for the cards of all.
//! 2. The ranks connect over gloo, through a store of this attempt.
//! 3. Each rank says its numbers to the others over gloo, and compares what it hears with their cards.
//!
//! After 2 and 3 each rank leaves a mark that it has come so far, or one that the attempt is spoiled. It waits until all have come so far
//! or one has found the attempt spoiled, so that all go on together. A rank that dies or hangs leaves neither: its supervisor or the
//! watchdog of the others ends the group.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use multicard::protocol::{FailureKind, hostname};
use tch::{TchError, Tensor};

use super::meeting::Meeting;
use super::strangers::Strangers;
use crate::report::Stop;
use crate::shim::{Backend, ProcessGroup, Store};

/// Time limits for the ranks to connect in each attempt, and again to exchange numbers: 10 s in total. Later attempts have more time,
/// because the machine may be slow.
const LIMITS_MS: [u64; 5] = [500, 500, 1000, 1000, 2000];

/// Interval at which a rank looks for connections from strangers while it connects.
const LOOK: Duration = Duration::from_millis(20);

/// Connects to the other ranks. Collectives of the group may take up to `timeout`.
pub fn connect(meeting: &Meeting, timeout: Duration) -> Result<ProcessGroup, Stop> {
    let mut strangers = Strangers::default();
    for (number, limit_ms) in (1..).zip(LIMITS_MS) {
        let attempt = Attempt { meeting, number, limit: Duration::from_millis(limit_ms) };
        if let Ok(group) = attempt.connect(&mut strangers)? {
            group.set_timeout(timeout)?;
            return Ok(group);
        }
    }
    if !strangers.is_empty() {
        return Err(among(meeting, &strangers));
    }
    // No stranger was there, so the machine is slow.
    let number = LIMITS_MS.len() + 1;
    match (Attempt { meeting, number, limit: timeout }).connect(&mut strangers)? {
        Ok(group) => Ok(group),
        Err(_) if !strangers.is_empty() => Err(among(meeting, &strangers)),
        Err(error) => Err(meeting.explain(if meeting.is_shared() { over_network(error.into()) } else { error.into() })),
    }
}

/// Adds to a failure which network interface the ranks of several nodes used, and how another one is chosen.
fn over_network(stop: Stop) -> Stop {
    let interface = std::env::var("GLOO_SOCKET_IFNAME").ok().filter(|name| !name.is_empty());
    let interface = interface.map_or_else(
        || format!("the network interface of this node's host name, {}", hostname()),
        |name| format!("the network interface {name} (GLOO_SOCKET_IFNAME)"),
    );
    let Stop::Failed { kind, message } = stop else { return stop };
    let advice =
        "Choose the interface by which the nodes reach each other: set GLOO_SOCKET_IFNAME in the site's prologue";
    Stop::failed(kind, format!("the ranks did not connect over {interface}. {advice}. gloo says: {message}"))
}

fn among(meeting: &Meeting, strangers: &Strangers) -> Stop {
    let advice = if meeting.is_shared() {
        "Everybody on the cluster's network can connect to them: find out what does"
    } else {
        "Every user of this machine can connect to its loopback interface: find out what does, or run in a network namespace of your own \
         (`multicard help trust` says how)"
    };
    let message = format!(
        "strangers kept the ranks from meeting, {} times in a row; connections to the ranks' ports that no rank made: {strangers}. \
         {advice}",
        LIMITS_MS.len()
    );
    Stop::failed(FailureKind::Peer, message)
}

/// One attempt to connect, which succeeds for all ranks or for none.
struct Attempt<'a> {
    meeting: &'a Meeting,
    /// The attempt's number, from 1.
    number: usize,
    limit: Duration,
}

/// The data that a rank publishes before it connects.
struct Card {
    host: String,
    process: u32,
    /// The number that it will send to each rank.
    numbers: Vec<i64>,
}

impl Attempt<'_> {
    /// Connects the group; the inner error says why the attempt is spoiled.
    fn connect(&self, strangers: &mut Strangers) -> Result<Result<ProcessGroup, TchError>, Stop> {
        let cards = self.swap_cards()?;
        // The kernel lists only the connections of this machine.
        let ranks: Vec<_> = cards.iter().filter(|card| card.host == hostname()).map(|card| card.process).collect();
        // In the first attempt no rank waits for another.
        let opened = if self.number == 1 { self.open() } else { self.open_and_look(&ranks, strangers) };
        let connected = match self.agree("connected", opened)? {
            Ok(group) => {
                // No rank closes a connection while all ranks wait here.
                if self.number > 1 {
                    strangers.look(&ranks, true);
                }
                self.agree("known", swap_numbers(&group, self.meeting.rank, &cards).map(|()| group))?
            }
            spoiled => spoiled,
        };
        if connected.is_err() {
            strangers.look(&ranks, false);
        }
        Ok(connected)
    }

    /// Publishes this rank's card, and waits for the cards of all ranks.
    fn swap_cards(&self) -> Result<Vec<Card>, Stop> {
        let name = |rank: u32| format!("card-{}-{rank}", self.number);
        let mut own = format!("{} {}", hostname(), std::process::id());
        for _ in 0..self.meeting.world_size {
            own += &format!(" {}", rand::random::<i64>());
        }
        self.meeting.leave(&name(self.meeting.rank), &own)?;
        let missing = || format!("rank {} did not arrive", self.meeting.late(name).unwrap_or_default());
        self.meeting.wait(
            || (0..self.meeting.world_size).map(|rank| Card::read(&self.meeting.read(&name(rank))?)).collect(),
            missing,
        )
    }

    fn open(&self) -> Result<ProcessGroup, TchError> {
        let Meeting { folder, rank, world_size, .. } = self.meeting;
        let backend = if self.meeting.is_shared() { Backend::GlooOverNodes } else { Backend::Gloo };
        let store = Store::open(&folder.join(format!("store-{}", self.number)), self.limit)?;
        ProcessGroup::new(&store, backend, *rank, *world_size, self.limit)
    }

    /// Opens the connections and looks for strangers meanwhile, because the ports are closed if opening fails.
    fn open_and_look(&self, ranks: &[u32], strangers: &mut Strangers) -> Result<ProcessGroup, TchError> {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    strangers.look(ranks, false);
                    thread::sleep(LOOK);
                }
            });
            let opened = self.open();
            done.store(true, Ordering::Relaxed);
            opened
        })
    }

    /// Waits until all ranks have reached this step or one of them says that the attempt is spoiled. In a spoiled attempt no rank uses its
    /// group. The group is not freed; its ports are closed when the process ends.
    fn agree<T>(&self, step: &str, outcome: Result<T, TchError>) -> Result<Result<T, TchError>, Stop> {
        let spoiled = format!("spoiled-{}", self.number);
        let mark = |rank: u32| format!("{step}-{}-{rank}", self.number);
        let reached = mark(self.meeting.rank);
        self.meeting.mark(if outcome.is_ok() { &reached } else { &spoiled })?;
        let look = || match self.meeting.late(mark) {
            None => Some(true),
            Some(_) => self.meeting.has(&spoiled).then_some(false),
        };
        let missing = || format!("rank {} did not connect", self.meeting.late(mark).unwrap_or_default());
        if self.meeting.wait(look, missing)? {
            return Ok(outcome);
        }
        let by_another = || TchError::Torch("Gloo connectFullMesh failed: another rank did not reach this one".into());
        Ok(Err(outcome.err().unwrap_or_else(by_another)))
    }
}

impl Card {
    fn read(text: &str) -> Option<Self> {
        let (host, rest) = text.split_once(' ')?;
        let (process, numbers) = rest.split_once(' ')?;
        let numbers = numbers.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self { host: host.to_owned(), process: process.parse().ok()?, numbers })
    }
}

/// Sends this rank's numbers to the others and compares the numbers received with their cards: a stranger that took a rank's place does not
/// know them.
fn swap_numbers(group: &ProcessGroup, rank: u32, cards: &[Card]) -> Result<(), TchError> {
    let rank = rank as usize;
    let own = cards.get(rank).map(|card| card.numbers.clone()).unwrap_or_default();
    let heard = Vec::<i64>::try_from(&group.swap(&Tensor::from_slice(&own))?)?;
    let expected: Vec<_> = cards.iter().filter_map(|card| card.numbers.get(rank).copied()).collect();
    if heard == expected {
        return Ok(());
    }
    Err(TchError::Torch("Gloo connectFullMesh failed: a process that is no rank took a rank's place".into()))
}
