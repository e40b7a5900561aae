"""Causal attention over a paged KV cache, for groups of sequences that ask the same number of queries.

The cache of one layer is keys and values of (K, num_blocks, block_size, D). With the heads outermost, the key blocks of
a group are gathered in one go into (K * B, L, D), which one batched product reads without another copy. Values aren't
gathered at all: a weighted sum of rows is what an embedding bag computes, and it reads them where they lie.
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
    """What a group sees: `block_ids` (B * blocks per sequence), and `mask` (B, queries, L) of 0 or -inf.

    `value_rows` (K, B, G, queries, L), flat, are the rows of the values as (K * slots, D) that each query sums up, and
    `bags` where each query's begin; both are empty for a group that is computed by the tiled kernel.
    """

    block_ids: Tensor
    mask: Tensor
    value_rows: Tensor
    bags: Tensor


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


def is_tiled(num_sequences: int, num_queries: int) -> bool:
    return num_sequences == 1 and num_queries > MAX_QUERIES_IN_PRODUCT


def value_rows(
    slots: Tensor, num_kv_heads: int, num_queries_per_sequence: int, num_slots: int
) -> tuple[Tensor, Tensor]:
    """`slots` (B, L) -> the `value_rows` and `bags` of a view; the number of queries is over all heads of a KV head."""
    num_sequences, length = slots.shape
    heads = torch.arange(num_kv_heads, device=slots.device).view(-1, 1, 1, 1) * num_slots
    rows = (heads + slots.view(1, num_sequences, 1, length)).expand(-1, -1, num_queries_per_sequence, -1)
    num_bags = num_kv_heads * num_sequences * num_queries_per_sequence
    return rows.reshape(-1), torch.arange(num_bags, device=slots.device) * length


def write_kv(cache: LayerCache, keys_tkd: Tensor, values_tkd: Tensor, slot_mapping: Tensor) -> None:
    """Slot s is offset s % block_size of block s // block_size."""
    for store, new in ((cache.keys, keys_tkd), (cache.values, values_tkd)):
        store.flatten(1, 2).index_copy_(1, slot_mapping, new.transpose(0, 1).to(store.dtype))


def paged_attention(
    query_thd: Tensor, cache: LayerCache, group: AttentionGroup, window: int | None, softcap: float | None = None
) -> Tensor:
    """The group's queries (already scaled) against the cache -> (T, H * D). The step's own KV is written before."""
    view = group.views[window]
    if is_tiled(group.num_sequences, group.num_queries):
        return _tiled(query_thd, cache, view, softcap)
    return _product(query_thd, cache, group, view, softcap)


def _gather(store: Tensor, view: ContextView, num_sequences: int, dtype: torch.dtype) -> Tensor:
    """-> (K * B, L, D)"""
    num_kv_heads, _, _, head_dim = store.shape
    blocks = store.flatten(2).index_select(1, view.block_ids)
    return blocks.view(num_kv_heads * num_sequences, -1, head_dim).to(dtype)


def _product(
    query_thd: Tensor, cache: LayerCache, group: AttentionGroup, view: ContextView, softcap: float | None
) -> Tensor:
    num_sequences, num_queries = group.num_sequences, group.num_queries
    num_tokens, num_heads, head_dim = query_thd.shape
    num_kv_heads = cache.keys.shape[0]
    query = query_thd.view(num_sequences, num_queries, num_kv_heads, -1, head_dim).permute(2, 0, 3, 1, 4)
    keys = _gather(cache.keys, view, num_sequences, query_thd.dtype)
    scores = torch.bmm(query.reshape(keys.shape[0], -1, head_dim), keys.transpose(1, 2))
    split = scores.view(num_kv_heads, num_sequences, -1, num_queries, view.mask.shape[-1])
    probabilities = torch.softmax(_capped(split, softcap).add_(view.mask.unsqueeze(1)), -1)
    values = cache.values.view(-1, head_dim)
    out = functional.embedding_bag(
        view.value_rows,
        values,
        view.bags,
        mode="sum",
        per_sample_weights=probabilities.view(-1).to(values.dtype),
    )
    out = out.view(num_kv_heads, num_sequences, -1, num_queries, head_dim).permute(1, 3, 0, 2, 4)
    return out.reshape(num_tokens, num_heads * head_dim).to(query_thd.dtype)


def _tiled(query_thd: Tensor, cache: LayerCache, view: ContextView, softcap: float | None) -> Tensor:
    num_tokens, num_heads, head_dim = query_thd.shape
    keys, values = (_gather(store, view, 1, query_thd.dtype) for store in (cache.keys, cache.values))
    query = query_thd.view(num_tokens, keys.shape[0], -1, head_dim).permute(1, 2, 0, 3)
    keys, values = (x.unsqueeze(1).expand(-1, query.shape[1], -1, -1) for x in (keys, values))
    mask = view.mask[0]
    if softcap is None:
        out = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=1.0)
    else:
        out = torch.softmax(_capped(query @ keys.transpose(-1, -2), softcap) + mask, -1) @ values
    return out.permute(2, 0, 1, 3).reshape(num_tokens, num_heads * head_dim)


def _capped(scores: Tensor, softcap: float | None) -> Tensor:
    return scores if softcap is None else scores.div_(softcap).tanh_().mul_(softcap)
