"""Products of int8 weights with inputs that are quantized to int8 on the way, each row with its own scale.

The sums are of integers and exact, so a row's result doesn't depend on the rows beside it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_MAX = 127.0
_TINY = 1e-30  # the scale of a row of zeros


class Int8Linear:
    """`weight` int8 (out, in) and `scale` (out): weight[i] * scale[i] are the numbers meant. The plain oracle."""

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.scale, self.bias = weight, scale, bias

    def __call__(self, x: Tensor) -> Tensor:
        row_scale = _row_scale(x)
        quantized = torch.round(x / row_scale)
        # sums of up to 2 ** 24 are exact in float32; beyond that the rounding is far below the quantization's own
        out = functional.linear(quantized, self.weight.to(x.dtype)) * (self.scale.to(x.dtype) * row_scale)
        return out if self.bias is None else out + self.bias

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes + self.scale.nbytes + (self.bias.nbytes if self.bias is not None else 0)


class OneDnnInt8Linear:
    """The same on a CPU, by oneDNN with weights in its own layout. float32 in and out.

    The inputs are unsigned with zero point 128: the kernel for signed ones is hundreds of times slower.
    """

    _ZERO_POINT = 128

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None = None) -> None:
        self._packed = torch.ops.onednn.qlinear_prepack(weight.contiguous(), None)
        self._scale = scale.float()
        self._zero_points = torch.zeros(len(scale), dtype=torch.int32)
        self._bias = bias
        self.nbytes = weight.nbytes + self._scale.nbytes + (bias.nbytes if bias is not None else 0)

    def __call__(self, x: Tensor) -> Tensor:
        row_scale = _row_scale(x)
        quantized = (x / row_scale).add_(self._ZERO_POINT + 0.5).to(torch.uint8)  # rounds: the conversion cuts off
        out: Tensor = torch.ops.onednn.qlinear_pointwise(
            quantized, 1.0, self._ZERO_POINT, self._packed, self._scale, self._zero_points, None, 1.0, 0,
            torch.float32, "none", [], "",
        )  # fmt: skip
        out.mul_(row_scale)
        if self._bias is not None:
            out.add_(self._bias)
        return out


def _row_scale(x: Tensor) -> Tensor:
    """(T, 1): what each row's largest magnitude is to 127."""
    largest = x.abs().amax(dim=-1, keepdim=True)  # the norm of order infinity is three times slower
    return largest.mul_(1 / _MAX).clamp_min_(_TINY)


def int8_linear(
    weight: Tensor, scale: Tensor, bias: Tensor | None, activations: torch.dtype
) -> Int8Linear | OneDnnInt8Linear:
    on_cpu = weight.device.type == "cpu" and activations == torch.float32
    return (OneDnnInt8Linear if on_cpu else Int8Linear)(weight, scale, bias)
