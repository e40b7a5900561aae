"""RMS norm (Zhang and Sennrich, 2019)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Over the last dimension; 16-bit inputs are normed in float32. The weight has the input's type."""
    if x.dtype in (torch.float32, torch.float64):
        return functional.rms_norm(x, weight.shape, weight, eps)
    return functional.rms_norm(x.float(), weight.shape, weight.float(), eps).to(x.dtype)
