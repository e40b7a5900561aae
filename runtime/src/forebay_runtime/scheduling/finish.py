"""The one place that says whether a token ends its sequence."""

from __future__ import annotations

from forebay_runtime.request import FinishReason
from forebay_runtime.scheduling.sequence import Sequence


def append_token(sequence: Sequence, token_id: int) -> FinishReason | None:
    """Appends a sampled token and says why the sequence ends with it, or None. A stop goes before a full length."""
    sequence.token_ids.append(token_id)
    request = sequence.request
    sampling = request.sampling
    ends = token_id in sampling.stop_token_ids or (token_id in request.eos_token_ids and not sampling.ignore_eos)
    if ends and sequence.num_output_tokens > sampling.min_tokens:
        return FinishReason.STOP
    if len(sequence.token_ids) >= sequence.max_num_tokens:
        return FinishReason.LENGTH
    return None
