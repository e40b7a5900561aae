"""Requests over HTTP to any server that speaks /v1/completions, and what a client sees of them."""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
import orjson

_TIMEOUT = aiohttp.ClientTimeout(total=1800)


@dataclass(frozen=True, slots=True)
class Asked:
    """The prompt comes as token ids, so that its length means the same to every server."""

    prompt: list[int]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Seen:
    """Seconds since the request was sent at which each event with text came, and the tokens that were counted."""

    events: tuple[float, ...]
    tokens: int


def mixed(text: Sequence[int], streams: int = 32) -> list[Asked]:
    """Prompts of 32 to 1,024 tokens, outputs of 16 to 256, always the same. No two prompts begin alike."""
    rng = random.Random(4)
    asked = []
    for _ in range(streams):
        length, start = rng.randint(32, 1024), rng.randrange(len(text) - 1024)
        asked.append(Asked(list(text[start : start + length]), rng.randint(16, 256)))
    return asked


def prompts(text: Sequence[int], length: int, count: int) -> list[list[int]]:
    """Never the same twice, so that no server has seen one before."""
    starts = (random.randrange(len(text) - length) for _ in range(count))
    return [list(text[start : start + length]) for start in starts]


def all_at_once(url: str, asked: Sequence[Asked]) -> tuple[list[Seen], float]:
    """What each stream saw, and the seconds until the last one ended."""
    return asyncio.run(_all_at_once(url, asked))


async def _all_at_once(url: str, asked: Sequence[Asked]) -> tuple[list[Seen], float]:
    async with aiohttp.ClientSession(url, timeout=_TIMEOUT, connector=aiohttp.TCPConnector(limit=0)) as session:
        async with session.get("/v1/models") as reply:
            model = (await reply.json())["data"][0]["id"]
        began = time.perf_counter()
        seen = await asyncio.gather(*(_stream(session, model, a) for a in asked))
        return seen, time.perf_counter() - began


async def _stream(session: aiohttp.ClientSession, model: str, asked: Asked) -> Seen:
    body = {
        "model": model,
        "prompt": asked.prompt,
        "max_tokens": asked.max_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    events, tokens, began = [], 0, time.perf_counter()
    async with session.post("/v1/completions", json=body) as reply:
        if reply.status != 200:
            raise RuntimeError(f"{reply.status}: {(await reply.text())[:500]}")
        async for line in reply.content:
            if not line.startswith(b"data: {"):
                continue
            event = orjson.loads(line[6:])
            if event.get("choices"):
                events.append(time.perf_counter() - began)
            if usage := event.get("usage"):
                tokens = usage["completion_tokens"]
    if tokens != asked.max_tokens:
        raise RuntimeError(f"asked for {asked.max_tokens} tokens, got {tokens}")
    return Seen(tuple(events), tokens)


def percentiles(values: Sequence[float]) -> dict[str, float]:
    hundredths = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": hundredths[49], "p95": hundredths[94], "p99": hundredths[98]}


def gaps(seen: Sequence[Seen]) -> list[float]:
    """Seconds between one event of a stream and its next."""
    return [b - a for s in seen for a, b in itertools.pairwise(s.events)]
