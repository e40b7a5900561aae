"""One run at a time on a machine: the network namespace, routes and cgroup that a cluster uses are the machine's."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.shell import CommandError

LOCK = Path("/run/forebay.lock")


@contextmanager
def held(what: str, say: Callable[[str], None], *, seconds: float = 3600, file: Path = LOCK) -> Iterator[None]:
    """Waits for another run to end, and tells which. The system frees the lock when its holder dies."""
    with file.open("a+") as lock:
        deadline = time.monotonic() + seconds
        told = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    say(f"waiting for another run to end: {file.read_text().strip() or file}")
                    told = True
            if time.monotonic() > deadline:
                raise CommandError(f"after {seconds:.0f} s still running: {file.read_text().strip()} (lock: {file})")
            time.sleep(0.5)
        lock.truncate(0)
        lock.write(f"process {os.getpid()}, {what}")
        lock.flush()
        yield
        lock.truncate(0)
