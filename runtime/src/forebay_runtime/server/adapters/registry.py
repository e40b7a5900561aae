"""The adapters that requests can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

from forebay_runtime.adapter import Adapter, AdapterError

_MIB = 1 << 20


class Weights(Protocol):
    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """`path`: where it came from, as it was named."""

    path: str
    adapter: Adapter
    num_bytes: int


class AdapterRegistry:
    """Of one model; at most `most` at a time, in `memory` bytes. Each load is a version of its own, whatever its
    name.

    A request takes its adapter from here when it begins and keeps it: a name may be given to another one meanwhile.
    """

    def __init__(self, read: Callable[[Path], Weights], most: int, memory: int) -> None:
        self._read, self._most, self._memory = read, most, memory
        self._versions = count(1)
        self._by_name: dict[str, Loaded] = {}

    @property
    def by_name(self) -> Mapping[str, Loaded]:
        return self._by_name

    def read(self, path: Path) -> Weights:
        """The weights; takes its time, in any thread. AdapterError."""
        return self._read(path)

    def check_room(self, name: str) -> None:
        """AdapterError where `name` would be one more than there may be."""
        if name not in self._by_name and len(self._by_name) >= self._most:
            raise AdapterError(f"{len(self._by_name)} adapters are loaded, and --max-loras allows no more")

    def put(self, name: str, path: str, weights: Weights) -> None:
        """In the place of one that has the name already. AdapterError where there is no memory for it."""
        left = self._memory - sum(loaded.num_bytes for other, loaded in self._by_name.items() if other != name)
        if weights.nbytes > left:
            raise AdapterError(
                f"it takes {weights.nbytes / _MIB:.1f} MiB, but {left / _MIB:.1f} MiB are left of the memory for "
                "adapters: unload others, lower --kv-cache-memory, or give the process more memory"
            )
        self._by_name[name] = Loaded(path, Adapter(str(next(self._versions)), weights), weights.nbytes)

    def remove(self, name: str) -> bool:
        """False if there is none. Requests that have it go on with it."""
        return self._by_name.pop(name, None) is not None

    def get(self, name: str) -> Adapter | None:
        loaded = self._by_name.get(name)
        return None if loaded is None else loaded.adapter
