"""Readings for multicard, from `multicard adapter python`. Does nothing where MULTICARD_READINGS is not set.

    from multicard_readings import run, lightning_callback, trainer_callback
    for batch in loader:
        with run.step(units=len(batch)) as step:    # a step ends where the block ends; rank 0 speaks for all
            step["loss"] = train(batch).item()      # item() waits for the GPU; other numbers may be set, too
    run.say(phase="evaluate"), run.say(epoch=1, reading={"accuracy": 0.93})
"""
import contextlib, json, os, time
class Run:
    def __init__(self):
        env, self.steps, self.phase, self.since = os.environ.get, 0, "train", None  # when the last step ended, if nothing else has happened
        ranks = ["RANK"] if env("RANK") else ["SLURM_PROCID", "LOCAL_RANK", "NODE_RANK"]  # torchrun's, or Slurm's and Lightning's
        path = env("MULTICARD_READINGS") if all(env(name, "0") == "0" for name in ranks) else None
        self.file = open(path, "a", buffering=1) if path else None
    def say(self, **fields):
        """Writes the fields of `multicard help readings`."""
        if "phase" in fields:
            self.phase, self.since = fields["phase"], time.perf_counter() if fields["phase"] == "train" else None
        if self.file:
            self.file.write(json.dumps({**fields, "time_s": time.time()}) + "\n")
    def begin(self):
        self.since = self.since or time.perf_counter()
    def end(self, units=None, **fields):
        """Ends a step with the units of this process; it lasted since the previous one ended. Only steps of the training have numbers."""
        ended, kept, phase = time.perf_counter(), self.phase, str(fields.get("phase") or self.phase).lower()
        self.steps += (trains := phase.startswith(("train", "steady", "warm")))
        own = {"step": self.steps, "duration_s": ended - (self.since or ended)} if trains else {"phase": phase}
        fields = {**own, **{key: value for key, value in fields.items() if key != "phase" or value}}
        self.say(**fields, **({} if units is None else {"units": units * int(os.environ.get("WORLD_SIZE", "1"))}))
        self.phase, self.since = kept, ended
    @contextlib.contextmanager
    def step(self, units=None, **fields):
        self.begin()
        yield fields
        self.end(units, **fields)
run = Run()

def lightning_callback(units=None):
    from lightning.pytorch import Callback
    class Readings(Callback):
        on_train_batch_start = lambda self, *_: run.begin()
        on_validation_start = lambda self, *_: run.say(phase="evaluate")
        on_validation_end = lambda self, *_: run.say(phase="train")
        def on_train_batch_end(self, trainer, module, outputs, *_):  # reads the loss when Lightning does
            logs = isinstance(outputs, dict) and run.steps % trainer.log_every_n_steps == 0
            run.end(units, epoch=trainer.current_epoch, **({"loss": float(outputs["loss"])} if logs else {}))
    return Readings()

def trainer_callback(units=None):
    from transformers import TrainerCallback
    class Readings(TrainerCallback):
        on_step_begin = lambda self, *_, **__: run.begin()
        on_step_end = lambda self, _, state, *__, **___: run.end(units, step=state.global_step, steps=state.max_steps, epoch=state.epoch)
        on_evaluate = lambda self, *_, **__: run.say(phase="train")
        def on_log(self, args, state, control, logs=None, **_):
            numbers = {key: value for key, value in (logs or {}).items() if isinstance(value, (int, float))}
            fields = {key: numbers.pop(key) for key in ("loss", "epoch") if key in numbers}
            run.say(step=state.global_step, reading=numbers, **fields)
    return Readings()
