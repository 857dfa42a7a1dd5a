"""How often values of independent files are marked as dependent, and how often those of dependent files are: src/import/dependence.rs in Python.

    python3 -m venv v && v/bin/pip install numpy && v/bin/python 2026-11-29-imported-dependence.py [FILES]
"""
import sys

import numpy as np

random = np.random.default_rng(29)
CHANCE, ALONE = 1e-3, 0.1


def ranks(x):
    """Ranks of each row; equal values share the mean of their ranks."""
    ordered = np.sort(x, axis=1)
    below = np.array([np.searchsorted(o, r, "left") for o, r in zip(ordered, x)])
    upto = np.array([np.searchsorted(o, r, "right") for o, r in zip(ordered, x)])
    return (below + upto + 1) / 2


def is_sorted(x):
    steps = np.diff(x, axis=1)
    return (steps < 0).any(1) != (steps > 0).any(1)


def successions(x, skipped):
    """The likeness of each row and its variance; NaN for rows that show nothing."""
    n = x.shape[1]
    r = ranks(x) - (n + 1) / 2
    s2, s4 = (r**2).sum(1), (r**4).sum(1)
    with np.errstate(all="ignore"):
        fourth = s4 / s2**2
        of_pairs = 2 * n * fourth + 6
        triples = n * (n - 1) * (n - 2)
        one = (n * n * fourth + 3 * n - of_pairs) / triples
        none = (4 * n * n - 2 * of_pairs - 4 * triples * one) / (triples * (n - 3))
        variance = (n - 1) * of_pairs / (n * (n - 1)) + 2 * (n - 2) * one + (n - 2) * (n - 3) * none - 4
        likeness = 2 - (np.diff(r, axis=1) ** 2).sum(1) / s2
    bad = skipped | (s2 == 0) | ~(variance > 0)
    likeness[bad] = variance[bad] = np.nan
    return likeness, variance


def tail(z):
    return np.where(z > 1, np.exp(-z * z / 2) / (np.maximum(z, 1) * np.sqrt(2 * np.pi)), 1.0)


def marked(measures, in_rounds=False):
    """Whether each file is marked. measures: arrays of files × cells × rows, of which the first is left out."""
    measures = [m[:, :, 1:] for m in measures]
    files, cells, n = measures[0].shape
    if n < 4:
        return np.zeros(files, bool)
    skipped = np.any([is_sorted(m.reshape(-1, n)) for m in measures], axis=0)
    found = np.zeros(files, bool)
    for m in measures:
        x, independent = m.reshape(-1, n), 1.0
        if in_rounds:
            r = ranks(x).reshape(files, cells, n)
            use = ~skipped.reshape(files, cells, 1)
            count = np.maximum(use.sum(1, keepdims=True), 1)
            x = (r - (r * use).sum(1, keepdims=True) / count).reshape(-1, n)
            independent = 1 - 1 / count[:, 0, 0]
        likeness, variance = (one.reshape(files, cells) for one in successions(x, skipped))
        judged = (~np.isnan(likeness)).sum(1)
        chance = CHANCE / len(measures)
        with np.errstate(all="ignore"):
            alone = tail(np.nan_to_num(likeness / np.sqrt(variance))) <= (ALONE * chance / np.maximum(judged, 1))[:, None]
            weight = np.where(alone | np.isnan(likeness), 0, 1 / variance)
            z = (weight * np.nan_to_num(likeness)).sum(1) / np.sqrt(weight.sum(1)) * np.sqrt(independent)
        found |= alone.any(1) | (tail(np.nan_to_num(z)) <= (1 - ALONE) * chance)
    return found


normal = lambda s: 1 + 0.05 * random.standard_normal(s)
INDEPENDENT = {
    "normal": normal,
    "lognormal": lambda s: np.exp(0.3 * random.standard_normal(s)),
    "bimodal": lambda s: 1 + 0.3 * (random.random(s) < 0.4) + 0.01 * random.standard_normal(s),
    "one run in ten is slow": lambda s: 1 + 0.01 * random.standard_normal(s) + (random.random(s) < 0.1) * random.exponential(2, s),
    "whole ms (spread of 1 ms)": lambda s: np.round(1000 + random.standard_normal(s)),
    "first run of each cell is slow": lambda s: normal(s) + (np.arange(s[-1]) == 0) * 0.5,
}


