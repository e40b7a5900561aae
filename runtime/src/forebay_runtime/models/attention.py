"""Grouped-query self-attention with rotary positions over the paged cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from forebay_runtime.kernels.linear import Linear
from forebay_runtime.kernels.paged_attention import AttentionGroup, LayerCache, paged_attention, write_kv
from forebay_runtime.kernels.rotary import rotate
from forebay_runtime.models.layers import PartReader, RMSNorm
from forebay_runtime.models.low_rank import AdaptedLayer, add_low_rank
from forebay_runtime.models.model_config import LayerConfig, ModelConfig


@dataclass(frozen=True, slots=True)
class Attention:
    config: ModelConfig
    layer: LayerConfig
    qkv: Linear
    out: Linear
    query_norm: RMSNorm | None
    key_norm: RMSNorm | None

    def __call__(
        self,
        x: Tensor,
        rotation: Tensor,
        slot_mapping: Tensor,
        groups: Sequence[AttentionGroup],
        cache: LayerCache,
        adapted: Sequence[AdaptedLayer],
    ) -> Tensor:
        qkv = add_low_rank(self.qkv(x).contiguous(), x, [(a.rows, a.adapter.qkv) for a in adapted])
        query, key, value = self._rotated(qkv.view(x.shape[0], -1, self.config.head_dim), rotation)
        write_kv(cache, key, value, slot_mapping)
        window, softcap = self.layer.sliding_window, self.config.attention_softcap
        outs = [paged_attention(query[group.rows], cache, group, window, softcap) for group in groups]
        attended = outs[0] if len(outs) == 1 else torch.cat(outs)
        return add_low_rank(self.out(attended), attended, [(a.rows, a.adapter.out) for a in adapted])

    def _rotated(self, qkv: Tensor, rotation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        num_heads, num_kv_heads = self.config.num_heads, self.config.num_kv_heads
        query_key, value = qkv[:, : num_heads + num_kv_heads], qkv[:, num_heads + num_kv_heads :]
        if self.query_norm is None or self.key_norm is None:
            query_key = rotate(query_key, rotation)
            return query_key[:, :num_heads], query_key[:, num_heads:], value
        query, key = self.query_norm(query_key[:, :num_heads]), self.key_norm(query_key[:, num_heads:])
        return rotate(query, rotation), rotate(key, rotation), value


def read_attention(reader: PartReader, config: ModelConfig, layer: LayerConfig, prefix: str) -> Attention:
    head_dim, hidden = config.head_dim, config.hidden_size
    query_size, kv_size = config.num_heads * head_dim, config.num_kv_heads * head_dim
    qkv = reader.linear(
        (f"{prefix}.q_proj", f"{prefix}.k_proj", f"{prefix}.v_proj"), (query_size, kv_size, kv_size), hidden
    )
    out = reader.linear((f"{prefix}.o_proj",), (hidden,), query_size)
    if not config.qk_norm:
        return Attention(config, layer, qkv, out, None, None)
    query_norm = reader.norm(f"{prefix}.q_norm", head_dim, rotary=True, factor=config.attention_scale)
    return Attention(config, layer, qkv, out, query_norm, reader.norm(f"{prefix}.k_norm", head_dim, rotary=True))
