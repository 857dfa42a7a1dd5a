"""Simulates trainings of many kinds, with a clock of their own, and writes what they print and when, next to what happened.

    pip install tqdm==4.70.1
    python3 tests/oracles/outputs.py SEED COUNT ARCHIVE [KIND]      (7 264 tests/golden/outputs.zip)

tqdm draws the bars. The archive has one file, and each of its lines is one training: `chunks` are [time, stream, text], `steps` are
[number, epoch, end, duration, loss, known], and `evaluations` are [epoch, loss]. The loss of a step is null if the program does not print it.
`known` is false if something else happened before the step that the output does not show, such as the saving of a checkpoint.
"""

import json
import random
import sys
import zipfile

import tqdm.std as std
from tqdm.std import tqdm

std.tqdm.monitor_interval = 0


class Stream:
    def __init__(self, run, name):
        self.run, self.name = run, name

    def write(self, text):
        self.run.chunk(self.name, text)

    def flush(self):
        pass


class Run:
    """A training under way."""

    def __init__(self, rng):
        self.rng, self.now = rng, 1000.0
        self.chunks, self.steps, self.evaluations, self.notes = [], [], [], []
        self.out, self.err = Stream(self, "out"), Stream(self, "err")
        self.step_s = rng.choice([0.02, 0.05, 0.12, 0.3, 0.7]) * rng.uniform(0.8, 1.2)
        self.eval_s = self.step_s * rng.choice([0.3, 0.5])
        self.epochs = rng.choice([1, 2, 3])
        self.per_epoch = rng.choice([7, 12, 20, 33])
        self.global_step, self.silent, self.last_end = 0, False, None
        self.loss = 3.0
        std.time = lambda: self.now

    def chunk(self, stream, text):
        if self.chunks and self.chunks[-1][0] == self.now and self.chunks[-1][1] == stream:
            self.chunks[-1][2] += text
        else:
            self.chunks.append([self.now, stream, text])

    def print(self, text, stream="out"):
        self.chunk(stream, text + "\n")

    def start(self):
        self.pass_s(self.rng.uniform(0.5, 3.0))

    def pass_s(self, duration_s):
        self.now = round(self.now + duration_s, 6)

    def quiet(self, duration_s):
        """A pause that the output does not show: saving a checkpoint, making workers."""
        if duration_s > 0:
            self.pass_s(duration_s)
            self.silent = True

    def train_step(self, epoch, tail_s=0.0):
        """One step up to its loss, which is returned. It ends `tail_s` later."""
        duration_s = self.step_s * self.rng.uniform(0.97, 1.03)
        self.pass_s(duration_s)
        self.global_step += 1
        self.loss = round(max(0.05, self.loss * 0.98 + self.rng.uniform(-0.05, 0.05)), 4)
        self.steps.append([self.global_step, epoch, round(self.now + tail_s, 6), duration_s + tail_s, self.loss, not self.silent])
        self.silent = False
        return self.loss

    def val_loss(self, epoch):
        loss = round(self.loss * 1.1 + self.rng.uniform(0, 0.05), 4)
        self.evaluations.append([epoch, loss])
        return loss


KINDS = {}


def kind(function):
    KINDS[function.__name__] = function
    return function


def bar(run, total, **more):
    return tqdm(total=total, file=run.err, dynamic_ncols=False, **more)


def write_above(run, text):
    """tqdm.write: the bars are removed and drawn again below the text. tqdm's own order of bars differs from call to call."""
    bars = sorted(tqdm._instances, key=lambda bar: -bar.pos)
    for one in bars:
        one.clear(nolock=True)
    run.print(text)
    for one in bars:
        one.refresh(nolock=True)


