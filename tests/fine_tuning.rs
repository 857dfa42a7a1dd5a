//! Fine-tuning with real processes: losses, adapters for other programs, and runs that are killed and continue.
#![cfg(feature = "torch")]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

mod training;

use training::{alone, run_command, text, wait_for};

/// A small model, whose rows come in another order in each of two epochs.
const PLAN: &str = r#"
version = 1
name = "tiny"
workload = "llm"
repeats = 1
[measure]
warm_up_steps = 1
[data]
set = "stand-in"
[factors]
model = "tiny"
data_set = "uniform"
row_tokens = 24
rows = 40
epochs = 2
learning_rate = 0.02
warmup_steps = 5
save_every = 14
"#;
const STEPS: usize = 40;
/// Steps between checkpoints. Few: each is written through to the disk.
const SAVE_EVERY: usize = 14;

/// The events of a kind in the logs of all ranks of all runs.
fn events(session: &Path, kind: &str) -> Vec<Value> {
    let runs = fs::read_dir(session.join("runs")).into_iter().flatten().flatten();
    let logs = runs.flat_map(|run| fs::read_dir(run.path()).into_iter().flatten().flatten());
    let logs = logs.filter(|file| file.file_name().to_string_lossy().starts_with("rank-"));
    let lines: Vec<String> = logs.filter_map(|log| fs::read_to_string(log.path()).ok()).collect();
    let events = lines.iter().flat_map(|log| log.lines()).filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["event"] == kind).collect()
}

/// The loss of each step of each rank, which is that of all runs that made it.
fn losses(session: &Path) -> BTreeMap<(u64, u64), f64> {
    let mut losses = BTreeMap::new();
    for step in events(session, "step") {
        let (rank, number) = (step["rank"].as_u64().unwrap(), step["step"].as_u64().unwrap());
        let loss = step["loss"].as_f64().unwrap();
        assert_eq!(*losses.entry((rank, number)).or_insert(loss), loss, "step {number} of rank {rank} of two runs");
    }
    losses
}

#[test]
fn a_killed_run_continues_with_the_losses_of_one_that_was_not() {
    continues(PLAN, 1);
}

#[test]
fn a_killed_run_of_sharded_ranks_continues_with_the_losses_of_one_that_was_not() {
    // As many rows a rank, and as many steps.
    continues(&PLAN.replace("rows = 40", "rows = 80\ngpus = 2"), 2);
}

#[test]
fn a_killed_run_of_ranks_with_whole_copies_continues_with_the_losses_of_one_that_was_not() {
    continues(&PLAN.replace("rows = 40", "rows = 80\ngpus = 2\nsharding = \"ddp\""), 2);
}

#[test]
fn a_killed_run_of_each_technique_continues_with_the_losses_of_one_that_was_not() {
    for levels in [
        "technique = \"qlora\"",
        "technique = \"dpo\"",
        "technique = \"dpo-full\"",
        "technique = \"qat\"\nqat_group = 32",
    ] {
        continues(&format!("{PLAN}{levels}\n"), 1);
    }
}

