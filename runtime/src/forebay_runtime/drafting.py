"""Guesses the next tokens for the target to verify. A guess costs time when wrong, never correctness."""

from __future__ import annotations

from collections.abc import Sequence as Tokens
from typing import Protocol

from forebay_runtime.scheduling.sequence import Sequence


class Drafter(Protocol):
    def propose(self, sequences: Tokens[Sequence]) -> list[list[int]]:
        """One draft per sequence, [] where none is worth while. The sequences are those that sample next."""
        ...

    def observe(self, sequence: Sequence, num_drafts: int, num_accepted: int) -> None:
        """Tells what became of a draft."""
        ...

    def forget(self, request_id: str) -> None:
        """The request has ended; unknown ids are fine."""
        ...