@kind
def tqdm_iterates(run):
    """A loop over a bar, which counts on screen only when it is drawn."""
    rng = run.rng
    every = rng.choice([1, 1, 5, 10])
    tail_s = rng.choice([0.0, 0.0, 0.1, 0.6]) * run.step_s
    desc = rng.choice([None, "train", "Epoch {e}", "Epoch {e} loss {m:.3f}"])
    batches = rng.choice([1, 1, 1, 4])
    saves = rng.random() < 0.3
    validates = rng.choice(["no", "bar", "silent", "within"])
    leave = rng.random() < 0.7
    run.notes = [every, tail_s / run.step_s, desc, batches, saves, validates, leave]
    run.start()
    loss = 3.0
    for epoch in range(1, run.epochs + 1):
        text = desc and desc.format(e=epoch, m=loss)
        pbar = tqdm(range(run.per_epoch), desc=text, file=run.err, leave=leave, dynamic_ncols=False)
        for index in pbar:
            for batch in range(1, batches):
                run.pass_s(run.step_s)
                if every == 1:
                    pbar.set_postfix(loss=round(loss + 0.01 * batch, 4))
            loss = run.train_step(epoch, tail_s)
            run.steps[-1][3] += (batches - 1) * run.step_s
            if index % every == 0:
                pbar.set_postfix(loss=loss)
            if every > 1 or batches > 1:
                # The bar shows this loss with other steps, too.
                run.steps[-1][4] = None
            run.pass_s(tail_s)
            if validates == "within" and index % 15 == 14:
                # The bar counts the step after this.
                run.steps[-1][5] = False
                run.pass_s(5 * run.eval_s)
                write_above(run, f"step {index + 1} val_loss {run.val_loss(epoch):.4f}" if every == 1 else f"val_loss: {run.val_loss(epoch):.4f}")
            if saves and index % 10 == 9:
                # The bar counts the step after this.
                run.steps[-1][5] = False
                run.quiet(4 * run.step_s)
                write_above(run, "saved a checkpoint")
        if validates == "bar":
            for _ in tqdm(range(5), desc="val", file=run.err, leave=False, dynamic_ncols=False):
                run.pass_s(run.eval_s)
        elif validates == "silent":
            run.quiet(run.eval_s * 5)


@kind
def tqdm_reset(run):
    """One bar, which begins again in each epoch."""
    rng = run.rng
    how = rng.choice(["before", "after", "lazy"])
    # Where each bar that is drawn has a new loss, a loss before the training looks like that of the first step.
    mean_at_end, first_loss = rng.random() < 0.3, rng.random() < 0.3 and how == "after" and run.step_s > 0.11
    run.notes = [how, mean_at_end, first_loss]
    run.start()
    pbar = bar(run, run.per_epoch, desc=rng.choice([None, "train"]))
    if first_loss:
        run.pass_s(0.5)
        pbar.set_postfix(loss=3.5)
    for epoch in range(1, run.epochs + 1):
        if epoch > 1:
            pbar.reset()
        for _ in range(run.per_epoch):
            loss = run.train_step(epoch)
            if how == "before":
                pbar.set_postfix(loss=loss)
                pbar.update(1)
            elif how == "after":
                pbar.update(1)
                pbar.set_postfix(loss=loss)
            else:
                pbar.set_postfix(loss=loss, refresh=False)
                pbar.update(1)
        if mean_at_end and epoch < run.epochs:
            pbar.set_postfix(loss=round(loss + 0.1, 4), refresh=False)
    pbar.close()


@kind
def tqdm_loop(run):
    """A loop of one's own with tqdm."""
    rng = run.rng
    over_run = rng.random() < 0.3
    desc = rng.choice([None, "train", "Epoch {e}", "Epoch {e}/{n}", "[{e}/{n}] Training", "Training", "epoch {e} train"])
    how = rng.choice(["postfix_update", "update_postfix", "iter_postfix", "postfix_lazy", "description", "postfix_str"])
    validation = rng.choice(["none", "bar_named", "bar_unnamed", "bar_named_loss", "bar_unnamed_loss", "line", "silent"])
    if over_run:
        validation = rng.choice(["none", "line"])
    unit = rng.choice(["it", "it", "batch", "step"])
    leave = rng.random() < 0.7
    summary = rng.choice(["none", "line", "write"])
    more = rng.choice([{}, {"lr": 0.001}, {"acc": 0.5, "lr": 1e-4}])
    run.notes = [over_run, desc, how, validation, unit, leave, summary, more]
    run.start()
    whole = None
    for epoch in range(1, run.epochs + 1):
        text = desc and desc.format(e=epoch, n=run.epochs)
        if over_run:
            whole = whole or bar(run, run.per_epoch * run.epochs, desc="train" if desc else None, unit=unit, leave=leave)
            pbar = whole
        else:
            pbar = bar(run, run.per_epoch, desc=text, unit=unit, leave=leave)
        last = None
        for _ in range(run.per_epoch):
            loss = run.train_step(epoch)
            last = loss
            if how == "postfix_update":
                pbar.set_postfix(loss=loss, **more)
                pbar.update(1)
            elif how == "update_postfix":
                pbar.update(1)
                pbar.set_postfix(loss=loss, **more)
            elif how == "iter_postfix":
                pbar.set_postfix(loss=loss)
                pbar.update(1)
            elif how == "postfix_lazy":
                pbar.set_postfix({"loss": f"{loss:.4f}", **more}, refresh=False)
                pbar.update(1)
            elif how == "description":
                pbar.set_description(f"{text + ' ' if text else ''}loss {loss:.4f}")
                pbar.update(1)
            else:
                pbar.set_postfix_str(f"loss={loss:.4f}")
                pbar.update(1)
        if not over_run:
            pbar.close()
        if validation == "silent":
            run.quiet(run.eval_s * 5)
        elif validation == "line":
            run.pass_s(run.eval_s * 5)
            run.print(f"epoch {epoch} val loss {run.val_loss(epoch):.4f}")
        elif validation != "none":
            vbar = bar(run, 5, desc=rng.choice(["val", "Validation", "eval"]) if "_named" in validation else None, leave=leave)
            for _ in range(5):
                run.pass_s(run.eval_s)
                if "loss" in validation:
                    vbar.set_postfix(loss=round(run.loss * 1.1, 4))
                vbar.update(1)
            vbar.close()
        if summary == "line":
            run.print(f"Epoch {epoch}: loss={last:.4f}")
        elif summary == "write":
            run.print(f"Epoch {epoch}/{run.epochs} - avg loss: {last:.4f} - time: {run.per_epoch * run.step_s:.1f}s")
    if whole:
        whole.close()


