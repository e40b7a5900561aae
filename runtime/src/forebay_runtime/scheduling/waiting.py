"""Who of the waiting comes first: by priority, and of equal ones short prompts soon, long prompts for certain.

Time is counted in work, the tokens that the scheduler has handed out so far, so that the order depends on neither the
clock nor the machine's speed. A prompt that arrives at work W with n uncached tokens gets the deadline W + n, and the
earliest deadline goes first. A short prompt thus overtakes a long one that came a little before it, and a prompt of n
tokens is overtaken only by those of its priority that arrive before n more tokens of work are done. Between
priorities nothing of the kind holds: who asks for a lower one than others may wait as long as these keep coming.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator

from forebay_runtime.scheduling.sequence import Sequence


def order(sequence: Sequence) -> tuple[int, int, int]:
    return sequence.request.priority, sequence.deadline, sequence.arrival_work


class WaitingQueue:
    """Sequences by priority, then by deadline; equal ones by arrival."""

    def __init__(self) -> None:
        self._sequences: list[Sequence] = []

    def add(self, sequence: Sequence) -> None:
        insort(self._sequences, sequence, key=order)

    def remove(self, sequence: Sequence) -> None:
        self._sequences.remove(sequence)

    def first(self, count: int) -> list[Sequence]:
        return self._sequences[:count]

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._sequences)
