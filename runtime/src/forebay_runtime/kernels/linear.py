"""Matrix products with weights. Each takes and returns the activations' type, whatever the weights are held in."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor
from torch.nn import functional


class Linear(Protocol):
    def __call__(self, x: Tensor) -> Tensor:
        """(T, in) -> (T, out)."""
        ...

    @property
    def nbytes(self) -> int: ...


class DenseLinear:
    """Weights as floating-point numbers. The input is rounded to the weights' type first, whatever is computed in."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x.to(self.weight.dtype), self.weight, self.bias).to(x.dtype)

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes + (self.bias.nbytes if self.bias is not None else 0)
