"""The one place that says whether a token ends its sequence."""

from __future__ import annotations

from forebay_runtime.request import FinishReason, Request
from forebay_runtime.scheduling.sequence import Sequence


def stop_ids(request: Request) -> frozenset[int]:
    """The tokens that end an answer to the request, once it is min_tokens long."""
    stops = request.sampling.stop_token_ids
    return stops if request.sampling.ignore_eos else stops | request.eos_token_ids


def append_token(sequence: Sequence, token_id: int) -> FinishReason | None:
    """Appends a sampled token and says why the sequence ends with it, or None. A stop goes before a full length."""
    token_ids = sequence.token_ids
    token_ids.append(token_id)
    if token_id in sequence.stop_ids and sequence.num_output_tokens > sequence.request.sampling.min_tokens:
        return FinishReason.STOP
    if len(token_ids) >= sequence.max_num_tokens:
        return FinishReason.LENGTH
    return None