#[test]
fn a_run_of_inference_has_the_same_loss_in_each_epoch_and_keeps_no_model() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let (mut command, session) = run_command(&folder, &format!("{PLAN}passes = \"inference\"\n"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let losses: Vec<f64> = losses(&session).into_values().collect();
    assert_eq!(losses.len(), STEPS);
    // An epoch has the same rows in another order.
    let [first, second] =
        [&losses[..STEPS / 2], &losses[STEPS / 2..]].map(|epoch| epoch.iter().sum::<f64>() / epoch.len() as f64);
    assert!((first / second - 1.0).abs() < 1e-4, "{losses:?}");
    let mut runs = fs::read_dir(session.join("runs")).unwrap().map(|run| run.unwrap().path());
    assert!(runs.all(|run| !run.join("model").exists()), "nothing was trained");
}

#[test]
fn a_killed_run_in_fp8_of_one_rank_or_two_continues_with_the_losses_of_one_that_was_not() {
    continues(&format!("{PLAN}precision = \"fp8\"\n"), 1);
    // As many rows a rank, and as many steps.
    let two = PLAN.replace("rows = 40", "rows = 80\ngpus = 2\nsharding = \"ddp\"");
    continues(&format!("{two}precision = \"fp8\"\n"), 2);
}

/// Runs a plan to its end, and once more with a rank that is killed; compares losses, and what was trained.
fn continues(plan: &str, ranks: usize) {
    let _alone = alone();
    let (whole, killed) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (mut command, session) = run_command(&whole, plan);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let expected = losses(&session);
    assert_eq!(expected.len(), STEPS * ranks);
    let adapters = |session: &Path| {
        let run = fs::read_dir(session.join("runs")).unwrap().map(|run| run.unwrap().path()).max().unwrap();
        assert!(!run.join("checkpoint").exists(), "a finished run keeps no checkpoint");
        if plan.contains("qat") || plan.contains("dpo-full") {
            return fs::read(run.join("model/model.safetensors")).unwrap();
        }
        let config: Value = serde_json::from_slice(&fs::read(run.join("model/adapter_config.json")).unwrap()).unwrap();
        assert_eq!((&config["peft_type"], &config["r"]), (&"LORA".into(), &8.into()));
        fs::read(run.join("model/adapter_model.safetensors")).unwrap()
    };
    let trained = adapters(&session);

    let (mut command, session) = run_command(&killed, plan);
    let mut child = command.spawn().unwrap();
    // At the worst moment: the steps before the checkpoint are not made again, so their events must have been written.
    let runs = || fs::read_dir(session.join("runs")).into_iter().flatten().flatten();
    wait_for(|| runs().any(|run| run.path().join("checkpoint/progress.json").exists()).then_some(()));
    let pids: Vec<_> = events(&session, "started").iter().map(|event| event["pid"].to_string()).collect();
    assert_eq!(pids.len(), ranks);
    assert!(Command::new("kill").arg("-KILL").args(&pids).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let (mut command, session) = run_command(&killed, plan);
    let output = command.arg("--resume").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let warnings = events(&session, "warning");
    let mut texts = warnings.iter().filter_map(|warning| warning["message"].as_str());
    assert!(texts.any(|text| text.contains("continues from step")), "{warnings:?}");
    assert_eq!((events(&session, "started").len(), events(&session, "finished").len()), (2 * ranks, ranks));
    assert_eq!(losses(&session), expected);
    let again = events(&session, "step").len() - STEPS * ranks;
    assert!(again <= SAVE_EVERY * ranks, "{again} steps after the last checkpoint were made again");
    assert_eq!(adapters(&session), trained, "the same weights, bit for bit");
}

/// By technique, and whether it is sharded: what each rank of each run says of its first step's work, and of the parameters that it holds.
fn work(folder: &TempDir, plan: &str) -> BTreeMap<(String, bool), Vec<Work>> {
    let (mut command, session) = run_command(folder, plan);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let runs = fs::read_dir(session.join("runs")).unwrap().map(|run| run.unwrap().path());
    let values_of = |run: &Path| {
        let job: Value = serde_json::from_slice(&fs::read(run.join("job.json")).unwrap()).unwrap();
        let ranks = job["ranks"].as_array().unwrap().len();
        let all = (0..ranks).map(|rank| Work::of(&fs::read_to_string(run.join(format!("rank-{rank}.jsonl"))).unwrap()));
        let levels = &job["levels"];
        let technique = levels["technique"].as_str().unwrap().to_owned();
        ((technique, ranks > 1 && levels["sharding"] == "fsdp"), all.collect())
    };
    runs.map(|run| values_of(&run)).collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Work {
    flop: f64,
    bytes: f64,
    /// Bytes of parameters that the rank has only a part of, and of that part.
    shards: Option<(f64, f64)>,
}

impl Work {
    fn of(log: &str) -> Self {
        let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let reading = |key: &str| {
            let is_first = |line: &&Value| line["event"] == "reading" && line["key"] == key && line["step"] == json!(1);
            lines.iter().find(is_first).unwrap_or_else(|| panic!("no {key}: {log}"))["value"].as_f64().unwrap()
        };
        let held = lines.iter().filter_map(|line| line["seen"].as_str()?.strip_prefix("this rank holds ")).next();
        let shards = held.map(|held| {
            let mut numbers = held.split(' ').filter_map(|word| word.parse().ok());
            let part = numbers.next().unwrap();
            (numbers.next().unwrap(), part)
        });
        Self { flop: reading("flop_per_step"), bytes: reading("bytes_per_step"), shards }
    }
}

#[test]
fn sharded_ranks_count_the_work_of_unsharded_ones_which_together_do_that_of_one_rank() {
    let _alone = alone();
    let plan =
        PLAN.replace("rows = 40", "rows = 8\ntechnique = [\"lora\", \"dpo\", \"full\"]").replace("save_every = 14", "");
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let alone = work(&one, &format!("{plan}batch_size = 4\n"));
    let together = work(&two, &format!("{plan}batch_size = 2\ngpus = 2\nsharding = [\"fsdp\", \"ddp\"]\n"));
    assert_eq!((alone.len(), together.len()), (3, 6));
    for ((technique, _), whole) in &alone {
        let readings_of = |sharded: bool| &together[&(technique.clone(), sharded)][..];
        let (sharded, replicated) = (readings_of(true), readings_of(false));
        assert_eq!((whole.len(), sharded.len(), replicated.len()), (1, 2, 2));
        for ranks in [sharded, replicated] {
            assert_eq!(ranks[0], ranks[1], "{technique}");
            assert_eq!(ranks.iter().map(|rank| rank.flop).sum::<f64>(), whole[0].flop, "{technique}");
        }
        // A rank updates its part alone. AdamW reads gradients, and reads and writes parameters and two averages.
        let saved = replicated[0].bytes - sharded[0].bytes;
        assert!(saved > 0.0, "{technique}: {sharded:?} {replicated:?}");
        let (all, part) = sharded[0].shards.unwrap();
        if technique == "full" {
            assert_eq!(saved, 7.0 * (all - part), "{sharded:?} {replicated:?}");
        }
    }
}

#[test]
fn weights_of_another_model_are_named_before_a_run_begins() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llm");
    let set = format!("set = \"stand-in\"\nweights = \"{}\"", golden.display());
    let (mut command, session) = run_command(&folder, &PLAN.replace("set = \"stand-in\"", &set));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let found = text(&output.stderr);
    assert!(found.contains("lacks model.layers.2.") && !session.exists(), "{found}");
}
