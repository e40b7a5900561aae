"""The oracle of each kernel: one line of mathematics, or a loop. Slow, and meant only to be compared with."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def rotate_halves(x_thd: Tensor, angles: Tensor) -> Tensor:
    """Element i of each head turns with element i + D / 2, by angles (T, D / 2)."""
    first, second = x_thd.chunk(2, dim=-1)
    cos, sin = angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def gated(gate_up: Tensor, activation: Literal["silu", "gelu_tanh"]) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    match activation:
        case "silu":
            return gate / (1 + torch.exp(-gate)) * up
        case "gelu_tanh":
            inner = (2 / torch.pi) ** 0.5 * (gate + 0.044715 * gate**3)
            return gate / 2 * (1 + torch.tanh(inner)) * up


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    out = torch.einsum("ti,oi->to", x, weight)
    return out if bias is None else out + bias


def attention(
    query_hd: Tensor, keys_lkd: Tensor, values_lkd: Tensor, window: int | None = None, softcap: float | None = None
) -> Tensor:
    """The last token's query (H, D) over its whole context (L, K, D), itself included -> (H, D)."""
    if window is not None:
        keys_lkd, values_lkd = keys_lkd[-window:], values_lkd[-window:]
    group = query_hd.shape[0] // keys_lkd.shape[1]
    heads = []
    for h, query in enumerate(query_hd):
        scores = keys_lkd[:, h // group] @ query
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        heads.append(torch.softmax(scores, 0) @ values_lkd[:, h // group])
    return torch.stack(heads)
