//! The conductor of a session: a process, or a thread of `multicard run`, that owns the session's queue, its runs, the sampler and
//! the writer, and the clients that watch and control it.
//!
//! ```text
//! window ────────┐                        ┌─▶ Session: queue, groups, telemetry, store
//! run, attach ───┼─▶ Unix socket ─▶ Conductor
//! stop ──────────┘        ◀── news ───────┘
//! ```
//!
//! The process that holds the session's lock conducts it; no other process writes. The conductor listens on a socket in the user's
//! state folder ([`socket_path`]), which only the user can enter, and checks the user of each client. [`Client::connect_or_start`]
//! finds the conductor, or starts `multicard conduct SESSION` as the leader of a new system session (setsid), so that the conductor
//! survives the end of the window, the terminal or the login. A conductor ends when nothing is left to do and no client is
//! attached.
//!
//! While its queue has runs, a conductor holds a lock on a file beside its socket that names its session
//! ([`other_sessions_with_runs`]): a user who launches runs in another session of this machine is warned that the runs will disturb
//! each other.
//!
//! # The lines
//!
//! Both sides write JSON, one object on each line. The conductor begins with [`Conducting`], the client answers with [`Hello`]; then
//! the client sends [`Letter`]s and the conductor [`News`]: first the whole queue, then its changes. Both must have the same version:
//! other programs must not rely on these lines.
//!
//! # What happens when a process dies
//!
//! | what dies | consequence |
//! |---|---|
//! | a client | nothing; the conductor goes on, and ends once the queue is empty |
//! | the conductor, while it measures the machine | its worker ends with it; devices measured before are recorded |
//! | the conductor | active runs go on; the next conductor follows them and restores the queue, which is paused until its user resumes it or launches more runs |
//! | `multicard run` that conducts | as for a conductor; if the next conductor is a `multicard run`, it records queued runs as never started |
//!
//! If a conductor is alive but silent, because it is stopped (SIGSTOP) or waits for a disk, clients show its process and state
//! after 10 s ([`Silent`]). `multicard stop --now` ends such a conductor, and the next conductor ends its runs.
//! If the session's folder was renamed, its conductor listens at the old path: `multicard stop` ends it, too
//! ([`end_conductor_of_renamed`]), except where that would end runs which `--queued` leaves. Whoever looks for a conductor at the old path is
//! refused, and is told the conductor and the new path ([`stream`]). If the folder was removed, or moved to another disk, the conductor ends by itself,
//! and the supervisors of its active runs end these.
//!
//! A conductor process notifies the desktop, if there is one, when a run fails and when nothing is left to run.
//!
//! An interrupt (SIGINT, SIGTERM, SIGHUP) ends a conductor process, and its active runs go on.

mod client;
mod clients;
mod conductor;
mod error;
mod lines;
mod logout;
mod message;
#[cfg(feature = "window")]
mod notifier;
mod presence;
mod queue_view;
mod renamed;
mod silent;
mod socket;

pub use client::{
    Client, DETACHED_OPTION, LOCKED, Orders, READY, SILENCE_LIMIT, stream, stream_or_start, until_served,
};
pub use conductor::{Host, host, serve};
pub use error::ConductError;
pub use logout::ends_at_logout;
pub use message::{Conducting, Hello, Launch, Letter, News, Order};
pub use presence::other_sessions_with_runs;
pub use queue_view::{QueueChange, QueueRow, QueueView};
pub use renamed::end_conductor_of_renamed;
pub use silent::Silent;
pub use socket::socket_path;