@kind
def lines(run):
    """A loop of one's own that prints lines."""
    rng = run.rng
    every = rng.choice([1, 1, 5, 10])
    by_epoch = rng.random() < 0.4
    base = rng.choice([0, 1])
    total = run.per_epoch if by_epoch else run.per_epoch * run.epochs
    style = rng.choice([
        "step {s}/{n} loss {l:.4f}", "step {s} | loss: {l:.4f} | lr 1.0e-04", "[{e}/{m}] step [{s}/{n}] loss={l:.4f}",
        "Epoch {e} | Step {s}/{n} | Loss {l:.4f}", "iter {s}: loss {l:.4f}, time {t:.2f}ms", "2025-01-02 10:00:00,123 INFO step={s} loss={l:.4f} lr=0.001",
        "Iteration {s}, loss = {l:.6f}", "epoch: {e} step: {s} loss: {l:.4f} dt: {t:.2f}ms tok/s: 12000.5",
        "Epoch [{e}/{m}], Step [{s}/{n}], Loss: {l:.4f}", '{{"step": {s}, "loss": {l:.4f}, "lr": 0.001}}', "{{'step': {s}, 'loss': {l:.4f}}}",
        '{{"epoch": {e}, "step": {s}, "train_loss": {l:.4f}}}', "train step {s} loss {l:.4f} ({t:.1f} ms)", "Step: {s}\tTrain loss: {l:.4f}",
        "global_step={s}, loss={l:.4f}, step_time={u:.4f}s", "step {s:>5} | train_loss {l:.4f} | {t:.1f} ms",
    ])
    if by_epoch and ("{n}" not in style or style.startswith("[{e}")):
        # Without the number of steps in an epoch, nobody knows how many steps follow the last line of an epoch.
        every = 1
    if by_epoch and "{e}" not in style:
        style = "epoch {e} " + style if not style.startswith("{{") else '{{"epoch": {e}, "step": {s}, "loss": {l:.4f}}}'
    validation = rng.choice(["none", "step_line", "line", "silent", "json", "epoch_line", "sentence"])
    at = rng.choice(["epoch", "7", "10"])
    first_eval = rng.random() < 0.2
    run.notes = [every, by_epoch, base, style, validation, at, first_eval]
    run.start()

    def validate(epoch, step):
        if validation == "none":
            return
        if validation == "silent":
            return run.quiet(run.eval_s * 5)
        run.pass_s(run.eval_s * 5)
        loss = run.val_loss(epoch)
        if validation == "step_line":
            run.print(f"step {step}: val loss {loss:.4f}")
        elif validation == "line":
            run.print(f"val_loss: {loss:.4f}")
        elif validation == "json":
            run.print(json.dumps({"step": step, "val_loss": loss}))
        elif validation == "epoch_line":
            run.print(f"Epoch {epoch} val_loss={loss:.4f} val_acc=0.5")
            run.print(f"new best_val_loss: {loss - 0.5:.4f}, saved")
        else:
            run.print(f"Validation: average loss {loss:.4f}")

    if first_eval:
        validate(1, base)
    for epoch in range(1, run.epochs + 1):
        for inner in range(run.per_epoch):
            before = run.now
            loss = run.train_step(epoch)
            index = inner if by_epoch else run.global_step - 1
            step = index + base
            if step % every == 0:
                dt = run.steps[-1][3]
                run.print(style.format(s=step, n=total, l=loss, e=epoch, m=run.epochs, t=dt * 1e3, u=dt))
            if at != "epoch" and run.global_step % int(at) == 0:
                validate(epoch, step)
        if at == "epoch":
            validate(epoch, index + base)


