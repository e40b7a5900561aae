"""The runtime served over HTTP: throughput, prefill, time to first token, start-up and memory, side by side.

Each contender is one set of `forebay-runtime serve` arguments. All of them are up at the same time and idle; rounds
interleave them, so that a noisy machine hurts them alike. Figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import httpx

ROOT = pathlib.Path(__file__).parents[1]
WORDS = [
    "river",
    "stone",
    "lamp",
    "window",
    "paper",
    "cloud",
    "market",
    "signal",
    "garden",
    "engine",
    "copper",
    "letter",
    "valley",
    "harbor",
]
CONTENDERS = {
    "default": [],
    "int8": ["--quantization", "int8"],
    "bf16": ["--dtype", "bfloat16"],
}


@dataclass
class Server:
    """A runtime process and what it took to start it."""

    name: str
    url: str
    process: subprocess.Popen[bytes]
    start_seconds: float
    figures: dict[str, list[float]] = field(default_factory=dict)

    def note(self, case: str, value: float) -> None:
        self.figures.setdefault(case, []).append(value)

    def resident_mb(self) -> float:
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return float(next(x.split()[1] for x in status.splitlines() if x.startswith("VmRSS"))) / 1024


@contextlib.contextmanager
def serving(name: str, model: str, arguments: list[str]) -> Iterator[Server]:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, "-m", "forebay_runtime", "serve", model, "--port", str(port), *arguments]
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        while time.monotonic() - began < 120:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(url + "/ready", timeout=2, trust_env=False).status_code == 200:
                    break
            if process.poll() is not None:
                raise SystemExit(f"{name} ended with {process.returncode}: {' '.join(command)}")
            time.sleep(0.05)
        yield Server(name, url, process, time.monotonic() - began)
    finally:
        process.terminate()
        process.wait(60)


def text(tokens: int, seed: float) -> str:
    """About that many tokens; another seed shares no prefix."""
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(tokens))


async def stream(client: httpx.AsyncClient, url: str, prompt: str, tokens: int) -> AsyncIterator[tuple[float, int]]:
    """(seconds since the request, completion tokens where the event tells) for each event."""
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    body |= {"model": (await client.get(url + "/v1/models")).json()["data"][0]["id"]}
    body |= {"stream_options": {"include_usage": True}}
    began = time.monotonic()
    async with client.stream("POST", url + "/v1/completions", json=body) as reply:
        reply.raise_for_status()
        async for line in reply.aiter_lines():
            if line.startswith("data: {"):
                usage = json.loads(line[6:]).get("usage") or {}
                yield time.monotonic() - began, int(usage.get("completion_tokens") or 0)


async def one(client: httpx.AsyncClient, url: str, prompt: str, tokens: int) -> tuple[float, int]:
    """Time to the first event and the count of completion tokens."""
    seen = [x async for x in stream(client, url, prompt, tokens)]
    return seen[0][0], seen[-1][1]


async def decode(client: httpx.AsyncClient, server: Server, streams: int, tokens: int) -> None:
    prompts = [text(32, random.random()) for _ in range(streams)]
    began = time.monotonic()
    done = await asyncio.gather(*(one(client, server.url, p, tokens) for p in prompts))
    server.note(f"decode, {streams} streams, tokens/s", sum(n for _, n in done) / (time.monotonic() - began))


async def prefill(client: httpx.AsyncClient, server: Server) -> None:
    prompt = text(512, random.random())
    first, _ = await one(client, server.url, prompt, 1)
    server.note("prefill 512, tokens/s", 512 / first)
    warm, _ = await one(client, server.url, prompt, 1)
    server.note("first token on a warm 512-token prefix, ms", warm * 1000)


async def rounds(servers: list[Server], count: int) -> None:
    async with httpx.AsyncClient(timeout=300, trust_env=False, limits=httpx.Limits(max_connections=100)) as client:
        for server in servers:
            await one(client, server.url, text(32, random.random()), 8)
        for _ in range(count):
            for server in servers:
                await decode(client, server, 1, 64)
                await decode(client, server, 32, 64)
                await prefill(client, server)


def table(servers: list[Server]) -> str:
    cases = list(servers[0].figures)
    head = f"{'case':<46}" + "".join(f"{s.name:>12}" for s in servers)
    rows = [f"{case:<46}" + "".join(f"{statistics.median(s.figures[case]):>12.1f}" for s in servers) for case in cases]
    return "\n".join([head, *rows])


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--model", default=".models/smollm2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=list(CONTENDERS))
    options = parser.parse_args(words)
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(serving(c, options.model, CONTENDERS[c])) for c in options.contenders]
        asyncio.run(rounds(servers, options.rounds))
        for server in servers:
            server.note("ready after the process starts, s", server.start_seconds)
            server.note("resident, MB", server.resident_mb())
        print(table(servers))
    return 0
