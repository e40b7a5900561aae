"""The adapter's arithmetic: what the scrapes of one service's ready pods say now. No I/O, no clock.

Nothing is guessed: if a ready pod has not been heard for a while, there is no value, and the autoscaler stands still.
A pod that became ready a moment ago is left out until its first scrape.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

WINDOW_SECONDS = 70.0  # of the percentiles: a load that is over is forgotten soon, one that comes shows at once
FRESH_SECONDS = 15.0  # a busy pod may be slow to answer, and miss a scrape
PERCENTILE = 0.95


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one pod said at one time (seconds, monotonic). `ttft`: cumulative counts by upper bound, +Inf included; None
    where its engine does not tell."""

    at: float
    waiting: float
    running: float
    generated: float
    ttft: Mapping[float, float] | None


@dataclass(frozen=True, slots=True)
class Pod:
    """A ready pod, since when it is known as ready, and its scrapes, oldest first."""

    name: str
    since: float
    scrapes: Sequence[Scrape]


@dataclass(frozen=True, slots=True)
class Value:
    """A metric's value, and the age in seconds of the oldest scrape in it. `window`: None for one of the moment."""

    value: float
    age: float
    window: float | None = None


@dataclass(frozen=True, slots=True)
class NoData:
    reason: str


def window(pods: Iterable[Pod], now: float) -> dict[str, Value | NoData]:
    """Every metric of one service."""
    heard = [pod for pod in pods if pod.scrapes or now - pod.since > FRESH_SECONDS]
    silent = [pod.name for pod in heard if not pod.scrapes or now - pod.scrapes[-1].at > FRESH_SECONDS]
    if silent:
        return _nothing(f"no fresh scrape of {', '.join(sorted(silent))}")
    if not heard:
        return _nothing("no ready pod has been scraped")
    latest = [pod.scrapes[-1] for pod in heard]
    age = now - min(scrape.at for scrape in latest)
    recent = [[s for s in pod.scrapes if s.at >= now - WINDOW_SECONDS] for pod in heard]
    return {
        "queue_depth": Value(sum(scrape.waiting for scrape in latest), age),
        "ttft_p95_ms": _ttft(recent, age),
    }


METRICS = ("queue_depth", "ttft_p95_ms")


def _nothing(reason: str) -> dict[str, Value | NoData]:
    return dict.fromkeys(METRICS, NoData(reason))


def _ttft(recent: Sequence[Sequence[Scrape]], age: float) -> Value | NoData:
    """The percentile of the first tokens in the window. None came: zero if the pods are idle or busy with older
    requests, no value if requests wait or a pod that runs some makes no tokens."""
    told = [[s.ttft for s in scrapes if s.ttft is not None] for scrapes in recent]
    if not all(told):
        return NoData("the engine does not tell the time to first token")
    counts = _sum(increase(each) for each in told)
    found = quantile(PERCENTILE, counts)
    if found is not None:
        return Value(1000 * found, age, WINDOW_SECONDS)
    if any(_stuck(scrapes) for scrapes in recent):
        return NoData("requests wait or run, and none got its first token")
    return Value(0.0, age, WINDOW_SECONDS)


def _stuck(scrapes: Sequence[Scrape]) -> bool:
    latest = scrapes[-1]
    moved = any(a.generated != b.generated for a, b in itertools.pairwise(scrapes))
    return bool(latest.waiting) or (bool(latest.running) and not moved)


def increase(counts: Sequence[Mapping[float, float]]) -> dict[float, float]:
    """By how much cumulative buckets grew from the first to the last; a pod that restarted began again at zero."""
    grown: dict[float, float] = dict.fromkeys(counts[-1], 0.0)
    for before, after in itertools.pairwise(counts):
        added = {bound: count - before.get(bound, 0.0) for bound, count in after.items()}
        for bound, count in (added if _cumulative(added) else after).items():
            grown[bound] = grown.get(bound, 0.0) + count
    return grown


def _cumulative(counts: Mapping[float, float]) -> bool:
    """Whether these can be the buckets of a histogram: none below zero, none below a lower one."""
    ordered = [0.0, *(count for _, count in sorted(counts.items()))]
    return ordered == sorted(ordered)


def _sum(pods: Iterable[Mapping[float, float]]) -> dict[float, float]:
    """Buckets of several pods in one: those bounds that all of them have."""
    every = [pod for pod in pods if any(pod.values())]
    shared = set.intersection(*(set(pod) for pod in every)) if every else set()
    return {bound: sum(pod[bound] for pod in every) for bound in shared}


def quantile(q: float, counts: Mapping[float, float]) -> float | None:
    """By linear interpolation within the bucket, as Prometheus does it; None if nothing was counted. In the last
    bucket, which has no upper bound, it is the highest bound there is."""
    buckets = sorted(counts.items())
    if not buckets or buckets[-1][1] <= 0:
        return None
    rank = q * buckets[-1][1]
    lower, below = 0.0, 0.0
    for upper, count in buckets:
        if count >= rank:
            inside = count - below
            if upper == float("inf") or not inside:
                return lower
            return min(upper, lower + (upper - lower) * (rank - below) / inside)  # rounding may lead a hair beyond
        lower, below = upper, count
    return lower
