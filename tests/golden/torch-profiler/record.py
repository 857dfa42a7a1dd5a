#!/usr/bin/env python3
"""Records the traces of torch.profiler that the tests read: python3 record.py OUT

Plain PyTorch: a small convolutional network and a small transformer, eager and compiled, each with a schedule and
`export_chrome_trace`. On a machine with a GPU it also records copies from pinned memory, streams that wait for each other, and a
CUDA graph (names begin with `gpu-`); without one, what the CPU shows (`cpu-`). Two ranks record the collectives of
DistributedDataParallel: over NCCL where there are two GPUs, else over gloo. OUT/…-recorded.json says with which versions, and which
recordings failed.
"""

import gzip
import json
import os
import platform
import re
import subprocess
import sys
import traceback
from pathlib import Path

# A test machine's NVLink multicast need not work; ranks of one host find each other over the loopback interface.
os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PREFIX = "gpu" if DEVICE == "cuda" else "cpu"
# Small traces are read by people, too.
WAIT, WARM_UP, RECORDED = 1, 2, 3


class Convolutional(nn.Module):
    """Two convolutions with batch normalisation, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))

    def forward(self, images):
        return self.layers(images)

    @staticmethod
    def batch():
        return torch.randn(8, 3, 32, 32)


class Transformer(nn.Module):
    """One block with causal attention over 32 tokens of 64 values."""

    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.out = nn.LayerNorm(64), nn.Linear(64, 192), nn.Linear(64, 64)
        self.feed = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))

    def forward(self, tokens):
        parts = self.mix(self.norm(tokens)).chunk(3, -1)
        query, key, value = (part.unflatten(-1, (4, 16)).transpose(1, 2) for part in parts)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        tokens = tokens + self.out(mixed.transpose(1, 2).flatten(-2))
        return tokens + self.feed(tokens)

    @staticmethod
    def batch():
        return torch.randn(4, 32, 64)


def scrubbed(text):
    """Without the folders of the machine that recorded it."""
    folders = [str(Path(__file__).resolve().parent), os.getcwd(), sys.prefix, sys.base_prefix, str(Path.home()), "/tmp"]
    for folder in sorted({folder for folder in folders if folder != "/"}, key=len, reverse=True):
        text = text.replace(folder, "~")
    return re.sub(r'"traceName": "[^"]*"', '"traceName": "trace.json"', text)


def keep(profiler, file):
    """Writes a trace, compressed so that the same trace gives the same bytes."""
    plain = file.with_suffix(".unpacked")
    profiler.export_chrome_trace(str(plain))
    text = scrubbed(plain.read_text())
    plain.unlink()
    with gzip.GzipFile(file, "wb", 9, mtime=0) as packed:
        packed.write(text.encode())


def activities():
    return [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if DEVICE == "cuda" else [])


def train(file, model, step=None, recorded=RECORDED, says_version=True, **options):
    """Trains for a few steps and keeps the trace of the recorded ones."""
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def usual(number):
        with record_function("load"):
            batch = type(getattr(model, "module", getattr(model, "_orig_mod", model))).batch()
            batch = batch.pin_memory().to(DEVICE, non_blocking=True) if DEVICE == "cuda" and number % 2 else batch.to(DEVICE)
        with record_function("forward"):
            loss = model(batch).square().mean()
        with record_function("backward"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    with profile(
        activities=activities(),
        schedule=schedule(wait=WAIT, warmup=WARM_UP, active=recorded, repeat=1),
        on_trace_ready=lambda profiler: keep(profiler, file),
        **options,
    ) as profiler:
        for number in range(WAIT + WARM_UP + recorded):
            if says_version and number == WAIT + WARM_UP:
                # PyTorch does not write its version into traces; while nothing is recorded, it drops what is added.
                profiler.add_metadata("torch_version", torch.__version__)
            (step or usual)(number)
            profiler.step()


def compiled(model):
    return torch.compile(model)


def graphed(file):
    """The forward pass as a CUDA graph."""
    model = Transformer().to(DEVICE).eval()
    tokens = Transformer.batch().to(DEVICE)
    side = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(3):
            model(tokens)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        model(tokens)

    def step(_):
        graph.replay()
        torch.cuda.synchronize()

    train(file, nn.Linear(1, 1), step)


def streams(file):
    """Two streams of which one waits for the other, a copy within the GPU, one back, and a memset."""
    left, right = torch.randn(512, 512, device=DEVICE), torch.randn(512, 512, device=DEVICE)
    side = torch.cuda.Stream()

    def step(_):
        with record_function("products"):
            product = left @ right
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                other = product @ left
            torch.cuda.current_stream().wait_stream(side)
            (product + other).clone().zero_().cpu()

    # The waits themselves are only recorded on demand.
    from torch._C._profiler import _ExperimentalConfig
    train(file, nn.Linear(1, 1), step, experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True))


def rank_of_two(rank, folder, port):
    """Rank of a program with two ranks, which records its own trace."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    if DEVICE == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo", rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(
        Convolutional().to(DEVICE), device_ids=[rank] if DEVICE == "cuda" else None)
    train(Path(folder) / f"{PREFIX}-ddp.rank{rank}.json.gz", model, recorded=2)
    dist.destroy_process_group()


def two_ranks(file):
    multiprocessing.spawn(rank_of_two, (str(file.parent), 29500 + os.getpid() % 1000), nprocs=2)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    everything = dict(record_shapes=True, profile_memory=True, with_stack=True)
    recordings = {
        "conv": lambda file: train(file, Convolutional().to(DEVICE)),
        "conv-compiled": lambda file: train(file, compiled(Convolutional().to(DEVICE))),
        "transformer": lambda file: train(file, Transformer().to(DEVICE), says_version=False),
        "transformer-compiled": lambda file: train(file, compiled(Transformer().to(DEVICE))),
        "everything": lambda file: train(file, Transformer().to(DEVICE), recorded=1, **everything),
        "ddp": two_ranks,
    }
    if DEVICE == "cuda":
        recordings |= {"graph": graphed, "streams": streams}
        if torch.cuda.device_count() < 2:
            del recordings["ddp"]
    failed = {}
    for name, record in recordings.items():
        try:
            record(out / f"{PREFIX}-{name}.json.gz")
        except Exception:
            failed[name] = traceback.format_exc().strip().splitlines()[-1]
            traceback.print_exc()
    gpus = [torch.cuda.get_device_name(gpu) for gpu in range(torch.cuda.device_count())]
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=False
    ).stdout.split("\n")[0] if gpus else None
    about = dict(torch=torch.__version__, cuda=torch.version.cuda, python=platform.python_version(), gpus=gpus, driver=driver,
                 failed=failed)
    (out / f"{PREFIX}-recorded.json").write_text(json.dumps(about, indent=1) + "\n")
    for file in sorted(out.iterdir()):
        print(f"{file.stat().st_size:8} {file.name}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
