"""Server-sent events on the wire."""

from __future__ import annotations

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
DONE = b"data: [DONE]\n\n"
COMMENT = b": still here\n\n"


def event(data: bytes, name: str | None = None) -> bytes:
    """`data` must hold no line break, as JSON doesn't."""
    return b"data: " + data + b"\n\n" if name is None else b"event: %s\ndata: %s\n\n" % (name.encode(), data)
