"""Server-sent events: a generation's text as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Send

from forebay_runtime.server import sse
from forebay_runtime.server.dialects import Reply
from forebay_runtime.server.errors import generation_failed
from forebay_runtime.server.generation import Generation

_KEEP_ALIVE = 10.0  # seconds without a word after which a comment tells proxies and clients to wait on


class EventStream:
    """Sends one generation in the words of `reply`."""

    def __init__(self, generation: Generation, reply: Reply) -> None:
        self._generation, self._reply = generation, reply
        self._num_open = len(generation.choices)

    async def send(self, send: Send) -> None:
        """The status goes out at once; what fails from then on is told as an event."""
        await send({"type": "http.response.start", "status": 200, "headers": sse.HEADERS})
        await _send_body(send, self._reply.opening())
        timer = _Timer(self._generation.wake)
        try:
            while self._num_open:
                changed = await self._generation.news()
                data = b"".join(map(self._reply.events, changed))
                self._num_open -= sum(choice.finish_reason is not None for choice in changed)
                if data or timer.is_due():
                    timer.restart()
                    await _send_body(send, data or sse.COMMENT)
                error = self._generation.error
                if error is not None:
                    await _send_body(send, self._reply.failure(generation_failed(error)), more=False)
                    return
        finally:
            timer.stop()
        await _send_body(send, self._reply.ending(), more=False)


class _Timer:
    """Wakes the stream some time after the last `restart`; one timer handle at a time, whatever the token rate."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + _KEEP_ALIVE
        self._handle = self._loop.call_at(self._due, self._fire)

    def restart(self) -> None:
        self._due = self._loop.time() + _KEEP_ALIVE

    def is_due(self) -> bool:
        return self._loop.time() >= self._due

    def stop(self) -> None:
        self._handle.cancel()

    def _fire(self) -> None:
        due = self._due
        if self._loop.time() >= due:
            self._wake()
            due += _KEEP_ALIVE
        self._handle = self._loop.call_at(due, self._fire)


async def _send_body(send: Send, body: bytes, *, more: bool = True) -> None:
    if body or not more:
        await send({"type": "http.response.body", "body": body, "more_body": more})
