"""How far what is being brought is, as the directory shows it: the same for every kind of source."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType

from forebay_runtime.progress import Progress
from forebay_runtime.sources.room import bytes_in

_TICK = 0.5  # seconds between two looks


class Arrival:
    """Tells `progress` of the bytes in `directory` until the block ends."""

    def __init__(self, directory: Path, progress: Progress) -> None:
        self._directory, self._progress = directory, progress
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrival", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(_TICK):
            self._progress.reach(bytes_in(self._directory))
