"""How long a refused client should wait, from how fast requests have been ending."""

from __future__ import annotations

import math
from collections import deque

SHORTEST, LONGEST = 1, 60  # seconds


class FinishRate:
    """Remembers when the last requests ended."""

    def __init__(self, window: int = 64) -> None:
        self._ends: deque[float] = deque(maxlen=window)

    def add(self, now: float) -> None:
        self._ends.append(now)

    def seconds_for(self, num_requests: int, now: float) -> int:
        """Whole seconds in which that many requests end at the recent rate, at least 1 and at most 60."""
        if not self._ends:
            return SHORTEST
        expected = num_requests * (now - self._ends[0]) / len(self._ends)
        return min(max(math.ceil(expected), SHORTEST), LONGEST)
