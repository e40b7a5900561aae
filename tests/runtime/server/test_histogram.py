"""The histogram that every token passes through."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay_runtime.server.histogram import Histogram


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 9.0])))
def test_buckets_count_what_is_at_most_their_bound(values: list[float]) -> None:
    histogram = Histogram((1.0, 2.0))
    for value in values:
        histogram.observe(value)
    wanted = [(str(bound), sum(value <= bound for value in values)) for bound in (1.0, 2.0)]
    assert histogram.buckets() == [*wanted, ("+Inf", len(values))]
    assert histogram.sum == sum(values)


def test_an_observation_may_count_for_several() -> None:
    once, often = Histogram(), Histogram()
    once.observe(0.02, 3)
    for _ in range(3):
        often.observe(0.02)
    assert once.buckets() == often.buckets()
