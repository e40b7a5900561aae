"""Where each output stands in its grammar, and which tokens may come next. llguidance does the work; no torch.

A bitmask has a bit per token, 32 to a word, the lowest bit first: (rows, ceil(V / 32)) int32.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class GrammarFailure(RuntimeError):
    """An output can't go on: its grammar got more complex than its bounds allow, or is in a dead end."""


class GrammarState:
    """Of one output. Follows what was generated, so it may be asked again for a step, or after a preemption."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher
        self._num_tokens = 0

    def follow(self, output_token_ids: Sequence[int]) -> Any:
        """The llguidance matcher, brought to where it stands after these tokens. GrammarFailure."""
        if len(output_token_ids) < self._num_tokens:
            self._matcher.rollback(self._num_tokens - len(output_token_ids))
            self._num_tokens = len(output_token_ids)
        for token_id in output_token_ids[self._num_tokens :]:
            if not self._matcher.consume_token(token_id):
                raise failure(self._matcher)
            self._num_tokens += 1
        return self._matcher


class Grammar:
    """A compiled one, shared by all outputs that keep it."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def start(self) -> GrammarState:
        return GrammarState(self._matcher.deep_copy())


def fill_bitmask(bitmask: npt.NDArray[np.int32], wanted: Sequence[tuple[int, Any, Sequence[int]]]) -> None:
    """For each (row, matcher, drafts): the mask of the next token into `row`, of the token after each draft below it.

    Below a draft that the grammar doesn't allow rows stay as they are: nothing that is drawn there counts.
    GrammarFailure if a matcher can't say; the other rows are filled all the same.
    """
    assert bitmask.flags.c_contiguous
    where = (bitmask.ctypes.data, bitmask.shape[1] * bitmask.itemsize, len(bitmask))
    plain = [(matcher, row) for row, matcher, drafts in wanted if not drafts]
    drafted = [(matcher, row, list(drafts)) for row, matcher, drafts in wanted if drafts]
    if plain:
        _executor().unsafe_compute_mask_ptr(plain, *where)
    if drafted:
        _executor().unsafe_compute_mask_ptr_with_draft_token(drafted, *where)
    for _, matcher, _ in wanted:
        if matcher.is_error():
            raise failure(matcher)


def failure(matcher: Any) -> GrammarFailure:
    return GrammarFailure(" ".join(str(matcher.get_error()).split())[:200] or "the grammar is in a dead end")


@cache
def _executor() -> Any:
    from llguidance import LLExecutor

    return LLExecutor(len(os.sched_getaffinity(0)))
