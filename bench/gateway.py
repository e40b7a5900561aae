"""`python -m bench.gateway [--streams 32] [--events 200] [--interval 0.05]`: what the gateway adds to a stream.

An endpoint that only sends events at an even pace, asked directly and through a gateway, in turns. Printed are the
delay from an event's making to its arrival, the CPU that each of the two processes spent, and what the gateway
holds in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import aiohttp
import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send

BIN = pathlib.Path(sys.executable).parent


# ------------------------------------------------------------------ the endpoint
def endpoint(port: int, events: int, interval: float) -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        due = time.monotonic()
        for _ in range(events):
            due += interval
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            delta = {"index": 0, "delta": {"content": "word"}, "finish_reason": None}
            chunk = {
                "id": "chatcmpl-0",
                "object": "chat.completion.chunk",
                "made": time.monotonic(),
                "choices": [delta],
            }
            event = b"data: " + json.dumps(chunk).encode() + b"\n\n"
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    uvicorn.run(app, port=port, log_level="warning", lifespan="off", loop="uvloop", http="httptools")


# ------------------------------------------------------------------ the client
async def ask(session: aiohttp.ClientSession, url: str, number: int) -> list[float]:
    """The delay of each event of one stream, in seconds."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": f"Hi {number}"}]}
    delays, rest = [], b""
    async with session.post(url + "/v1/chat/completions", json=body) as reply:
        reply.raise_for_status()
        async for piece in reply.content.iter_any():
            now = time.monotonic()
            *events, rest = (rest + piece).split(b"\n\n")
            delays += [now - json.loads(e[6:])["made"] for e in events if e.startswith(b"data: {")]
    return delays


async def measure(url: str, streams: int) -> tuple[list[float], float]:
    """All delays, sorted, and how long it took."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        began = time.monotonic()
        delays = await asyncio.gather(*(ask(session, url, i) for i in range(streams)))
        return sorted(d for stream in delays for d in stream), time.monotonic() - began


# ------------------------------------------------------------------ processes
@contextlib.contextmanager
def running(port: int, *command: str) -> Iterator[int]:
    """Its process id, once it listens."""
    process = subprocess.Popen(command)
    try:
        while process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait(20)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> int:
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


def report(name: str, url: str, streams: int, pids: dict[str, int]) -> None:
    before = {who: cpu_seconds(pid) for who, pid in pids.items()}
    delays, seconds = uvloop.run(measure(url, streams))
    p50, p95, p99 = (1000 * delays[int(q * (len(delays) - 1))] for q in (0.5, 0.95, 0.99))
    spent = {who: cpu_seconds(pid) - before[who] for who, pid in pids.items()}
    cpu = ", ".join(f"{who} {1e6 * s / len(delays):.0f} us of CPU an event" for who, s in spent.items())
    print(
        f"{name:<8} {len(delays) / seconds:>6.0f} events/s   delay p50 {p50:.2f} p95 {p95:.2f} p99 {p99:.2f} ms   {cpu}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--interval", type=float, default=0.05)
    parser.add_argument("--endpoint", type=int, metavar="PORT", help="be the endpoint")
    args = parser.parse_args()
    if args.endpoint:
        return endpoint(args.endpoint, args.events, args.interval)
    back, front = free_port(), free_port()
    pace = ["--events", str(args.events), "--interval", str(args.interval)]
    upstream = ["--upstream", f"m=http://127.0.0.1:{back}"]
    with (
        running(back, sys.executable, "-m", "bench.gateway", "--endpoint", str(back), *pace) as endpoint_pid,
        running(
            front, str(BIN / "forebay"), "gateway", "--port", str(front), *upstream, "--log-level", "warning"
        ) as pid,
    ):
        pids = {"endpoint": endpoint_pid, "gateway": pid}
        for _ in range(2):
            report("direct", f"http://127.0.0.1:{back}", args.streams, pids)
            report("gateway", f"http://127.0.0.1:{front}", args.streams, pids)
        print(f"gateway resident: {resident_mb(pid)} MB")
    return None


if __name__ == "__main__":
    main()
