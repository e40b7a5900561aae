"""A step by the native kernels: one call into them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

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
    ids: list[int] = []
    starts = [0]
    rows: list[int] = []
    for s in scheduled:
        first = s.sequence.num_computed_tokens
        ids += s.sequence.token_ids[first : first + s.num_new_tokens]
        ids += s.draft_token_ids
        rows += range(len(ids) - s.num_rows, len(ids))
        starts.append(len(ids))
    firsts = [s.sequence.num_computed_tokens for s in scheduled]
    return FlatStep(ids, starts, firsts, [s.sequence.block_table for s in scheduled], rows)
