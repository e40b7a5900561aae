"""Reading a request's body, bounded in size and in time."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope

from forebay_operator.gateway.admission import Room
from forebay_operator.gateway.errors import Refusal

DISCARDED = 8  # a body of up to this many times the limit is read to its end, so that its sender hears the refusal
BODY_SECONDS = 120.0


class ClientGoneError(Exception):
    """The client went away before it had sent its request."""


def header(scope: Scope, name: bytes) -> str:
    """The first header of that name, or nothing."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


class Body:
    """A request's body. A longer one than the limit is read to its end before it is refused, within reason."""

    def __init__(self, scope: Scope, receive: Receive, limit: int, room: Room) -> None:
        self._scope, self._receive, self._limit, self._room = scope, receive, limit, room
        self._taken = 0

    async def read(self) -> bytes:
        told = int(header(self._scope, b"content-length") or 0)
        if told > self._limit and (told > DISCARDED * self._limit or header(self._scope, b"expect")):
            raise self._too_large()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body, size = await self._read_all()
        except TimeoutError:
            raise Refusal(408, "The request's body did not come in time.", code="request_timeout", close=True) from None
        if size > self._limit:
            raise self._too_large()
        return body

    async def _read_all(self) -> tuple[bytes, int]:
        """The body, unless it is too long, and how long it is."""
        body, size, more = bytearray(), 0, True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            piece, more = message.get("body", b""), message.get("more_body", False)
            size += len(piece)
            if size > DISCARDED * self._limit:
                raise self._too_large()
            if size <= self._limit:
                self._room.take(len(piece))
                self._taken += len(piece)
                body += piece
        return bytes(body), size

    def release(self) -> None:
        """To be called when the body is not needed any more."""
        self._room.give_back(self._taken)
        self._taken = 0

    def _too_large(self) -> Refusal:
        return Refusal(413, f"The body is longer than {self._limit} bytes.", code="request_too_large", close=True)
