"""The gate of a gated feed-forward layer (Shazeer, 2020)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn import functional


def gated(gate_up: Tensor, activation: Literal["silu", "gelu_tanh"]) -> Tensor:
    """(T, 2 I) -> (T, I): activation(first half) * second half. The first half is overwritten."""
    gate, up = gate_up.chunk(2, dim=-1)
    match activation:
        case "silu":
            return functional.silu(gate, inplace=True).mul_(up)
        case "gelu_tanh":
            return functional.gelu(gate, approximate="tanh").mul_(up)
