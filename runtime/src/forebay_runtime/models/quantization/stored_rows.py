"""Matrices as their files hold them, to be packed row by row or made into floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from forebay_runtime.models.quantization.gguf import BLOCK_TYPES, BlockType

_SLICE = 1 << 18  # values; a multiple of every block's
_PLAIN = {torch.float32: 0, torch.float16: 1, torch.float64: 28, torch.bfloat16: 30}
# float64 comes from safetensors alone, for a model that is computed in it; the native kernels don't read it
_TYPES = BLOCK_TYPES | {28: BlockType("F64", 1, 8, lambda blocks: blocks.contiguous().view(torch.float64))}


@dataclass(frozen=True, slots=True)
class StoredRows:
    """`type`: GGUF's number of the block type. `raw`: (rows, bytes of a row) uint8. `factor`: of every number."""

    type: int
    raw: Tensor
    factor: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        kind = _TYPES[self.type]
        return self.raw.shape[0], self.raw.shape[1] // kind.bytes_per_block * kind.values_per_block

    def reordered(self, order: Callable[[Tensor], Tensor]) -> StoredRows:
        return replace(self, raw=order(self.raw))

    def packable(self) -> StoredRows:
        """Of a type that the native kernels read."""
        return self if self.type in BLOCK_TYPES else plain_rows(self.floats())

    def floats(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """(rows, columns)"""
        kind = _TYPES[self.type]
        rows, columns = self.shape
        out = torch.empty(rows * columns, dtype=dtype)
        # a slice at a time: it stays in the processor's cache, and the file's pages are read once
        bytes_per_slice = _SLICE // kind.values_per_block * kind.bytes_per_block
        for values, blocks in zip(
            torch.split(out, _SLICE), torch.split(self.raw.reshape(-1), bytes_per_slice), strict=True
        ):
            values.copy_(kind.dequantize(blocks.view(-1, kind.bytes_per_block)).view(-1))
        return out.view(rows, columns) if self.factor == 1 else out.view(rows, columns).mul_(self.factor)


def plain_rows(matrix: Tensor, factor: float = 1.0) -> StoredRows:
    """Of floating-point numbers (rows, columns); float32 if they are of a type that no block type is made of."""
    if matrix.dtype not in _PLAIN:
        matrix = matrix.float()
    return StoredRows(_PLAIN[matrix.dtype], matrix.contiguous().view(torch.uint8), factor)
