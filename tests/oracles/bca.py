"""Writes tests/golden/bca.json: BCa intervals by scipy, for src/analysis/bootstrap.rs.

Needs numpy and scipy: python tests/oracles/bca.py > tests/golden/bca.json
Resample streams differ between implementations, so intervals are compared within the noise of many resamples;
the normal distribution and the acceleration are compared exactly.
"""
import json

import numpy as np
from scipy import stats

SAMPLES = [
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    [40.9, 41.0, 41.1, 41.3, 41.6, 44.0, 47.5],
    [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8],
    [1.0, 1.0, 1.0, 2.0, 2.0, 9.0, 9.5],
    [-3.0, -1.0, -0.5, 0.0, 0.25, 2.0, 2.5, 7.0, 7.5, 8.0, 20.0],
]


def acceleration(sample, statistic):
    """Efron and Tibshirani 1993, equation 14.15."""
    left_out = np.array([statistic(np.delete(sample, i)) for i in range(len(sample))])
    u = left_out.mean() - left_out
    return float((u**3).sum() / (6 * (u**2).sum() ** 1.5)) if (u**2).sum() > 0 else 0.0


def case(name, sample):
    statistic = {"median": np.median, "mean": np.mean}[name]
    interval = stats.bootstrap(
        (np.array(sample),), statistic, method="BCa", n_resamples=500_000, batch=50_000, rng=1
    ).confidence_interval
    return {
        "statistic": name,
        "sample": sample,
        "acceleration": acceleration(np.array(sample), statistic),
        "low": float(interval.low),
        "high": float(interval.high),
    }


normal = [[x, float(stats.norm.cdf(x))] for x in [-5, -3.2, -1.959963984540054, -0.7, 0, 1e-3, 1, 2.5, 4]]
print(json.dumps({"normal": normal, "samples": [case(n, s) for s in SAMPLES for n in ("median", "mean")]}, indent=1))
