"""How far the model's files are, for who waits: a bar on a terminal, elsewhere a line in the log now and then."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import TextIO

from forebay_runtime.progress import Progress
from forebay_runtime.repeating import repeating

log = logging.getLogger(__name__)

_WIDTH = 40  # of the bar
_TICK = 0.1  # seconds between two drawings of it
_PATIENCE = 5.0  # seconds between two lines of the log


@contextlib.contextmanager
def progress_bar(progress: Progress, terminal: TextIO) -> Iterator[None]:
    """Shows `progress` on `terminal`, or in the log where that is none, until the block ends."""
    if not terminal.isatty():
        with repeating(lambda: _log(progress), _PATIENCE, "progress"):
            yield
        return
    try:
        with repeating(lambda: _draw(progress, terminal), _TICK, "progress"):
            yield
    finally:
        _write(terminal, "")


def _log(progress: Progress) -> None:
    if progress.total:
        log.info("%s", told(progress))


def _draw(progress: Progress, terminal: TextIO) -> None:
    if progress.total:
        _write(terminal, f"{bar(progress)} {told(progress)}")


def _write(terminal: TextIO, line: str) -> None:
    terminal.write(f"\r{line}\x1b[K")
    terminal.flush()


def bar(progress: Progress) -> str:
    return f"[{'#' * int(_WIDTH * _share(progress)):{_WIDTH}}]"


def told(progress: Progress) -> str:
    return f"{progress.doing}: {100 * _share(progress):.0f} % of {progress.total / 1e6:.0f} MB"


def _share(progress: Progress) -> float:
    return min(progress.done / progress.total, 1.0)
