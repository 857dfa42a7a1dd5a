//! `multicard site`, and what `multicard plan` shows of a plan at a site.

use std::fs;
use std::path::Path;

use multicard::plan::RunState;
use multicard::session::open_reader;

use crate::Scene;
use crate::seeded::{succeed, text};

#[test]
fn a_site_is_tried_by_a_run_that_leaves_nothing_behind() {
    let Some(scene) = Scene::at("lab") else { return };
    let before = scene.names();
    let output = succeed(&mut scene.multicard(&["site", "lab"]));
    let stdout = text(&output.stdout);
    assert!(stdout.starts_with("[lab]\npartition = \"debug\"\n"), "{stdout}");
    assert!(stdout.contains("✓ Partition: debug of 2 × 4 CPUs"), "{stdout}");
    assert!(stdout.contains("✓ Run: a run on ") && stdout.contains(env!("CARGO_PKG_VERSION")), "{stdout}");
    let stdout = text(&succeed(&mut scene.multicard(&["site", "lab", "--nodes", "2"])).stdout);
    assert!(stdout.contains("✓ Run: a run on n1, n2 "), "{stdout}");
    assert_eq!(scene.names(), before);
}

#[test]
fn a_site_whose_prologue_fails_says_so_with_what_the_node_printed() {
    let Some(scene) = Scene::at("lab") else { return };
    let sites = "[broken]\npartition = \"debug\"\nprologue = [\"echo no module cuda >&2\", \"exit 3\"]\n";
    fs::write(scene.path("config/multicard/sites.toml"), sites).unwrap();
    let output = scene.multicard(&["site", "broken"]).output().unwrap();
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("✗ Run: Slurm job") && stdout.contains("exited with code 3"), "{stdout}");
    assert!(stdout.contains("end of stderr: no module cuda") && stdout.contains("edit [broken] in "), "{stdout}");
}

/// A site whose jobs execute programs by a command that sets a variable.
const BOXED: &str = "[boxed]\npartition = \"debug\"\ncontainer = [\"env\", \"INSIDE=4.5\"]\n";

#[test]
fn a_program_and_its_set_up_are_executed_by_the_sites_container() {
    let Some(scene) = Scene::at("boxed") else { return };
    fs::write(scene.path("config/multicard/sites.toml"), BOXED).unwrap();
    let stdout = text(&succeed(&mut scene.multicard(&["site", "boxed"])).stdout);
    assert!(stdout.contains("container = [\"env\", \"INSIDE=4.5\"]") && stdout.contains("✓ Run: "), "{stdout}");
    scene.plan(1, "echo score: $INSIDE", "");
    let set_up = "[command]\nsetup = [\"sh\", \"-c\", \"echo $INSIDE > prepared\"]\n";
    let plan = fs::read_to_string(scene.path("plan.toml")).unwrap().replacen("[command]\n", set_up, 1);
    fs::write(scene.path("plan.toml"), plan).unwrap();
    let stderr = text(&scene.run().stderr);
    assert_eq!(scene.states(), [RunState::Finished], "{stderr}");
    assert_eq!(fs::read_to_string(scene.path("prepared")).unwrap(), "4.5\n");
    let whole = open_reader(&scene.session()).unwrap().run(&scene.records()[0].run).unwrap().unwrap();
    let scores = whole.ranks[0].readings.iter().filter(|reading| reading.key == "score");
    assert_eq!(scores.map(|reading| reading.value).collect::<Vec<_>>(), [4.5]);
    assert_eq!(whole.environment.unwrap().get("program_container"), Some("env INSIDE=4.5"));
    let record = fs::read_to_string(scene.runs()[0].join("program.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["command_line"][0], "env", "{record}");
}

#[test]
fn a_container_that_is_not_there_and_a_built_in_workload_in_one_are_refused() {
    let Some(scene) = Scene::at("boxed") else { return };
    let file = scene.path("config/multicard/sites.toml");
    fs::write(&file, BOXED.replace("\"env\"", "\"/nonexistent/apptainer\"")).unwrap();
    let output = scene.multicard(&["site", "boxed"]).output().unwrap();
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("✗ Run: ") && stdout.contains("/nonexistent/apptainer is not found"), "{stdout}");
    fs::write(&file, BOXED).unwrap();
    fs::write(scene.path("plan.toml"), "version = 1\n[where]\nsite = \"boxed\"\n[data]\nset = \"digits\"\n").unwrap();
    let output = scene.run();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("do not run in the site's container") && scene.records().is_empty(), "{stderr}");
}

