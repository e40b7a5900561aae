"""A generating endpoint: read, admit, generate, answer; and let go when the client does."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Generic, TypeVar

from starlette.types import Receive, Scope, Send

from forebay_runtime.adapter import Adapter
from forebay_runtime.grammar import Grammar
from forebay_runtime.request import RequestError, SamplingParams
from forebay_runtime.server import errors
from forebay_runtime.server.admission import Admission
from forebay_runtime.server.body import LARGE, read_object
from forebay_runtime.server.connection import while_connected
from forebay_runtime.server.constraints import Constraint, not_kept
from forebay_runtime.server.deadline import deadline
from forebay_runtime.server.dialects import Asked, Dialect, Generated, Head, Reply
from forebay_runtime.server.generation import Generation, Order
from forebay_runtime.server.json_reply import json_reply
from forebay_runtime.server.keeper import keeper
from forebay_runtime.server.loop import EngineLoop
from forebay_runtime.server.metrics import Metrics
from forebay_runtime.server.names import ServedNames
from forebay_runtime.server.prompts import Prompt
from forebay_runtime.server.sampling import sampling_params
from forebay_runtime.server.stream import EventStream
from forebay_runtime.text.answer import AnswerParser
from forebay_runtime.text.grammar import GrammarCompiler
from forebay_runtime.text.grammar_source import GrammarError
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
    grammar_thread: Executor
    grammars: GrammarCompiler
    vocab_size: int
    max_model_len: int
    max_body_bytes: int
    request_timeout: float | None


class GenerationEndpoint(Generic[Asked]):
    """An ASGI application for one path. What is refused is raised as RequestError, before anything is sent."""

    def __init__(self, service: Service, dialect: Dialect[Asked]) -> None:
        self._service = service
        self._dialect: Dialect[Asked] = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrival = time.monotonic()
        asked, size = await self.read(scope, receive)
        await self.answer(asked, size, arrival, scope, receive, send)

    async def read(self, scope: Scope, receive: Receive) -> tuple[Asked, int]:
        """What is asked, and the size of the body that asks it."""
        body, size = await read_object(scope, receive, self._service.max_body_bytes)
        return await self._read(size, self._dialect.parse, body), size

    async def answer(self, asked: Asked, size: int, arrival: float, scope: Scope, receive: Receive, send: Send) -> None:
        """Generates as long as the client stays."""
        await while_connected(receive, self._answer(asked, size, arrival, scope, receive, send))

    @contextlib.asynccontextmanager
    async def begin(
        self, asked: Asked, size: int, arrival: float, scope: Scope
    ) -> AsyncIterator[tuple[Generation, Reply]]:
        """Admits and submits; what has not ended when the block does is aborted, what has not in its time fails."""
        until, mark = deadline(scope, arrival, self._service.request_timeout), keeper(scope)
        service, dialect, wire = self._service, self._dialect, self._dialect.generated(asked)
        name = service.names.check(wire.model)
        adapter = service.names.adapter(name)
        with service.admission.enter(wire.num_outputs * dialect.num_prompts(asked)):
            sampling = sampling_params(wire, service.vocab_size)
            prompts = await self._read(size, dialect.prompts, asked)
            self._check_room(sampling, prompts)
            plan = dialect.plan(asked, prompts)
            grammar = await self._compiled(plan.constraint)
            head = Head(f"{dialect.id_prefix}{mark}{uuid.uuid4().hex}", int(time.time()), name)
            order = _order(wire, head.request_id, prompts, sampling, plan.parser, grammar, adapter)
            generating = Generation(order, service.tokenizer, service.loop, service.metrics, arrival)
            with generating as generation, _expiry(generation, until):
                yield generation, dialect.reply(asked, prompts, generation, head)

    async def _answer(
        self, asked: Asked, size: int, arrival: float, scope: Scope, receive: Receive, send: Send
    ) -> None:
        async with self.begin(asked, size, arrival, scope) as (generation, reply):
            if self._dialect.generated(asked).stream:
                await EventStream(generation, reply).send(send)
                return
            await generation.join()
            if generation.error is not None:
                raise errors.generation_failed(generation.error)
            whole = reply.whole()
        await json_reply(whole)(scope, receive, send)

    async def _read(self, size: int, function: Callable[[Given], Made], given: Given) -> Made:
        """Off the event loop where it could take long."""
        if size <= LARGE:
            return function(given)
        return await asyncio.get_running_loop().run_in_executor(
            self._service.text_thread, copy_context().run, function, given
        )

    async def _compiled(self, constraint: Constraint | None) -> Grammar | None:
        """Off the event loop and off the engine's thread, one at a time."""
        if constraint is None:
            return None
        service = self._service
        known = service.grammars.known(constraint.source)
        if known is not None:
            return known
        compiling = asyncio.get_running_loop().run_in_executor(
            service.grammar_thread, service.grammars.compile, constraint.source
        )
        try:
            return await compiling
        except GrammarError as e:
            raise not_kept(constraint.param, str(e)) from None

    def _check_room(self, sampling: SamplingParams, prompts: Sequence[Prompt]) -> None:
        room = self._service.max_model_len - max(len(p.token_ids) for p in prompts)
        if sampling.min_tokens > room:
            raise RequestError(
                f"min_tokens is {sampling.min_tokens}, but the prompt leaves room for {room} of the model's "
                f"{self._service.max_model_len} tokens.",
                code="context_length_exceeded",
                param="min_tokens",
            )


def _order(
    wire: Generated,
    request_id: str,
    prompts: Sequence[Prompt],
    sampling: SamplingParams,
    parser: Callable[[], AnswerParser],
    grammar: Grammar | None,
    adapter: Adapter | None,
) -> Order:
    return Order(
        request_id,
        prompts,
        wire.num_outputs,
        sampling,
        wire.stop,
        include_stop=bool(wire.include_stop_str_in_output),
        skip_special_tokens=wire.skip_special_tokens is not False,
        cache_salt=wire.cache_salt or "",
        priority=wire.priority or 0,
        num_best=wire.n or 1,
        parser=parser,
        grammar=grammar,
        adapter=adapter,
    )


@contextlib.contextmanager
def _expiry(generation: Generation, until: float | None) -> Iterator[None]:
    if until is None:
        yield
        return
    seconds = max(0.0, until - time.monotonic())
    timer = asyncio.get_running_loop().call_later(seconds, generation.fail, errors.TIMED_OUT)
    try:
        yield
    finally:
        timer.cancel()
