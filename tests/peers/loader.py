"""Peer baseline of tests/bench/loader.rs: PyTorch's DataLoader alone, written as a PyTorch user would write it.

Scenario A: 28x28 bytes in memory, upsampled and normalised sample by sample in the workers (as mobilenet_ddp.py beside this).
Scenario B (--folder DIR, an ImageFolder): files decoded by PIL in the workers, resized, normalised. Batches arrive in the main
process and are dropped. Prints one JSON line per configuration, and the start-up of its workers.
"""
import argparse, json, time
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, n, size, dtype):
        g = torch.Generator().manual_seed(0)
        self.x = torch.randint(0, 256, (n, 28, 28), dtype=torch.uint8, generator=g)
        self.y = torch.randint(0, 10, (n,), generator=g)
        self.size, self.dtype = size, dtype

    def __len__(self): return len(self.y)

    def __getitem__(self, i):
        x = self.x[i].to(torch.float32).div_(255).sub_(0.1307).div_(0.3081)[None, None]
        x = F.interpolate(x, size=(self.size, self.size), mode='bilinear', align_corners=False)[0].expand(3, -1, -1)
        return x.to(self.dtype).contiguous(), self.y[i]


def folder(path, size, dtype):
    from torchvision import datasets, transforms
    steps = [transforms.ToTensor(), transforms.Normalize([0.1307] * 3, [0.3081] * 3), transforms.Lambda(lambda x: x.to(dtype))]
    if size != 300: steps.insert(0, transforms.Resize((size, size), antialias=False))
    return datasets.ImageFolder(path + '/train', transforms.Compose(steps))


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--sizes', default='100,300,500')
    p.add_argument('--dtypes', default='fp32,fp16')
    p.add_argument('--workers', type=int, default=2)
    p.add_argument('--batch', type=int, default=64)
    p.add_argument('--seconds', type=float, default=4)
    p.add_argument('--folder')
    a = p.parse_args()
    for size in map(int, a.sizes.split(',')):
        for name in a.dtypes.split(','):
            dtype = {'fp32': torch.float32, 'fp16': torch.float16}[name]
            data = folder(a.folder, size, dtype) if a.folder else Digits(60000, size, dtype)
            begin = time.perf_counter()
            batches = iter(DataLoader(data, a.batch, shuffle=True, num_workers=a.workers, drop_last=True))
            next(batches)
            start_s = time.perf_counter() - begin
            for _ in range(2 * a.workers): next(batches)  # what was prepared ahead
            begin, count = time.perf_counter(), 0
            for x, y in batches:
                count += len(y)
                if time.perf_counter() - begin > a.seconds: break
            rate = count / (time.perf_counter() - begin)
            print(json.dumps({'peer': 'torch ' + torch.__version__, 'scenario': 'b' if a.folder else 'a', 'size': size,
                              'wire': name, 'workers': a.workers, 'images_per_s': round(rate, 1), 'start_s': round(start_s, 3)}), flush=True)
            del batches


main()