@kind
def nanogpt(run):
    rng = run.rng
    log_every, eval_every = rng.choice([1, 5, 10]), rng.choice([10, 20, 25])
    total = run.per_epoch * run.epochs
    run.notes = [log_every, eval_every]
    run.start()
    begun = run.now
    for index in range(total + 1):
        if index % eval_every == 0:
            run.pass_s(run.eval_s * 8)
            loss = run.val_loss(1)
            run.print(f"step {index}: train loss {run.loss:.4f}, val loss {loss:.4f}")
            if rng.random() < 0.5:
                run.pass_s(run.step_s * 0.5)
                run.print("saving checkpoint to out")
        loss = run.train_step(1)
        dt, begun = run.now - begun, run.now
        if index % log_every == 0:
            run.print(f"iter {index}: loss {loss:.4f}, time {dt * 1e3:.2f}ms, mfu {rng.uniform(20, 22):.2f}%")


@kind
def trainer(run):
    """Hugging Face's Trainer: a bar, and dictionaries of losses beside it."""
    rng = run.rng
    logging_steps = rng.choice([1, 5, 10, 7])
    evaluates = rng.choice(["no", "epoch", "steps"])
    eval_steps = rng.choice([10, 15])
    saves = rng.random() < 0.3
    total = run.per_epoch * run.epochs
    run.notes = [logging_steps, evaluates, eval_steps, saves]
    run.start()
    pbar = bar(run, total)
    recent = []

    def evaluate():
        ebar = None
        for index in range(5):
            run.pass_s(run.eval_s)
            if ebar is None:
                ebar = tqdm(total=5, file=run.err, leave=False, dynamic_ncols=False)
            ebar.update(1)
        loss = run.val_loss(epoch)
        text = {"eval_loss": f"{loss:.4f}", "eval_runtime": f"{5 * run.eval_s:.2f}", "epoch": f"{run.global_step / run.per_epoch:.2f}"}
        write(str({key: float(value) for key, value in text.items()}))
        ebar.close()

    def write(text):
        write_above(run, text)

    for epoch in range(1, run.epochs + 1):
        for inner in range(run.per_epoch):
            recent.append(run.train_step(epoch))
            pbar.update(1)
            step = run.global_step
            if step % logging_steps == 0:
                mean = sum(recent) / len(recent)
                recent = []
                run.steps[-1][4] = round(mean, 4)
                write(str({"loss": round(mean, 4), "grad_norm": 1.5, "learning_rate": 5e-5 * (1 - step / total), "epoch": round(step / run.per_epoch, 2)}))
            else:
                run.steps[-1][4] = None
            if evaluates == "steps" and step % eval_steps == 0:
                evaluate()
            if saves and step % 10 == 0:
                run.quiet(run.step_s * 2)
        if evaluates == "epoch":
            evaluate()
    run.pass_s(0.01)
    write(str({"train_runtime": 10.0, "train_samples_per_second": 100.0, "train_loss": 1.0, "epoch": float(run.epochs)}))
    pbar.close()


@kind
def keras(run):
    rng = run.rng
    validates, evaluates = rng.random() < 0.6, rng.choice([0, 0, 5, run.per_epoch])
    verbose = rng.choice([1, 1, 2])
    run.notes = [validates, evaluates, verbose]
    run.start()
    for epoch in range(1, run.epochs + 1):
        run.print(f"Epoch {epoch}/{run.epochs}")
        begun, losses = run.now, []
        total = run.per_epoch
        first_end = None
        shown = 0
        for inner in range(1, total + 1):
            losses.append(run.train_step(epoch))
            mean = sum(losses) / len(losses)
            run.steps[-1][4] = None
            first_end = first_end or run.now
            last = inner == total
            if verbose == 1 and not last and run.now - shown >= 0.05:
                shown = run.now
                width = len(str(total))
                each = (run.now - first_end) / max(1, inner - 1) if inner > 1 else run.now - begun
                eta = each * (total - inner)
                done = int(20 * inner / total)
                text = "━" * done + "━" * (20 - done)
                run.chunk("out", "\r\x1b[1m" + f"{inner:{width}}/{total}\x1b[0m {text} \x1b[1m{int(eta)}s\x1b[0m {each * 1e3:.0f}ms/step - accuracy: 0.5000 - loss: {mean:.4f}")
        train_s = run.now - begun
        more = ""
        if validates:
            run.pass_s(run.eval_s * 5)
            more = f" - val_accuracy: 0.6000 - val_loss: {run.val_loss(epoch):.4f}"
        mean = sum(losses) / len(losses)
        whole_s = run.now - begun
        if verbose == 1:
            run.chunk("out", "\r\x1b[1m" + f"{total}/{total}\x1b[0m {'━' * 20} \x1b[1m{int(whole_s)}s\x1b[0m {whole_s / total * 1e3:.0f}ms/step - accuracy: 0.5000 - loss: {mean:.4f}{more}\n")
        else:
            run.print(f"{total}/{total} - {int(whole_s)}s - {whole_s / total * 1e3:.0f}ms/step - accuracy: 0.5000 - loss: {mean:.4f}{more}")


    for index in range(1, evaluates + 1):
        # model.evaluate() announces no epoch.
        run.pass_s(run.eval_s)
        if index == evaluates:
            end, each = "\n", f"{evaluates}/{evaluates} - 1s - 20ms/step" if verbose == 2 else f"\r{evaluates}/{evaluates} {'━' * 20} 1s 20ms/step"
            run.chunk("out", f"{each} - accuracy: 0.6000 - loss: {run.val_loss(1):.4f}{end}")
        elif verbose == 1:
            run.chunk("out", f"\r{index}/{evaluates} {'━' * 20} 1s 20ms/step - accuracy: 0.6000 - loss: {run.loss:.4f}")


