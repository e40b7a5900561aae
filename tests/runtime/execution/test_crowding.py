"""When a step runs in one thread."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from forebay_runtime.execution.crowding import Crowding, count_runnable


def answers(num_threads: int, counts: Iterable[int]) -> list[int]:
    numbers = list(counts)
    crowding = Crowding(num_threads, iter(numbers).__next__)
    return [crowding.num_threads() for _ in numbers]


def test_a_quiet_machine_gives_all_threads() -> None:
    assert set(answers(2, [1, 3, 2, 4, 3] * 20)) == {2}


def test_a_moment_of_crowding_changes_nothing() -> None:
    assert set(answers(2, [2] * 20 + [9, 9] + [2] * 20)) == {2}


def test_a_crowded_machine_gives_one_thread_until_it_is_quiet_again() -> None:
    given = answers(2, [12] * 30 + [2] * 30)
    assert [n for n, _ in itertools.groupby(given)] == [2, 1, 2]
    assert given[29] == 1


def test_a_count_at_the_border_does_not_flutter() -> None:
    given = answers(2, [12] * 30 + [5, 4] * 50)
    assert [n for n, _ in itertools.groupby(given)] == [2, 1]


def test_one_thread_asks_nobody() -> None:
    assert Crowding(1, lambda: 1 // 0).num_threads() == 1


def test_this_machine_can_be_asked() -> None:
    assert count_runnable() >= 1
