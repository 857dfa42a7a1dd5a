//! multicard: a workbench for performance experiments on multi-GPU machines.
//!
//! A plan (factors and their ticked levels) becomes a matrix of cells; each cell is run `repeats` times by
//! worker processes; what they say and what telemetry reads is kept in a session and compared, in tables and in the window.
//!
//! ```text
//! plan ──▶ matrix ──▶ queue ──▶ rank group ──▶ events ┐
//!                                   GPU, host ──▶ samples ┼─▶ store ─▶ analysis ─▶ table, figure, window
//!                        reports of Nsight Systems ─▶ trace ┘
//! ```
//!
//! The modules, in the order data flows. Who may use whom is enforced by `tests/architecture.rs`.

/// What runs say together: summaries, medians with intervals, ratios. Pure functions on records.
pub mod analysis;
/// The window.
#[cfg(feature = "window")]
pub mod app;
/// The subcommands.
pub mod cli;
/// Image data sets: IDX files, the procedural digits, the download of MNIST, folders of colour files.
pub mod dataset;
/// Charts and tables for screen and paper: presets, figures as SVG, PDF and PNG with where they come from, tables as Markdown, CSV,
/// LaTeX and JSON.
pub mod figure;
/// Runs on this machine: the worker binary, placement of ranks, the queue, and the launcher that starts, follows
/// and ends groups.
pub mod launch;
/// What to run: factors, levels, the plan file, the matrix of cells, their order and cost. Pure values.
pub mod plan;
/// What crosses process boundaries: jobs in, events and samples out, as versioned JSON lines.
pub mod protocol;
/// The conductor: the one object that the window, the command line and the tests drive.
pub mod session;
/// The session folder: its logs, the index made from them, the one writer and the readers, archives of it.
pub mod store;
/// What the machine says of itself while runs go on: node facts, and samples of GPUs, host and ranks.
pub mod telemetry;
/// Profiler reports: finds nsys and how runs start under it, imports what Nsight Systems recorded and says where the time of GPUs and host went.
pub mod trace;
