"""ASGI applications on loopback, in the test's own event loop: real sockets, no processes, no waiting."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from forebay_operator import serving
from forebay_operator.http_protocol import Protocol


@contextlib.asynccontextmanager
async def on_loopback(app: ASGIApp, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serves until the block ends; yields host:port."""
    loop, state, config = asyncio.get_running_loop(), ServerState(), serving.server(app).config
    config.load()

    def protocol() -> Protocol:
        return Protocol(config, state, {}, loop)

    listener = await loop.create_server(protocol, sock=serving.bind("127.0.0.1", 0), ssl=tls)
    host, port = listener.sockets[0].getsockname()[:2]
    try:
        yield f"{host}:{port}"
    finally:
        listener.close()
        for connection in list(state.connections):
            connection.transport.abort()
        for task in (unfinished := list(state.tasks)):
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)


def closed_address() -> str:
    """host:port where nobody listens."""
    with serving.bind("127.0.0.1", 0) as socket:
        host, port = socket.getsockname()[:2]
    return f"{host}:{port}"


class Recorder:
    """An application that keeps what it is asked and answers with `answer(scope, body, receive, send)`."""

    def __init__(self, answer: Callable[[Scope, bytes, Receive, Send], Awaitable[None]]) -> None:
        self._answer = answer
        self.requests: list[tuple[Scope, bytes]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.requests.append((scope, body))
        await self._answer(scope, body, receive, send)


async def start(send: Send, status: int, kind: str, **headers: str) -> None:
    pairs = [
        (b"content-type", kind.encode()),
        *((k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def piece(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


def answering(status: int, document: Any, **headers: str) -> Recorder:
    """Always the same JSON."""

    async def answer(_scope: Scope, _body: bytes, _receive: Receive, send: Send) -> None:
        await start(send, status, "application/json", **headers)
        await piece(send, json.dumps(document).encode(), more=False)

    return Recorder(answer)
