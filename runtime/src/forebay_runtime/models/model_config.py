"""The architecture of a decoder, the same whether it was read from config.json or from a GGUF head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary embedding over the whole head. `factor` divides frequencies: all of them, or as `llama3` says.

    `divisors`, one per pair of the head, divide them one by one.
    """

    theta: float
    factor: float = 1.0
    llama3: Llama3Scaling | None = None
    divisors: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    low_freq_factor: float
    high_freq_factor: float
    original_max_position: int


@dataclass(frozen=True, slots=True)
class LayerConfig:
    """What differs between layers. `sliding_window`: a token sees itself and the window - 1 tokens before it."""

    rope: RopeConfig
    sliding_window: int | None = None


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """`norm_offset`: norm weights are stored less this. `sandwich_norms`: norms after each sub-layer, too."""

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    norm_eps: float
    max_position: int
    layers: tuple[LayerConfig, ...]
    attention_scale: float
    activation: Activation = "silu"
    qk_norm: bool = False
    sandwich_norms: bool = False
    norm_offset: float = 0.0
    embedding_scale: float = 1.0
    attention_softcap: float | None = None
    final_softcap: float | None = None
    eos_token_ids: frozenset[int] = frozenset()

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    @property
    def kv_values_per_token(self) -> int:
        """Numbers that the KV cache holds for one token, over all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim
