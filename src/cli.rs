//! The subcommands. Data goes to stdout; progress and messages go to stderr.
//!
//! Exit codes: 0 success, 1 some run did not finish, a claim fails or a cell became worse, 2 bad input or usage, 130 interrupted.

mod cite;
mod claims;
mod command;
mod compose;
mod conduct;
mod data;
mod difference;
mod doctor;
mod document;
mod export;
mod figure;
mod follow;
mod help;
mod import;
mod manual;
mod material;
mod measure;
mod node;
mod node_sampler;
mod output;
mod overrides;
mod papers;
mod percent;
mod plan;
mod remake;
mod remote;
mod replace;
mod report;
mod reproduction;
mod run;
mod session;
mod setup;
mod site;
mod sources;
mod starts;
mod study;
mod table;
mod trace;
mod wrap;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::error::ContextKind;
use clap::{CommandFactory, Parser, Subcommand};

use node_sampler::NodeSampler;
use output::{
    BAD_INPUT, Format, INTERRUPTED, OK, Outcome, SOME_RUN_FAILED, TableFormat, UNDECIDED, is_closed_pipe, print,
    progress_bar, say, variant,
};
use remote::session_folder;

use crate::foreign;
use crate::launch;
use crate::protocol::{ENVIRONMENT_FILE, Environment, Job, environment_file_of, node_name};
use crate::telemetry;
use follow::Interrupted;

