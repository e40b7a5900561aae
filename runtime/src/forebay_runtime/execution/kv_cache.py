"""The paged KV cache: memory, and how many blocks fit into it. Who owns which block is the scheduler's business."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from forebay_runtime.kernels.paged_attention import LayerCache
from forebay_runtime.models.errors import ContextTooLong
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


def num_blocks_for(
    memory: int, *, kv_bytes_per_token: int, block_size: int, max_model_len: int, max_num_seqs: int
) -> int:
    """Blocks that `memory` bytes hold, but no more than `max_num_seqs` whole contexts.

    ContextTooLong if not even one whole context fits.
    """
    block_bytes = kv_bytes_per_token * block_size
    blocks_per_context = -(-max_model_len // block_size)
    num_blocks = memory // block_bytes
    if num_blocks < blocks_per_context:
        raise ContextTooLong(
            f"a context of {max_model_len} tokens needs {blocks_per_context * block_bytes / 2**20:.0f} MiB of KV cache "
            f"and there are {memory / 2**20:.0f} MiB; lower --max-model-len to at most {num_blocks * block_size} "
            "or raise --kv-cache-memory"
        )
    return min(num_blocks, blocks_per_context * max_num_seqs)
