"""Serving ASGI apps with uvicorn: one place for its settings, for limits it lacks, and for ending well on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any

import uvicorn
import uvloop
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

log = logging.getLogger(__name__)
MAX_HEAD_BYTES = 64 << 10
HEAD_SECONDS = 30.0


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, and: heads are bounded in size and time, broken requests get a JSON error, and the name in a
    verified client certificate is in the scope (ASGI's TLS extension, `client_cert_name`)."""

    _head_bytes: int | None = None  # of a head that is not complete yet; None: there is none
    _in_body = False
    _head_timer: asyncio.TimerHandle | None = None
    _peer: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = _common_name(transport.get_extra_info("peercert"))
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        in_body = self._in_body
        super().data_received(data)
        if self._head_bytes is None or self.transport.is_closing():
            return
        self._head_bytes += 0 if in_body else len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self.send_400_response(f"The request's head is longer than {MAX_HEAD_BYTES} bytes.")
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        self.scope["extensions"] = {"tls": {"client_cert_name": self._peer}}

    def on_headers_complete(self) -> None:
        self._head_bytes, self._in_body = None, True
        self._stop_head_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        error = {"message": msg, "type": "invalid_request_error", "param": None, "code": "bad_request"}
        body = json.dumps({"error": error}).encode()
        head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self.transport.close()

    def _head_is_late(self) -> None:
        self._head_timer = None
        self.transport.close()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _common_name(certificate: dict[str, Any] | None) -> str | None:
    subject = (certificate or {}).get("subject", ())
    return next((value for part in subject for key, value in part if key == "commonName"), None)


class Server(uvicorn.Server):
    """uvicorn's server without its signal handling: `run` below has one for all servers of the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. An OSError says which address could not be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as e:
        raise OSError(e.errno, f"cannot listen on {host} port {port}: {os.strerror(e.errno or 0)}") from e


def server(app: ASGIApp, tls: ssl.SSLContext | None = None) -> Server:
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=5,
        ssl_certfile="given" if tls else None,
        ssl_context_factory=(lambda _config, _default: tls) if tls else None,
    )
    return Server(config)


async def serve(
    *servers: tuple[Server, socket.socket],
    work: Iterable[Coroutine[Any, Any, None]],
    drain: Callable[[], Awaitable[None]],
) -> None:
    """Serves, and keeps `work` going beside it, until SIGTERM or SIGINT; then drains and ends.

    Work that fails ends the process: an unhealthy program is not served on.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as group:
        for _, at in servers:
            log.info("serving on %s:%d", *at.getsockname()[:2])
        running = [group.create_task(server.serve(sockets=[at])) for server, at in servers]
        background = [group.create_task(w) for w in work]
        await stop.wait()
        log.info("told to end")
        await drain()
        for server, _ in servers:
            server.should_exit = True
        await asyncio.gather(*running)
        for task in background:
            task.cancel()


def run(main: Coroutine[Any, Any, None], log_level: str = "info") -> int:
    """Runs a program to its end; its exit status."""
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # broken requests are their senders' trouble
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)
    return 0
