"""POST /v1/embeddings."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from typing import Any

from starlette.types import Receive, Scope, Send

from forebay_runtime.adapter import Adapter
from forebay_runtime.request import Pooling, Request, RequestError, SamplingParams
from forebay_runtime.server.body import read_object
from forebay_runtime.server.connection import while_connected
from forebay_runtime.server.deadline import deadline
from forebay_runtime.server.embeddings.pooled import Vector, Wave
from forebay_runtime.server.embeddings.vectors import as_base64, as_floats, normalized
from forebay_runtime.server.embeddings.wire import EmbeddingsRequest
from forebay_runtime.server.endpoint import Service
from forebay_runtime.server.errors import TIMED_OUT, generation_failed
from forebay_runtime.server.json_reply import json_reply
from forebay_runtime.server.prompts import Prompt, PromptReader, num_prompts
from forebay_runtime.server.wire import parse, renamed

# Inputs at work at once. A request with more is worked off in waves, so that it never has all the engine to itself.
WAVE = 32


class Embeddings:
    """`pooling`: where the request doesn't say."""

    def __init__(self, service: Service, reader: PromptReader, pooling: Pooling, wave: int) -> None:
        self._service, self._reader, self._pooling, self._wave = service, reader, pooling, wave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrival = time.monotonic()
        body, _ = await read_object(scope, receive, self._service.max_body_bytes)
        await while_connected(receive, self._answer(body, arrival, scope, receive, send))

    async def _answer(self, body: dict[str, Any], arrival: float, scope: Scope, receive: Receive, send: Send) -> None:
        wire = parse(EmbeddingsRequest, body)
        name = self._service.names.check(wire.model)
        adapter = self._service.names.adapter(name)
        until = deadline(scope, arrival, self._service.request_timeout)
        with self._service.admission.enter(min(num_prompts(wire.input), self._wave)):
            prompts = await asyncio.get_running_loop().run_in_executor(self._service.text_thread, self._read, wire)
            try:
                async with asyncio.timeout(None if until is None else max(0.0, until - time.monotonic())):
                    vectors = await self._compute(wire, self._requests(wire, adapter, prompts, arrival))
            except TimeoutError:
                raise generation_failed(TIMED_OUT) from None
        num_tokens = sum(len(p.token_ids) for p in prompts)
        reply = {
            "object": "list",
            "data": [{"object": "embedding", "index": i, "embedding": _put(wire, v)} for i, v in enumerate(vectors)],
            "model": name,
            "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
        }
        await json_reply(reply)(scope, receive, send)

    async def _compute(self, wire: EmbeddingsRequest, requests: Sequence[Request]) -> list[Vector]:
        vectors: list[Vector] = []
        for first in range(0, len(requests), self._wave):
            with Wave(requests[first : first + self._wave], self._service.loop, self._service.metrics) as wave:
                vectors += await wave.vectors()
            _check_dimensions(wire, len(vectors[0]))
        return vectors

    def _read(self, wire: EmbeddingsRequest) -> list[Prompt]:
        try:
            return self._reader.completion_prompts(wire.input)
        except RequestError as e:
            raise renamed(e, {"prompt": "input"}) from None

    def _requests(
        self, wire: EmbeddingsRequest, adapter: Adapter | None, prompts: Sequence[Prompt], arrival: float
    ) -> list[Request]:
        name = f"embd-{uuid.uuid4().hex}"
        return [
            Request(
                f"{name}-{i}",
                prompt.token_ids,
                SamplingParams(max_tokens=1),
                cache_salt=wire.cache_salt or "",
                priority=wire.priority or 0,
                arrival=arrival,
                adapter=adapter,
                pooling=self._pooling if wire.pooling is None else Pooling(wire.pooling),
            )
            for i, prompt in enumerate(prompts)
        ]


def _check_dimensions(wire: EmbeddingsRequest, size: int) -> None:
    if wire.dimensions not in (None, size):
        raise RequestError(
            f"dimensions: this model's vectors have {size}, and can't be shortened.",
            code="invalid_value",
            param="dimensions",
        )


def _put(wire: EmbeddingsRequest, vector: Vector) -> list[float] | str:
    wanted = vector if wire.normalize is False else normalized(vector)
    return as_base64(wanted) if wire.encoding_format == "base64" else as_floats(wanted)
