"""The whole server over a model without arithmetic: in this process for ASGI tests, or `python -m` for real sockets."""

from __future__ import annotations

import contextlib
import sys
import time
import zlib
from collections.abc import AsyncIterator, Callable
from functools import cache, partial
from pathlib import Path

import httpx
import uvloop

from forebay_runtime.adapter import AdapterError
from forebay_runtime.config import SchedulerConfig, ServerConfig
from forebay_runtime.engine import Engine
from forebay_runtime.request import TokenLogprobs
from forebay_runtime.scheduling.scheduler import Scheduler
from forebay_runtime.scheduling.sequence import Sequence
from forebay_runtime.scheduling.step import SampledTokens, ScheduledSequence, Step, StepResult
from forebay_runtime.server.adapters.registry import AdapterRegistry
from forebay_runtime.server.app import Application, make_application
from forebay_runtime.server.listening import bind
from forebay_runtime.server.served import Computing, Footprint, Served
from forebay_runtime.server.serving import serve
from forebay_runtime.text.grammar import GrammarCompiler
from tests.support.grammars import allowed_next
from tests.support.paged_model import PagedModel
from tests.support.toy_text import toy_template, toy_tokenizer

NAME = "toy"
MOST_ADAPTERS = 3
SCHEDULER = SchedulerConfig(
    max_num_seqs=8, max_num_batched_tokens=64, max_num_waiting=8, max_model_len=256, block_size=4, num_blocks=512
)
WORDS = ("the", " river", " ran", " past", " mill", " and", " water", " 日", "本", " 😀", " na", "ïve", " stop", ".")


class SpeakingModel(PagedModel):
    """Says only WORDS, whole ones, in an order that depends on all that came before; biased tokens where biased."""

    def __init__(self, num_blocks: int, block_size: int, *, step_seconds: float = 0.0) -> None:
        tokenizer = toy_tokenizer()
        super().__init__(num_blocks, block_size, tokenizer.vocab_size)
        self._words = [tokenizer.encode(word) for word in WORDS]
        self._step_seconds = step_seconds

    def execute(self, step: Step) -> StepResult:
        time.sleep(self._step_seconds)
        return super().execute(step)

    def _run(self, scheduled: ScheduledSequence) -> SampledTokens:
        sampled = super()._run(scheduled)
        wanted = scheduled.sequence.request.sampling.logprobs
        if wanted is None:
            return sampled
        own = [(t, -1.0 - t % 7 / 10) for t in sampled.token_ids]
        rows = [(pair, *((i, -2.0 - i) for i in range(wanted - 1)))[:wanted] for pair in own]
        logprobs = (TokenLogprobs(logprob, row) for (_, logprob), row in zip(own, rows, strict=True))
        return SampledTokens(sampled.token_ids, tuple(logprobs))

    def _sample(self, state: int, sequence: Sequence, position: int) -> int:
        if sequence.request.grammar is not None:
            allowed = allowed_next(sequence.request.grammar, sequence.output_token_ids, self._vocab_size)
            return allowed[hash((state, position)) % len(allowed)]
        sampling = sequence.request.sampling
        barred = sampling.stop_token_ids | sequence.request.eos_token_ids if position < sampling.min_tokens else ()
        biased = [token for token, bias in sampling.logit_bias if bias > 0 and token not in barred]
        if biased:
            return biased[0]
        noise = hash((sampling.seed, position)) if sampling.temperature else 0
        choices = self._rests(sequence.output_token_ids) or [word[0] for word in self._words]
        return choices[hash((state, noise)) % len(choices)]

    def _rests(self, output: list[int]) -> list[int]:
        """What goes on with the word that the output breaks off in."""
        for length in range(max(map(len, self._words)) - 1, 0, -1):
            rests = [w[length] for w in self._words if len(w) > length and w[:length] == output[-length:]]
            if rests:
                return rests
        return []


FOOTPRINT = Footprint(
    parameters=1000,
    weight_bytes=4000,
    kv_bytes_per_token=8,
    kv_bytes=8 * SCHEDULER.num_blocks * SCHEDULER.block_size,
    kv_dtype="float32",
    other_bytes=10_000_000,
    context=SCHEDULER.max_model_len,
    model_context=SCHEDULER.max_model_len,
)


def served(scheduler: SchedulerConfig = SCHEDULER, *, step_seconds: float = 0.0) -> Served:
    tokenizer = toy_tokenizer()
    runner = SpeakingModel(scheduler.num_blocks, scheduler.block_size, step_seconds=step_seconds)
    engine = Engine(Scheduler(scheduler), runner)
    return Served(
        engine,
        tokenizer,
        toy_template(tokenizer),
        scheduler,
        tokenizer.vocab_size,
        "0.0.0",
        Computing("torch", "none", "float32"),
        FOOTPRINT,
        grammars(),
        AdapterRegistry(read_adapter, MOST_ADAPTERS, 1 << 20),
    )


class ToyWeights(int):
    @property
    def nbytes(self) -> int:
        return 1000


def read_adapter(path: Path) -> ToyWeights:
    """A toy's adapter is a file of any text: other words make other answers."""
    try:
        return ToyWeights(zlib.crc32(path.read_bytes()))
    except OSError as e:
        raise AdapterError(f"{path.name} can't be read: {e.strerror}") from e


@cache
def grammars() -> GrammarCompiler:
    """One for all tests: it starts a process."""
    tokenizer = toy_tokenizer()
    return GrammarCompiler(tokenizer, tokenizer.vocab_size)


def application(
    scheduler: SchedulerConfig = SCHEDULER,
    *,
    api_key: str | None = None,
    step_seconds: float = 0.0,
    strict_fields: bool = False,
    request_timeout: float | None = None,
    lora_root: Path | None = None,
    reasoning: bool | None = None,
    on_broken: Callable[[str], None] = lambda _: None,
) -> Application:
    config = ServerConfig(
        served_names=(NAME, "toy-alias"),
        api_key=api_key,
        max_body_bytes=100_000,
        strict_fields=strict_fields,
        request_timeout=request_timeout,
        lora_root=lora_root,
        reasoning=reasoning,
    )
    return make_application(served(scheduler, step_seconds=step_seconds), config, on_broken)


@contextlib.asynccontextmanager
async def running(app: Application) -> AsyncIterator[httpx.AsyncClient]:
    """Its engine runs and a client talks to it, without sockets, until the block ends."""
    app.loop.start()
    transport = httpx.ASGITransport(app.asgi, raise_app_exceptions=False)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://toy") as client:
            yield client
    finally:
        await app.loop.stop()


def main(port: str, api_key: str, step_seconds: str, grace: str) -> None:
    config = ServerConfig("127.0.0.1", int(port), (NAME,), api_key or None, drain_grace=float(grace))
    toy = served(step_seconds=float(step_seconds))
    with bind(config.host, config.port) as listener:
        uvloop.run(serve(partial(make_application, toy, config), config, listener))


if __name__ == "__main__":
    main(*sys.argv[1:])
