"""How far the model's files are: read, or brought. Any thread may tell."""

from __future__ import annotations

import time
from threading import Lock


class Progress:
    """Bytes of the model's files; `doing` says what becomes of them. Times are monotonic seconds."""

    def __init__(self, doing: str = "loading") -> None:
        self._adding = Lock()
        self.doing = doing
        self.began = self.advanced = time.monotonic()
        self.done = self.total = self.before = 0

    def expect(self, num_bytes: int, before: int = 0) -> None:
        """So many there are; so many of them an earlier attempt has left behind."""
        self.total, self.before, self.began = num_bytes, before, time.monotonic()

    def add(self, num_bytes: int) -> None:
        with self._adding:
            self.done += num_bytes
            self.advanced = time.monotonic()

    def reach(self, done: int) -> None:
        """So many are there now."""
        with self._adding:
            if done != self.done:
                self.done, self.advanced = done, time.monotonic()

    def told(self, now: float) -> dict[str, float]:
        """For people and the operator: bytes that are there, bytes there are to be, and in how many seconds which of
        them came that were not there before."""
        done, before = min(self.done, self.total), min(self.before, self.total)
        return {"bytes": done, "total": self.total, "before": before, "seconds": round(now - self.began, 1)}
