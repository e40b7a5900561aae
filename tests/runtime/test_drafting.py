"""What is drafted, how far, and when not."""

from __future__ import annotations

import pytest

from forebay_runtime.drafting import NgramDrafter, StepTimes
from forebay_runtime.request import Request, SamplingParams
from forebay_runtime.scheduling.sequence import Sequence


def sequence(tokens: list[int], name: str = "a") -> Sequence:
    return Sequence(Request(name, tuple(tokens), SamplingParams()), list(tokens), len(tokens))


def cheap(num_drafts: int = 4) -> NgramDrafter:
    return NgramDrafter(num_drafts, StepTimes(row_cost=1e-6))


@pytest.mark.parametrize(
    ("tokens", "draft"),
    [
        ([], []),
        ([1], []),
        ([1, 2], []),
        ([1, 2, 3], []),
        ([1, 2, 3, 4, 5, 6, 7, 1, 2], [3, 4, 5, 6]),
        ([1, 2, 3, 1, 2, 4, 1, 2], [4, 1, 2, 4]),  # the latest of two equally long matches
        ([7, 1, 2, 3, 5, 5, 1, 2, 4, 7, 1, 2], [3, 5, 5, 1]),  # the longer match before the later one
        ([9, 5, 5, 5], [5, 5, 5, 5]),  # a period goes on
        ([1, 2, 1, 2], [1, 2, 1, 2]),
        ([1, 2, 3, 2, 1], []),
    ],
)
def test_the_draft_is_what_followed_before(tokens: list[int], draft: list[int]) -> None:
    assert cheap().propose([sequence(tokens)]) == [draft]


def test_growing_token_by_token_drafts_as_starting_whole() -> None:
    tokens = [1, 2, 3, 1, 2, 3, 4, 1, 2, 3, 1, 2, 5, 1, 2, 3]
    grown, drafter = sequence(tokens[:2]), cheap()
    for i in range(2, len(tokens)):
        drafter.propose([grown])
        grown.token_ids.append(tokens[i])
    assert drafter.propose([grown]) == cheap().propose([sequence(tokens)])


def test_an_ended_request_leaves_nothing_behind() -> None:
    drafter = cheap()
    drafter.propose([sequence([1, 2, 3, 1, 2], "a")])
    drafter.forget("a")
    drafter.forget("never seen")
    drafter.observe(sequence([1, 2]), 3, 0)
    assert drafter.propose([sequence([5, 6, 7, 8, 1, 2], "a")]) == [[]]


def lengths(drafter: NgramDrafter, target: Sequence, calls: int, num_accepted: int) -> list[int]:
    got = []
    for _ in range(calls):
        (draft,) = drafter.propose([target])
        got.append(len(draft))
        if draft:
            drafter.observe(target, len(draft), min(num_accepted, len(draft)))
    return got


def test_drafts_grow_with_acceptance_and_stop_without_but_are_tried_again() -> None:
    target = sequence([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2])
    drafter = NgramDrafter(8, StepTimes(row_cost=0.2))
    assert lengths(drafter, target, 30, num_accepted=8)[-1] == 8
    refused = lengths(drafter, target, 80, num_accepted=0)
    assert refused[-32:].count(0) == 30
    assert sum(refused[-32:]) == 2
    assert lengths(drafter, target, 400, num_accepted=8)[-1] == 8


def test_drafts_shrink_as_the_batch_grows() -> None:
    tokens = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2]

    def length(batch: int) -> int:
        drafter = NgramDrafter(8, StepTimes(row_cost=0.1))
        return len(drafter.propose([sequence(tokens, str(i)) for i in range(batch)])[0])

    assert length(1) > length(4) > length(32) == 0


def test_step_times_find_the_cost_of_a_row() -> None:
    times = StepTimes()
    for i in range(200):
        rows = 1 + i % 5
        times.observe(rows, 0.020 + 0.004 * rows)
        times.observe(512, 9.0)  # a prompt's chunk is no measure
    assert times.row_cost == pytest.approx(0.2, rel=0.01)


def test_step_times_keep_what_they_know_when_steps_never_differ() -> None:
    times = StepTimes(row_cost=0.1)
    for i in range(100):
        times.observe(8, 0.02 + i % 3 * 0.001)
    assert times.row_cost == 0.1
