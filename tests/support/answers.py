"""What an engine says to a set of requests, until it has nothing left to do."""

from __future__ import annotations

from collections import defaultdict

from forebay_runtime.engine import Engine
from forebay_runtime.request import FinishReason, Request

Answer = tuple[list[int], list[float], FinishReason]


def answers(made: Engine, requests: list[Request]) -> dict[str, Answer]:
    for wanted in requests:
        made.add(wanted)
    tokens: dict[str, list[int]] = defaultdict(list)
    logprobs: dict[str, list[float]] = defaultdict(list)
    reasons: dict[str, FinishReason] = {}
    while made.has_work:
        for output in made.step():
            tokens[output.request_id] += output.token_ids
            logprobs[output.request_id] += [p.logprob for p in output.logprobs]
            if output.finish_reason is not None:
                assert not output.error
                reasons[output.request_id] = output.finish_reason
        made.check_integrity()
    return {name: (tokens[name], logprobs[name], reasons[name]) for name in tokens}
