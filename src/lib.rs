//! multicard: a workbench for performance experiments on multi-GPU machines.
//!
//! A plan (factors and their ticked levels) becomes a matrix of cells; each cell is run `repeats` times by
//! worker processes; what they say and what telemetry reads is kept in a session and compared.
//!
//! ```text
//! plan ──▶ matrix ──▶ queue ──▶ rank group ──▶ events ┐
//!                                   GPU, host ──▶ samples ┼─▶ store ─▶ analysis ─▶ table, figure
//!                                                         ┘
//! ```
//!
//! The modules, in the order data flows. Who may use whom is enforced by `tests/architecture.rs`.

/// Image data sets as bytes: IDX files, the procedural digits, the download of MNIST.
pub mod dataset;
/// What to run: factors, levels, the plan file, the matrix of cells, their order and cost. Pure values.
pub mod plan;
/// What crosses process boundaries: jobs in, events and samples out, as versioned JSON lines.
pub mod protocol;
/// The session folder: its logs, the index made from them, the one writer and the readers.
pub mod store;
