"""Which tokens of a step have which adapter."""

from __future__ import annotations

from collections.abc import Sequence

from forebay_runtime.models.low_rank import AdaptedRows, AdapterWeights
from forebay_runtime.scheduling.step import ScheduledSequence


def by_adapter(scheduled: Sequence[ScheduledSequence]) -> Sequence[int]:
    """Indices, those with one adapter side by side, so that its weights are read for all of them together."""
    order = range(len(scheduled))
    if all(s.sequence.request.adapter is None for s in scheduled):
        return order
    return sorted(order, key=lambda i: _key(scheduled[i]))


def adapted_rows(scheduled: Sequence[ScheduledSequence]) -> list[AdaptedRows]:
    """Of the tokens of these sequences in a row; neighbours with one adapter are one range."""
    ranges: list[AdaptedRows] = []
    end = 0
    for s in scheduled:
        first, end = end, end + s.num_new_tokens + len(s.draft_token_ids)
        if s.sequence.request.adapter is None:
            continue
        weights = s.sequence.request.adapter.weights
        if not isinstance(weights, AdapterWeights):
            raise TypeError(f"{type(weights).__name__} is no adapter's weights")
        if ranges and ranges[-1].end == first and ranges[-1].weights is weights:
            first = ranges.pop().first
        ranges.append(AdaptedRows(first, end, weights))
    return ranges


def _key(scheduled: ScheduledSequence) -> str:
    adapter = scheduled.sequence.request.adapter
    return "" if adapter is None else adapter.key
