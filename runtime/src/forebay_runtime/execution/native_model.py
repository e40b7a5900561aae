"""A step's logits by the native kernels: one call into them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from forebay_runtime.kernels.native import NativeLibrary
from forebay_runtime.models import LoadedModel
from forebay_runtime.models.native_decoder import NativeDecoder
from forebay_runtime.scheduling.step import ScheduledSequence

_TOKENS_AT_FIRST = 256  # for which buffers are made; they grow with the first larger step


class NativeModel:
    def __init__(self, library: NativeLibrary, loaded: LoadedModel, *, num_blocks: int, block_size: int) -> None:
        self._decoder = NativeDecoder(
            library,
            loaded.model,
            num_blocks=num_blocks,
            block_size=block_size,
            dtype=loaded.dtype,
            max_tokens=_TOKENS_AT_FIRST,
        )

    def logits(self, scheduled: Sequence[ScheduledSequence]) -> Tensor:
        ids: list[int] = []
        starts = [0]
        logits_rows: list[int] = []
        for s in scheduled:
            first = s.sequence.num_computed_tokens
            ids += s.sequence.token_ids[first : first + s.num_new_tokens]
            ids += s.draft_token_ids
            if s.samples:
                logits_rows += range(len(ids) - len(s.draft_token_ids) - 1, len(ids))
            starts.append(len(ids))
        firsts = [s.sequence.num_computed_tokens for s in scheduled]
        return self._decoder(ids, starts, firsts, [s.sequence.block_table for s in scheduled], logits_rows)
