"""The outputs of one HTTP request, from submission to their last token."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from forebay_runtime.adapter import Adapter
from forebay_runtime.grammar import Grammar
from forebay_runtime.request import FinishReason, Request, RequestOutput, SamplingParams
from forebay_runtime.server.choice import Choice
from forebay_runtime.server.loop import EngineLoop
from forebay_runtime.server.metrics import Metrics
from forebay_runtime.server.prompts import Prompt
from forebay_runtime.server.sampling import seed_of
from forebay_runtime.text.answer import AnswerParser, PlainParser
from forebay_runtime.text.detokenizer import Detokenizer
from forebay_runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be generated: n outputs for each prompt, of which `num_best` are wanted."""

    request_id: str
    prompts: Sequence[Prompt]
    n: int
    sampling: SamplingParams
    stop: Sequence[str] = ()
    include_stop: bool = False
    skip_special_tokens: bool = True
    cache_salt: str = ""
    priority: int = 0
    num_best: int | None = None  # None: all
    parser: Callable[[], AnswerParser] = PlainParser  # a new one for each output
    grammar: Grammar | None = None
    adapter: Adapter | None = None


class Generation:
    """Give it to `with`: what has not ended when the block does is aborted, whatever the reason."""

    def __init__(self, order: Order, tokenizer: Tokenizer, loop: EngineLoop, metrics: Metrics, arrival: float) -> None:
        self._order, self._tokenizer, self._loop, self._metrics = order, tokenizer, loop, metrics
        self._arrival = arrival
        self._changed: dict[int, Choice] = {}
        self._waiter: asyncio.Future[None] | None = None
        self._done = asyncio.Event()
        self._uncounted = set(range(len(order.prompts)))
        self._ids = [f"{order.request_id}-{i}" for i in range(len(order.prompts) * order.n)]
        self.choices = [self._choice(i) for i in range(len(self._ids))]
        self._by_id = dict(zip(self._ids, self.choices, strict=True))
        self._num_left = len(self.choices)

    def __enter__(self) -> Generation:
        self._loop.submit([self._request(choice) for choice in self.choices], self._take)
        return self

    def __exit__(self, *_: object) -> None:
        left = [i for i, choice in self._by_id.items() if choice.finish_reason is None]
        self._loop.abort(left)
        for _id in left:
            self._metrics.finished(FinishReason.ABORT, time.monotonic() - self._arrival)

    def fail(self, reason: str) -> None:
        """Ends all that has not ended with an error."""
        self._loop.fail([i for i, choice in self._by_id.items() if choice.finish_reason is None], reason)

    @property
    def error(self) -> str | None:
        """Why an output failed, if one has."""
        return next((c.error for c in self.choices if c.finish_reason is FinishReason.ERROR), None)

    async def join(self) -> None:
        """Until every output has ended."""
        await self._done.wait()

    async def news(self) -> Iterable[Choice]:
        """The outputs that have changed since the last time. Waits until one has, or `wake` is called."""
        if not self._changed:  # a bare future, since this is waited for with every token
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        changed, self._changed = self._changed, {}
        return changed.values()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def best(self) -> list[Choice]:
        """The wanted outputs, in order of their indices; those with the best log probability per token come first."""
        n, wanted = self._order.n, self._order.num_best
        if wanted in (None, n):
            return self.choices
        chosen = []
        for first in range(0, len(self.choices), n):
            chosen += sorted(self.choices[first : first + n], key=lambda c: -c.mean_logprob)[:wanted]
        for index, choice in enumerate(chosen):
            choice.index = index
        return chosen

    def usage(self) -> dict[str, Any]:
        """Prompts count once, however many outputs they have."""
        prompt = sum(len(p.token_ids) for p in self._order.prompts)
        completion = sum(c.num_tokens for c in self.choices)
        cached = sum(c.num_cached_tokens for c in self.choices[:: self._order.n])
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": sum(c.num_reasoning_tokens for c in self.choices)},
        }

    def _choice(self, index: int) -> Choice:
        order = self._order
        detokenizer = Detokenizer(order.stop, include_stop=order.include_stop)
        return Choice(
            index,
            index // order.n,
            self._tokenizer,
            detokenizer,
            order.parser(),
            skip_special_tokens=order.skip_special_tokens,
        )

    def _request(self, choice: Choice) -> Request:
        order = self._order
        seed = seed_of(order.sampling.seed, choice.index % order.n)
        return Request(
            self._ids[choice.index],
            order.prompts[choice.prompt_index].token_ids,
            dataclasses.replace(order.sampling, seed=seed),
            self._tokenizer.eos_token_ids,
            order.cache_salt,
            order.priority,
            self._arrival,
            None if order.grammar is None else order.grammar.start(),
            order.adapter,
        )

    def _take(self, output: RequestOutput) -> None:
        now = time.monotonic()
        choice = self._by_id[output.request_id]
        count = choice.add(output)
        if count:
            self._measure(choice, output, count, now)
        if choice.finish_reason is not None:
            self._num_left -= 1
            self._metrics.finished(choice.finish_reason, now - self._arrival)
            if output.finish_reason is None:  # a stop string came, of which the engine knows nothing
                self._loop.abort([output.request_id])
        if not self._num_left:
            self._done.set()
        self._changed[choice.index] = choice
        self.wake()

    def _measure(self, choice: Choice, output: RequestOutput, count: int, now: float) -> None:
        num_prompt_tokens = len(self._order.prompts[choice.prompt_index].token_ids)
        if choice.prompt_index in self._uncounted:
            self._uncounted.remove(choice.prompt_index)
            self._metrics.prompt(num_prompt_tokens)
        self._metrics.tokens(count)
        if choice.last_token_at is None:
            self._metrics.first_token(now - self._arrival, output.queue_seconds, num_prompt_tokens)
        else:
            self._metrics.inter_token(now - choice.last_token_at, count)
        choice.last_token_at = now
