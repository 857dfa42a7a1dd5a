//! What programs of others say: TensorBoard files, torch.distributed, Lightning and Hugging Face's Trainer.

use multicard::program::readings::PYTHON_ADAPTER;
use multicard::protocol::Phase;

use super::*;

/// A writer of TensorBoard's event files, without TensorBoard: records with masked CRC-32C around protobuf events.
const EVENT_WRITER: &str = r#"
import os, struct, sys, time
table = []
for value in range(256):
    for _ in range(8): value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
    table.append(value)
def crc(data):
    value = 0xffffffff
    for byte in data: value = value >> 8 ^ table[(value ^ byte) & 255]
    value ^= 0xffffffff
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xa282ead8) & 0xffffffff)
def number(value):
    data = b""
    while value > 127: data, value = data + bytes([value & 127 | 128]), value >> 7
    return data + bytes([value])
def field(key, data): return bytes([key << 3 | 2]) + number(len(data)) + data
def scalar(tag, value, step):
    value = field(1, tag.encode()) + b"" + struct.pack("<f", value)
    return b"	" + struct.pack("<d", time.time()) + b"" + number(step) + field(5, field(1, value))
os.makedirs(sys.argv[1])
file = open(sys.argv[1] + "/events.out.tfevents.1.host", "wb")
def write(*scalar_of_step):
    event = scalar(*scalar_of_step)
    length = struct.pack("<Q", len(event))
    file.write(length + crc(length) + event + crc(event))
    file.flush()
"#;

/// Scalars of each step.
const SCALARS: &str = r#"
for step in range(1, 31):
    write("train/loss", 4 / step, step)
    write("quality", step / 100, step)
    time.sleep(0.02)
"#;

/// What PyTorch Lightning's logger writes: the epoch after the loss of each tenth step, and after the validation, which takes a second.
const LIGHTNING_SCALARS: &str = r#"
for epoch in range(2):
    for step in range(25 * epoch, 25 * epoch + 25):
        time.sleep(0.02)
        if step % 10 == 9:
            write("train_loss", 1 / (epoch + 1), step)
            write("epoch", epoch, step)
    time.sleep(1)
    write("val_loss", 0.75, step)
    write("epoch", epoch, step)
"#;

/// Two epochs with a bar for training and a bar for validation, as tqdm prints them.
const TWO_BARS: &str = r#"
import sys, time
for epoch in range(2):
    for name, steps, loss in ("train", 20, 0.5), ("val", 5, 0.875):
        for step in range(steps + 1):
            more = f", loss={loss}" if step else ""
            bar = f"{name}: {100 * step // steps:3}%|###   | {step}/{steps} [00:00<00:00, 50.00it/s{more}]"
            print("\r" + bar, end="", file=sys.stderr, flush=True)
            time.sleep(0.01)
"#;

#[test]
fn the_bar_of_a_validation_gives_no_steps_and_no_loss() {
    let Some(python) = python_with("time") else { return };
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), TWO_BARS).unwrap();
    scene
        .finish(&format!("[measure]\nwarm_up_steps = 2\n[command]\nrun = [\"{python}\", \"{{programs}}/train.py\"]\n"));
    let run = &scene.runs()[0];
    let loss = |event| if let Event::Step { loss, .. } = event { Some(loss) } else { None };
    assert_eq!(events(run).into_iter().filter_map(loss).collect::<Vec<_>>(), [0.5; 40]);
    assert_eq!(reading(run, "train_loss"), Some(0.5));
    let evaluations = events(run).into_iter().filter(|event| *event == Event::Phase { phase: Phase::Evaluate });
    assert_eq!(evaluations.count(), 2);
    let warnings = warnings(run);
    assert!(warnings.contains("steps were guessed from") && !warnings.contains("without a description"), "{warnings}");
}

