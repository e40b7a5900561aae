"""In which form weights are held: packed for the native kernels, quantized, or as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from forebay_runtime.kernels.int8_linear import int8_linear
from forebay_runtime.kernels.linear import DenseLinear, Linear, dense_linear
from forebay_runtime.kernels.native import Kind, NativeLibrary, NativeLinear
from forebay_runtime.models.layers import Embedding, EmbeddingTable, Packing, PackLinear
from forebay_runtime.models.quantization.int8 import quantize_per_channel
from forebay_runtime.models.quantization.stored_rows import StoredRows


def packing_for(
    library: NativeLibrary | None,
    quantization: Literal["none", "int8", "int4"],
    dtype: torch.dtype,
    activations: torch.dtype,
    device: torch.device,
) -> Packing:
    if library is not None:
        return _native_packing(library, quantization, dtype)
    pack = _int8(device, activations) if quantization == "int8" else _dense(device, dtype)

    def embedding(table: StoredRows, head: Linear | None) -> Embedding:
        return EmbeddingTable(head.weight if isinstance(head, DenseLinear) else table.floats(dtype).to(device))

    return Packing(pack, pack, embedding)


def _native_packing(
    library: NativeLibrary, quantization: Literal["none", "int8", "int4"], dtype: torch.dtype
) -> Packing:
    """The head is int8 where the layers are int4: it decides between tokens, and other runtimes keep it finer too."""
    plain: Kind = "float32" if dtype == torch.float32 else "bfloat16"
    kind: Kind = plain if quantization == "none" else quantization
    head_kind: Kind = "int8" if kind == "int4" else kind

    def packed(kind: Kind) -> PackLinear:
        return lambda parts, bias: library.pack_rows(kind, [p.packable() for p in parts], parts[0].shape[1], bias)

    def embedding(table: StoredRows, head: Linear | None) -> Embedding:
        return head if isinstance(head, NativeLinear) else library.pack_rows(plain, [table.packable()], table.shape[1])

    return Packing(packed(kind), packed(head_kind), embedding)


def _dense(device: torch.device, dtype: torch.dtype) -> PackLinear:
    wide = torch.float64 if dtype == torch.float64 else torch.float32

    def pack(parts: Sequence[StoredRows], bias: Tensor | None) -> Linear:
        weight = torch.cat([part.floats(wide) for part in parts])
        return dense_linear(weight.to(device, dtype), None if bias is None else bias.to(device, dtype))

    return pack


def _int8(device: torch.device, activations: torch.dtype) -> PackLinear:
    def pack(parts: Sequence[StoredRows], bias: Tensor | None) -> Linear:
        weight = torch.cat([part.floats() for part in parts])
        quantized, scale = quantize_per_channel(weight.to(device))
        return int8_linear(quantized, scale, None if bias is None else bias.to(device, activations), activations)

    return pack
