"""Matrix products with weights. Each takes and returns the activations' type, whatever the weights are held in."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional


class Linear(Protocol):
    def __call__(self, x: Tensor) -> Tensor:
        """(T, in) -> (T, out), not necessarily contiguous."""
        ...

    @property
    def nbytes(self) -> int: ...


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x @ weight.T + bias. The result may be laid out column by column.

    On a CPU and for a few tokens float32 products are faster with the weights on the left.
    """
    if x.dtype != torch.float32 or x.device.type != "cpu" or not 4 <= x.shape[0] < 64:
        return functional.linear(x, weight, bias)
    out = torch.mm(weight, x.t()) if bias is None else torch.addmm(bias.unsqueeze(1), weight, x.t())
    return out.t()


class DenseLinear:
    """Weights as floating-point numbers. The input is rounded to the weights' type first, whatever is computed in."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return product(x.to(self.weight.dtype), self.weight, self.bias).to(x.dtype)

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes + (self.bias.nbytes if self.bias is not None else 0)


class WidenedLinear(DenseLinear):
    """16-bit weights on a CPU that multiplies float32 only: from a few tokens on it is faster to widen them first.

    They are widened a slice at a time into one small buffer, which stays in the processor's cache.
    """

    _MAX_NATIVE_TOKENS = 4
    _SLICE = 1 << 20  # weights

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape[0] <= self._MAX_NATIVE_TOKENS:
            return super().__call__(x)
        rounded = x.to(self.weight.dtype).float()
        if self.weight.numel() <= 2 * self._SLICE:
            return self._slice(rounded, self.weight, self.bias)
        rows = max(1, self._SLICE // self.weight.shape[1])
        out = x.new_empty(x.shape[0], self.weight.shape[0])
        for at in range(0, self.weight.shape[0], rows):
            some = slice(at, at + rows)
            out[:, some] = self._slice(rounded, self.weight[some], None if self.bias is None else self.bias[some])
        return out

    def _slice(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        # rounded as the native product rounds, so that a row's result doesn't depend on how many share its batch
        out = product(x, weight.float(), None if bias is None else bias.float())
        return out.to(self.weight.dtype).to(x.dtype)


def needs_widening(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether products of this type are emulated: 16-bit ones on a CPU without AVX512-BF16 or AMX."""
    if device.type != "cpu" or dtype.itemsize != 2:
        return False
    features = torch.cpu.get_capabilities()
    native = ("avx512_bf16", "amx_bf16") if dtype == torch.bfloat16 else ("avx512_fp16", "amx_fp16")
    return not any(features.get(name) for name in native)


def dense_linear(weight: Tensor, bias: Tensor | None) -> Linear:
    return (WidenedLinear if needs_widening(weight.dtype, weight.device) else DenseLinear)(weight, bias)