/// Two epochs of 10 steps, as Hugging Face's Trainer prints them with `logging_steps=1`: dictionaries on standard output, whose loss is here the
/// number of their step, and tqdm's bar on standard error, which is drawn every 0.1 s and behind each dictionary. The steps are so long that
/// a busy machine, too, reads a dictionary nearer to the bar of its own step than to any other.
const LOGGED_STEPS: &str = r#"
import sys, time
def draw(text): print("\r" + text, end="", file=sys.stderr, flush=True)
def bar(step): draw(f"{step * 5:3}%|###   | {step}/20 [00:00<00:00,  3.33it/s]")
bar(0)
drawn = time.monotonic()
for step in range(1, 21):
    time.sleep(0.3)
    if time.monotonic() - drawn >= 0.1:
        bar(step)
        drawn = time.monotonic()
    draw(" " * 50 + "\r")
    print({"loss": float(step), "grad_norm": 1.25, "epoch": round(step / 10, 2)}, flush=True)
    bar(step)
"#;

#[test]
fn a_trainer_that_logs_each_step_has_the_steps_of_its_bar_each_with_its_loss() {
    let Some(python) = python_with("time") else { return };
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), LOGGED_STEPS).unwrap();
    scene
        .finish(&format!("[measure]\nwarm_up_steps = 2\n[command]\nrun = [\"{python}\", \"{{programs}}/train.py\"]\n"));
    let of_step = |event| match event {
        Event::Step { step, epoch, loss, .. } => Some((step, (epoch, loss))),
        _ => None,
    };
    // The last event of a step counts.
    let steps: BTreeMap<u64, (u32, f64)> = events(&scene.runs()[0]).into_iter().filter_map(of_step).collect();
    let expected: BTreeMap<u64, (u32, f64)> =
        (1..=20_u32).map(|step| (u64::from(step), (step.div_ceil(10), f64::from(step)))).collect();
    assert_eq!(steps, expected);
}

/// Two epochs whose log names the phase in each line, or in a line of its own where the phase begins.
const NAMED_PHASES: &str = r#"
import json, os, sys, time
file, step, of_each = open(os.environ["MULTICARD_READINGS"], "a", buffering=1), 0, sys.argv[1] == "each"
def say(phase, **fields): file.write(json.dumps({**fields, **({"phase": phase} if of_each else {})}) + "\n")
for epoch in 1, 2:
    for phase, count, loss in ("train", 15, 0.5), ("evaluate", 3, 5.0):
        if not of_each: file.write(json.dumps({"phase": phase}) + "\n")
        for _ in range(count):
            time.sleep(0.02)
            step += phase == "train"
            say(phase, epoch=epoch, step=step, loss=loss)
"#;

#[test]
fn a_phase_in_each_line_of_a_log_tells_its_evaluations_from_steps_with_times() {
    let Some(python) = python_with("time") else { return };
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), NAMED_PHASES).unwrap();
    scene.finish(&format!(
        "[measure]\nwarm_up_steps = 2\n[command]\nrun = [\"{python}\", \"{{programs}}/train.py\", \"{{named}}\"]\n\
         [factors]\nnamed = [\"each\", \"once\"]\n"
    ));
    for run in &scene.runs() {
        let (steady, warm_up) = steps(run);
        assert!(steady.len() >= 20 && steady.len() + warm_up == 30, "{} and {warm_up}", steady.len());
        assert_eq!([reading(run, "train_loss"), reading(run, "test_loss")], [Some(0.5), Some(5.0)]);
        let warnings = warnings(run);
        assert!(!warnings.contains("no time passed") && !warnings.contains("in the phase"), "{warnings}");
    }
}

/// Two epochs with a validation of a second each, as Keras prints them: a bar ends where the next one begins.
const KERAS: &str = r#"
import sys, time
def bar(step, rest): print(f"\r{step}/10 [=====>....] - {rest}", end="", flush=True)
for epoch in range(2):
    print(f"Epoch {epoch + 1}/2", flush=True)
    for step in range(1, 11):
        time.sleep(0.02)
        bar(step, f"ETA: 0s - loss: {1 / step:.4f} - accuracy: 0.5000")
    time.sleep(1)
    bar(10, "1s 20ms/step - loss: 0.1000 - accuracy: 0.5000 - val_loss: 0.7500 - val_accuracy: 0.2500\n")
