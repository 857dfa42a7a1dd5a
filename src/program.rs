//! Programs as workloads: the runner of a run whose plan has a `[command]`, and what it reads from the program.
//!
//! A run of a program has one rank: `multicard program`, which starts the program, watches its processes, and writes the rank's log
//! from what its [`Source`](readings::Source)s find.

pub mod readings;