@kind
def lightning(run):
    rng = run.rng
    refresh = rng.choice([1, 1, 5, 20])
    validates = rng.choice(["no", "epoch", "within"])
    within = rng.choice([5, 10])
    sanity = validates != "no" and rng.random() < 0.5
    val_batches = rng.choice([3, 5])
    name = rng.choice(["train_loss", "loss", "train_loss_step"])
    run.notes = [refresh, validates, within, sanity, val_batches, name]
    run.start()
    fmt = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]"

    class Lbar(tqdm):
        @staticmethod
        def format_num(n):
            return std.tqdm.format_num(n)

    def vbar(text):
        b = Lbar(total=val_batches, desc=text, file=run.err, leave=False, bar_format=fmt, position=1)
        for index in range(1, val_batches + 1):
            run.pass_s(run.eval_s)
            if index % refresh == 0 or index == val_batches:
                b.n = index
                b.refresh()
        b.close()

    if sanity:
        vbar("Sanity Checking DataLoader 0")
    b = Lbar(total=run.per_epoch, desc="Epoch 0", file=run.err, leave=True, bar_format=fmt, smoothing=0)
    for epoch in range(1, run.epochs + 1):
        b.reset(run.per_epoch)
        b.initial = 0
        b.set_description(f"Epoch {epoch - 1}")
        postfix = {"v_num": 0}
        for inner in range(1, run.per_epoch + 1):
            loss = run.train_step(epoch)
            postfix[name] = f"{loss:.3f}"
            run.steps[-1][4] = round(loss, 3)
            if inner % refresh == 0 or inner == run.per_epoch:
                b.n = inner
                b.refresh()
                b.set_postfix({k: v for k, v in postfix.items()})
            if validates == "within" and inner % within == 0:
                vbar("Validation DataLoader 0")
                postfix["val_loss"] = f"{run.val_loss(epoch):.3f}"
                b.set_postfix(postfix)
        if validates == "epoch":
            vbar("Validation DataLoader 0")
            postfix["val_loss"] = f"{run.val_loss(epoch):.3f}"
            b.set_postfix(postfix)
    b.close()
    if validates == "within" and refresh > within:
        # The bar showed no step before the first evaluations, and then their loss beside no step.
        run.evaluations = None


@kind
def accelerate(run):
    """A bar over the run in the style of Hugging Face's examples without Trainer, with losses in logged lines or in the bar."""
    rng = run.rng
    total = run.per_epoch * run.epochs
    every = rng.choice([1, 5, 10])
    where = rng.choice(["line", "postfix", "epoch_only"])
    run.notes = [every, where]
    run.start()
    b = bar(run, total, desc=rng.choice([None, "Steps", "Training"]))
    for epoch in range(1, run.epochs + 1):
        for inner in range(run.per_epoch):
            loss = run.train_step(epoch)
            b.update(1)
            if where == "postfix":
                b.set_postfix(step_loss=loss, loss=loss, lr=1e-4)
            elif where == "line" and run.global_step % every == 0:
                run.print(f"12/01/2025 10:00:00 - INFO - __main__ - step {run.global_step}: loss {loss:.4f}", "err")
        run.pass_s(run.eval_s * 5)
        run.print(f"epoch {epoch - 1}: {{'accuracy': 0.8}} perplexity: {rng.uniform(5, 9):.3f} eval_loss: {run.val_loss(epoch):.4f}", "err")
    b.close()


