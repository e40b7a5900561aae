"""What is refused when it arrives: with which status, which numbers, and what the client is told to do."""

from __future__ import annotations

import pytest

from forebay_runtime.request import RequestError
from forebay_runtime.scheduling.retry_after import FinishRate

from .scene import Scene


def test_over_the_cap_is_429_with_a_time_to_come_again() -> None:
    scene = Scene(seqs=2, waiting=1)
    for name in "abc":
        scene.add(name, 2)
    with pytest.raises(RequestError, match="3 requests are running or waiting") as caught:
        scene.add("d", 2)
    assert (caught.value.status, caught.value.code) == (429, "rate_limit_exceeded")
    assert caught.value.retry_after == 1
    scene.scheduler.check_integrity()


def test_a_request_that_ended_makes_room() -> None:
    scene = Scene(seqs=1, waiting=0)
    scene.add("a", 2, max_tokens=1)
    scene.step()
    scene.add("b", 2)
    assert scene.step() == {"b": 2}


@pytest.mark.parametrize(("blocks", "context", "limit"), [(100, 40, 40), (8, 1000, 32)])
def test_a_prompt_that_can_never_fit_is_400_with_the_numbers(blocks: int, context: int, limit: int) -> None:
    scene = Scene(blocks=blocks, block_size=4, context=context)
    scene.add("a", limit - 1)
    with pytest.raises(RequestError) as caught:
        scene.add("b", limit)
    assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")
    assert caught.value.message.count(str(limit)) == 2  # the limit and, here, the prompt's own length


def test_the_longest_prompt_that_is_admitted_gives_one_token() -> None:
    scene = Scene(context=10)
    a = scene.add("a", 9)
    scene.step()
    assert a.num_output_tokens == 1
    assert not scene.scheduler.has_work


def test_a_prompt_without_tokens_and_an_answer_without_tokens_are_400() -> None:
    scene = Scene()
    with pytest.raises(RequestError, match="no tokens"):
        scene.add("a", 0)
    with pytest.raises(RequestError, match="max_tokens is 0"):
        scene.add("a", 3, max_tokens=0)


def test_the_same_id_twice_is_our_own_fault() -> None:
    scene = Scene()
    scene.add("a", 3)
    with pytest.raises(ValueError, match="a is here already"):
        scene.add("a", 3)


def test_retry_after_follows_the_rate_at_which_requests_end() -> None:
    rate = FinishRate()
    assert rate.seconds_for(100, now=0.0) == 1
    for second in range(10):
        rate.add(float(second))
    assert rate.seconds_for(5, now=10.0) == 5
    assert rate.seconds_for(0, now=10.0) == 1
    assert rate.seconds_for(1000, now=10.0) == 60
