"""Every block format against the gguf package's own reading of the same bytes."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from forebay_runtime.models.quantization.gguf import BLOCK_TYPES, OTHER_TYPES, BlockType

HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q8_0": [0], "Q4_K": [0, 2], "Q6_K": [208]}


def random_blocks(kind: BlockType, count: int = 64) -> np.ndarray:
    """Any bytes will do but for the scales, which have to be finite."""
    draw = np.random.default_rng(0)
    if kind.name in ("F32", "F16", "BF16"):
        values = draw.standard_normal((count, 1)).astype(np.float32)
        quantized: np.ndarray = gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind.name])
        return quantized.view(np.uint8)
    blocks = draw.integers(0, 256, (count, kind.bytes_per_block), dtype=np.uint8)
    for at in HALVES[kind.name]:
        blocks[:, at : at + 2] = draw.standard_normal((count, 1)).astype(np.float16).view(np.uint8)
    return blocks


@pytest.mark.parametrize("number", BLOCK_TYPES)
def test_blocks_are_read_as_the_gguf_package_reads_them(number: int) -> None:
    kind = BLOCK_TYPES[number]
    assert gguf.GGMLQuantizationType(number).name == kind.name
    assert gguf.GGML_QUANT_SIZES[number] == (kind.values_per_block, kind.bytes_per_block)
    blocks = random_blocks(kind)
    values = kind.dequantize(torch.from_numpy(blocks.copy()))
    expected = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType(number))
    np.testing.assert_array_equal(values.numpy().reshape(-1), expected.view(np.float32).reshape(-1))


def test_types_that_are_not_read_are_known_by_name() -> None:
    assert all(gguf.GGMLQuantizationType(number).name == name for number, name in OTHER_TYPES.items())