"#;

#[test]
fn the_validation_of_keras_is_no_part_of_a_step() {
    let Some(python) = python_with("time") else { return };
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), KERAS).unwrap();
    scene
        .finish(&format!("[measure]\nwarm_up_steps = 2\n[command]\nrun = [\"{python}\", \"{{programs}}/train.py\"]\n"));
    let run = &scene.runs()[0];
    let of_step = |event| match event {
        Event::Step { step, epoch, duration_s, .. } => Some((step, epoch, duration_s)),
        _ => None,
    };
    let steps: Vec<(u64, u32, f64)> = events(run).into_iter().filter_map(of_step).collect();
    assert_eq!(steps.last().map(|(step, epoch, _)| (*step, *epoch)), Some((20, 2)), "{steps:?}");
    let is_short = |(step, _, duration_s): &(u64, u32, f64)| *step == 1 || *duration_s < 1.0;
    assert!(steps.iter().all(is_short), "{steps:?}");
    assert_eq!(reading(run, "val_loss"), Some(0.75));
}

#[test]
fn scalars_of_tensorboard_become_steps_losses_and_declared_measures() {
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), format!("{EVENT_WRITER}{SCALARS}")).unwrap();
    let plan = r#"
[command]
run = ["python3", "train.py", "{run_folder}/logs"]
folder = "programs"
[command.readings]
files = ["{run_folder}/logs/"]
names = { "train/loss" = "loss" }
[command.measures.quality]
better = "higher"
[[study]]
name = "quality"
measure = "quality"
measures = ["quality", "train_loss", "step_time_s"]
"#;
    scene.finish(plan);
    let run = &scene.runs()[0];
    let (steady, warm_up) = steps(run);
    assert_eq!((steady.len(), warm_up), (20, 10));
    assert!(!warnings(run).contains("guess"), "{}", warnings(run));
    let table = scene.table(&["--study", "quality"]);
    let median = |key: &str| table["rows"][0][key]["median"].as_f64().unwrap();
    assert!((median("quality") - 0.3).abs() < 1e-6, "the last one: {table}");
    let mean_loss = (1..=30).map(|step| 4.0 / f64::from(step)).sum::<f64>() / 30.0;
    assert!((median("train_loss") - mean_loss).abs() < 1e-5, "{table}");
    assert!((0.02..0.2).contains(&median("step_time_s")), "{table}");
}

#[test]
fn the_epoch_that_lightnings_logger_writes_after_a_loss_is_that_of_the_step_and_its_validation_ends_none() {
    let Some(python) = python_with("time") else { return };
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), format!("{EVENT_WRITER}{LIGHTNING_SCALARS}")).unwrap();
    scene.finish(&format!("[command]\nrun = [\"{python}\", \"{{programs}}/train.py\", \"{{run_folder}}/logs\"]\n"));
    let run = &scene.runs()[0];
    let mut epochs = BTreeMap::new();
    let mut losses = Vec::new();
    for event in events(run) {
        match event {
            Event::Step { step, epoch, .. } => {
                epochs.insert(step, epoch);
            }
            Event::Reading { key, value, epoch, .. } if *key == *"train_loss" => losses.push((epoch, value)),
            _ => {}
        }
    }
    assert_eq!(epochs.into_iter().collect::<Vec<_>>(), [(9, 1), (19, 1), (29, 2), (39, 2), (49, 2)]);
    assert_eq!(losses, [(Some(1), 1.0), (Some(2), 0.5)]);
}

/// A training loop over gloo, with the adapter: each rank trains on other rows, and all have the same weights in the end.
const DISTRIBUTED: &str = r#"
import torch, torch.distributed as dist
from multicard_readings import run
dist.init_process_group("gloo")
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = torch.Generator().manual_seed(dist.get_rank())
for _ in range(20):
    with run.step(units=4) as step:
        x = torch.randn(4, 8, generator=rows)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step["loss"] = loss.item()
