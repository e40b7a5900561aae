"""The processes of a cluster, read from /proc: each carries the mark that it was started with."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.shell import COMMAND, MARK

DAEMON = "daemon"


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    program: str
    """As it was called: argv[0]."""
    root: str
    """The state folder of the cluster that it belongs to."""
    role: str
    name: str = ""
    key: str = ""
    """What the daemon was started from (see `components.key`); another key means another recipe."""
    namespace: int = 0
    """Inode of its network namespace."""

    @property
    def is_daemon(self) -> bool:
        """True for the daemon itself (nsenter is about to become it), false for what it has started: shims, nft…"""
        return self.role == DAEMON and Path(self.program).name in (self.name, "nsenter")


def parse(pid: int, cmdline: bytes, environ: bytes, namespace: int) -> Process | None:
    """None for a process that is not ours."""
    wanted = f"{MARK}=".encode()
    found = next((item for item in environ.split(b"\0") if item.startswith(wanted)), None)
    if found is None:
        return None
    words = found.removeprefix(wanted).decode(errors="replace").split("|")
    if len(words) < 2 or words[1] not in (COMMAND, DAEMON):
        return None
    program = cmdline.split(b"\0")[0].decode(errors="replace")
    root, role, name, key = [*words, "", ""][:4]
    return Process(pid, program, root, role, name, key, namespace)


def marked(proc: Path = Path("/proc")) -> tuple[Process, ...]:
    found = []
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ = (entry / "environ").read_bytes()
            if MARK.encode() not in environ:
                continue
            namespace = (entry / "ns/net").stat().st_ino
            process = parse(int(entry.name), (entry / "cmdline").read_bytes(), environ, namespace)
        except OSError:
            continue  # it has just ended
        if process:
            found.append(process)
    return tuple(found)


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_all(find: Callable[[], Iterable[int]], *, seconds: float = 15) -> list[int]:
    """Kills until none is found any more, for the dying may have started others; returns those that outlast it."""
    deadline = time.monotonic() + seconds
    while pids := list(find()):
        if time.monotonic() > deadline:
            return pids
        kill(pids)
        time.sleep(0.05)
    return []
