"""Serving ASGI apps with uvicorn: one place for its settings, for limits it lacks, and for ending well on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
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

from forebay_operator.http_protocol import Protocol

log = logging.getLogger(__name__)
STALLED_SECONDS = 300  # after which a peer that takes in nothing, or is not there any more, is cut off by the kernel


class Server(uvicorn.Server):
    """uvicorn's server without its signal handling: `run` below has one for all servers of the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. An OSError says which address could not be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as e:
        raise OSError(e.errno, f"cannot listen on {host} port {port}: {os.strerror(e.errno or 0)}") from e
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # all its connections inherit these
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_SECONDS * 1000)
    return found


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
