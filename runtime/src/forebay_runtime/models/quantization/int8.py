"""int8 weights made on load: symmetric, one scale per output channel, rounded to the nearest."""

from __future__ import annotations

import torch
from torch import Tensor


def quantize_per_channel(weight: Tensor) -> tuple[Tensor, Tensor]:
    """(out, in) -> int8 (out, in) and float32 scales (out), so that weight ~ int8 * scale."""
    weight = weight.float()
    scale = weight.abs().amax(dim=1).div_(127).clamp_min_(1e-30)
    return torch.round(weight / scale.unsqueeze(1)).to(torch.int8), scale