weights = model.module.weight.detach().clone()
dist.broadcast(weights, 0)
assert torch.equal(weights, model.module.weight)
run.say(reading={"world": dist.get_world_size()})
dist.destroy_process_group()
"#;

#[test]
fn ranks_of_torch_distributed_over_gloo_are_one_run_with_the_units_of_all() {
    let Some(python) = python_with("torch.distributed") else { return };
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), DISTRIBUTED).unwrap();
    fs::write(scene.programs().join("multicard_readings.py"), PYTHON_ADAPTER).unwrap();
    let plan = format!(
        r#"
[measure]
warm_up_steps = 5
[command]
run = ["{python}", "-m", "torch.distributed.run", "--nproc_per_node={{gpus}}", "--master_addr=127.0.0.1", "--master_port={{port}}", "train.py"]
folder = "programs"
[factors]
gpus = [1, 2]
"#
    );
    scene.finish(&plan);
    for run in scene.runs() {
        let gpus = scene.job(&run).levels.get("gpus").and_then(|level| level.as_integer()).unwrap() as u64;
        assert_eq!(reading(&run, "world"), Some(gpus as f64));
        let (steady, warm_up) = steps(&run);
        assert_eq!((steady, warm_up), (vec![4 * gpus; 15], 5), "units of all ranks in each step");
        let losses = events(&run).into_iter().filter_map(|event| match event {
            Event::Step { loss, .. } => Some(loss),
            _ => None,
        });
        let losses: Vec<f64> = losses.collect();
        assert!(losses[19] < losses[0] / 2.0, "{losses:?}");
    }
    assert!(scene.left().is_empty());
}

#[test]
fn a_final_loss_checks_the_work_of_cells_and_a_reading_that_the_plan_does_not_declare_is_told_to_need_that() {
    let scene = Scene::new();
    let script =
        "sleep 0.1\necho \"loss: $1\"\necho \"{\\\"reading\\\": {\\\"bleu\\\": $1}}\" >> \"$MULTICARD_READINGS\"\n";
    fs::write(scene.programs().join("train.sh"), script).unwrap();
    let command = "[command]\nrun = [\"sh\", \"{programs}/train.sh\", \"{size}\"]\n";
    scene.finish(&format!("repeats = 3\n{command}[factors]\nsize = [1, 50]\n"));
    let losses: Vec<f64> = scene.runs().iter().filter_map(|run| reading(run, "train_loss")).collect();
    assert_eq!((losses.len(), losses.iter().sum::<f64>()), (6, 153.0));
    let table = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
        command.arg("table").arg(scene.session()).args(more);
        command
    };
    let notes = seeded::printed(&succeed(&mut table(&["--notes"])));
    assert!(notes.contains("check: ") && !notes.contains("neither accuracy nor loss"), "{notes}");
    let refused = seeded::refused(&mut table(&["--measure", "bleu"]));
    assert!(
        refused.contains("measure bleu: the program reports it, but its plan does not say what it is"),
        "{refused}"
    );
}

/// The loop of the adapter's example: its steps say no epoch, but the accuracy after each epoch does.
const LOOP: &str = r#"
from multicard_readings import run
for epoch in range(1, 4):
    for _ in range(10):
        with run.step(units=8) as step: step["loss"] = 1 / epoch
    run.say(phase="evaluate"), run.say(epoch=epoch, reading={"accuracy": 0.5 + epoch / 10}), run.say(phase="train")
"#;

#[test]
fn epochs_that_the_adapter_says_with_their_accuracy_are_those_of_the_steps_before() {
    let Some(python) = python_with("json") else { return };
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), LOOP).unwrap();
    fs::write(scene.programs().join("multicard_readings.py"), PYTHON_ADAPTER).unwrap();
    let study = "[[study]]\nname = \"losses\"\nmeasure = \"train_loss\"\nmeasures = [\"train_loss\", \"accuracy\"]\n";
    scene.finish(&format!("[command]\nrun = [\"{python}\", \"train.py\"]\nfolder = \"programs\"\n{study}"));
    let of_step = |event| if let Event::Step { epoch, .. } = event { Some(epoch) } else { None };
    let epochs: Vec<u32> = events(&scene.runs()[0]).into_iter().filter_map(of_step).collect();
    assert_eq!(epochs, [[1; 10], [2; 10], [3; 10]].concat());
    let table = scene.table(&["--study", "losses"]);
    let median = |key: &str| table["rows"][0][key]["median"].as_f64();
    assert!(median("train_loss").is_some_and(|loss| (loss - 1.0 / 3.0).abs() < 1e-9), "{table}");
    assert!(median("accuracy").is_some_and(|accuracy| (accuracy - 0.8).abs() < 1e-9), "{table}");
}

