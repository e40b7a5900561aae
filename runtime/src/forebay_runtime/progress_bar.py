"""How far the model's files are, for who waits: a bar on a terminal, elsewhere a line in the log now and then."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import TextIO

from forebay_runtime.progress import Progress

log = logging.getLogger(__name__)

_WIDTH = 40  # of the bar
_TICK = 0.1  # seconds between two drawings of it
_PATIENCE = 5.0  # seconds between two lines of the log


class ProgressBar:
    """Shows `progress` on `terminal`, or in the log where that is none, until the block ends."""

    def __init__(self, progress: Progress, terminal: TextIO) -> None:
        self._progress = progress
        self._terminal = terminal if terminal.isatty() else None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(_PATIENCE if self._terminal is None else _TICK):
            if self._progress.total and self._terminal is None:
                log.info("%s", told(self._progress))
            elif self._progress.total and self._terminal is not None:
                self._draw(self._terminal, f"{bar(self._progress)} {told(self._progress)}")
        if self._terminal is not None:
            self._draw(self._terminal, "")

    def _draw(self, terminal: TextIO, line: str) -> None:
        terminal.write(f"\r{line}\x1b[K")
        terminal.flush()


def bar(progress: Progress) -> str:
    return f"[{'#' * int(_WIDTH * _share(progress)):{_WIDTH}}]"


def told(progress: Progress) -> str:
    return f"{progress.doing}: {100 * _share(progress):.0f} % of {progress.total / 1e6:.0f} MB"


def _share(progress: Progress) -> float:
    return min(progress.done / progress.total, 1.0)
