"""A histogram of one thread: no locks and no labels, since each token of each stream is observed."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

LATENCY = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75),
    *(1.0, 1.5, 2.5, 3.5, 5.0, 7.5, 10.0, 15.0, 25.0, 40.0, 60.0, 120.0, 300.0),
)  # seconds


class Histogram:
    """Counts in buckets that reach from one bound, exclusive, to the next, inclusive, as Prometheus has them."""

    def __init__(self, bounds: tuple[float, ...] = LATENCY) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times

    def buckets(self) -> list[tuple[str, float]]:
        """(upper bound, observations up to it), as prometheus_client wants them."""
        return list(zip([*map(str, self._bounds), "+Inf"], map(float, accumulate(self._counts)), strict=True))
