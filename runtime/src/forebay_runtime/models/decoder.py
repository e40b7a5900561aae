"""The decoder of all supported families: embedding, layers, final norm, LM head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from forebay_runtime.kernels.linear import Linear
from forebay_runtime.kernels.paged_attention import AttentionGroup, LayerCache
from forebay_runtime.models.attention import Attention, read_attention
from forebay_runtime.models.layers import Embedding, FeedForward, PartReader, RMSNorm, read_feed_forward
from forebay_runtime.models.low_rank import AdaptedLayer, AdaptedRows, of_layer
from forebay_runtime.models.model_config import ModelConfig, RopeConfig


@dataclass(frozen=True, slots=True)
class ModelInput:
    """One step, flat: the tokens of all sequences in a row. `logits_rows`: of which tokens logits, or
    hidden states, are wanted. `adapted`: which tokens have an adapter.
    """

    input_ids: Tensor
    positions: Tensor
    slot_mapping: Tensor
    groups: Sequence[AttentionGroup]
    logits_rows: Tensor
    adapted: Sequence[AdaptedRows] = ()


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    attention_norm: RMSNorm
    attention: Attention
    post_attention_norm: RMSNorm | None
    feed_forward_norm: RMSNorm
    feed_forward: FeedForward
    post_feed_forward_norm: RMSNorm | None

    def __call__(
        self, x: Tensor, step: ModelInput, rotation: Tensor, cache: LayerCache, adapted: Sequence[AdaptedLayer]
    ) -> Tensor:
        """`x` is overwritten with the result."""
        attended = self.attention(self.attention_norm(x), rotation, step.slot_mapping, step.groups, cache, adapted)
        x += self.post_attention_norm(attended) if self.post_attention_norm else attended
        fed = self.feed_forward(self.feed_forward_norm(x), adapted)
        x += self.post_feed_forward_norm(fed) if self.post_feed_forward_norm else fed
        return x


@dataclass(frozen=True, slots=True)
class Decoder:
    """`rotations`: per kind of rotary embedding a (max_model_len, D / 2) table of complex numbers."""

    config: ModelConfig
    embedding: Embedding
    layers: Sequence[DecoderLayer]
    norm: RMSNorm
    head: Linear
    rotations: Mapping[RopeConfig, Tensor]

    def __call__(self, step: ModelInput, caches: Sequence[LayerCache]) -> Tensor:
        """Logits (len(logits_rows), V) in the activations' type. Writes the KV of every token of the step."""
        logits = self.head(self.hidden(step, caches)).contiguous()
        softcap = self.config.final_softcap
        return logits if softcap is None else logits.div_(softcap).tanh_().mul_(softcap)

    def hidden(self, step: ModelInput, caches: Sequence[LayerCache]) -> Tensor:
        """What the head gets (len(logits_rows), hidden size). Writes the KV of every token of the step."""
        x = self.embedding.rows(step.input_ids).to(self.norm.weight.dtype) * self.config.embedding_scale
        rotations = {rope: table[step.positions].unsqueeze(1) for rope, table in self.rotations.items()}
        for i, (layer, cache) in enumerate(zip(self.layers, caches, strict=True)):
            x = layer(x, step, rotations[layer.attention.layer.rope], cache, of_layer(step.adapted, i))
        return self.norm(x[step.logits_rows])


def read_layer(reader: PartReader, config: ModelConfig, index: int) -> DecoderLayer:
    prefix, hidden, sandwich = f"model.layers.{index}", config.hidden_size, config.sandwich_norms
    before_feed_forward = "pre_feedforward_layernorm" if sandwich else "post_attention_layernorm"
    return DecoderLayer(
        attention_norm=reader.norm(f"{prefix}.input_layernorm", hidden),
        attention=read_attention(reader, config, config.layers[index], f"{prefix}.self_attn"),
        post_attention_norm=reader.norm(f"{prefix}.post_attention_layernorm", hidden) if sandwich else None,
        feed_forward_norm=reader.norm(f"{prefix}.{before_feed_forward}", hidden),
        feed_forward=read_feed_forward(reader, config, f"{prefix}.mlp"),
        post_feed_forward_norm=reader.norm(f"{prefix}.post_feedforward_layernorm", hidden) if sandwich else None,
    )


def rotation_table(rope: RopeConfig, head_dim: int, length: int, dtype: torch.dtype) -> Tensor:
    """exp(i * position * frequency), computed in float64."""
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies(rope, head_dim))
    return torch.polar(torch.ones_like(angles), angles).to(dtype)


def frequencies(rope: RopeConfig, head_dim: int) -> Tensor:
    """Radians per position of each pair (D / 2), float64. Llama 3 divides long waves only, with a ramp in between."""
    plain = rope.theta ** -(torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    if rope.divisors is not None:
        return plain / torch.tensor(rope.divisors, dtype=torch.float64)
    if rope.llama3 is None:
        return plain / rope.factor
    waves = rope.llama3.original_max_position * plain / (2 * torch.pi)  # wave lengths in the original context
    low, high = rope.llama3.low_freq_factor, rope.llama3.high_freq_factor
    keep = ((waves - low) / (high - low)).clamp(0, 1)
    return plain * keep + plain / rope.factor * (1 - keep)
