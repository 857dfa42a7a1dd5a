//! Programs of a plan that this machine does not have, found before anything runs.

use std::ffi::OsStr;
use std::path::Path;

use crate::plan::{Command, Plan, Remark};
use crate::processes;

/// A warning about the first of a plan's own programs that this machine does not have, so that its runs would fail. Nothing is known about
/// the nodes of a site.
pub fn missing_program(plan: &Plan) -> Option<Remark> {
    if plan.site.is_some() {
        return None;
    }
    let search = std::env::var_os("PATH");
    let commands = plan.blocks().filter_map(|block| block.spec.command.as_deref());
    let mut missing = commands.filter_map(|command| Some((command, why_missing(command, search.as_deref())?)));
    let (command, reason) = missing.next()?;
    let text = format!("the runs of workload {} will fail: {reason}", command.name);
    Some(Remark { text, is_warning: true })
}

/// The message of a run whose program is missing; `None` if the program exists, or if only a run can find out.
fn why_missing(command: &Command, search: Option<&OsStr>) -> Option<String> {
    let program = command.run.first()?;
    let folder = command.folder.as_deref().unwrap_or_default();
    let is_known_later = if program.contains('/') {
        // The set-up may make the program.
        !command.setup.is_empty() || folder.contains('{')
    } else {
        command.env.iter().any(|(name, _)| name == "PATH")
    };
    if is_known_later || program.contains('{') {
        return None;
    }
    let folder = std::path::absolute(Path::new(command.base.as_deref().unwrap_or(".")).join(folder)).ok()?;
    processes::executable(program, &folder, search).err()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn remark_text(run: &str, more: &str) -> Option<String> {
        let text = format!("version = 1\n[command]\nname = \"own\"\nrun = [\"{run}\", \"train.py\"]\n{more}\n");
        missing_program(&Plan::parse(&text, "").unwrap()).map(|remark| remark.text)
    }

    #[test]
    fn programs_that_are_not_installed_are_told() {
        let text = remark_text("no-such-interpreter-of-anything", "").unwrap();
        let expected =
            "the runs of workload own will fail: the program \"no-such-interpreter-of-anything\" is not found";
        assert!(text.starts_with(expected), "{text}");
        assert_eq!([remark_text("sh", ""), remark_text("{session_folder}/train", "")], [None, None]);
        assert_eq!(remark_text("no-such-interpreter-of-anything", "env = { PATH = \"/opt\" }"), None);
    }

    #[test]
    fn a_program_whose_path_does_not_exist_is_told_unless_it_is_made_later_or_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.sh");
        let program = path.to_str().unwrap();
        let text = remark_text(program, "").unwrap();
        assert!(text.contains(&format!("the program {program} is not found")), "{text}");
        assert_eq!(remark_text(program, "setup = [\"make\"]"), None, "the set-up may make it");
        assert_eq!(remark_text(program, "[where]\nsite = \"lab\""), None, "nodes of a site may have it");
        let text = remark_text("./no-such-program", "").unwrap();
        assert!(text.contains("no-such-program is not found"), "{text}");
        crate::executable::write(&path, "#!/bin/sh\n");
        assert_eq!(remark_text(program, ""), None);
    }
}
