"""A generating endpoint: read, admit, generate, answer; and let go when the client does."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from forebay_runtime.request import RequestError, SamplingParams
from forebay_runtime.server.admission import Admission
from forebay_runtime.server.body import LARGE, read_object
from forebay_runtime.server.dialects import Dialect, Wire
from forebay_runtime.server.errors import generation_failed
from forebay_runtime.server.generation import Generation, Order
from forebay_runtime.server.loop import EngineLoop
from forebay_runtime.server.metrics import Metrics
from forebay_runtime.server.names import ServedNames
from forebay_runtime.server.prompts import Prompt
from forebay_runtime.server.replies import Shape
from forebay_runtime.server.sampling import sampling_params
from forebay_runtime.server.stream import Envelope, EventStream
from forebay_runtime.text.tokenizer import Tokenizer

Given = TypeVar("Given")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Service:
    """What the endpoints share. `text_thread` reads long texts, one at a time, so that they take one core at most."""

    loop: EngineLoop
    admission: Admission
    metrics: Metrics
    names: ServedNames
    tokenizer: Tokenizer
    text_thread: Executor
    vocab_size: int
    max_model_len: int
    max_body_bytes: int


class GenerationEndpoint(Generic[Wire]):
    """An ASGI application for one path. What is refused is raised as RequestError, before anything is sent."""

    def __init__(self, service: Service, dialect: Dialect[Wire]) -> None:
        self._service = service
        self._dialect: Dialect[Wire] = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrival = time.monotonic()
        body, size = await read_object(scope, receive, self._service.max_body_bytes)
        wire = await self._read(size, self._dialect.parse, body)
        name = self._service.names.check(wire.model)
        with self._service.admission.enter((wire.n or 1) * self._dialect.num_prompts(wire)):
            work = self._answer(wire, name, size, arrival, scope, receive, send)
            await _while_connected(receive, work)

    async def _answer(
        self, wire: Wire, name: str, size: int, arrival: float, scope: Scope, receive: Receive, send: Send
    ) -> None:
        sampling = sampling_params(wire, self._service.vocab_size)
        prompts = await self._read(size, self._dialect.prompts, wire)
        self._check_room(sampling, prompts)
        shape = self._dialect.shape(wire, prompts)
        order = _order(wire, f"{shape.id_prefix}{uuid.uuid4().hex}", prompts, sampling)
        service = self._service
        with Generation(order, service.tokenizer, service.loop, service.metrics, arrival) as generation:
            if wire.stream:
                await _stream(wire, generation, shape, _envelope(order.request_id, shape.chunk_object, name), send)
                return
            await generation.join()
            if generation.error is not None:
                raise generation_failed(generation.error)
            envelope = _envelope(order.request_id, shape.whole_object, name)
            reply = envelope(_choices(generation, shape, sampling)) | {"usage": generation.usage()}
        await Response(orjson.dumps(reply), media_type="application/json")(scope, receive, send)

    async def _read(self, size: int, function: Callable[[Given], Made], given: Given) -> Made:
        """Off the event loop where it could take long."""
        if size <= LARGE:
            return function(given)
        return await asyncio.get_running_loop().run_in_executor(self._service.text_thread, function, given)

    def _check_room(self, sampling: SamplingParams, prompts: Sequence[Prompt]) -> None:
        room = self._service.max_model_len - max(len(p.token_ids) for p in prompts)
        if sampling.min_tokens > room:
            raise RequestError(
                f"min_tokens is {sampling.min_tokens}, but the prompt leaves room for {room} of the model's "
                f"{self._service.max_model_len} tokens.",
                code="context_length_exceeded",
                param="min_tokens",
            )


def _order(wire: Wire, request_id: str, prompts: Sequence[Prompt], sampling: SamplingParams) -> Order:
    return Order(
        request_id,
        prompts,
        wire.n or 1,
        sampling,
        wire.stop,
        include_stop=bool(wire.include_stop_str_in_output),
        skip_special_tokens=wire.skip_special_tokens is not False,
        cache_salt=wire.cache_salt or "",
    )


def _envelope(request_id: str, kind: str, name: str) -> Envelope:
    head = {"id": request_id, "object": kind, "created": int(time.time()), "model": name}
    return lambda choices: head | {"choices": choices}


async def _stream(wire: Wire, generation: Generation, shape: Shape, envelope: Envelope, send: Send) -> None:
    options = wire.stream_options
    usage = options is not None and bool(options.include_usage)
    running = options is not None and bool(options.continuous_usage_stats)
    logprobs = wire.logprobs is not None and wire.logprobs is not False
    stream = EventStream(generation, shape, envelope, logprobs=logprobs, usage=usage, running_usage=running)
    await stream.send(send)


def _choices(generation: Generation, shape: Shape, sampling: SamplingParams) -> list[dict[str, Any]]:
    wanted = sampling.logprobs is not None
    return [shape.whole(c, c.take_text(), c.take_rows() if wanted else None) for c in generation.choices]


async def _while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Runs `work`; cancels it when the client goes away first."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        watching.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
