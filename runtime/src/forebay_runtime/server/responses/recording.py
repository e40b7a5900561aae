"""A stream that nobody may be reading yet: its events are kept, and whoever comes reads on from where he likes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.types import Message


class Recording:
    """`send` takes the place of a connection's. Comments are not kept."""

    def __init__(self) -> None:
        self._events: list[bytes] = []
        self._ended = False
        self._changed = asyncio.Event()
        self.size = 0  # bytes

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            events = [e + b"\n\n" for e in message["body"].split(b"\n\n") if e and not e.startswith(b":")]
            self._events += events
            self.size += sum(map(len, events))
            self._change()

    def end(self) -> None:
        self._ended = True
        self._change()

    async def read(self, first: int = 0) -> AsyncIterator[bytes]:
        """The events from number `first` on, until the end."""
        while True:
            changed = self._changed
            while first < len(self._events):
                yield self._events[first]
                first += 1
            if self._ended:
                return
            await changed.wait()

    def _change(self) -> None:
        """Wakes all who read at present."""
        self._changed.set()
        self._changed = asyncio.Event()
