"""The adapter's arithmetic."""

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay_operator.metrics.window import (
    FRESH_SECONDS,
    WINDOW_SECONDS,
    NoData,
    Pod,
    Scrape,
    Value,
    increase,
    quantile,
    window,
)

NOW = 1000.0
INF = math.inf


def a_scrape(at: float, waiting: float = 0, running: float = 0, generated: float = 0, **ttft: float) -> Scrape:
    """`le_0_1=3`: three in the bucket up to 0.1 s, or below."""
    bounds = {k.removeprefix("le_").replace("_", "."): v for k, v in ttft.items()}
    return Scrape(at, waiting, running, generated, {float(bound): count for bound, count in bounds.items()})


def a_pod(*scrapes: Scrape, since: float = 0.0, name: str = "llama-1") -> Pod:
    return Pod(name, since, scrapes)


def value(pods: Sequence[Pod], metric: str) -> float | None:
    found = window(pods, NOW)[metric]
    return found.value if isinstance(found, Value) else None


def test_queue_depth_is_what_waits_now_on_all_pods() -> None:
    pods = [a_pod(a_scrape(NOW - 3, waiting=9), a_scrape(NOW - 1, waiting=2)), a_pod(a_scrape(NOW - 2, waiting=3))]
    assert window(pods, NOW)["queue_depth"] == Value(5, age=2)


@pytest.mark.parametrize(
    ("pods", "depth"),
    [
        pytest.param([], None, id="no pod"),
        pytest.param([a_pod(since=NOW - 1)], None, id="only a pod not heard yet"),
        pytest.param([a_pod(a_scrape(NOW - FRESH_SECONDS - 1))], None, id="only a stale pod"),
        pytest.param([a_pod(a_scrape(NOW)), a_pod(a_scrape(NOW - FRESH_SECONDS - 1))], None, id="one pod is stale"),
        pytest.param([a_pod(a_scrape(NOW)), a_pod(since=NOW - FRESH_SECONDS - 1)], None, id="one was never heard"),
        pytest.param([a_pod(a_scrape(NOW, waiting=4)), a_pod(since=NOW - 1)], 4, id="one is new"),
        pytest.param([a_pod(a_scrape(NOW))], 0, id="idle"),
    ],
)
def test_a_value_comes_from_fresh_scrapes_or_not_at_all(pods: list[Pod], depth: float | None) -> None:
    assert value(pods, "queue_depth") == depth


def test_the_reason_names_the_silent_pod() -> None:
    assert window([a_pod(since=0, name="llama-7")], NOW)["queue_depth"] == NoData("no fresh scrape of llama-7")


def test_ttft_is_the_percentile_of_what_came_within_the_window() -> None:
    long_ago = a_scrape(NOW - WINDOW_SECONDS - 5, le_0_1=0, le_1=100, le_inf=100)
    base = a_scrape(NOW - WINDOW_SECONDS + 5, le_0_1=0, le_1=200, le_inf=200)
    now = a_scrape(NOW, le_0_1=100, le_1=300, le_inf=300)
    assert value([a_pod(long_ago, base, now)], "ttft_p95_ms") == pytest.approx(95)


def test_ttft_takes_the_pods_together() -> None:
    zero = a_scrape(NOW - 20, le_0_1=0, le_1=0, le_inf=0)
    quick, slow = a_scrape(NOW, le_0_1=10, le_1=10, le_inf=10), a_scrape(NOW, le_0_1=0, le_1=10, le_inf=10)
    assert value([a_pod(zero, quick), a_pod(zero, slow)], "ttft_p95_ms") == pytest.approx(100 + 900 * 0.9)


def test_a_restart_counts_from_zero() -> None:
    pod = a_pod(
        a_scrape(NOW - 6, le_1=50, le_inf=50),
        a_scrape(NOW - 4, le_1=52, le_inf=52),
        a_scrape(NOW - 2, le_1=1, le_inf=1),
    )
    assert increase([s.ttft or {} for s in pod.scrapes]) == {1.0: 3, INF: 3}


@pytest.mark.parametrize(
    ("before", "latest", "ttft"),
    [
        pytest.param({}, {}, 0, id="idle: nobody waits, so nobody waits long"),
        pytest.param({}, {"waiting": 1}, None, id="something waits and gets no token"),
        pytest.param({}, {"running": 1}, None, id="something runs and makes no token"),
        pytest.param({}, {"running": 1, "generated": 9}, 0, id="an old stream goes on"),
        pytest.param({"generated": 5}, {"running": 1, "generated": 5}, None, id="an old stream stands still"),
    ],
)
def test_without_a_first_token_in_the_window(
    before: dict[str, float], latest: dict[str, float], ttft: float | None
) -> None:
    counts = {"le_1": 7.0, "le_inf": 7.0}
    pod = a_pod(a_scrape(NOW - 30, **before, **counts), a_scrape(NOW, **latest, **counts))
    assert value([pod], "ttft_p95_ms") == ttft


def test_a_first_scrape_alone_says_nothing_of_the_window() -> None:
    assert value([a_pod(a_scrape(NOW, le_1=900, le_inf=900))], "ttft_p95_ms") == 0


def test_pods_with_different_buckets_meet_at_the_shared_ones() -> None:
    def pod(**counts: float) -> Pod:
        return a_pod(a_scrape(NOW - 9, **dict.fromkeys(counts, 0.0)), a_scrape(NOW, **counts))

    pods = [pod(le_0_5=10, le_1=10, le_inf=10), pod(le_1=10, le_2=10, le_inf=10)]
    assert value(pods, "ttft_p95_ms") == pytest.approx(950)


@pytest.mark.parametrize(
    ("counts", "q", "expected"),
    [
        ({}, 0.95, None),
        ({1.0: 0, INF: 0}, 0.95, None),
        ({1.0: 10, INF: 10}, 0.95, 0.95),
        ({1.0: 5, 2.0: 10, INF: 10}, 0.75, 1.5),
        ({1.0: 5, INF: 10}, 0.95, 1.0),  # beyond the last bound: that bound
        ({INF: 10}, 0.95, 0.0),
        ({0.5: 0, 1.0: 10, INF: 10}, 0.0, 0.0),
    ],
)
def test_quantiles(counts: dict[float, float], q: float, expected: float | None) -> None:
    found = quantile(q, counts)
    assert found == (None if expected is None else pytest.approx(expected))


cumulative = st.lists(st.integers(0, 50), min_size=3, max_size=3).map(lambda ns: list(itertools.accumulate(ns)))


@given(cumulative.filter(lambda c: c[-1] > 0), st.floats(0.01, 1), st.floats(0.01, 1))
def test_quantiles_are_ordered_and_within_the_bounds(counts: list[int], one: float, other: float) -> None:
    buckets = dict(zip((0.1, 1.0, INF), map(float, counts), strict=True))
    low, high = quantile(min(one, other), buckets), quantile(max(one, other), buckets)
    assert low is not None
    assert high is not None
    assert 0 <= low <= high <= 1.0


@given(st.lists(cumulative, min_size=1, max_size=6))
def test_an_increase_is_a_histogram_whatever_restarts_there_were(readings: list[list[int]]) -> None:
    counts = [dict(zip((0.1, 1.0, INF), map(float, r), strict=True)) for r in readings]
    grown = increase(counts)
    ordered = [grown[bound] for bound in (0.1, 1.0, INF)]
    assert ordered == sorted(ordered)
    assert ordered[0] >= 0
