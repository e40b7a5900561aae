"""How many threads a step should use on a processor that others want, too.

An operation split among threads ends when the last of them was given a core. Where many more threads want to run than
there are cores, that takes several times as long as doing all of it in one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

_WEIGHT = 0.1  # of the newest count in the running mean
_CROWDED, _QUIET = 2.5, 1.75  # threads that want to run, per thread of ours; apart, so that it doesn't flutter


def count_runnable() -> int:
    """Threads of the whole machine that run or wait for a core now: `4` of `0.20 0.18 0.12 4/80 11206`."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])


class Crowding:
    """Asked once per step; answers from a running mean over the last dozen of them."""

    def __init__(self, num_threads: int, count: Callable[[], int] = count_runnable) -> None:
        self._num_threads, self._count = num_threads, count
        self._mean = 0.0
        self._crowded = False

    def num_threads(self) -> int:
        """All of ours, or one while the machine is crowded."""
        if self._num_threads == 1:
            return 1
        self._mean += _WEIGHT * (self._count() / self._num_threads - self._mean)
        self._crowded = self._mean > (_QUIET if self._crowded else _CROWDED)
        return 1 if self._crowded else self._num_threads
