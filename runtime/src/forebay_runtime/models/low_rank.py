"""What an adapter adds to the products of each layer: up(down(x)) (LoRA, Hu et al., 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from forebay_runtime.kernels.linear import Linear


@dataclass(frozen=True, slots=True)
class LowRank:
    """Adds to the columns [first, first + size) of a product's output. The adapter's scale is in `up`."""

    first: int
    size: int
    rank: int
    down: Linear  # (T, in) -> (T, rank)
    up: Linear  # (T, rank) -> (T, size)


Parts = tuple[LowRank, ...]  # of one product; their columns don't overlap


@dataclass(frozen=True, slots=True)
class LayerAdapter:
    """By the products of a layer, as they are packed."""

    qkv: Parts = ()
    out: Parts = ()
    gate_up: Parts = ()
    down: Parts = ()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class AdapterWeights:
    layers: Sequence[LayerAdapter]
    rank: int  # the largest

    @property
    def nbytes(self) -> int:
        parts = [p for layer in self.layers for p in (*layer.qkv, *layer.out, *layer.gate_up, *layer.down)]
        return sum(part.down.nbytes + part.up.nbytes for part in parts)


@dataclass(frozen=True, slots=True)
class AdaptedRows:
    """Tokens [first, end) of a step, which have one adapter."""

    first: int
    end: int
    weights: AdapterWeights


@dataclass(frozen=True, slots=True)
class AdaptedLayer:
    """The same of one layer."""

    rows: slice
    adapter: LayerAdapter


def of_layer(adapted: Sequence[AdaptedRows], index: int) -> list[AdaptedLayer]:
    return [AdaptedLayer(slice(a.first, a.end), a.weights.layers[index]) for a in adapted]


def add_low_rank(out: Tensor, x: Tensor, additions: Sequence[tuple[slice, Parts]]) -> Tensor:
    """`out` with what is added to those rows, in place; `x`: what the product was of."""
    for rows, parts in additions:
        for part in parts:
            out[rows, part.first : part.first + part.size] += part.up(part.down(x[rows]))
    return out
