"""Server-sent events: a generation's text as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
from starlette.types import Send

from forebay_runtime.server.choice import Choice
from forebay_runtime.server.errors import error_body, generation_failed
from forebay_runtime.server.generation import Generation
from forebay_runtime.server.replies import Shape

Envelope = Callable[[list[dict[str, Any]]], dict[str, Any]]

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
_DONE = b"data: [DONE]\n\n"
_COMMENT = b": still here\n\n"
_KEEP_ALIVE = 10.0  # seconds without a word after which a comment tells proxies and clients to wait on


class EventStream:
    """Sends one generation. `usage`: whether chunks have that field; `running_usage`: whether each has its numbers."""

    def __init__(
        self,
        generation: Generation,
        shape: Shape,
        envelope: Envelope,
        *,
        logprobs: bool,
        usage: bool,
        running_usage: bool,
    ) -> None:
        self._generation, self._shape, self._envelope = generation, shape, envelope
        self._logprobs, self._usage, self._running_usage = logprobs, usage, running_usage
        self._open = list(generation.choices)

    async def send(self, send: Send) -> None:
        """The status goes out at once; what fails from then on is told as an event."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await _send_body(send, b"".join(self._openings()))
        timer = _Timer(self._generation.wake)
        try:
            while self._open:
                await self._generation.wait()
                data = b"".join(self._events())
                if data or timer.is_due():
                    timer.restart()
                    await _send_body(send, data or _COMMENT)
                error = self._generation.error
                if error is not None:
                    await _send_body(send, _event(error_body(generation_failed(error))), more=False)
                    return
        finally:
            timer.stop()
        await _send_body(send, self._last(), more=False)

    def _openings(self) -> list[bytes]:
        openings = [self._shape.opening(choice) for choice in self._open]
        return [self._chunk(opening) for opening in openings if opening is not None]

    def _events(self) -> list[bytes]:
        events = []
        for choice in self._open:
            events += self._pieces(choice)
            if choice.finish_reason is not None and not choice.error:
                events.append(self._chunk(self._shape.closing(choice)))
        self._open = [c for c in self._open if c.finish_reason is None]
        return events

    def _pieces(self, choice: Choice) -> list[bytes]:
        text = choice.take_text()
        rows = choice.take_rows() if self._logprobs else None
        return [self._chunk(self._shape.piece(choice, text, rows))] if text or rows else []

    def _chunk(self, choice: dict[str, Any]) -> bytes:
        chunk = self._envelope([choice])
        if self._usage:
            chunk["usage"] = self._generation.usage() if self._running_usage else None
        return _event(orjson.dumps(chunk))

    def _last(self) -> bytes:
        if not self._usage:
            return _DONE
        return _event(orjson.dumps(self._envelope([]) | {"usage": self._generation.usage()})) + _DONE


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


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


async def _send_body(send: Send, body: bytes, *, more: bool = True) -> None:
    if body or not more:
        await send({"type": "http.response.body", "body": body, "more_body": more})
