"""Peer baseline: the papers' image-recognition job written as a PyTorch user would write it.

Scenario A: 60,000 uint8 28x28 digits in host memory, per-sample upsampling to S x S on the CPU in the
DataLoader's workers (F.interpolate, 3 channels, normalise), DDP with DistributedSampler, MobileNetV2.
Prints one JSON line per configuration (rank 0): images/s over the timed steps, all GPUs together.
"""
import argparse, json, os, time
import torch, torch.distributed as dist, torchvision
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Digits(Dataset):
    def __init__(self, n, size, dtype, device_side):
        g = torch.Generator().manual_seed(0)
        self.x = torch.randint(0, 256, (n, 28, 28), dtype=torch.uint8, generator=g)
        self.y = torch.randint(0, 10, (n,), generator=g)
        self.size, self.dtype, self.device_side = size, dtype, device_side

    def __len__(self): return len(self.y)

    def __getitem__(self, i):
        if self.device_side: return self.x[i], self.y[i]
        x = self.x[i].to(torch.float32).div_(255).sub_(0.1307).div_(0.3081)[None, None]
        x = F.interpolate(x, size=(self.size, self.size), mode='bilinear', align_corners=False)[0].expand(3, -1, -1)
        return x.to(self.dtype).contiguous(), self.y[i]


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--configs', required=True, help='JSON list of {size,bs,prec,layout,pin,loader,workers,steps,graph,tf32,benchmark,compile,fused}; '
                   'compile: a mode of torch.compile, such as default or reduce-overhead; fused: one kernel updates all parameters')
    a = p.parse_args()
    rank, world = int(os.environ.get('RANK', 0)), int(os.environ.get('WORLD_SIZE', 1))
    local = int(os.environ.get('LOCAL_RANK', 0))
    torch.cuda.set_device(local); dev = torch.device('cuda', local)
    dist.init_process_group('nccl', device_id=dev) if world > 1 else None
    for c in json.loads(a.configs):
        torch.backends.cudnn.benchmark = c.get('benchmark', True)
        torch.backends.cudnn.allow_tf32 = c.get('tf32', 'off') != 'off'
        torch.backends.cuda.matmul.allow_tf32 = c.get('tf32', 'off') == 'all'
        size, bs, prec, steps = c['size'], c.get('bs', 64), c.get('prec', 'fp32'), c.get('steps', 40)
        layout, pin, loader, workers = c.get('layout', 'nchw'), c.get('pin', False), c.get('loader', 'host'), c.get('workers', 8)
        graph, mode = c.get('graph', False), c.get('compile', '')
        if graph and mode == 'reduce-overhead': raise SystemExit('graph captures the whole step itself: take compile = default with it')
        torch._dynamo.reset()                         # what an earlier configuration compiled must not count against this one's
        dt = torch.float64 if prec == 'fp64' else torch.float32
        mf = torch.channels_last if layout == 'nhwc' else torch.contiguous_format
        model = torchvision.models.mobilenet_v2(num_classes=10).to(dev, dt).to(memory_format=mf)
        side = torch.cuda.Stream()                    # DDP that is to be captured must be made on a side stream
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            if world > 1: model = nn.parallel.DistributedDataParallel(model, device_ids=[local])
        torch.cuda.current_stream().wait_stream(side)
        opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=c.get('fused', False) or graph)
        net = torch.compile(model, mode=mode) if mode else model
        scaler = torch.amp.GradScaler('cuda', enabled=prec == 'fp16')
        amp = {'fp16': torch.float16, 'bf16': torch.bfloat16}.get(prec)
        # the papers send images in the run's precision
        wire = {'fp64': torch.float64, 'fp16': torch.float16}.get(prec, torch.float32)
        ds = Digits(60000, size, wire, loader != 'host')
        sampler = DistributedSampler(ds, world, rank) if world > 1 else None
        dl = DataLoader(ds, bs, sampler=sampler, shuffle=sampler is None, num_workers=workers, pin_memory=pin, drop_last=True)
        lossf = nn.CrossEntropyLoss()
        if loader == 'resident':                      # all bytes live on the GPU; batches are gathered there
            gx, gy = ds.x.to(dev), ds.y.to(dev)
            it = ((gx[j], gy[j]) for _ in iter(int, 1) for j in torch.randperm(len(gy), device=dev).split(bs) if len(j) == bs)
        else:
            it = iter(dl)
        if graph:                                     # whole step in a CUDA graph over static inputs
            sx = torch.randn(bs, 3, size, size, device=dev, dtype=dt).contiguous(memory_format=mf); sy = torch.zeros(bs, dtype=torch.long, device=dev)
            def train():
                opt.zero_grad(set_to_none=True)
                with torch.autocast('cuda', dtype=amp or torch.float16, enabled=amp is not None, cache_enabled=False):
                    l = lossf(net(sx), sy)
                l.backward(); opt.step(); return l
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(12): train()
            torch.cuda.synchronize(); g = torch.cuda.CUDAGraph()
            torch.cuda.reset_peak_memory_stats()      # replays use the memory of the capture and allocate none
            with torch.cuda.graph(g): captured = train()
        in_capture = torch.cuda.max_memory_allocated() if graph else 0
        def step():
            x, y = next(it)
            x, y = x.to(dev, non_blocking=pin), y.to(dev, non_blocking=pin)
            if loader in ('device', 'resident'):
                x = x.to(dt).div_(255).sub_(0.1307).div_(0.3081)[:, None]
                x = F.interpolate(x, size=(size, size), mode='bilinear', align_corners=False).expand(-1, 3, -1, -1)
            x = (x.to(dt) if amp is None else x.float()).contiguous(memory_format=mf)
            if graph:
                sx.copy_(x); sy.copy_(y); g.replay(); return captured
            opt.zero_grad(set_to_none=True)
            with torch.autocast('cuda', dtype=amp or torch.float16, enabled=amp is not None):
                l = lossf(net(x), y)
            scaler.scale(l).backward(); scaler.step(opt); scaler.update()
            return l
        for _ in range(8): step()
        torch.cuda.synchronize(); dist.barrier() if world > 1 else None
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        torch.cuda.reset_peak_memory_stats(); t, began = time.perf_counter(), time.time(); marks[0].record()
        for i in range(steps): last = step(); marks[i + 1].record()
        torch.cuda.synchronize(); dist.barrier() if world > 1 else None
        dtm, peak = time.perf_counter() - t, max(in_capture, torch.cuda.max_memory_allocated())
        readings = os.environ.get('MULTICARD_READINGS')
        if rank == 0 and readings:                    # as a command of multicard: each step by the GPU's clock
            with open(readings, 'a') as file:
                for i, (start, end) in enumerate(zip(marks, marks[1:])):
                    file.write(json.dumps({'step': i + 1, 'steps': steps, 'duration_s': start.elapsed_time(end) / 1e3, 'units': bs * world,
                                           'time_s': began + marks[0].elapsed_time(end) / 1e3}) + '\n')
                file.write(json.dumps({'reading': {'peak_allocated_bytes': peak}}) + '\n')
        if rank == 0:
            print(json.dumps({**c, 'gpus': world, 'img_s': round(bs * world * steps / dtm, 1), 'step_ms': round(dtm / steps * 1e3, 2),
                              'peak_gib': round(peak / 2**30, 2), 'loss': round(last.item(), 4)}), flush=True)
        del it, dl, net, model, opt; torch.cuda.empty_cache()
    if world > 1: dist.destroy_process_group()


main()
