"""Latencies in buckets: what can be said of a million durations with two dozen numbers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

# Upper bounds in seconds; one more bucket, without a bound, follows. Rows in the ledger name their
# buckets by number: a bound may be added at the end, and never be changed.
BOUNDS = (
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 300.0,
    600.0, 900.0, 1800.0, 3600.0, 7200.0, 14_400.0, 43_200.0, 86_400.0, 604_800.0,
)  # fmt: skip
_EDGES = tuple(pairwise((0.0, *BOUNDS)))

Latency = Mapping[int, int]
"""How many durations fell into each bucket, by the bucket's number."""


def merged(*parts: Latency) -> dict[int, int]:
    """Several histograms as one."""
    sums: dict[int, int] = {}
    for part in parts:
        for bucket, n in part.items():
            sums[bucket] = sums.get(bucket, 0) + n
    return sums


def quantile(latency: Latency, share: float) -> float | None:
    """The duration that this share of all stays below, as if each bucket were filled evenly.

    None when there is nothing. Beyond the last bound nobody knows more than that.
    """
    total = sum(latency.values())
    if not total:
        return None
    rank, below = share * total, 0
    for bucket, n in sorted(latency.items()):
        if n and below + n >= rank:
            if bucket >= len(BOUNDS):
                break
            low, high = _EDGES[bucket]
            return low + (high - low) * max(rank - below, 0.0) / n
        below += n
    return BOUNDS[-1]


def within(latency: Latency, seconds: float) -> float:
    """How many took no longer than this; of the bucket that it divides, a part."""
    total = 0.0
    for bucket, n in latency.items():
        if bucket < len(BOUNDS):
            low, high = _EDGES[bucket]
            total += n * min(max((seconds - low) / (high - low), 0.0), 1.0)
    return total
