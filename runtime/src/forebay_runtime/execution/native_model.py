"""A step by the native kernels: one call into them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from forebay_runtime.execution.adapted import adapted_rows, by_adapter
from forebay_runtime.kernels.native import NativeLibrary
from forebay_runtime.models import LoadedModel
from forebay_runtime.models.native_decoder import FlatStep, NativeDecoder
from forebay_runtime.scheduling.step import ScheduledSequence

_TOKENS_AT_FIRST = 256  # for which buffers are made; they grow with the first larger step


class NativeModel:
    def __init__(self, library: NativeLibrary, loaded: LoadedModel, *, num_blocks: int, block_size: int) -> None:
        self._decoder = NativeDecoder(
            library,
            loaded.model,
            num_blocks=num_blocks,
            block_size=block_size,
            dtype=loaded.kv_dtype,
            max_tokens=_TOKENS_AT_FIRST,
        )

    def logits(self, scheduled: Sequence[ScheduledSequence]) -> Tensor:
        return self._decoder(_flat(scheduled))

    def hidden(self, scheduled: Sequence[ScheduledSequence]) -> Tensor:
        return self._decoder.hidden(_flat(scheduled))


def _flat(scheduled: Sequence[ScheduledSequence]) -> FlatStep:
    """Tokens come by adapter, `rows` in the order of `scheduled`."""
    order = by_adapter(scheduled)
    ordered = [scheduled[i] for i in order]
    ids: list[int] = []
    starts = [0]
    ends = [0] * len(scheduled)
    for i, s in zip(order, ordered, strict=True):
        first = s.sequence.num_computed_tokens
        ids += s.sequence.token_ids[first : first + s.num_new_tokens]
        ids += s.draft_token_ids
        starts.append(len(ids))
        ends[i] = len(ids)
    rows: list[int] = []
    for s, end in zip(scheduled, ends, strict=True):
        rows += range(end - s.num_rows, end)
    firsts = [s.sequence.num_computed_tokens for s in ordered]
    block_tables = [s.sequence.block_table for s in ordered]
    return FlatStep(ids, starts, firsts, block_tables, rows, adapted_rows(ordered))