/// A workbench for performance experiments on multi-GPU machines.
#[derive(Parser)]
#[command(name = "multicard", version, arg_required_else_help = false)]
#[command(disable_help_subcommand = true, after_help = help::list_topics())]
struct Arguments {
    /// Session that the window opens, created if missing: a folder, or a session on another machine as ssh://[user@]host/path. Default: the
    /// last open session.
    #[arg(long, value_name = "DIR|ADDRESS")]
    session: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Describe this machine: GPUs, CPUs, memory, worker. `node measure` measures the rates that it reaches.
    Node(node::Arguments),
    /// Check what runs need on this machine, and print the command that installs what is missing. Exit code 1 if something does not work.
    Doctor(doctor::Arguments),
    /// List the clusters that runs go to through Slurm, add one, or try one.
    Site(site::Arguments),
    /// Fetch the libraries of PyTorch or NVIDIA DALI where this machine has none. Continues an earlier download that was interrupted.
    Setup(setup::Arguments),
    /// Show what a plan would run here: cells, estimated time and memory, and cells that cannot run.
    Plan(plan::Arguments),
    /// Run a plan and record it in a session.
    Run(run::Arguments),
    /// Run a session's queue in a process that other programs attach to; started by the window and by `run --detach`.
    Conduct(conduct::ConductArguments),
    /// Follow the runs of a session that another process runs, until nothing is left to do. Ctrl-C does not end the runs.
    Attach(conduct::AttachArguments),
    /// Stop all runs of a session, whichever process runs them.
    Stop(conduct::StopArguments),
    /// Print a table of a session's results.
    Table(table::Arguments),
    /// List the studies of a session, built-in and saved; save one, or delete one.
    Study(study::Arguments),
    /// List the measures of a session; add one of your own that is computed from others, or delete it.
    Measure(measure::Arguments),
    /// Write a figure of a session's results, or open a figure file in the window.
    Figure(Box<figure::Arguments>),
    /// Compare the cells of two sessions: which became faster or slower. Exit code 1 if one became worse.
    Diff(difference::Arguments),
    /// Judge the papers' claims by a session's runs: holds, fails, undecided, not judged, untested. Exit code 1 if a claim fails.
    Claims(claims::Arguments),
    /// List the tables and figures of the papers; print the values, contradictions and claims of one of them; or write a report that
    /// compares sessions with the papers.
    Papers(papers::Arguments),
    /// Export a session's runs, steps, epochs, samples or evidence as a long table for pandas, DuckDB and similar programs.
    Export(export::Arguments),
    /// Make sessions from results of other programs: CSV, JSON lines, hyperfine's JSON. Shows what the columns mean
    /// before it writes anything.
    Import(import::Arguments),
    /// Print how to cite multicard, and the measurements of a session.
    Cite(cite::Arguments),
    /// Write a paragraph on how a session's numbers were measured, from its records.
    Methods(cite::MethodsArguments),
    /// Write all figures and tables of a session into a folder.
    Report(report::Arguments),
    /// Summarise a report of Nsight Systems or PyTorch's profiler: metrics, kernels, API calls, copies, gaps.
    Trace(trace::Arguments),
    /// Show recordings in the window, one below the other on one time axis.
    Timeline {
        /// Reports of Nsight Systems, traces of PyTorch's profiler or folders with those of several ranks, or events files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Generate or download data sets.
    #[command(subcommand)]
    Data(data::Command),
    /// Try a plan's own program.
    #[command(subcommand)]
    Command(command::Command),
    /// Print a helper module for programs that report their own readings.
    Adapter(command::AdapterArguments),
    /// Show, rebuild, export or import a session.
    #[command(subcommand)]
    Session(session::Command),
    /// Print the help of a subcommand, a topic or a workload.
    Help(help::Arguments),
    /// Open the manual: tutorials, answers, reference and method on one page, without a network.
    Manual(manual::Arguments),
    /// Print a shell completion script.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, in roff.
    Man {
        /// Write a page for each subcommand into this folder instead.
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Relay a session over standard input and output; started over ssh by multicard on another machine.
    #[command(hide = true)]
    Relay {
        /// Session folder.
        session: PathBuf,
    },
    /// Lead the ranks of a job; started by the launcher.
    #[command(name = launch::GROUP_COMMAND, hide = true)]
    Group {
        /// The job's file.
        job: PathBuf,
        /// The command line of a rank.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        program: Vec<OsString>,
    },
    /// Become a rank's program; started by the supervisor.
    #[command(name = launch::RANK_COMMAND, hide = true)]
    Rank {
        /// The process id of the supervisor.
        supervisor: u32,
        /// The program and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        program: Vec<OsString>,
    },
    /// Start and watch a job's ranks on this node; the job's supervisor starts this on each node.
    #[command(name = launch::RANKS_COMMAND, hide = true)]
    Ranks {
        /// The job's file.
        job: PathBuf,
        /// The command line of a rank.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        program: Vec<OsString>,
    },
    /// Run the program of a job; started by the supervisor.
    #[command(name = launch::PROGRAM_COMMAND, hide = true)]
    Program {
        /// The job's file.
        job: PathBuf,
        /// Take the node's number from Slurm, which started this process on each node of a run.
        #[arg(long)]
        by_slurm: bool,
    },
    /// Execute the runs of an allocation; started by Slurm.
    #[command(name = launch::ALLOCATION_COMMAND, hide = true)]
    Allocation {
        /// The allocation's folder.
        folder: PathBuf,
        /// Seconds without work after which it ends.
        #[arg(long)]
        idle: u64,
    },
    /// Describe this node of a run; started by the supervisor.
    #[command(name = launch::DESCRIBE_COMMAND, hide = true)]
    Describe {
        /// The run's folder.
        folder: PathBuf,
    },
}

/// Runs the command line.
pub fn main() -> ExitCode {
    // A write beyond the limit of file sizes then fails with its error, instead of ending the program without a word.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    foreign::keep_files_from_others();
    let arguments = match on_own_stack(Arguments::try_parse) {
        Ok(arguments) => arguments,
        Err(error) => return misunderstood(&error),
    };
    let outcome = match arguments.command {
        Some(Command::Node(arguments)) => node::run(arguments),
        Some(Command::Doctor(arguments)) => doctor::run(&arguments),
        Some(Command::Site(arguments)) => site::run(&arguments),
        Some(Command::Setup(arguments)) => setup::run(&arguments),
        Some(Command::Plan(arguments)) => plan::run(&arguments),
        Some(Command::Run(arguments)) => run::run(&arguments),
        Some(Command::Conduct(arguments)) => conduct::conduct(&arguments),
        Some(Command::Attach(arguments)) => conduct::attach(&arguments),
        Some(Command::Stop(arguments)) => conduct::stop(&arguments),
        Some(Command::Table(arguments)) => table::run(&arguments),
        Some(Command::Study(arguments)) => study::run(&arguments),
        Some(Command::Measure(arguments)) => measure::run(&arguments),
        Some(Command::Figure(arguments)) => figure::run(&arguments),
        Some(Command::Diff(arguments)) => difference::run(&arguments),
        Some(Command::Claims(arguments)) => claims::run(&arguments),
        Some(Command::Papers(arguments)) => papers::run(&arguments),
        Some(Command::Export(arguments)) => export::run(&arguments),
        Some(Command::Import(arguments)) => import::run(&arguments),
        Some(Command::Cite(arguments)) => cite::run(&arguments),
        Some(Command::Methods(arguments)) => cite::methods(&arguments),
        Some(Command::Report(arguments)) => report::run(&arguments),
        Some(Command::Trace(arguments)) => trace::run(&arguments),
        Some(Command::Timeline { files }) => timeline(files),
        Some(Command::Data(command)) => data::run(command),
        Some(Command::Command(command)) => command::run(&command),
        Some(Command::Adapter(arguments)) => command::adapter(&arguments),
        Some(Command::Session(command)) => session::run(command),
        Some(Command::Help(arguments)) => help::run(&arguments),
        Some(Command::Manual(arguments)) => manual::run(&arguments),
        Some(Command::Completions { shell }) => completions(shell),
        Some(Command::Man { folder }) => man(folder.as_deref()),
        Some(Command::Relay { session }) => crate::remote::relay(&session).map(|()| OK).map_err(Into::into),
        Some(Command::Group { job, program }) => group(&job, &program),
        Some(Command::Ranks { job, program }) => ranks_of_node(&job, &program),
        Some(Command::Rank { supervisor, program }) => Err(launch::become_rank(supervisor, &program).into()),
        Some(Command::Program { job, by_slurm }) => program(&job, by_slurm),
        Some(Command::Allocation { folder, idle }) => {
            launch::keep_allocation(&folder, Duration::from_secs(idle)).map(|()| OK).map_err(Into::into)
        }
        Some(Command::Describe { folder }) => describe_step(&folder),
        None => window(arguments.session),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_closed_pipe(error.as_ref()) => ExitCode::from(OK),
        Err(error) if error.is::<Interrupted>() => {
            say(error);
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            say(format_args!("multicard: {error}"));
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// All subcommands with their arguments and help.
fn description() -> clap::Command {
    on_own_stack(Arguments::command)
}

/// Calls a function that describes all subcommands to clap, on a thread with enough stack: the description takes 0.1 MB, and 0.7 MB where it
/// is not optimised, and the user may have limited the stack of the main thread (`ulimit -s`).
fn on_own_stack<T: Send + 'static>(describe: fn() -> T) -> T {
    const STACK_BYTES: usize = 4 << 20;
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(describe);
    thread.ok().and_then(|thread| thread.join().ok()).unwrap_or_else(describe)
}

/// Explains what is wrong with the arguments. If a session stands in the place of a subcommand, the message says so.
fn misunderstood(error: &clap::Error) -> ExitCode {
    let given = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string);
    if let Some(folder) = given.filter(|given| Path::new(given).join("session.toml").is_file()) {
        let folder = crate::remote::quoted(&folder);
        say(format_args!(
            "multicard: {folder} is a session, not a command: open it with `multicard --session {folder}`"
        ));
        return ExitCode::from(BAD_INPUT);
    }
    // Help and the version are errors of this kind too, and go to standard output.
    let code = if error.use_stderr() { BAD_INPUT } else { OK };
    let _ = error.print();
    ExitCode::from(code)
}

#[cfg(feature = "window")]
fn window(session: Option<PathBuf>) -> Outcome {
    crate::app::open(session, Vec::new())?;
    Ok(OK)
}

/// Opens the window with a figure.
#[cfg(feature = "window")]
fn window_at(figure: PathBuf) -> Outcome {
    crate::app::open(None, vec![crate::app::FiguresCommand::Open(figure).into()])?;
    Ok(OK)
}

/// Opens the window with recordings on the Timeline screen.
#[cfg(feature = "window")]
fn timeline(recordings: Vec<PathBuf>) -> Outcome {
    use crate::app::TimelineCommand;
    crate::app::open(None, recordings.into_iter().map(|file| TimelineCommand::file(file).into()).collect())?;
    Ok(OK)
}

#[cfg(not(feature = "window"))]
fn timeline(_recordings: Vec<PathBuf>) -> Outcome {
    window(None)
}

#[cfg(not(feature = "window"))]
fn window_at(_figure: PathBuf) -> Outcome {
    window(None)
}

#[cfg(not(feature = "window"))]
fn window(_session: Option<PathBuf>) -> Outcome {
    Err("built without the feature `window`: use a subcommand (`multicard --help` lists them)".into())
}

fn completions(shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut description(), "multicard", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(OK)
}

fn man(folder: Option<&Path>) -> Outcome {
    if let Some(folder) = folder {
        clap_mangen::generate_to(description(), folder)
            .map_err(|error| format!("writing pages into {} failed: {error}", folder.display()))?;
        return Ok(OK);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(description()).render(&mut page)?;
    print(&String::from_utf8(page)?)?;
    Ok(OK)
}

/// Leads the ranks of a job.
fn group(job: &Path, program: &[OsString]) -> Outcome {
    Ok(if launch::lead(job, program, describe_node, NodeSampler::of)? { OK } else { SOME_RUN_FAILED })
}

/// Leads the ranks of this node of a job.
fn ranks_of_node(job: &Path, program: &[OsString]) -> Outcome {
    Ok(if launch::lead_node(job, program, NodeSampler::of)? { OK } else { SOME_RUN_FAILED })
}

/// The environment of this node, with all of its GPUs.
fn environment_here() -> Environment {
    let node = telemetry::read_node();
    telemetry::read_environment(&node, &node.gpus.iter().collect::<Vec<_>>())
}

/// Writes the environment of a site's node into the folder of a run. The run continues without it.
fn describe_node(folder: &Path) {
    let written = serde_json::to_vec(&environment_here()).map_err(std::io::Error::from);
    let written = written.and_then(|text| foreign::write_ours(&folder.join(ENVIRONMENT_FILE), &text));
    if let Err(error) = written {
        say(format_args!("multicard: cannot write {ENVIRONMENT_FILE}: {error}"));
    }
}

/// Writes the name and the environment of one of a run's nodes into the run's folder, and then tells the first node the time here.
fn describe_step(folder: &Path) -> Outcome {
    let environment = environment_here();
    let name = node_name();
    let node = launch::node_of_step();
    foreign::write_ours(&folder.join(environment_file_of(node)), &serde_json::to_vec(&(name, environment))?)?;
    launch::tell_time(node);
    Ok(OK)
}

/// Runs the program of a job on this node.
fn program(job: &Path, by_slurm: bool) -> Outcome {
    let node = if by_slurm { launch::node_of_step() } else { 0 };
    // All processes of the program descend from this one.
    let sample = |job: &Job| NodeSampler::of(job, node, vec![(node, std::process::id())]);
    Ok(if crate::program::run(job, node, launch::RANK_COMMAND, sample)? { OK } else { SOME_RUN_FAILED })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
