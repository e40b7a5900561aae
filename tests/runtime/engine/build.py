"""Engines over the paged model, and runs to the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from forebay_runtime.config import SchedulerConfig
from forebay_runtime.drafting import Drafter
from forebay_runtime.engine import Engine, Runner
from forebay_runtime.request import FinishReason, Pooling, Request, RequestOutput, SamplingParams
from forebay_runtime.scheduling.scheduler import Scheduler
from tests.support.paged_model import PagedModel

EOS = 4


def config(
    *, seqs: int = 32, budget: int = 256, blocks: int = 512, block_size: int = 4, prefix_caching: bool = True
) -> SchedulerConfig:
    return SchedulerConfig(
        max_num_seqs=seqs,
        max_num_batched_tokens=budget,
        max_num_waiting=64,
        max_model_len=200,
        block_size=block_size,
        num_blocks=blocks,
        prefix_caching=prefix_caching,
    )


def engine(
    bounds: SchedulerConfig | None = None,
    drafter: Drafter | None = None,
    runner: Runner | None = None,
    clock: Callable[[], float] = lambda: 0.0,
) -> Engine:
    bounds = bounds or config()
    runner = runner or PagedModel(bounds.num_blocks, bounds.block_size)
    return Engine(Scheduler(bounds), runner, drafter, clock)


def request(
    name: str, prompt: list[int], arrival: float = 0.0, pooling: Pooling | None = None, **sampling: Any
) -> Request:
    params = SamplingParams(**{"temperature": 0.0, "max_tokens": 24, **sampling})
    return Request(name, tuple(prompt), params, frozenset({EOS}), arrival=arrival, pooling=pooling)


def run(made: Engine, *requests: Request) -> dict[str, RequestOutput]:
    """Adds all, steps until nothing is left, and joins each request's outputs into one."""
    for wanted in requests:
        made.add(wanted)
    parts: dict[str, list[RequestOutput]] = defaultdict(list)
    while made.has_work:
        for output in made.step():
            parts[output.request_id].append(output)
        made.check_integrity()
    return {name: _joined(outputs) for name, outputs in parts.items()}


def _joined(outputs: list[RequestOutput]) -> RequestOutput:
    assert all(output.finish_reason is None for output in outputs[:-1]), "an output after the last one"
    last = outputs[-1]
    assert isinstance(last.finish_reason, FinishReason)
    return RequestOutput(
        last.request_id,
        tuple(token for output in outputs for token in output.token_ids),
        tuple(logprob for output in outputs for logprob in output.logprobs),
        last.finish_reason,
        last.num_cached_tokens,
        last.error,
        embedding=last.embedding,
    )
