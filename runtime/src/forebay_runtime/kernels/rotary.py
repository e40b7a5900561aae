"""Rotary position embedding (Su et al., 2021) over interleaved pairs: a multiplication of complex numbers."""

from __future__ import annotations

import torch
from torch import Tensor

_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}


def rotate(x_thd: Tensor, rotation: Tensor) -> Tensor:
    """Pairs (2i, 2i + 1) of each head turned by `rotation` (T, 1, D / 2; complex). In place where the type allows."""
    if x_thd.dtype not in _COMPLEX:
        return rotate(x_thd.float(), rotation).to(x_thd.dtype)
    pairs = torch.view_as_complex(x_thd.view(*x_thd.shape[:-1], -1, 2))
    pairs.mul_(rotation)
    return x_thd


def interleave(rows: Tensor, head_dim: int) -> Tensor:
    """Reorders projection rows from (first half, second half) to pairs, head by head. Dot products are unchanged."""
    halves = rows.reshape(-1, 2, head_dim // 2, *rows.shape[1:])
    return halves.transpose(1, 2).flatten(0, 2)
