"""What an engine says to a set of requests, until it has nothing left to do."""

from __future__ import annotations

from array import array
from collections import defaultdict

from forebay_runtime.engine import Engine
from forebay_runtime.request import FinishReason, Request

Answer = tuple[list[int], list[float], FinishReason, tuple[float, ...]]


def answers(made: Engine, requests: list[Request]) -> dict[str, Answer]:
    for wanted in requests:
        made.add(wanted)
    tokens: dict[str, list[int]] = defaultdict(list)
    logprobs: dict[str, list[float]] = defaultdict(list)
    ends: dict[str, tuple[FinishReason, tuple[float, ...]]] = {}
    while made.has_work:
        for output in made.step():
            tokens[output.request_id] += output.token_ids
            logprobs[output.request_id] += [p.logprob for p in output.logprobs]
            if output.finish_reason is not None:
                assert not output.error
                ends[output.request_id] = output.finish_reason, _served(output.embedding)
        made.check_integrity()
    return {name: (tokens[name], logprobs[name], *ends[name]) for name in tokens}


def _served(embedding: tuple[float, ...]) -> tuple[float, ...]:
    """In the type in which it is told. The sum of chunks may differ in its last bits, which are beyond that."""
    return tuple(array("f", embedding))
