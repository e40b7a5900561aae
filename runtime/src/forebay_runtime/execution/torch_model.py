"""A step's logits by torch operations, on any device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from forebay_runtime.execution.batch import BatchLayout, make_batch
from forebay_runtime.execution.kv_cache import KVCache
from forebay_runtime.models import LoadedModel
from forebay_runtime.scheduling.step import ScheduledSequence, Step


class TorchModel:
    def __init__(self, loaded: LoadedModel, *, num_blocks: int, block_size: int) -> None:
        self._loaded = loaded
        self.cache = KVCache.allocate(loaded.config, num_blocks, block_size, loaded.dtype, loaded.device)
        self._layout = batch_layout(loaded, num_blocks, block_size)

    def logits(self, scheduled: Sequence[ScheduledSequence]) -> Tensor:
        batch = make_batch(Step(tuple(scheduled)), self._layout)
        logits = self._loaded.model(batch.model_input, self.cache.layers)
        if list(batch.order) != sorted(batch.order):
            logits = logits[_rows_in_order(scheduled, batch.order)]
        return logits if logits.dtype == torch.float64 else logits.float()


def _rows_in_order(scheduled: Sequence[ScheduledSequence], order: Sequence[int]) -> list[int]:
    """Which row of logits made in `order` belongs to which row of logits made in the step's own order."""
    widths = [1 + len(s.draft_token_ids) if s.samples else 0 for s in scheduled]
    starts, at = [0] * len(widths), 0
    for i in order:
        starts[i] = at
        at += widths[i]
    return [start + j for start, width in zip(starts, widths, strict=True) for j in range(width)]


def batch_layout(loaded: LoadedModel, num_blocks: int, block_size: int) -> BatchLayout:
    config = loaded.config
    return BatchLayout(
        block_size=block_size,
        num_blocks=num_blocks,
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        windows=frozenset(layer.sliding_window for layer in config.layers),
        activations=loaded.activations,
        device=loaded.device,
    )
