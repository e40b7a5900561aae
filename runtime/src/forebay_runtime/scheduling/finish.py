"""The one place that says whether a token ends its sequence."""

from __future__ import annotations

from forebay_runtime.request import FinishReason, Request
from forebay_runtime.scheduling.sequence import Sequence


def stop_ids(request: Request) -> frozenset[int]:
    """The tokens that end an answer to the request. A grammar says by eos that it has come to its end."""
    stops = request.sampling.stop_token_ids
    ignored = request.sampling.ignore_eos and request.grammar is None
    return stops if ignored else stops | request.eos_token_ids


def append_token(sequence: Sequence, token_id: int) -> FinishReason | None:
    """Appends a sampled token and says why the sequence ends with it, or None. A stop goes before a full length."""
    token_ids = sequence.token_ids
    token_ids.append(token_id)
    if token_id in sequence.stop_ids and _may_stop(sequence):
        return FinishReason.STOP
    if len(token_ids) >= sequence.max_num_tokens:
        return FinishReason.LENGTH
    return None


def _may_stop(sequence: Sequence) -> bool:
    """Before min_tokens only a grammar ends an output: the sampler has seen to it that nothing else was possible."""
    request = sequence.request
    return request.grammar is not None or sequence.num_output_tokens > request.sampling.min_tokens
