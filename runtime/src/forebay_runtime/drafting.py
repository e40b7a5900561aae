"""Guesses the next tokens for the target to verify. A guess costs time when wrong, never correctness.

n-gram prompt lookup (Saxena 2023): what followed the last tokens where they stood before is likely to follow again.
How far a guess goes is decided by what it earns: the k-th draft is worth a row of the step if the chance that it and
all before it are accepted is more than the row's share of the step's time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Tokens
from dataclasses import dataclass, field
from typing import Protocol

from forebay_runtime.scheduling.sequence import Sequence


class Drafter(Protocol):
    def propose(self, sequences: Tokens[Sequence]) -> list[list[int]]:
        """One draft per sequence, [] where none is worth while. The sequences are those that sample next."""
        ...

    def observe(self, sequence: Sequence, num_drafts: int, num_accepted: int) -> None:
        """Tells what became of a draft."""
        ...

    def observe_step(self, num_tokens: int, seconds: float) -> None:
        """Tells how long a step took."""
        ...

    def forget(self, request_id: str) -> None:
        """The request has ended; unknown ids are fine."""
        ...


class StepTimes:
    """Fits seconds = fixed + tokens * per_token to recent small steps, by least squares that forget."""

    def __init__(self, row_cost: float = 1 / 16, memory: float = 0.98, largest: int = 64) -> None:
        self._row_cost = row_cost
        self._memory = memory
        self._largest = largest  # a prompt's chunk is bound by arithmetic and says nothing of a draft's row
        self._n = self._x = self._xx = self._y = self._xy = 0.0

    @property
    def row_cost(self) -> float:
        """per_token / fixed: what one more row costs, in units of an empty step."""
        return self._row_cost

    def observe(self, num_tokens: int, seconds: float) -> None:
        if num_tokens > self._largest:
            return
        m = self._memory
        self._n, self._x, self._y = m * self._n + 1, m * self._x + num_tokens, m * self._y + seconds
        self._xx, self._xy = m * self._xx + num_tokens**2, m * self._xy + num_tokens * seconds
        spread = self._n * self._xx - self._x**2
        if spread < self._n**2:  # variance below one token squared: the slope would be noise
            return
        per_token = (self._n * self._xy - self._x * self._y) / spread
        fixed = (self._y - per_token * self._x) / self._n
        if per_token > 0:
            self._row_cost = min(max(per_token / max(fixed, per_token), 1 / 256), 1.0)


@dataclass(slots=True)
class _History:
    """Where each pair of tokens of one sequence stood before, newest first along `previous`."""

    acceptance: float
    latest: dict[tuple[int, int], int] = field(default_factory=dict)  # pair -> position after its latest occurrence
    previous: list[int] = field(default_factory=lambda: [0, 0])  # by position: the same pair's one before; 0: none
    num_declined: int = 0

    def index(self, token_ids: list[int]) -> None:
        """Takes in every pair that has a token after it."""
        previous, latest = self.previous, self.latest
        for position in range(len(previous), len(token_ids)):
            pair = (token_ids[position - 2], token_ids[position - 1])
            previous.append(latest.get(pair, 0))
            latest[pair] = position


class NgramDrafter:
    """Prompt lookup over each sequence's own tokens: of the latest few matches the longest, then the latest.

    A sequence's index grows by what is new since the last call, so that a call costs the same however long it is.
    """

    MAX_CANDIDATES = 4
    MAX_MATCH = 8  # tokens compared
    PROBE_EVERY = 16  # matches declined before one token is tried again
    LEARNING_RATE = 0.15

    def __init__(self, num_speculative_tokens: int, step_times: StepTimes | None = None) -> None:
        self._max_drafts = num_speculative_tokens
        self._step_times = step_times or StepTimes()
        self._histories: dict[str, _History] = {}

    def propose(self, sequences: Tokens[Sequence]) -> list[list[int]]:
        rows = self._step_times.row_cost * len(sequences)
        break_even = math.log(rows / (1 + rows)) if sequences else 0.0
        return [self._propose(sequence, break_even) for sequence in sequences]

    def observe(self, sequence: Sequence, num_drafts: int, num_accepted: int) -> None:
        history = self._histories.get(sequence.request_id)
        if history is None:
            return
        rate = self.LEARNING_RATE
        for _ in range(num_accepted):
            history.acceptance += rate * (1 - history.acceptance)
        if num_accepted < num_drafts:
            history.acceptance -= rate * history.acceptance

    def observe_step(self, num_tokens: int, seconds: float) -> None:
        self._step_times.observe(num_tokens, seconds)

    def forget(self, request_id: str) -> None:
        self._histories.pop(request_id, None)

    def _propose(self, sequence: Sequence, break_even: float) -> list[int]:
        history = self._histories.get(sequence.request_id)
        if history is None:
            history = self._histories[sequence.request_id] = _History(acceptance=0.6)
        tokens = sequence.token_ids
        history.index(tokens)
        if len(tokens) < 3:
            return []
        candidate = history.latest.get((tokens[-2], tokens[-1]), 0)
        if not candidate:
            return []
        count = self._count(history, break_even)
        return _continuation(tokens, self._best(history, tokens, candidate), count) if count else []

    def _count(self, history: _History, break_even: float) -> int:
        """How many drafts pay: the largest k with acceptance ** k above break-even; now and then one, to learn."""
        count = min(int(break_even / math.log(min(max(history.acceptance, 0.01), 0.99))), self._max_drafts)
        if not count:
            history.num_declined += 1
            count = int(history.num_declined % self.PROBE_EVERY == 0)
        return count

    def _best(self, history: _History, tokens: list[int], candidate: int) -> int:
        best, best_length = candidate, 0
        for _ in range(self.MAX_CANDIDATES):
            length = 2
            while length < min(self.MAX_MATCH, candidate) and tokens[candidate - 1 - length] == tokens[-1 - length]:
                length += 1
            if length > best_length:
                best, best_length = candidate, length
            candidate = history.previous[candidate]
            if not candidate or best_length == self.MAX_MATCH:
                break
        return best


def _continuation(tokens: list[int], position: int, count: int) -> list[int]:
    """`count` tokens from `position` on; past the end the guess goes on from its own beginning, as a period does."""
    known = tokens[position : position + count]
    while len(known) < count:
        known += known[: count - len(known)]
    return known
