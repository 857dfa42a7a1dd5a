//! multicard: a workbench for performance experiments on multi-GPU machines.
//!
//! A plan (factors of a workload and their ticked levels) becomes a matrix of cells. Each cell is run `repeats` times by worker
//! processes, or by a program that the plan names. Their events and the samples of telemetry are kept in a session and compared, in tables, figures and the window.
//!
//! A workload is a value: a `WorkloadSpec` in `plan` (factors, data sets, `check`) and a `Task` in the worker, or a
//! command that comes with its plan. `dataset` has the data sets that workloads declare, `papers` is about two of them; nothing else
//! knows a workload by name. What other rooms must know of a level is a `Hint` beside it.
//!
//! ```text
//! plan ─▶ matrix ─▶ queue ─▶ supervisor ─▶ ranks ─▶ events ┐
//!                                     GPU, host ─▶ samples ┼─▶ store ─▶ analysis ─▶ study ─▶ table, figure, window
//!          CUPTI records, reports of Nsight Systems ─▶ trace ┘
//! ```
//!
//! The modules, in the order data flows. Who may use whom is enforced by `tests/architecture.rs`.

/// Summaries of runs and what they show together: the registry of measures, medians with intervals, ratios. Pure functions of
/// records.
pub mod analysis;
/// The window.
#[cfg(feature = "window")]
pub mod app;
/// The subcommands.
pub mod cli;
/// The conductor of a session and its clients: one process owns the queue; the window and the command line attach to it.
pub mod conduct;
/// Data sets. Images: IDX files, the procedural digits, the download of MNIST, folders of colour files. Texts: rows of JSON, CSV and
/// Parquet files with their downloads, templates, tokenizers, preference pairs.
pub mod dataset;
/// Long tables of a session's runs, steps, epochs, samples and evidence for other programs, as CSV and Parquet.
pub mod export;
/// Charts and tables for screen and paper: studies, figures of one study or of several panels, as SVG, PDF and PNG with their
/// provenance, tables as Markdown, CSV, LaTeX and JSON.
pub mod figure;
/// Files and text that other programs wrote: opened without following links, read with limits, shown without their escapes. Files that
/// the user names, written whole or through.
pub mod foreign;
/// Runs on this machine: the worker binary, placement of ranks, the queue, the launcher that starts, follows and ends groups, and
/// the supervisor that leads the ranks of one.
pub mod launch;
/// What the two papers print: numbers, tables, figures with their plans, contradictions and claims; what a session has of them.
pub mod papers;
/// What to run: workloads with their factors, levels, the plan file, the matrix of cells, their order and cost. Pure values.
pub mod plan;
/// The machine's processes as a tree: those of a run are found and ended, wherever they went.
pub mod processes;
/// Programs as workloads: the runner that starts a program as the rank of a run, watches it and reads what it says.
pub mod program;
/// The lines that cross process boundaries: jobs in, events, readings and samples out, as versioned JSON.
pub mod protocol;
/// Sessions on other machines: the line over ssh, the relay on the node, the copy that is read here.
pub mod remote;
/// The session that is run: plan, queue, groups, telemetry and store as one object.
pub mod session;
/// Libraries that the worker loads, fetched where the node has none.
pub mod setup;
/// Medians with their intervals, and distributions: what all that counts and compares shares.
pub mod statistics;
/// The session folder: its logs, the index made from them, the one writer and the readers, archives of it.
pub mod store;
/// Facts of the machine, and samples of its GPUs, host and ranks while runs go on.
pub mod telemetry;
/// Tables as Markdown, CSV and LaTeX: what all that prints a table shares.
pub mod text_table;
/// Recordings: traces runs by a library over CUPTI or under nsys, reads raw traces, reports and events files, and shows where the time
/// of GPUs and host went, as sums and as timelines.
pub mod trace;

/// Programs that tests write and then start.
#[cfg(test)]
#[path = "../tests/executable/mod.rs"]
mod executable;
