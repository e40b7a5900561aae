"""The port while the model is loaded, or brought: not ready, and how far; and the end of what does not advance."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import socket
import sys
import threading
import time
from types import TracebackType

from forebay_runtime.progress import Progress

_TICK = 0.1  # seconds
_PATIENCE = 1.0  # seconds for a client to send what it wants
_GRACE = 60  # seconds: where not even this thread gets to run, the interpreter's own watchdog ends the process


class LoadingServer:
    """Answers 503 with the progress for whatever is asked, from a thread, until the block ends. Where no byte has
    come for `budget` seconds it ends the process: storage that hangs is told by nothing else."""

    def __init__(self, listener: socket.socket, progress: Progress, budget: float) -> None:
        self._listener, self._progress, self._budget = listener, progress, budget
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loading", daemon=True)

    def __enter__(self) -> None:
        self._listener.listen()
        self._listener.settimeout(_TICK)
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()

    def _run(self) -> None:
        while not self._done.is_set():
            faulthandler.dump_traceback_later(self._budget + _GRACE, exit=True, file=sys.__stderr__ or sys.stderr)
            with contextlib.suppress(OSError):  # nobody came, or left before it was answered
                self._answer(self._listener.accept()[0])
            if (words := stalled(self._progress, self._budget, time.monotonic())) and not self._done.is_set():
                sys.stderr.write(f"forebay-runtime: {words}\n")
                sys.stderr.flush()
                os._exit(1)

    def _answer(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(_PATIENCE)
            client.recv(65536)
            client.sendall(reply(self._progress, time.monotonic()))
            client.shutdown(socket.SHUT_WR)


def reply(progress: Progress, now: float) -> bytes:
    message = f"The server is {progress.doing} the model."
    error = {"message": message, "type": "server_error", "param": None, "code": "loading"}
    body = json.dumps({"error": error, "loading": progress.told(now)}).encode()
    head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 5\r\nconnection: close"
    return f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def stalled(progress: Progress, budget: float, now: float) -> str | None:
    """The last words of a process to which nothing has come for too long."""
    if now - progress.advanced <= budget:
        return None
    far = f"{progress.done / 1e9:.1f} of {progress.total / 1e9:.1f} GB"
    return f"{progress.doing} has stalled: no byte of the model came for {budget:g} s, at {far}"
