//! multicard: a workbench for performance experiments on multi-GPU machines.
//!
//! A plan names a workload and the levels of its factors. The combinations of these levels are the cells of its matrix. Each cell is run
//! `repeats` times, by worker processes or by a program that the plan names. A session stores the events of these runs and samples of the
//! machine; tables, figures and the window compare the cells.
//!
//! A workload is a value: a `WorkloadSpec` in `plan` (factors, data sets, `check`), and either a `Task` in the worker or a command in the
//! plan. `dataset` contains the data sets that workloads declare, and `papers` is about two workloads. All rooms but these four know no
//! workload by name; what they need to know about a level is in the level's `Hint`.
//!
//! ```text
//! plan ─▶ matrix ─▶ queue ─▶ supervisor ─▶ ranks ─▶ events ┐
//!                                     GPU, host ─▶ samples ┼─▶ store ─▶ analysis ─▶ study ─▶ table, figure, window
//!          CUPTI records, reports of profilers ──────▶ trace ┘
//! ```
//!
//! `tests/architecture.rs` enforces which of the modules below may use which.

/// Summaries of runs and of cells: the registry of measures, medians with intervals, ratios, verdicts, searches. Pure functions of records.
pub mod analysis;
/// The window.
#[cfg(feature = "window")]
pub mod app;
/// The subcommands.
pub mod cli;
/// The conductor of a session, a process that owns the session's queue, and its clients: the window and the command line.
pub mod conduct;
/// Data sets. Images: IDX files, generated digits, the download of MNIST, folders of image files. Texts: rows of JSON, CSV and Parquet
/// files with their downloads, templates, tokenizers, preference pairs.
pub mod dataset;
/// Exports a session's runs, steps, epochs, samples and evidence as long tables for other programs, in CSV and Parquet.
pub mod export;
/// Charts and tables for screen and paper: studies; figures with one or more panels as SVG, PDF and PNG with their provenance; tables as
/// Markdown, CSV, LaTeX and JSON.
pub mod figure;
/// Files and text from other programs: files are opened without following links and read with limits, text is shown without its escape
/// sequences. Also writes files that the user names, either atomically or into an existing pipe or device.
pub mod foreign;
/// Makes sessions of imported runs from results of other programs (CSV, JSON lines, hyperfine's JSON). A mapping says
/// what their columns mean.
pub mod import;
/// Runs on this machine, or as jobs of Slurm: finding the worker, placement of ranks, the queue, the launcher that starts, follows and
/// ends groups of processes, and the supervisor of a group's ranks.
pub mod launch;
/// The numbers, tables, figures, contradictions and claims of two papers, the plans that repeat their experiments, and comparisons of
/// sessions with them.
pub mod papers;
/// What to run: workloads with their factors, levels, the plan file, designs, searches, the matrix of cells, their order and cost, and
/// formulas of measures. Pure values.
pub mod plan;
/// The machine's processes as a tree. Finds the processes of a run, wherever they moved in the tree, and ends them.
pub mod processes;
/// Programs as workloads: the runner that starts a program as the ranks of a run on its node, watches it and reads its output.
pub mod program;
/// The messages between processes, as versioned lines of JSON: jobs to the ranks; events, readings and samples from them.
pub mod protocol;
/// Sessions on other machines: the connection over ssh, the relay on the node, and the copy on this machine that readers use.
pub mod remote;
/// The session that a conductor runs: plan, queue, groups, telemetry and store as one object.
pub mod session;
/// Fetches libraries that the worker loads, if the node does not have them.
pub mod setup;
/// Medians with their intervals, correlations, and distributions, for all rooms that summarise values.
pub mod statistics;
/// The session folder: its logs, the index made from them, its only writer and its readers, and archives.
pub mod store;
/// Facts of the machine, and samples of its GPUs, host and ranks during runs.
pub mod telemetry;
/// Tables as Markdown, CSV and LaTeX, for all rooms that print tables.
pub mod text_table;
/// Recordings: traces runs with CUPTI or with nsys, reads raw traces, reports, traces of PyTorch's profiler and events files, and shows
/// how GPUs and host spent their time, as sums and as timelines.
pub mod trace;

/// Programs that tests write and then start.
#[cfg(test)]
#[path = "../tests/executable/mod.rs"]
mod executable;
