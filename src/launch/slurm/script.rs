//! The batch script of a run or of an allocation: options of `sbatch` as its first lines, then the site's prologue, then the supervisor
//! or the steward. The script of an array executes the scripts of its runs.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::SCRIPT_FILE;
use crate::foreign;
use crate::launch::process::{STDERR_FILE, STDOUT_FILE};
use crate::plan::command::typed;
use crate::protocol::{AllocationSize, Job, Site};

/// Minutes that a job has in addition to its plan's time limit, in which multicard ends the run itself.
const SPARE_MINUTES: f64 = 2.0;

/// The resources that a job asks for.
pub(super) struct Ask<'a> {
    site: &'a Site,
    name: String,
    comment: &'a str,
    /// Where its output goes.
    folder: PathBuf,
    working_folder: Option<&'a Path>,
    minutes: Option<String>,
    size: AllocationSize,
    /// A line for readers of the script.
    remark: Option<&'static str>,
}

impl<'a> Ask<'a> {
    /// The job of a run.
    ///
    /// # Errors
    /// The run has no site, or its folder no absolute path.
    pub fn of_run(job: &'a Job, comment: &'a str) -> Result<Self, String> {
        let site = job.site.as_ref().ok_or_else(|| format!("run {} has no site", job.run))?;
        let minutes = job.limits.run_time_s.map(|limit_s| ((limit_s / 60.0).ceil() + SPARE_MINUTES).to_string());
        Ok(Self {
            site,
            name: format!("multicard-{}", job.run),
            comment,
            folder: absolute(&job.folder)?,
            working_folder: job.working_folder.as_deref(),
            minutes,
            size: AllocationSize::of(site, &job.shape),
            remark: None,
        })
    }

    /// The job of an allocation for the run and others, with the allocation's folder.
    ///
    /// # Errors
    /// Those of [`Ask::of_run`].
    pub fn of_allocation(job: &'a Job, size: AllocationSize, folder: &Path, comment: &'a str) -> Result<Self, String> {
        let (name, folder) = ("multicard-allocation".to_owned(), absolute(folder)?);
        let remark = Some(
            "# One allocation for many runs, one after the other in the plan's order. Each run is a step of this job.",
        );
        Ok(Self { name, folder, size, minutes: None, remark, ..Self::of_run(job, comment)? })
    }
}

