"""What serving costs beside the engine alone, and a schema beside free text: 32 requests at once, three ways in turns.

    python -m bench.served_cost .models/smollm2 [--rounds 5]

offline: the engine's own loop, in this process; streamed: over HTTP, an event a step for each client; schema: the same
under a JSON schema whose strings are long enough to fill every answer. Prompts of 32 tokens, answers of 64; tokens/s.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from bench import text
from bench.contenders.forebay import Forebay
from bench.load import prompts

STREAMS, PROMPT, ANSWER = 32, 32, 64
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "story": {"type": "string", "minLength": 1000},
        "lines": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["story", "lines"],
    "additionalProperties": False,
}


async def streamed(url: str, asked: list[list[int]], **more: object) -> float:
    """Tokens per second of all streams together, until the last one ended."""
    async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(prompt: list[int]) -> int:
            body = {
                "model": "smollm2",
                "prompt": prompt,
                "max_tokens": ANSWER,
                "temperature": 0,
                "stream": True,
                **more,
            }
            tokens = 0
            async with session.post("/v1/completions", json=body) as reply:
                if reply.status != 200:
                    raise RuntimeError(f"{reply.status}: {(await reply.text())[:500]}")
                async for line in reply.content:
                    if line.startswith(b"data: {") and (usage := orjson.loads(line[6:]).get("usage")):
                        tokens = usage["completion_tokens"]
            if tokens != ANSWER:
                raise RuntimeError(f"asked for {ANSWER} tokens, got {tokens}")
            return tokens

        began = time.perf_counter()
        counted = await asyncio.gather(*map(one, asked))
        return sum(counted) / (time.perf_counter() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ids, rates = text.token_ids(options.model), dict[str, list[float]]()
    usage = {"stream_options": {"include_usage": True}}
    contender = Forebay("forebay-int8", options.model, "int8", 2)
    with contender.serving(STREAMS, 1024) as server:
        free, schema = {**usage, "ignore_eos": True}, {**usage, "structured_outputs": {"json": SCHEMA}}
        for number in range(options.rounds + 1):  # the first warms up and is not counted
            found = {
                "offline": contender.batch(prompts(ids, PROMPT, STREAMS), ANSWER),
                "streamed": asyncio.run(streamed(server.url, prompts(ids, PROMPT, STREAMS), **free)),
                "schema": asyncio.run(streamed(server.url, prompts(ids, PROMPT, STREAMS), **schema)),
            }
            print(number, {name: round(rate) for name, rate in found.items()}, file=sys.stderr, flush=True)
            for name, rate in found.items() if number else ():
                rates.setdefault(name, []).append(rate)
    contender.close()
    medians = {name: statistics.median(values) for name, values in rates.items()}
    print({name: round(value) for name, value in medians.items()})
    print(f"streamed / offline: {medians['streamed'] / medians['offline']:.3f}")
    print(f"schema / streamed: {medians['schema'] / medians['streamed']:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
