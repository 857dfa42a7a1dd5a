"""Writes mobilenet_v2.json: what torchvision's MobileNetV2 computes from weights and images given by formulas.

The formulas are the test's too (src/worker/models/mobilenet_v2_tests.rs), so that no weights need to be stored.
Needs torch 2.11 and torchvision 0.26:  python tests/oracles/mobilenet_v2.py > tests/oracles/mobilenet_v2.json
"""
import json
import sys

import torch
import torchvision
from torch.nn.functional import cross_entropy

CLASSES, IMAGES, SIZE, RATE = 10, 4, 40, 0.0005


def noise(count, place):
    """Numbers from -1 to 1 that look random and are exact everywhere: a hash of the index in 32 bits."""
    low = 0xFFFFFFFF
    h = (torch.arange(count, dtype=torch.int64) + 7919 * place + 1) * 2654435761 & low
    h = (h ^ (h >> 15)) * 2246822519 & low
    h = (h ^ (h >> 13)) * 3266489917 & low
    h = h ^ (h >> 16)
    return h.to(torch.float64) / 2.0**31 - 1.0


def fill(model):
    """Every tensor of the state by its name's place in alphabetical order, in float64."""
    state = {name: value for name, value in model.state_dict().items() if not name.endswith("num_batches_tracked")}
    for place, name in enumerate(sorted(state)):
        value = state[name]
        values = noise(value.numel(), place)
        if name.endswith("running_var"):
            values = 1.0 + 0.5 * values
        elif name.endswith("running_mean"):
            values = 0.1 * values
        elif value.dim() == 1 and name.endswith("weight"):
            values = 1.0 + 0.2 * values
        elif value.dim() == 1:
            values = 0.1 * values
        else:
            values = values * (6.0 / value[0].numel()) ** 0.5
        value.copy_(values.reshape(value.shape).to(value.dtype))


def build(width, dtype):
    model = torchvision.models.mobilenet_v2(num_classes=CLASSES, width_mult=width, dropout=0.2).to(dtype)
    with torch.no_grad():
        fill(model)
    return model


def run(width, dtype):
    images = noise(IMAGES * 3 * SIZE * SIZE, 1000).to(dtype).reshape(IMAGES, 3, SIZE, SIZE)
    labels = torch.arange(IMAGES) * 3 % CLASSES
    model = build(width, dtype)
    parameters = sum(p.numel() for p in model.parameters())
    names = sorted(name for name in model.state_dict() if not name.endswith("num_batches_tracked"))
    with torch.no_grad():
        logits = model.eval()(images)

    # Dropout is random: without it training is a formula too.
    model.train()
    model.classifier[0].eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    losses, norms = [], {}
    for step in range(3):
        optimizer.zero_grad()
        loss = cross_entropy(model(images), labels)
        loss.backward()
        if step == 0:
            for name, parameter in model.named_parameters():
                if name in ("features.0.0.weight", "features.8.conv.1.0.weight", "features.18.1.bias", "classifier.1.weight"):
                    norms[name] = parameter.grad.norm().item()
        optimizer.step()
        losses.append(loss.item())
    return {
        "width": width, "parameters": parameters, "tensors": len(names), "first_names": names[:4] + names[-4:],
        "logits": logits.tolist(), "losses": losses, "gradient_norms": norms,
    }


def main():
    torch.manual_seed(0)
    json.dump({f"{width}": run(width, torch.float64) for width in (1.0, 0.35, 1.4)}, sys.stdout, indent=1)


main()
