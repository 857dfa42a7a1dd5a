"""Writes flop.json: the FLOP of forward and backward passes as torch.utils.flop_counter counts them, operation by operation.

MobileNetV2 is torchvision's. Llama is written out here with the layers of src/worker/llm/block.rs, without values: only shapes count.
Attention is the plain one, whose backward pass recomputes nothing. Needs torch 2.11 and torchvision 0.26:

    python tests/oracles/flop.py > tests/oracles/flop.json
"""
import json
import sys

import torch
import torchvision
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, linear, scaled_dot_product_attention, silu
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count


def conv_backward(grad_shape, x_shape, w_shape, _bias, _stride, _padding, _dilation, transposed, _out_pad, _groups, mask, out_shape):
    """The counter's own formula takes the gradient of a grouped convolution's weight for that of one without groups."""
    one = conv_flop_count(x_shape, w_shape, grad_shape, transposed=transposed)
    return one * (int(mask[0]) + int(mask[1]))


def count(work):
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.convolution_backward: conv_backward})
    with counter, sdpa_kernel(SDPBackend.MATH):
        work()
    return counter.get_total_flops()


def image(width, size, batch):
    model = torchvision.models.mobilenet_v2(num_classes=10, width_mult=width)
    images, labels = torch.zeros(batch, 3, size, size), torch.zeros(batch, dtype=torch.int64)
    with torch.no_grad():
        forward = count(lambda: model(images))
    step = count(lambda: cross_entropy(model(images), labels).backward())
    return {"width": width, "size": size, "batch": batch, "forward": forward, "step": step}


LLAMA = {"layers": 3, "dim": 48, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 80, "vocabulary": 100}


class Linear(nn.Module):
    """Projections of one input as one matrix, with adapters on those whose names are among the targets."""

    def __init__(self, inputs, parts, rank, targets):
        super().__init__()
        self.parts = [out for _, out in parts]
        self.weight = nn.Parameter(torch.zeros(sum(self.parts), inputs), requires_grad=rank is None)
        self.adapted = [place for place, (name, _) in enumerate(parts) if rank is not None and name in targets]
        if self.adapted:
            self.rank = rank
            self.a = nn.Parameter(torch.zeros(rank * len(self.adapted), inputs))
            self.b = nn.ParameterList(nn.Parameter(torch.zeros(self.parts[place], rank)) for place in self.adapted)

    def forward(self, x, adapters):
        out = linear(x, self.weight)
        if not self.adapted or not adapters:
            return out
        low, parts = linear(x, self.a), list(out.split(self.parts, -1))
        for index, place in enumerate(self.adapted):
            parts[place] = parts[place] + linear(low.narrow(-1, index * self.rank, self.rank), self.b[index])
        return torch.cat(parts, -1)


class Block(nn.Module):
    def __init__(self, c, rank, targets):
        super().__init__()
        q, kv = c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"]
        self.c, self.widths = c, [q, kv, kv]
        make = lambda inputs, parts: Linear(inputs, parts, rank, targets)
        self.qkv = make(c["dim"], [("q", q), ("k", kv), ("v", kv)])
        self.output = make(q, [("output", c["dim"])])
        self.gate_up = make(c["dim"], [("mlp", c["ffn"]), ("mlp", c["ffn"])])
        self.down = make(c["ffn"], [("mlp", c["dim"])])
        self.norms = nn.ParameterList(nn.Parameter(torch.ones(c["dim"]), requires_grad=rank is None) for _ in range(2))

    def forward(self, x, adapters):
        heads = lambda part: part.unflatten(-1, (-1, self.c["head_dim"])).transpose(1, 2)
        q, k, v = (heads(part) for part in self.qkv(x * self.norms[0], adapters).split(self.widths, -1))
        k, v = (part.repeat_interleave(self.c["heads"] // self.c["kv_heads"], 1) for part in (k, v))
        attended = scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.output(attended, adapters)
        gate, up = self.gate_up(x * self.norms[1], adapters).chunk(2, -1)
        return x + self.down(silu(gate) * up, adapters)


class Llama(nn.Module):
    def __init__(self, c, rank=None, targets=(), tied=False):
        super().__init__()
        table = lambda: nn.Parameter(torch.zeros(c["vocabulary"], c["dim"]), requires_grad=rank is None)
        self.embedding = table()
        self.blocks = nn.ModuleList(Block(c, rank, targets) for _ in range(c["layers"]))
        self.out = self.embedding if tied else table()

    def forward(self, tokens, adapters=True):
        x = nn.functional.embedding(tokens, self.embedding)
        for block in self.blocks:
            x = block(x, adapters)
        return linear(x, self.out)


def llama(name, rows, tokens, **options):
    model, input = Llama(LLAMA, **options), torch.zeros(rows, tokens, dtype=torch.int64)
    with torch.no_grad():
        forward = count(lambda: model(input))
        reference = count(lambda: model(input, adapters=False))
    step = count(lambda: model(input).sum().backward())
    return {"name": name, "rows": rows, "tokens": tokens, "forward": forward, "reference": reference, "step": step}


def main():
    images = [image(1.0, 224, 1), image(0.35, 32, 3), image(1.4, 100, 2)]
    all_targets = ("q", "v", "output", "mlp")
    llamas = [
        llama("full", 2, 24),
        llama("tied", 2, 24, tied=True),
        llama("lora qvo mlp", 2, 24, rank=4, targets=all_targets),
        llama("lora qv", 3, 16, rank=8, targets=("q", "v")),
    ]
    json.dump({"torch": torch.__version__.split("+")[0], "image": images, "llama": {"model": LLAMA, "passes": llamas}}, sys.stdout, indent=1)
    print()


main()