#[test]
fn a_site_is_added_with_what_slurm_tells_and_is_then_listed_and_named_by_doctor() {
    let Some(scene) = Scene::at("lab") else { return };
    succeed(&mut scene.multicard(&["site", "new", "--add"]));
    succeed(&mut scene.multicard(&["site", "newer", "--add", "--partition", "low"]));
    let listed = text(&succeed(&mut scene.multicard(&["site"])).stdout);
    assert!(listed.contains("[new]\npartition = \"debug\"\n"), "{listed}");
    assert!(listed.contains("[newer]\npartition = \"low\"\n") && listed.contains("[lab]\n"), "{listed}");
    let again = scene.multicard(&["site", "new", "--add"]).output().unwrap();
    assert!(text(&again.stderr).contains("has a site new already"), "{}", text(&again.stderr));
    let wrong = scene.multicard(&["site", "other", "--add", "--partition", "nope"]).output().unwrap();
    assert!(text(&wrong.stderr).contains("debug, low, high, closed"), "{}", text(&wrong.stderr));
    let doctor = text(&scene.multicard(&["doctor"]).output().unwrap().stdout);
    assert!(
        doctor.contains("✓ Slurm: ") && doctor.contains("sites: gpus, held, lab, last, low, many, new, newer, short"),
        "{doctor}"
    );
}

#[test]
fn the_script_that_a_plan_prints_is_the_one_that_is_sent() {
    let Some(mut scene) = Scene::at("lab") else { return };
    scene.site = None;
    scene.plan(1, "true", "run_time_s = 90");
    let printed =
        text(&succeed(&mut scene.multicard(&["plan", "plan.toml", "--site", "lab", "--format", "sbatch"])).stdout);
    assert!(printed.contains("#SBATCH --time=4\n") && printed.contains("export FROM_PROLOGUE=yes\n"), "{printed}");
    succeed(&mut scene.multicard(&["run", "plan.toml", "--session", "SESSION", "--site", "lab"]));
    let run = fs::read_dir(scene.path("SESSION/runs")).unwrap().next().unwrap().unwrap().path();
    let sent = fs::read_to_string(run.join("job.sbatch")).unwrap();
    let but_comment = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.contains("--comment=")).map(str::to_owned).collect()
    };
    assert_eq!(but_comment(&printed), but_comment(&sent));
}

#[test]
fn a_plan_tells_when_its_runs_would_start_at_a_site_and_what_cannot_run_there() {
    let Some(scene) = Scene::at("lab") else { return };
    scene.plan(1, "echo {gpus}", "");
    let plan = fs::read_to_string(scene.path("plan.toml")).unwrap() + "[factors]\ngpus = [1, 4, 5]\n";
    fs::write(scene.path("plan.toml"), plan).unwrap();
    let stdout = text(&succeed(&mut scene.multicard(&["plan", "plan.toml"])).stdout);
    assert!(stdout.contains("2 cells") && stdout.contains("at site lab, the largest run would start at "), "{stdout}");
    assert!(stdout.contains("the largest node of site lab has no GPUs and 4 CPUs for 5 CPU ranks"), "{stdout}");
}

#[test]
fn a_plan_is_launched_at_a_site_over_ssh() {
    let Some(scene) = Scene::at("lab") else { return };
    // Stands for a login node: another home, with Slurm and the sites.
    let login = Scene::at("lab").unwrap();
    let (config, state, data) = (login.path("config"), login.path("state"), login.path("data"));
    let script = format!(
        "#!/bin/sh\nfor command; do :; done\nexport HOME={home} XDG_CONFIG_HOME={config} XDG_STATE_HOME={state} XDG_DATA_HOME={data} \
         SLURM_CONF={conf} MULTICARD_SLURM_INTERVAL_S=0.3\ncd {home}\nPATH={programs}:$PATH exec sh -c \"$command\"\n",
        home = login.path("").display(),
        config = config.display(),
        state = state.display(),
        data = data.display(),
        conf = login.cluster.conf().display(),
        programs = Path::new(env!("CARGO_BIN_EXE_multicard")).parent().unwrap().display(),
    );
    crate::executable::write(&scene.path("ssh"), &script);
    scene.plan(2, "echo score: $SLURM_JOB_ID", "");
    // The laptop knows neither the site nor Slurm.
    fs::remove_file(scene.path("config/multicard/sites.toml")).unwrap();
    let address = format!("ssh://login{}", login.path("session").display());
    let mut command = scene.multicard(&["run", "plan.toml", "--session", &address]);
    command.env("MULTICARD_SSH", scene.path("ssh")).env_remove("SLURM_CONF").env("XDG_CACHE_HOME", scene.path("cache"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(login.states(), [RunState::Finished; 2]);
    assert_eq!(login.own_jobs().len(), 2, "they were jobs of Slurm");
}
