"""The operator as a process beside the cluster, and what it tells of itself."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import re
import socket
import subprocess
import sys
from dataclasses import astuple, dataclass

import aiohttp

BIN = pathlib.Path(sys.executable).parent
IMAGE = "registry.invalid/runtime:1"
CALM_SECONDS = 3


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests that read, requests that write, passes that were made, resources that wait for one."""

    reads: int
    writes: int
    passes: int
    pending: int

    def since(self, before: Counts) -> Counts:
        return Counts(*(now - was for now, was in zip(astuple(self), astuple(before), strict=True)))


class Operator:
    def __init__(self, log: pathlib.Path) -> None:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self._port = s.getsockname()[1]
        command = [
            str(BIN / "forebay"),
            "operator",
            "--runtime-image",
            IMAGE,
            "--own-image",
            IMAGE,
            "--port",
            str(self._port),
        ]
        with log.open("a") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(30)

    def memory(self) -> int:
        """The most that was ever resident, in MiB."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]

    async def counts(self) -> Counts:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self._port}/metrics") as reply:
            text = await reply.text()
        sent = {m[1]: int(float(m[2])) for m in re.finditer(r'api_requests_total{verb="(\w+)"} (\S+)', text)}
        pending = int(float(re.search(r"^forebay_reconcile_pending (\S+)", text, re.MULTILINE)[1]))  # type: ignore[index]
        made = sum(int(float(m[1])) for m in re.finditer(r"reconcile_total{[^}]*} (\S+)", text))
        return Counts(sent.pop("GET", 0), sum(sent.values()), made, pending)

    async def quiet(self, passes: int = 0) -> None:
        """Until it has made so many passes, and then has sent nothing and nothing waits for CALM_SECONDS."""
        before, calm = None, 0
        while calm < CALM_SECONDS:
            await asyncio.sleep(1)
            with contextlib.suppress(aiohttp.ClientError):
                now = await self.counts()
                calm = calm + 1 if now == before and not now.pending and now.passes >= passes else 0
                before = now