def rolling(window):
    def make(s):
        x = normal((*s[:2], s[2] + window - 1))
        return np.lib.stride_tricks.sliding_window_view(x, window, axis=2).mean(3)
    return make


def joined(runs, samples):
    return lambda s: np.repeat(np.round(normal((*s[:2], runs)), 2), samples, axis=2)


def rounded(values):
    def make(s):
        x = normal((*s[:2], values))
        return np.stack([np.round(x, d) for d in (6, 4, 3)], 3).reshape(*s[:2], -1)
    return make


def show(name, shares):
    print(f"{name:42}", " ".join(f"{share:8}" for share in shares), flush=True)


def share(make, files, cells, n, **options):
    return marked([make((files, cells, n))], **options).mean()


def sort_cells(x):
    return np.sort(x, axis=2)


def correlated_by_first(s):
    x = normal(s)
    y = x + 0.01 * random.standard_normal(s)
    order = np.argsort(x, axis=2)
    return [np.take_along_axis(one, order, 2) for one in (x, y)]


if __name__ == "__main__":
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    print("independent files that are marked, of 1,000: the mean and the largest over 3 to 50 rows and 2 to 12 cells")
    shapes = [(cells, n) for n in (3, 4, 5, 7, 10, 20, 50) for cells in (2, 3, 5, 12)]
    for name, make in INDEPENDENT.items():
        for in_rounds in (False, True):
            all_ = [1000 * share(make, files, cells, n, in_rounds=in_rounds) for cells, n in shapes]
            worst = shapes[int(np.argmax(all_))]
            show(name + (", in rounds" if in_rounds else ""), [round(np.mean(all_), 3), round(max(all_), 2), str(worst)])
    three = [1000 * marked([normal((files, c, n)) for _ in range(3)]).mean() for c, n in shapes]
    show("three measures", [round(np.mean(three), 3), round(max(three), 2)])
    by_first = [1000 * marked(correlated_by_first((files // 4, c, n))).mean() for c, n in shapes]
    show("sorted by one of two correlated measures", [round(np.mean(by_first), 3), round(max(by_first), 2)])
    show("sorted", [max(share(lambda s: sort_cells(make(s)), files // 4, c, n) for c, n in shapes for make in INDEPENDENT.values())])
    print("dependent files that are marked, per cent, by rows in a cell")
    rows = (5, 8, 10, 20, 50)
    for cells in (2, 4, 12):
        for window in (3, 5, 10):
            for in_rounds in (False, True):
                found = [round(100 * share(rolling(window), 1000, cells, n, in_rounds=in_rounds), 1) for n in rows]
                show(f"rolling mean of {window}, {cells} cells{', in rounds' if in_rounds else ''}", found)
    for cells in (2, 4):
        kinds = [(3, 4), (5, 2), (5, 4), (10, 2), (10, 4)]
        show(f"join, runs x samples {kinds}, {cells} cells", [round(100 * share(joined(*k), 1000, cells, k[0] * k[1]), 1) for k in kinds])
        show(f"copies of 3, 4, 5, 10 values, {cells} cells", [round(100 * share(rounded(v), 1000, cells, 3 * v), 1) for v in (3, 4, 5, 10)])
    print("a drift over the file, in standard deviations of a run, from its first to its last row")
    for drift in (1, 2, 4):
        make = lambda s: random.standard_normal(s) + drift * np.linspace(0, 1, s[2])
        for in_rounds in (False, True):
            found = [round(100 * share(make, 1000, 4, n, in_rounds=in_rounds), 1) for n in rows]
            show(f"drift of {drift}, 4 cells{', in rounds' if in_rounds else ''}", found)