@kind
def timm(run):
    rng = run.rng
    every = rng.choice([5, 10])
    run.notes = [every]
    run.start()
    total = run.per_epoch
    for epoch in range(run.epochs):
        times = []
        for index in range(total):
            loss = run.train_step(epoch + 1)
            dt = run.steps[-1][3]
            times.append(dt)
            if index % every == 0 or index == total - 1:
                mean = sum(times) / len(times)
                run.print(f"Train: {epoch} [{index:>4d}/{total} ({100 * index / max(1, total - 1):>3.0f}%)]  Loss: {loss:.4g} ({loss:.4g})  Time: {dt:.3f}s, {64 / dt:>7.2f}/s  ({mean:.3f}s, {64 / mean:>7.2f}/s)  LR: 1.000e-03  Data: 0.001 (0.002)")
                run.steps[-1][4] = float(f"{loss:.4g}")
        for index in range(5):
            run.pass_s(run.eval_s)
            if index == 4:
                run.print(f"Test: [{index:>4d}/4]  Time: {run.eval_s:.3f} ({run.eval_s:.3f})  Loss: {run.loss:>7.3f} (2.0)  Acc@1: 10.0 ( 9.0)")


@kind
def imagenet(run):
    """PyTorch's ImageNet example."""
    rng = run.rng
    every = rng.choice([1, 5, 10])
    run.notes = [every]
    run.start()
    total = run.per_epoch
    for epoch in range(run.epochs):
        ends = []
        for index in range(1, total + 1):
            loss = run.train_step(epoch + 1)
            dt = run.steps[-1][3]
            ends.append(dt)
            if index % every == 0:
                run.print(f"Epoch: [{epoch}][{index:3d}/{total}]\tTime {dt:6.3f} ({sum(ends) / len(ends):6.3f})\tData  0.001 ( 0.001)\tLoss {loss:.4e} ({loss:.4e})\tAcc@1   3.12 (  4.00)")
                run.steps[-1][4] = float(f"{loss:.4e}")
        for index in range(1, 6):
            run.pass_s(run.eval_s)
            if index % 2 == 0:
                run.print(f"Test: [{index}/5]\tTime {run.eval_s:6.3f} ({run.eval_s:6.3f})\tLoss {run.loss:.4e} ({run.loss:.4e})\tAcc@1   3.12 (  4.00)")
        run.print(" *   Acc@1 10.000 Acc@5 30.000")


@kind
def megatron(run):
    rng = run.rng
    every, eval_every = rng.choice([1, 5, 10]), rng.choice([10, 20])
    total = run.per_epoch * run.epochs
    run.notes = [every, eval_every]
    run.start()
    for step in range(1, total + 1):
        loss = run.train_step(1)
        if step % every == 0:
            mean = sum(s[3] for s in run.steps[-every:]) / every
            run.print(f" [2025-01-02 10:00:00] iteration {step:8d}/{total:8d} | consumed samples: {step * 8:12d} | elapsed time per iteration (ms): {mean * 1e3:.1f} | learning rate: 1.0E-04 | global batch size: 8 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations:   0 | number of nan iterations:   0 |")
        if step % eval_every == 0:
            run.pass_s(run.eval_s * 5)
            value = run.val_loss(1)
            run.print("-" * 60)
            run.print(f" validation loss at iteration {step} | lm loss value: {value:.6E} | lm loss PPL: {2.0:.6E} | ")
            run.print("-" * 60)


@kind
def torchtune(run):
    run.start()
    for epoch in range(run.epochs):
        b = bar(run, run.per_epoch)
        for inner in range(run.per_epoch):
            loss = run.train_step(epoch + 1)
            b.update(1)
            b.set_description(f"{epoch + 1}|{run.global_step}|Loss: {loss}")
        b.close()


@kind
def torchtitan(run):
    rng = run.rng
    every = rng.choice([1, 5, 10])
    validates = rng.random() < 0.4
    total = run.per_epoch * run.epochs
    run.notes = [every, validates]
    run.start()
    for step in range(1, total + 1):
        loss = run.train_step(1)
        if step == 1 or step % every == 0:
            run.print(f"[titan] 2025-02-03 04:05:06,789 - root - INFO - step: {step:2}  loss: {loss:7.4f}  grad_norm:  1.2345  memory: 22.26GiB(28.11%)  tps: 12,345  tflops: 123.45  mfu: 12.48%", "err")
        if validates and step % 10 == 0:
            run.pass_s(run.eval_s * 5)
            run.print(f"[titan] 2025-02-03 04:05:06,789 - root - INFO - validate step: {step:2}  loss: {run.val_loss(1):7.4f}  memory: 22.26GiB(28.11%)  tps: 12,345", "err")


