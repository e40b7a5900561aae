"""How many drafts stand."""

from __future__ import annotations

import pytest

from forebay_runtime.execution.acceptance import num_accepted


@pytest.mark.parametrize(
    ("drafts", "sampled", "accepted"),
    [
        ([], [5], 0),
        ([5], [5, 6], 1),
        ([5], [6, 6], 0),
        ([5, 6, 7], [5, 6, 7, 8], 3),
        ([5, 6, 7], [5, 9, 7, 8], 1),
        ([5, 6, 7], [9, 6, 7, 8], 0),
    ],
)
def test_drafts_stand_up_to_the_first_that_differs(drafts: list[int], sampled: list[int], accepted: int) -> None:
    assert num_accepted(drafts, sampled) == accepted
