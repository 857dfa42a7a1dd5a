//! A session on another machine, reached by the user's own ssh: no port is opened, and nothing but `multicard` is needed there.
//!
//! ```text
//! here                                        │ ssh, stdio │   the node
//! Client ◀─▶ pair of sockets ─┐               │            │               ┌─ Unix socket ◀─▶ conductor
//!                             ├─▶ Line ◀──── frames, zlib ────▶ relay ◀────┤
//! readers ◀── copy ◀──────────┘               │            │               └─ Feed ◀── the session's folder
//! ```
//!
//! [`Line`] runs `ssh HOST multicard relay PATH`. The relay sends what the session's folder holds and this machine lacks, and then
//! what is added; here it becomes a copy in the user's cache, a folder that every reader takes for the session. It relays streams to
//! the session's conductor, so that a [`Client`](crate::conduct::Client) works as it does on the node. And it describes the machine
//! and samples it.
//!
//! # The copy
//!
//! The copy is a valid session at every moment. A line of a log is copied once it is whole; the logs of a run come after the journal's
//! line that queues it and before the one that ends it. So a copy that was cut off goes on where it stopped: what the copied
//! part of the journal reports as ended is complete, and of the runs under way the line begins by saying how much it has, with a
//! checksum of the end. Where that does not fit, as after a session was replaced, the copy is made anew. The index is built here;
//! weights, checkpoints, reports of profilers, and what lies beyond the first 16 MiB of other files stay on the node.
//!
//! News of the conductor follow the bytes that they speak of: the relay looks at the folder after it received them and before it sends
//! them on.
//!
//! # When the line breaks
//!
//! Nothing on the node depends on it: the conductor is a process of its own, and the relay ends when its input does, or when
//! nothing was heard for a minute. The streams end here as if the conductor had. The line is opened again after 1, 2, 4, … 30
//! seconds, until it is dropped or ssh says something that waiting does not change.

mod address;
mod compressed;
mod copy;
mod error;
mod feed;
mod frame;
mod incoming;
mod line;
mod relay;
mod ssh;

pub use address::{Address, host_of_copy, quoted};
pub use error::RemoteError;
pub use incoming::replay;
pub use line::{Line, LineNews, Prompts, Reached};
pub use relay::relay;
