"""The paged KV cache: memory only. Who owns which block is the scheduler's business."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from forebay_runtime.kernels.paged_attention import LayerCache
from forebay_runtime.models.model_config import ModelConfig


@dataclass(frozen=True, slots=True)
class KVCache:
    """`layers[i]` are views into one allocation of (layers, 2, K, num_blocks, block_size, D), zero at first."""

    block_size: int
    num_blocks: int
    layers: tuple[LayerCache, ...]

    @classmethod
    def allocate(
        cls, config: ModelConfig, num_blocks: int, block_size: int, dtype: torch.dtype, device: torch.device
    ) -> KVCache:
        shape = (config.num_layers, 2, config.num_kv_heads, num_blocks, block_size, config.head_dim)
        store: Tensor = torch.zeros(shape, dtype=dtype, device=device)
        return cls(block_size, num_blocks, tuple(LayerCache(pair[0], pair[1]) for pair in store))
