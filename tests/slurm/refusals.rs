//! What is refused before anything is queued, and what is said about it.

use std::fs;

use crate::Scene;
use crate::seeded::text;

/// What `run` says about a plan at a site whose settings are `settings`. Nothing is queued.
fn refused(settings: &str, plan: impl FnOnce(&Scene)) -> Option<String> {
    let scene = Scene::at("tried")?;
    fs::write(scene.path("config/multicard/sites.toml"), format!("[tried]\n{settings}\n")).unwrap();
    plan(&scene);
    let output = scene.run();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(scene.runs().is_empty() && scene.records().is_empty(), "{stderr}");
    Some(stderr)
}

#[test]
fn what_slurm_would_not_take_is_refused_before_anything_is_queued() {
    for (settings, words) in [
        ("partition = \"gpus\"", "Slurm has no partition gpus: it has debug, low, high, closed"),
        ("partition = \"closed\"", "takes no jobs"),
        ("gres = \"gpu\"", "no node of partition debug has GPUs"),
        ("cpus_per_task = 8", "Requested node configuration is not available"),
        ("qoss = \"x\"", "sites.toml: line 2: unknown field `qoss`"),
    ] {
        let Some(stderr) = refused(settings, |scene| scene.plan(1, "true", "")) else { return };
        assert!(stderr.contains(words), "{settings}: {stderr}");
    }
}

#[test]
fn without_slurm_a_site_is_refused_before_anything_is_queued() {
    let Some(scene) = Scene::at("lab") else { return };
    scene.plan(1, "true", "");
    let mut command = scene.multicard(&["run", "plan.toml", "--session", "session"]);
    let output = command.env("PATH", scene.path("")).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("there is no Slurm on this machine: sinfo is not on PATH"), "{stderr}");
    assert!(scene.records().is_empty());
}

#[test]
fn a_site_that_is_not_there_and_a_workload_whose_worker_is_not_there_are_refused() {
    let missing = |scene: &Scene| {
        scene.plan(1, "true", "");
        let plan = fs::read_to_string(scene.path("plan.toml")).unwrap().replace("\"tried\"", "\"tired\"");
        fs::write(scene.path("plan.toml"), plan).unwrap();
    };
    let Some(stderr) = refused("", missing) else { return };
    assert!(stderr.contains("there is no site \"tired\"") && stderr.contains("did you mean \"tried\""), "{stderr}");
    let built_in = |scene: &Scene| {
        let plan = "version = 1\n[where]\nsite = \"tried\"\n[data]\nset = \"digits\"\n";
        fs::write(scene.path("plan.toml"), plan).unwrap();
    };
    let Some(stderr) = refused("", built_in) else { return };
    assert!(stderr.contains("MULTICARD_WORKER names /nonexistent/worker"), "{stderr}");
}

#[test]
fn a_session_of_this_machine_takes_no_runs_at_a_site() {
    let Some(mut scene) = Scene::at("lab") else { return };
    scene.plan(1, "true", "");
    let site = scene.site.take();
    scene.plan(1, "true", "");
    assert!(scene.run().status.success());
    scene.site = site;
    scene.plan(1, "true", "");
    let stderr = text(&scene.run().stderr);
    assert!(stderr.contains("runs on this machine, and this plan at site lab: use another session"), "{stderr}");
    assert_eq!(scene.records().len(), 1);
}
