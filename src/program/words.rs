//! The values of the placeholders in a run's command.

use std::path::Path;

use super::ranks::Ranks;
use crate::plan::command::{self, Filled};
use crate::protocol::{Job, Program};

/// Placeholders whose values no two runs, or no two nodes of a run, need have in common.
const OWN: [&str; 4] = ["run_folder", "node_rank", "master_addr", "port"];

/// The values of a run's placeholders, which stay the same for the whole run.
pub(super) struct Words<'a> {
    job: &'a Job,
    program: &'a Program,
    ranks: &'a Ranks,
}

impl<'a> Words<'a> {
    pub fn new(job: &'a Job, program: &'a Program, ranks: &'a Ranks) -> Self {
        Self { job, program, ranks }
    }

    /// The run's command with its placeholders filled.
    ///
    /// # Errors
    /// A placeholder is unknown, or the command names no program.
    pub fn command(&self) -> Result<Filled, String> {
        self.program.command.filled(&|name| self.value(name))
    }

    /// The command as all runs with the same levels and seed have it: placeholders for what is the run's or the node's own are left in.
    ///
    /// # Errors
    /// As for [`Self::command`].
    pub fn shared_command(&self) -> Result<Filled, String> {
        let is_own = |name: &str| OWN.contains(&name) && self.job.levels.get(name).is_none();
        self.program.command.filled(&|name| if is_own(name) { Some(format!("{{{name}}}")) } else { self.value(name) })
    }

    /// The names of the files that the run's readings are read from, with their placeholders filled.
    ///
    /// # Errors
    /// A placeholder is unknown.
    pub fn files(&self) -> Result<Vec<String>, String> {
        let files = self.program.command.readings.files.iter();
        files.filter_map(|file| command::filled(file, &|name| self.value(name)).transpose()).collect()
    }

    /// The value of a placeholder: the level of a factor, or a property of the run itself.
    fn value(&self, name: &str) -> Option<String> {
        let Self { job, program, ranks } = self;
        if let Some(level) = job.levels.get(name) {
            return Some(level.to_string());
        }
        match name {
            "seed" => Some(job.seed.to_string()),
            "repeat" => Some(program.repeat.to_string()),
            "gpus" => Some(job.shape.devices().to_string()),
            "run_folder" => std::path::absolute(&job.folder).ok().map(|folder| folder.display().to_string()),
            "session_folder" => {
                let folder = std::path::absolute(&job.folder).ok()?;
                Some(session_folder(&folder)?.display().to_string())
            }
            "nodes" => Some(job.shape.nodes().to_string()),
            "gpus_per_node" => Some(job.shape.devices_per_process.to_string()),
            "node_rank" => Some(ranks.node().to_string()),
            "master_addr" => Some(ranks.master_addr()),
            "port" => ranks.port().map(|port| port.to_string()),
            _ => None,
        }
    }
}

/// The folder of the session that contains a run's folder.
pub(super) fn session_folder(run: &Path) -> Option<&Path> {
    run.parent()?.parent()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Data, Shape, image};

    #[test]
    fn placeholders_are_the_levels_of_the_run_and_what_it_is() {
        let shape = Shape { devices_per_process: 3, ..Shape::default() };
        let mut job = Job::new(image::KEY.into(), image::spec().levels(&[]), shape, Data::of_set("digits"));
        job.seed = 40;
        job.folder = "/sessions/one/runs/r7".into();
        let run = ["{seed}", "{repeat}", "{gpus}", "{run_folder}", "{session_folder}", "{batch_size}"]
            .map(str::to_owned)
            .to_vec();
        let batch_size = job.levels.get("batch_size").map(ToString::to_string).unwrap_or_default();
        let command = command::Command { run, ..Default::default() };
        let program = Program { command, repeat: 2, marker: String::new(), device: String::new() };
        let ranks = Ranks::new(&job, 0);
        let words = Words::new(&job, &program, &ranks);
        let filled = words.command().map(|filled| filled.run);
        // The factors' levels take precedence: here they ask for one GPU.
        let expected = ["40", "2", "1", "/sessions/one/runs/r7", "/sessions/one", &batch_size];
        assert_eq!(filled, Ok(expected.map(str::to_owned).to_vec()));
        let port = words.value("port");
        assert!(port.is_some() && words.value("port") == port, "a run has one port");
        assert_eq!(
            (words.value("master_addr"), words.value("node_rank")),
            (Some("127.0.0.1".into()), Some("0".into()))
        );
        assert_eq!(words.value("rank"), None);
        let shared = words.shared_command().map(|filled| filled.run);
        let expected = ["40", "2", "1", "{run_folder}", "/sessions/one", &batch_size];
        assert_eq!(shared, Ok(expected.map(str::to_owned).to_vec()));
    }
}
