"""How far the weights are read. Any thread may add to it."""

from __future__ import annotations

import time
from threading import Lock


class Progress:
    """Bytes of the checkpoint's files. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._adding = Lock()
        self.began = self.advanced = time.monotonic()
        self.done = self.total = 0

    def expect(self, num_bytes: int) -> None:
        self.total, self.began = num_bytes, time.monotonic()

    def add(self, num_bytes: int) -> None:
        with self._adding:
            self.done += num_bytes
            self.advanced = time.monotonic()

    def told(self, now: float) -> dict[str, float]:
        """For people and the operator: bytes read, bytes there are, seconds since the first."""
        return {"bytes": min(self.done, self.total), "total": self.total, "seconds": round(now - self.began, 1)}
