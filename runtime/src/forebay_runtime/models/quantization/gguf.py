"""GGUF's block formats -> float32. Layouts: ggml-common.h of https://github.com/ggml-org/ggml.

A tensor of n values comes as n / values_per_block blocks of bytes_per_block bytes. Each function takes the blocks as
(blocks, bytes) uint8 and returns (blocks, values) float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class BlockType:
    name: str
    values_per_block: int
    bytes_per_block: int
    dequantize: Callable[[Tensor], Tensor]


def _half(blocks: Tensor, at: int) -> Tensor:
    """The float16 at byte `at` of each block, as (blocks, 1) float32."""
    return blocks[:, at : at + 2].contiguous().view(torch.float16).float()


def _nibbles(packed: Tensor) -> Tensor:
    """(blocks, n) bytes -> (blocks, 2 n): all low halves, then all high ones."""
    return torch.cat((packed & 15, packed >> 4), dim=1)


def _plain(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    return lambda blocks: blocks.contiguous().view(dtype).float()


def _q4_0(blocks: Tensor) -> Tensor:
    return (_nibbles(blocks[:, 2:]).float() - 8) * _half(blocks, 0)


def _q4_1(blocks: Tensor) -> Tensor:
    return _nibbles(blocks[:, 4:]).float().mul_(_half(blocks, 0)).add_(_half(blocks, 2))


def _q5_0(blocks: Tensor) -> Tensor:
    bits = blocks[:, 2:6].contiguous().view(torch.int32)
    fifth = (bits >> torch.arange(32, dtype=torch.int32)) & 1
    return (_nibbles(blocks[:, 6:]).int() + (fifth << 4) - 16).float() * _half(blocks, 0)


def _q8_0(blocks: Tensor) -> Tensor:
    return blocks[:, 2:].view(torch.int8).float().mul_(_half(blocks, 0))


def _q4_k(blocks: Tensor) -> Tensor:
    """Eight groups of 32, each with a 6-bit scale and a 6-bit minimum, themselves scaled by two halves."""
    packed = blocks[:, 4:16].int()
    low, minimum, rest = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = torch.cat((low & 63, (rest & 15) | ((low >> 6) << 4)), dim=1)
    minima = torch.cat((minimum & 63, (rest >> 4) | ((minimum >> 6) << 4)), dim=1)
    quants = blocks[:, 16:].reshape(-1, 4, 1, 32)
    quants = torch.cat((quants & 15, quants >> 4), dim=2).flatten(1, 2).float()
    values = quants * (scales * _half(blocks, 0)).unsqueeze(2) - (minima * _half(blocks, 2)).unsqueeze(2)
    return values.flatten(1)


def _q6_k(blocks: Tensor) -> Tensor:
    """Sixteen groups of 16 with 8-bit scales; per 128 values 64 bytes of low and 32 bytes of high bits."""
    low = blocks[:, :128].reshape(-1, 2, 2, 32)
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32)
    low = torch.cat((low & 15, low >> 4), dim=2)
    high = torch.cat([(high >> shift) & 3 for shift in (0, 2, 4, 6)], dim=2)
    quants = ((low | (high << 4)).int() - 32).view(-1, 16, 16).float()
    scales = blocks[:, 192:208].view(torch.int8).float() * _half(blocks, 208)
    return (quants * scales.unsqueeze(2)).flatten(1)


BLOCK_TYPES = {
    0: BlockType("F32", 1, 4, _plain(torch.float32)),
    1: BlockType("F16", 1, 2, _plain(torch.float16)),
    2: BlockType("Q4_0", 32, 18, _q4_0),
    3: BlockType("Q4_1", 32, 20, _q4_1),
    6: BlockType("Q5_0", 32, 22, _q5_0),
    8: BlockType("Q8_0", 32, 34, _q8_0),
    12: BlockType("Q4_K", 256, 144, _q4_k),
    14: BlockType("Q6_K", 256, 210, _q6_k),
    30: BlockType("BF16", 1, 2, _plain(torch.bfloat16)),
}

OTHER_TYPES = {
    7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 13: "Q5_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS",
    19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64",
    28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