@kind
def pytorch_examples(run):
    """Numbers of batches instead of steps, and lines of an epoch alone."""
    rng = run.rng
    every = rng.choice([1, 5, 10])
    style = rng.choice([
        "Epoch {e}, Batch {s}/{n}, Loss: {l:.4f}", "Epoch: {e} Batch: {s} Loss: {l:.4f}", "[{e}, {s:5d}] loss: {l:.3f}",
        "| epoch {e:3d} | {s:5d}/{n:5d} batches | lr 5.00 | ms/batch {t:5.2f} | loss {l:5.2f} | ppl 9.00", "Epoch {e} Iter {s}/{n} loss {l:.4f}",
        "Epoch={e} batch={s} loss={l:.4f}", "epoch {e} batch {s} of {n}: loss {l:.4f}",
    ])
    if "{n}" not in style:
        every = 1
    run.notes = [every, style]
    run.start()
    for epoch in range(1, run.epochs + 1):
        for inner in range(1, run.per_epoch + 1):
            loss = run.train_step(epoch)
            if inner % every == 0:
                dts = [s[3] for s in run.steps[-every:]]
                run.print(style.format(e=epoch, s=inner, n=run.per_epoch, l=loss, t=sum(dts) / len(dts) * 1e3))
                digits = 2 if ":5.2f} | ppl" in style else 3 if ":.3f" in style else 4
                run.steps[-1][4] = round(loss, digits)
        run.pass_s(run.eval_s * 5)
        run.print("-" * 40)
        run.print(f"| end of epoch {epoch:3d} | time: {1.0:5.2f}s | valid loss {run.val_loss(epoch):5.2f} | valid ppl 9.00")
        run.print("-" * 40)


@kind
def mmengine(run):
    rng = run.rng
    every = rng.choice([5, 10])
    run.notes = [every]
    run.start()
    log = "12/01 10:00:00 - mmengine - INFO -"
    for epoch in range(1, run.epochs + 1):
        for inner in range(1, run.per_epoch + 1):
            loss = run.train_step(epoch)
            if inner % every == 0:
                mean = sum(s[3] for s in run.steps[-every:]) / every
                run.print(f"{log} Epoch(train)  [{epoch}][{inner:3d}/{run.per_epoch}]  lr: 1.0000e-03  eta: 0:05:00  time: {mean:.4f}  data_time: 0.0012  memory: 500  loss: {loss:.4f}")
        for index in range(1, 6):
            run.pass_s(run.eval_s)
        run.print(f"{log} Epoch(val) [{epoch}][5/5]    accuracy/top1: 80.0  data_time: 0.001  time: {run.eval_s:.4f}")


@kind
def ultralytics(run):
    rng = run.rng
    run.notes = []
    run.start()
    for epoch in range(1, run.epochs + 1):
        run.print("\n      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size", "err")
        losses = []
        b = bar(run, run.per_epoch, bar_format="{l_bar}{bar:10}{r_bar}")
        for inner in range(run.per_epoch):
            losses.append(run.train_step(epoch))
            run.steps[-1][4] = None
            mean = sum(losses) / len(losses)
            b.set_description(f"{f'{epoch}/{run.epochs}':>11}{'2.1G':>11}{mean / 2:11.4g}{mean / 4:11.4g}{mean / 4:11.4g}{8:11}{640:11}")
            b.update(1)
        b.close()
        v = bar(run, 5, desc=f"{'Class':>22}{'Images':>11}{'Instances':>11}{'Box(P':>11}{'R':>11}{'mAP50':>11}{'mAP50-95)':>11}", bar_format="{l_bar}{bar:10}{r_bar}")
        for _ in range(5):
            run.pass_s(run.eval_s)
            v.update(1)
        v.close()
        run.print(f"{'all':>22}{4:>11}{17:>11}{0.6:11.3g}{0.6:11.3g}{0.6:11.3g}{0.5:11.3g}", "err")


@kind
def carriage(run):
    """Lines that end with the next one's carriage return, or with backspaces."""
    rng = run.rng
    style = rng.choice(["\rstep {s}/{n} loss {l:.4f}", "\repoch {e} step {s}/{n} loss={l:.4f}  ", "\x1b[2K\rstep {s}/{n}: loss {l:.4f}"])
    by_epoch = "{e}" in style or rng.random() < 0.5
    validates = rng.choice(["no", "line", "silent"])
    newline = rng.random() < 0.5
    run.notes = [style, by_epoch, validates, newline]
    run.start()
    total = run.per_epoch if by_epoch else run.per_epoch * run.epochs
    for epoch in range(1, run.epochs + 1):
        for inner in range(1, run.per_epoch + 1):
            loss = run.train_step(epoch)
            run.chunk("out", style.format(s=inner if by_epoch else run.global_step, n=total, l=loss, e=epoch))
        if newline:
            run.chunk("out", "\n")
        if validates == "line":
            run.pass_s(run.eval_s * 5)
            run.print(("" if newline else "\n") + f"val loss: {run.val_loss(epoch):.4f}")
        elif validates == "silent":
            run.quiet(run.eval_s * 5)
    run.print("")


