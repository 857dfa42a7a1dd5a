//! A session on another machine, reached with the user's own ssh: no port is opened, and the other machine needs only `multicard`.
//!
//! ```text
//! here                                        │ ssh, stdio │   the node
//! Client ◀─▶ pair of sockets ─┐               │            │               ┌─ Unix socket ◀─▶ conductor
//!                             ├─▶ Line ◀──── frames, zlib ────▶ relay ◀────┤
//! readers ◀── copy ◀──────────┘               │            │               └─ Feed ◀── the session's folder
//! ```
//!
//! [`Line`] runs `ssh HOST multicard relay PATH`. The relay sends the parts of the session's folder that this machine lacks, and then
//! everything that is added. On this machine they become a copy in the user's cache: a folder that every reader treats like the
//! session. The relay also passes streams to the session's conductor, so that a [`Client`](crate::conduct::Client) works as it does
//! on the node, and it describes and samples the machine.
//!
//! # The copy
//!
//! The copy is a valid session at every moment. A line of a log is copied once it is complete; the logs of a run come after the
//! journal's line that queues the run and before the line that ends it. An interrupted copy therefore continues where it stopped:
//! runs that the copied part of the journal reports as ended are complete, and for active runs the connection begins with a list of
//! what the copy has, with a checksum of the end of each file. If this does not match, as after a session was replaced, the copy is
//! made again from the start. The index is built on this machine. Weights, checkpoints, reports of profilers, and the part of other
//! files after the first 16 MiB stay on the node.
//!
//! News from the conductor arrive after the bytes that they refer to: the relay checks the folder after it received the news and
//! before it sends them on.
//!
//! # When the connection breaks
//!
//! Nothing on the node depends on the connection: the conductor is a process of its own, and the relay ends when its input ends, or
//! when it has received nothing for a minute. On this machine the streams end as if the conductor had ended. The connection is opened
//! again after 1, 2, 4, … 30 seconds, until it is dropped or ssh reports a problem that does not go away by waiting.

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

pub use address::{Address, host_of_copy, quoted, shell_word};
pub use error::RemoteError;
pub use incoming::replay;
pub use line::{Line, LineNews, Prompts, Reached};
pub use relay::relay;
