"""Writes tests/golden/intervals.json: what scipy says of the distributions, intervals and tests in src/analysis.

Needs numpy and scipy 1.11 or later: python tests/oracles/intervals.py > tests/golden/intervals.json
"""
import json
import math

import numpy as np
from scipy import stats

SAMPLES = [
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    [40.9, 41.0, 41.1, 41.3, 41.6, 44.0, 47.5],
    [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8],
    [1.0, 1.0, 1.0, 2.0, 2.0, 9.0, 9.5, 9.75, 10.0],
    [-3.0, -1.0, -0.5, 0.0, 0.25, 2.0, 2.5, 7.0, 7.5, 8.0, 20.0],
    [float(x) for x in np.round(np.random.default_rng(3).lognormal(size=30), 4)],
    [float(x) for x in np.round(np.random.default_rng(4).normal(size=101), 4)],
]


def median_case(sample):
    """Hettmansperger and Sheather 1986: between the order statistics whose coverage is next above and next below 95 %."""
    x, n = sorted(sample), len(sample)
    coverage = lambda d: 1 - 2 * stats.binom.cdf(d - 1, n, 0.5)
    d = max(d for d in range(1, n // 2 + 1) if coverage(d) >= 0.95)
    weight = (coverage(d) - 0.95) / (coverage(d) - coverage(d + 1))
    share = (n - d) * weight / (d + (n - 2 * d) * weight)
    whole = stats.quantile_test(sample, p=0.5).confidence_interval(confidence_level=0.95)
    return {
        "sample": sample,
        "low": x[d - 1] + share * (x[d] - x[d - 1]),
        "high": x[n - d] - share * (x[n - d] - x[n - d - 1]),
        "whole": [float(whole.low), float(whole.high)],
    }


# Log-ratios of pairs.
FAMILY = [
    [0.10, 0.11, 0.09],
    [0.02, -0.01, 0.03, 0.005],
    [-0.25, -0.2, -0.3, -0.22, -0.27],
    [0.001, -0.002, 0.0015, 0.0, -0.001, 0.0005],
    [0.012, 0.015, 0.011, 0.014, 0.013],
]
WITHIN = 0.01


def holm(p):
    """S. Holm, A simple sequentially rejective multiple test procedure, 1979."""
    order = np.argsort(p, kind="stable")
    adjusted, greatest = np.empty(len(p)), 0.0
    for rank, place in enumerate(order):
        greatest = max(greatest, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = greatest
    return [float(x) for x in adjusted]


def equivalence(x):
    """Two one-sided tests: the greater of their probabilities."""
    margin = math.log1p(WITHIN)
    return float(
        max(
            stats.ttest_1samp(x, -margin, alternative="greater").pvalue,
            stats.ttest_1samp(x, margin, alternative="less").pvalue,
        )
    )


differences = [float(stats.ttest_1samp(x, 0.0).pvalue) for x in FAMILY]
equal = [equivalence(x) for x in FAMILY]
print(
    json.dumps(
        {
            "student_t": [
                [t, df, float(stats.t.sf(t, df))]
                for df in (1, 1.5, 2, 3, 7.25, 19, 120)
                for t in (0.0, 0.3, 1.0, 2.093, 4.5, 12.7, 60.0, 1e4)
            ],
            "coins": [
                [d, n, float(stats.binom.cdf(d - 1, n, 0.5))]
                for n in (6, 7, 11, 30, 101, 2000)
                for d in (1, 2, n // 3, n // 2)
            ],
            "medians": [median_case(sample) for sample in SAMPLES],
            "family": FAMILY,
            "within": WITHIN,
            "difference": differences,
            "difference_holm": holm(differences),
            "equivalence": equal,
            "equivalence_holm": holm(equal),
        },
        indent=1,
    )
)