@kind
def nested(run):
    """A bar of epochs around a bar of batches."""
    rng = run.rng
    inner_leave = rng.random() < 0.3
    outer_desc, inner_desc = rng.choice([("Epochs", "Batches"), ("Epochs", None), ("epoch", "train"), (None, "train"), ("Epoch", "Step")])
    how = rng.choice(["before", "after"])
    outer_loss = rng.random() < 0.5
    validates = rng.choice(["no", "bar", "silent"])
    run.notes = [inner_leave, outer_desc, inner_desc, how, outer_loss, validates]
    run.epochs = rng.choice([2, 3, 4])
    run.start()
    outer = bar(run, run.epochs, desc=outer_desc, position=0)
    for epoch in range(1, run.epochs + 1):
        inner = bar(run, run.per_epoch, desc=inner_desc, position=1, leave=inner_leave)
        for _ in range(run.per_epoch):
            loss = run.train_step(epoch)
            if how == "before":
                inner.set_postfix(loss=loss)
                inner.update(1)
            else:
                inner.update(1)
                inner.set_postfix(loss=loss)
        inner.close()
        if validates == "bar":
            vbar = bar(run, 5, desc="val", position=1, leave=False)
            for _ in range(5):
                run.pass_s(run.eval_s)
                vbar.update(1)
            vbar.close()
        elif validates == "silent":
            run.quiet(run.eval_s * 5)
        if outer_loss:
            outer.set_postfix(loss=loss, val_loss=run.val_loss(epoch))
        outer.update(1)
    outer.close()


@kind
def whole_epochs(run):
    """One step an epoch: full batches, as with small data."""
    rng = run.rng
    how = rng.choice(["bar", "bar_description", "line", "keras_like"])
    run.epochs, run.per_epoch = rng.choice([20, 50]), 1
    validates = rng.random() < 0.3
    run.notes = [how, validates]
    run.start()
    b = bar(run, run.epochs) if "bar" in how else None
    for epoch in range(1, run.epochs + 1):
        loss = run.train_step(epoch)
        if how == "bar":
            b.set_postfix(loss=loss)
            b.update(1)
        elif how == "bar_description":
            b.set_description(f"Epoch {epoch} loss {loss:.4f}")
            b.update(1)
        elif how == "line":
            run.print(f"Epoch {epoch}/{run.epochs} loss {loss:.4f}" + (f" val_loss {run.val_loss(epoch):.4f}" if validates else ""))
        else:
            run.print(f"epoch {epoch} step {epoch} loss {loss:.4f}")
    if b:
        b.close()


@kind
def ranks(run):
    """Lines of several ranks, with prefixes or without."""
    rng = run.rng
    prefix = rng.choice(["[rank{r}]: ", "[default{r}]:", "rank {r}: "])
    total = run.per_epoch * run.epochs
    every = rng.choice([1, 5])
    run.notes = [prefix, every]
    run.start()
    for step in range(1, total + 1):
        loss = run.train_step(1)
        if step % every == 0:
            for r in range(2):
                run.print(prefix.format(r=r) + f"step {step}/{total} loss {loss if r == 0 else loss + 0.5:.4f}")


@kind
def buffered(run):
    """Lines that are written some at a time."""
    rng = run.rng
    size = rng.choice([3, 8, 20])
    total = run.per_epoch * run.epochs
    run.notes = [size]
    run.start()
    waiting = []
    for step in range(1, total + 1):
        loss = run.train_step(1)
        waiting.append(f"step {step}/{total} loss {loss:.4f}")
        if len(waiting) == size or step == total:
            for line in waiting:
                run.print(line)
            waiting = []


def main():
    seed, count, archive = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    kinds = [sys.argv[4]] if len(sys.argv) > 4 else sorted(KINDS)
    lines = []
    for index in range(count):
        name = kinds[index % len(kinds)]
        run = Run(random.Random(f"{seed} {index} {name}"))
        started_s = run.now
        KINDS[name](run)
        run.pass_s(0.2)
        training = {"name": f"{name}-{seed}-{index}", "notes": [str(note) for note in run.notes], "step_s": run.step_s, "started_s": started_s,
                    "ended_s": run.now, "chunks": run.chunks, "steps": run.steps, "evaluations": run.evaluations}
        lines.append(json.dumps(training))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        # The time of the entry is fixed, so that the same seed makes the same bytes.
        file.writestr(zipfile.ZipInfo("outputs.jsonl", (2026, 1, 1, 0, 0, 0)), "\n".join(lines) + "\n", zipfile.ZIP_DEFLATED, 9)


main()