#[test]
fn the_loop_of_the_tutorial_says_its_steps() {
    let Some(python) = python_with("torch") else { return };
    let tutorial = include_str!("../../src/cli/manual/own-program.md");
    let script = tutorial.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), script).unwrap();
    fs::write(scene.programs().join("multicard_readings.py"), PYTHON_ADAPTER).unwrap();
    scene.finish(&format!("[command]\nrun = [\"{python}\", \"train.py\"]\nfolder = \"programs\"\n"));
    let run = &scene.runs()[0];
    assert_eq!(steps(run), (vec![32; 990], 10), "1000 steps, each with its units");
    assert!(!warnings(run).contains("guess"), "{}", warnings(run));
}

/// Lightning's Trainer with the adapter's callback.
const LIGHTNING: &str = r#"
import torch, lightning
from multicard_readings import lightning_callback
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, _): return self.layer(batch[0]).square().mean()
    def validation_step(self, batch, _): self.log("val_loss", self.layer(batch[0]).square().mean())
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=0.1)
rows = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(48, 8)), batch_size=4)
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, log_every_n_steps=1,
    enable_progress_bar=False, callbacks=[lightning_callback(units=4)])
trainer.fit(Model(), rows, rows)
"#;

/// Hugging Face's Trainer with the adapter's callback.
const TRAINER: &str = r#"
import sys, torch
from multicard_readings import trainer_callback
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
rows = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * 400
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=16, n_head=2, n_positions=8, vocab_size=100))
arguments = TrainingArguments(output_dir=sys.argv[1], max_steps=24, logging_steps=4, save_strategy="no", report_to="none", use_cpu=True,
    per_device_train_batch_size=2, eval_strategy="steps", eval_steps=12)
Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:8], callbacks=[trainer_callback(units=16)]).train()
"#;

#[test]
fn the_adapter_says_the_steps_of_lightning_and_of_hugging_faces_trainer() {
    for (modules, script, metric) in
        [("lightning", LIGHTNING, None), ("transformers, accelerate", TRAINER, Some("eval_loss"))]
    {
        let Some(python) = python_with(modules) else { continue };
        let scene = Scene::new();
        fs::write(scene.programs().join("train.py"), script).unwrap();
        fs::write(scene.programs().join("multicard_readings.py"), PYTHON_ADAPTER).unwrap();
        let plan = format!(
            "[measure]\nwarm_up_steps = 4\n[command]\nrun = [\"{python}\", \"train.py\", \"{{run_folder}}/output\"]\n\
             folder = \"programs\"\n"
        );
        let output = scene.run(&plan, &[]);
        let run = &scene.runs()[0];
        assert_eq!(output.status.code(), Some(0), "{modules}: {}", text(&output.stderr));
        let (steady, warm_up) = steps(run);
        assert_eq!(steady.len() + warm_up, 24, "{modules}");
        assert!(
            steady.len() >= 16 && steady.iter().all(|units| *units == steady[0] && *units > 0),
            "{modules}: {steady:?}"
        );
        let losses =
            events(run).iter().filter(|event| matches!(event, Event::Step { loss, .. } if loss.is_finite())).count();
        assert!(losses >= 5, "{modules}: {losses}");
        assert!(!warnings(run).contains("guess"), "{modules}: {}", warnings(run));
        if let Some(metric) = metric {
            assert!(reading(run, metric).is_some(), "{modules}");
        }
    }
}
