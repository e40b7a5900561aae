"""Runs the application: uvicorn with our own signals, so that a drain answers to the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from forebay_runtime.config import ServerConfig
from forebay_runtime.failures import BrokenEngine
from forebay_runtime.server.app import Application
from forebay_runtime.server.errors import SHUT_DOWN
from forebay_runtime.server.http_protocol import Protocol

_BACKLOG = 2048
_KEEP_ALIVE = 120  # seconds; longer than clients and the gateway keep idle connections, so that they close first
_LAST_WORDS = 5  # seconds for replies that are on their way out when everything has ended

log = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """uvicorn's own handlers close the port at once; ours let it answer while draining."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    make: Callable[[Callable[[str], None]], Application], config: ServerConfig, listener: socket.socket
) -> None:
    """Serves until SIGTERM or SIGINT and drains then; a second signal ends at once. BrokenEngine if the engine is."""
    stop, hurry = asyncio.Event(), asyncio.Event()
    broken: list[str] = []

    def on_broken(reason: str) -> None:
        broken.append(reason)
        stop.set()
        hurry.set()

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    application = make(on_broken)
    application.loop.start()
    server = _server(application, listener)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    await _drain(application, config.drain_grace, hurry)
    server.should_exit = True
    await serving
    await application.loop.stop()
    if broken:
        raise BrokenEngine(broken[0])


def _server(application: Application, listener: socket.socket) -> Server:
    listener.listen(_BACKLOG)
    config = uvicorn.Config(
        application.asgi,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_LAST_WORDS,
    )
    return Server(config)


async def _drain(application: Application, grace: float, hurry: asyncio.Event) -> None:
    """Ends when all is answered, or when patience does: then what still runs is told so."""
    running = application.admission.num_sequences
    log.info("draining: %d running, up to %g s", running, grace)
    draining = asyncio.ensure_future(application.admission.drain(grace))
    hurrying = asyncio.ensure_future(hurry.wait())
    await asyncio.wait((draining, hurrying), return_when=asyncio.FIRST_COMPLETED)
    hurrying.cancel()
    if not (draining.done() and draining.result()):
        draining.cancel()
        log.warning("cut off %d running", application.admission.num_sequences)
        application.loop.fail_all(SHUT_DOWN)
