"""Something that is done every now and then beside something else."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def repeating(act: Callable[[], None], seconds: float, name: str) -> Iterator[None]:
    """Acts every so many seconds in a thread of that name, until the block ends."""
    done = threading.Event()

    def run() -> None:
        while not done.wait(seconds):
            act()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