fn absolute(folder: &Path) -> Result<PathBuf, String> {
    std::path::absolute(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// The script that runs `command` for a job, which is found by its comment.
///
/// # Errors
/// A value cannot be written in a script.
pub(super) fn text(ask: &Ask, command: &[OsString]) -> Result<String, String> {
    let folder = &ask.folder;
    let mut lines = vec!["#!/bin/sh".to_owned()];
    lines.extend(written([
        ("job-name", Some(ask.name.clone())),
        ("comment", Some(ask.comment.to_owned())),
        ("output", Some(pattern(&folder.join(STDOUT_FILE))?)),
        ("error", Some(pattern(&folder.join(STDERR_FILE))?)),
    ])?);
    lines.push(options(ask)?);
    lines.push(String::new());
    lines.extend(ask.remark.map(str::to_owned));
    lines.extend(ask.site.prologue.iter().cloned());
    // Since Slurm 22.05, `srun` does not take over the number of CPUs of the job that it is in.
    lines.push("export SRUN_CPUS_PER_TASK=\"$SLURM_CPUS_PER_TASK\"".to_owned());
    let words = command.iter().map(|word| utf8(Path::new(word)).map(|word| typed(&word)));
    lines.push(format!("exec {}", words.collect::<Result<Vec<_>, _>>()?.join(" ")));
    Ok(lines.join("\n") + "\n")
}

/// The lines with the options of `sbatch` that are the same for all jobs of runs that ask for the same resources.
///
/// # Errors
/// A value cannot be written in a script.
pub(super) fn options(ask: &Ask) -> Result<String, String> {
    let Ask { site, size, .. } = ask;
    let nodes = size.nodes.to_string();
    let gres = site.gres.as_ref().filter(|_| size.devices > 0).map(|gres| format!("{gres}:{}", size.devices));
    let mut lines = written([
        ("partition", site.partition.clone()),
        ("account", site.account.clone()),
        ("qos", site.qos.clone()),
        ("time", ask.minutes.clone().or_else(|| site.time.clone())),
        ("nodes", Some(nodes.clone())),
        // One task a node, which starts the node's ranks.
        ("ntasks", Some(nodes)),
        ("ntasks-per-node", (size.nodes > 1).then(|| "1".to_owned())),
        ("cpus-per-task", Some(size.cpus.to_string())),
        ("gres", gres),
        ("mem", site.memory.clone()),
        ("constraint", site.constraint.clone()),
        ("open-mode", Some("append".to_owned())),
        ("chdir", ask.working_folder.map(utf8).transpose()?),
    ])?;
    if site.exclusive {
        lines.push("#SBATCH --exclusive".to_owned());
    }
    // Each start is a run of its own, with its own folder.
    lines.push("#SBATCH --no-requeue".to_owned());
    for option in &site.options {
        let (name, value) = option.split_once('=').map_or((option.as_str(), None), |(name, value)| (name, Some(value)));
        let is_option = name.starts_with("--") && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if !is_option {
            let name = &site.name;
            return Err(format!("{option:?} of the site {name} is not an option such as --reservation=tuesday"));
        }
        let value =
            value.map(|value| quoted(name, value)).transpose()?.map_or(String::new(), |value| format!("={value}"));
        lines.push(format!("#SBATCH {name}{value}"));
    }
    Ok(lines.join("\n"))
}

/// The script of an array whose tasks are runs that have these options in common and are in these folders.
///
/// # Errors
/// The path of a folder cannot be written in a script.
pub(super) fn of_array(options: &str, comment: &str, folders: &[&Path]) -> Result<String, String> {
    let name = |folder: Option<&&Path>| {
        folder.and_then(|folder| folder.file_name()).unwrap_or_default().to_string_lossy().into_owned()
    };
    let mut lines = vec!["#!/bin/sh".to_owned()];
    lines.extend(written([
        ("job-name", Some(format!("multicard-{}-to-{}", name(folders.first()), name(folders.last())))),
        ("comment", Some(comment.to_owned())),
        ("array", Some(format!("0-{}", folders.len().saturating_sub(1)))),
        // Each task writes into the folder of its run.
        ("output", Some("/dev/null".to_owned())),
    ])?);
    lines.extend([options.to_owned(), String::new()]);
    lines.push("# Several runs, each of which is a task of this array and has a script of its own.".to_owned());
    lines.push("case \"$SLURM_ARRAY_TASK_ID\" in".to_owned());
    for (task, folder) in folders.iter().enumerate() {
        lines.push(format!("{task}) run={} ;;", typed(&utf8(folder)?)));
    }
    lines.push("esac".to_owned());
    lines.push(format!("exec >>\"$run/{STDOUT_FILE}\" 2>>\"$run/{STDERR_FILE}\""));
    lines.push(format!("exec /bin/sh \"$run/{SCRIPT_FILE}\""));
    Ok(lines.join("\n") + "\n")
}

/// The lines of those options that have a value.
fn written<const N: usize>(options: [(&str, Option<String>); N]) -> Result<Vec<String>, String> {
    let chosen = options.into_iter().filter_map(|(option, value)| Some((option, value?)));
    chosen.map(|(option, value)| Ok(format!("#SBATCH --{option}={}", quoted(option, &value)?))).collect()
}

/// Writes a script.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = foreign::open_ours_with(path, File::options().write(true).create(true).truncate(true))?;
    file.write_all(text.as_bytes())
}

fn utf8(path: &Path) -> Result<String, String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("{} is not UTF-8, which a batch script needs: use another path", path.display()))
}

/// A path in which `sbatch` replaces nothing.
fn pattern(path: &Path) -> Result<String, String> {
    Ok(utf8(path)?.replace('%', "%%"))
}

