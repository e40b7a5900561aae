"""int8 weights made on load: symmetric, one scale per output channel, rounded to the nearest."""

from __future__ import annotations

import torch
from torch import Tensor

_SLICE = 1 << 18  # weights, so that the steps of one slice stay in the processor's cache


def quantize_per_channel(weight: Tensor) -> tuple[Tensor, Tensor]:
    """(out, in) -> int8 (out, in) and float32 scales (out), so that weight ~ int8 * scale."""
    quantized = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
    scales = torch.empty(weight.shape[0], dtype=torch.float32, device=weight.device)
    rows = max(1, _SLICE // weight.shape[1])
    for at in range(0, weight.shape[0], rows):
        some = weight[at : at + rows].float()
        scale = some.abs().amax(dim=1).div_(127).clamp_min_(1e-30)
        quantized[at : at + rows] = (some / scale.unsqueeze(1)).round_()
        scales[at : at + rows] = scale
    return quantized, scales
