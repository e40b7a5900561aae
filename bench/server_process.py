"""A server under test: how long it takes to be ready, where it listens, how much memory it took."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

_PATIENCE = 300.0  # seconds until ready


@dataclass(frozen=True, slots=True)
class ServerProcess:
    url: str
    pid: int
    start_seconds: float

    def peak_memory(self) -> float:
        """MB that were resident at most, mapped files and its own children among them."""
        return sum(map(_peak_memory, _family(self.pid)))


def _family(pid: int) -> list[int]:
    children = " ".join(file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children"))
    return [pid, *(p for child in children.split() for p in _family(int(child)))]


def _peak_memory(pid: int) -> float:
    return _vm_hwm(Path(f"/proc/{pid}/status").read_text())


def _vm_hwm(status: str) -> float:
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024 / 1e6


@contextlib.contextmanager
def started(
    command: Sequence[str], ready: str, log: Path, env: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """`command` gets `--port`; it is ready when GET `ready` answers 200. What it prints goes to `log`."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--port", str(port)], stdout=out, stderr=subprocess.STDOUT, env=os.environ | (env or {})
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(url + ready, process, began + _PATIENCE, log)
        yield ServerProcess(url, process.pid, time.monotonic() - began)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], deadline: float, log: Path) -> None:
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, timeout=2, trust_env=False).status_code == 200:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the server did not get ready; its last words:\n{log.read_text(errors='replace')[-2000:]}")


def memory_of_torch() -> float:
    """MB that a process takes which only imports torch."""
    told = subprocess.run(
        [sys.executable, "-c", "import torch; print(open('/proc/self/status').read())"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return _vm_hwm(told)