/// The value of an `sbatch` option, quoted for a line of a batch script.
fn quoted(option: &str, value: &str) -> Result<String, String> {
    if value.chars().any(char::is_control) {
        return Err(format!(
            "{value:?} cannot be the value of --{}: it has a line break",
            option.trim_start_matches('-')
        ));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+*&|[]".contains(c);
    if value.chars().all(is_plain) {
        return Ok(value.to_owned());
    }
    Ok(format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::{Data, Levels, Shape};
    use crate::protocol::JobLimits;

    fn job(site: Site) -> Job {
        let shape = Shape { devices_per_process: 2, own_program: true, ..Shape::default() };
        Job {
            run: "0001-a-1".into(),
            folder: "/home/a b/100%/runs/0001-a-1".into(),
            working_folder: Some("/home/a b".into()),
            site: Some(site),
            ..Job::new("command".into(), Levels::default(), shape, Data::default())
        }
    }

    fn script(job: &Job) -> String {
        let command = ["/opt/multicard".into(), "group".into(), "/home/a b/job.json".into()];
        text(&Ask::of_run(job, "multicard:x").unwrap(), &command).unwrap()
    }

    #[test]
    fn the_settings_of_a_site_are_options_and_paths_are_quoted() {
        let site = Site {
            name: "lab".into(),
            partition: Some("gpu".into()),
            gres: Some("gpu:h100".into()),
            time: Some("01:00:00".into()),
            exclusive: true,
            prologue: vec!["module load cuda".into()],
            options: vec!["--reservation=on tuesday".into(), "--hold".into()],
            ..Site::default()
        };
        let script = script(&job(site));
        for line in [
            "#SBATCH --partition=gpu",
            "#SBATCH --gres=gpu:h100:2",
            "#SBATCH --cpus-per-task=1",
            "#SBATCH --time=01:00:00",
            "#SBATCH --exclusive",
            "#SBATCH --no-requeue",
            "#SBATCH --reservation=\"on tuesday\"",
            "#SBATCH --hold",
            "#SBATCH --output=\"/home/a b/100%%/runs/0001-a-1/group.out\"",
            "module load cuda",
            "exec /opt/multicard group '/home/a b/job.json'",
        ] {
            assert!(script.lines().any(|found| found == line), "{line}: {script}");
        }
        assert!(!script.contains("--account"), "{script}");
    }

    #[test]
    fn an_array_has_the_options_that_its_runs_have_in_common_and_each_task_executes_the_script_of_its_run() {
        let site = Site { partition: Some("gpu".into()), ..Site::default() };
        let (a, mut b) = (job(site.clone()), job(site));
        (b.run, b.folder) = ("0002-b-1".into(), "/home/a b/100%/runs/0002-b-1".into());
        let options = |job: &Job| options(&Ask::of_run(job, "multicard:x").unwrap()).unwrap();
        assert_eq!(options(&a), options(&b));
        let script = of_array(&options(&a), "multicard:y", &[&a.folder, &b.folder]).unwrap();
        for line in [
            "#SBATCH --job-name=multicard-0001-a-1-to-0002-b-1",
            "#SBATCH --comment=multicard:y",
            "#SBATCH --array=0-1",
            "#SBATCH --partition=gpu",
            "1) run='/home/a b/100%/runs/0002-b-1' ;;",
            "exec /bin/sh \"$run/job.sbatch\"",
        ] {
            assert!(script.lines().any(|found| found == line), "{line}: {script}");
        }
        b.limits.run_time_s = Some(60.0);
        assert_ne!(options(&a), options(&b), "a run with another time limit is a job of its own");
    }

    #[test]
    fn a_plans_time_limit_takes_the_place_of_the_sites_and_leaves_time_to_end_the_run() {
        let site = Site { time: Some("01:00:00".into()), ..Site::default() };
        let limits = JobLimits { run_time_s: Some(61.0), ..JobLimits::default() };
        let script = script(&Job { limits, ..job(site) });
        assert!(script.contains("#SBATCH --time=4\n") && script.contains("--cpus-per-task=2"), "{script}");
    }

    #[test]
    fn a_run_over_nodes_asks_for_the_devices_of_each_and_one_task_on_each() {
        let mut job = job(Site { gres: Some("gpu".into()), ..Site::default() });
        (job.shape.processes, job.shape.ranks_per_node) = (3, 2);
        let script = script(&job);
        for line in ["--nodes=3", "--ntasks=3", "--ntasks-per-node=1", "--gres=gpu:2", "--cpus-per-task=2"] {
            assert!(script.contains(&format!("#SBATCH {line}\n")), "{line}: {script}");
        }
    }

    #[test]
    fn a_value_that_would_add_a_line_and_an_option_that_is_none_are_refused() {
        let refused = |site: Site| {
            let job = job(site);
            text(&Ask::of_run(&job, "multicard:x").unwrap(), &["/opt/multicard".into()]).unwrap_err()
        };
        let error = refused(Site { account: Some("a\nrm -r x".into()), ..Site::default() });
        assert!(error.contains("--account") && error.contains("line break"), "{error}");
        let error = refused(Site { name: "lab".into(), options: vec!["hold".into()], ..Site::default() });
        assert!(error.contains("\"hold\" of the site lab"), "{error}");
    }
}
