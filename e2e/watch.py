"""Looks at the cluster at each change, in the background, and remembers every answer."""

import threading
from collections.abc import Callable
from types import TracebackType

from e2e.kube import Kube


class Watch:
    """`with Watch(kube, path, look) as watch: ...`, then `watch.seen`: what `look` said, in order."""

    def __init__(self, kube: Kube, path: str, look: Callable[[], int], seconds: float = 200) -> None:
        self.seen: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(kube, path, look, seconds), daemon=True)

    def _watch(self, kube: Kube, path: str, look: Callable[[], int], seconds: float) -> None:
        for _ in kube.changes(path, seconds):
            if self._over.is_set():
                return
            self.seen.append(look())

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._over.set()
