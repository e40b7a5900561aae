"""Causal attention over a paged KV cache, for groups of sequences that ask the same number of queries.

The cache of one layer is keys and values of (K, num_blocks, block_size, D): with the heads outermost, the blocks of a
group are gathered in one go into (K, B, L, D), which a single batched product then reads without another copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

MAX_QUERIES_IN_PRODUCT = 16  # more queries than this per sequence: the tiled kernel, which makes no (T, L) scores


@dataclass(frozen=True, slots=True)
class LayerCache:
    keys: Tensor  # (K, num_blocks, block_size, D)
    values: Tensor


@dataclass(frozen=True, slots=True)
class ContextView:
    """What a group sees: `block_ids` (B * blocks per sequence), and `mask` (B, queries, L) of 0 or -inf."""

    block_ids: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True)
class AttentionGroup:
    """`num_sequences` * `num_queries` consecutive tokens of the step from `start` on. One view per sliding window."""

    start: int
    num_sequences: int
    num_queries: int
    views: Mapping[int | None, ContextView]

    @property
    def rows(self) -> slice:
        return slice(self.start, self.start + self.num_sequences * self.num_queries)


def write_kv(cache: LayerCache, keys_tkd: Tensor, values_tkd: Tensor, slot_mapping: Tensor) -> None:
    """Slot s is offset s % block_size of block s // block_size."""
    for store, new in ((cache.keys, keys_tkd), (cache.values, values_tkd)):
        store.flatten(1, 2).index_copy_(1, slot_mapping, new.transpose(0, 1).to(store.dtype))


def paged_attention(
    query_thd: Tensor, cache: LayerCache, group: AttentionGroup, window: int | None, softcap: float | None = None
) -> Tensor:
    """The group's queries (already scaled) against the cache -> (T, H * D). The step's own KV is written before."""
    view = group.views[window]
    keys, values = (_gather(store, view, group, query_thd.dtype) for store in (cache.keys, cache.values))
    if group.num_sequences == 1 and group.num_queries > MAX_QUERIES_IN_PRODUCT and softcap is None:
        return _tiled(query_thd, keys, values, view.mask)
    return _product(query_thd, keys, values, group, view.mask, softcap)


def _gather(store: Tensor, view: ContextView, group: AttentionGroup, dtype: torch.dtype) -> Tensor:
    """-> (K * B, L, D)"""
    num_kv_heads, _, _, head_dim = store.shape
    blocks = store.flatten(2).index_select(1, view.block_ids)
    return blocks.view(num_kv_heads * group.num_sequences, -1, head_dim).to(dtype)


def _product(
    query_thd: Tensor, keys: Tensor, values: Tensor, group: AttentionGroup, mask: Tensor, softcap: float | None
) -> Tensor:
    num_sequences, num_queries = group.num_sequences, group.num_queries
    num_tokens, num_heads, head_dim = query_thd.shape
    num_kv_heads = keys.shape[0] // num_sequences
    query = query_thd.view(num_sequences, num_queries, num_kv_heads, -1, head_dim).permute(2, 0, 3, 1, 4)
    scores = torch.bmm(query.reshape(keys.shape[0], -1, head_dim), keys.transpose(1, 2))
    if softcap is not None:
        scores = scores.div_(softcap).tanh_().mul_(softcap)
    split = scores.view(num_kv_heads, num_sequences, -1, num_queries, mask.shape[-1])
    split.add_(mask.unsqueeze(1))
    out = torch.bmm(torch.softmax(scores, -1), values)
    out = out.view(num_kv_heads, num_sequences, -1, num_queries, head_dim).permute(1, 3, 0, 2, 4)
    return out.reshape(num_tokens, num_heads * head_dim)


def _tiled(query_thd: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    num_tokens, num_heads, head_dim = query_thd.shape
    num_kv_heads = keys.shape[0]
    query = query_thd.view(num_tokens, num_kv_heads, -1, head_dim).permute(1, 2, 0, 3)
    keys, values = (x.unsqueeze(1).expand(-1, query.shape[1], -1, -1) for x in (keys, values))
    out = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=1.0)
    return out.permute(2, 0, 1, 3).reshape(num_tokens, num_heads * head_dim)
