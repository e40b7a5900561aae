"""A step by torch operations, on any device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from forebay_runtime.execution.batch import BatchLayout, make_batch
from forebay_runtime.execution.kv_cache import KVCache
from forebay_runtime.kernels.paged_attention import LayerCache
from forebay_runtime.models import LoadedModel
from forebay_runtime.models.decoder import ModelInput
from forebay_runtime.scheduling.step import ScheduledSequence, Step


class TorchModel:
    def __init__(self, loaded: LoadedModel, *, num_blocks: int, block_size: int) -> None:
        self._loaded = loaded
        self.cache = KVCache.allocate(loaded.config, num_blocks, block_size, loaded.kv_dtype, loaded.device)
        self._layout = batch_layout(loaded, num_blocks, block_size)

    def logits(self, scheduled: Sequence[ScheduledSequence]) -> Tensor:
        return self._run(scheduled, self._loaded.model)

    def hidden(self, scheduled: Sequence[ScheduledSequence]) -> Tensor:
        return self._run(scheduled, self._loaded.model.hidden)

    def _run(
        self, scheduled: Sequence[ScheduledSequence], compute: Callable[[ModelInput, Sequence[LayerCache]], Tensor]
    ) -> Tensor:
        batch = make_batch(Step(tuple(scheduled)), self._layout)
        rows = compute(batch.model_input, self.cache.layers)
        if list(batch.order) != sorted(batch.order):
            rows = rows[_rows_in_order(scheduled, batch.order)]
        return rows if rows.dtype == torch.float64 else rows.float()


def _rows_in_order(scheduled: Sequence[ScheduledSequence], order: Sequence[int]) -> list[int]:
    """Which row made in `order` belongs to which row made in the step's own order."""
    widths = [s.num_rows for s in scheduled]
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
