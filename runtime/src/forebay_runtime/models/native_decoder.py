"""A decoder whose steps run in the native kernels: the same layers, handed over as pointers."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from forebay_runtime.kernels.native import (
    ACTIVATIONS,
    KINDS,
    PARTS,
    PRODUCTS,
    TILE,
    CAdapted,
    CLayer,
    CLinear,
    CLowRank,
    CModel,
    CStep,
    NativeLibrary,
    NativeLinear,
    int32_array,
)
from forebay_runtime.models.decoder import Decoder, DecoderLayer
from forebay_runtime.models.layers import RMSNorm
from forebay_runtime.models.low_rank import AdaptedRows, AdapterWeights
from forebay_runtime.models.model_config import ModelConfig

CACHE_TYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.int8: "int8"}
_LANES = 16
_ALIGNMENT = 64  # bytes of a cache line: a read that lies across two costs two


def padded(head_dim: int) -> int:
    """What a value's row takes in the cache."""
    return -(-head_dim // _LANES) * _LANES


@dataclass(frozen=True, slots=True)
class FlatStep:
    """Sequence i brings the tokens ids[starts[i] : starts[i + 1]], the first at position firsts[i]. `rows`: the tokens
    whose logits, or hidden states, are wanted. `adapted`: which tokens have an adapter.
    """

    ids: list[int]
    starts: list[int]
    firsts: list[int]
    block_tables: Sequence[Sequence[int]]
    rows: list[int]
    adapted: Sequence[AdaptedRows] = ()


class NativeDecoder:
    """Owns the KV cache, laid out as cpu/abi.h says: `num_blocks` blocks of `block_size` slots, a multiple of TILE."""

    def __init__(
        self,
        library: NativeLibrary,
        decoder: Decoder,
        *,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        max_tokens: int,
    ) -> None:
        config = decoder.config
        if block_size % TILE:
            raise ValueError(f"blocks of {block_size} tokens: the native kernels need a multiple of {TILE}")
        self._library, self._decoder, self._block_size = library, decoder, block_size
        slots = config.num_kv_heads * block_size
        self._parts = (
            slots * config.head_dim * dtype.itemsize,
            slots * padded(config.head_dim) * dtype.itemsize,
            *(slots * _scale_bytes(dtype),) * 2,
        )
        block_bytes = config.num_layers * sum(self._parts)
        # zeros are handed out page by page when they are written; a block is in one place, so few pages are touched
        self._cache = np.zeros(num_blocks * block_bytes + _ALIGNMENT, dtype=np.uint8)
        self._first_block = self._cache.ctypes.data + -self._cache.ctypes.data % _ALIGNMENT
        self._logits = torch.empty(0, config.vocab_size)
        self._adapters: weakref.WeakKeyDictionary[AdapterWeights, Any] = weakref.WeakKeyDictionary()
        self._layers = (CLayer * config.num_layers)(*(self._layer(i, layer) for i, layer in enumerate(decoder.layers)))
        model = _c_model(decoder, block_bytes, KINDS.index(CACHE_TYPES[dtype]), max_tokens)
        model.layers = self._layers
        self._handle = library.create(model)
        self._finalizer = weakref.finalize(self, library.destroy, self._handle)

    def _layer(self, index: int, layer: DecoderLayer) -> CLayer:
        attention = layer.attention
        keys = self._first_block + index * sum(self._parts)
        values, key_scales, value_scales = (keys + offset for offset in accumulate(self._parts[:3]))
        rotation = torch.view_as_real(self._decoder.rotations[attention.layer.rope])
        return CLayer(
            qkv=_linear(attention.qkv),
            out=_linear(attention.out),
            gate_up=_linear(layer.feed_forward.gate_up),
            down=_linear(layer.feed_forward.down),
            attention_norm=_weight(layer.attention_norm),
            post_attention_norm=_weight(layer.post_attention_norm),
            feed_forward_norm=_weight(layer.feed_forward_norm),
            post_feed_forward_norm=_weight(layer.post_feed_forward_norm),
            query_norm=_weight(attention.query_norm),
            key_norm=_weight(attention.key_norm),
            rotation=rotation.data_ptr(),
            window=attention.layer.sliding_window or 0,
            keys=keys,
            values=values,
            key_scales=key_scales,
            value_scales=value_scales,
        )

    def __call__(self, step: FlatStep) -> Tensor:
        """Logits (len(rows), V) float32, in a buffer that the next call overwrites. Writes every token's KV."""
        num_rows = len(step.rows)
        if num_rows > len(self._logits):
            self._logits = torch.empty(num_rows, self._decoder.config.vocab_size)
        self._run(step, self._logits, None)
        return self._logits[:num_rows]

    def hidden(self, step: FlatStep) -> Tensor:
        """What the head would get (len(rows), hidden size), float32. Writes every token's KV."""
        hidden = torch.empty(len(step.rows), self._decoder.config.hidden_size)
        self._run(step, None, hidden)
        return hidden

    def _run(self, step: FlatStep, logits: Tensor | None, hidden: Tensor | None) -> None:
        block_starts, blocks = [0], list[int]()
        for table in step.block_tables:
            blocks += table
            block_starts.append(len(blocks))
        lists = (step.ids, step.starts, step.firsts, blocks, block_starts, step.rows)
        arrays = [int32_array(values) for values in lists]
        c_step = CStep(
            len(step.ids),
            len(step.firsts),
            len(step.rows),
            self._block_size,
            *(array.ctypes.data for array in arrays),
            None if logits is None else logits.data_ptr(),
            None if hidden is None else hidden.data_ptr(),
            (CAdapted * len(step.adapted))(*map(self._c_adapted, step.adapted)) if step.adapted else None,
            len(step.adapted),
        )
        self._library.step(self._handle, c_step)

    def _c_adapted(self, rows: AdaptedRows) -> CAdapted:
        parts = self._adapters.get(rows.weights)
        if parts is None:
            parts = self._adapters[rows.weights] = _c_parts(rows.weights)
        return CAdapted(rows.first, rows.end, rows.weights.rank, 0, parts)


def kv_bytes_per_token(config: ModelConfig, dtype: torch.dtype) -> int:
    numbers = config.head_dim + padded(config.head_dim)
    return config.num_layers * config.num_kv_heads * (numbers * dtype.itemsize + 2 * _scale_bytes(dtype))


def _scale_bytes(dtype: torch.dtype) -> int:
    """Of a key or value of one head: int8 has a float32 for each."""
    return 4 if dtype == torch.int8 else 0


def _c_model(decoder: Decoder, block_bytes: int, kv_kind: int, max_tokens: int) -> CModel:
    config = decoder.config
    return CModel(
        num_layers=config.num_layers,
        hidden=config.hidden_size,
        inter=config.intermediate_size,
        heads=config.num_heads,
        kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        vocab=config.vocab_size,
        activation=ACTIVATIONS.index(config.activation),
        kv_kind=kv_kind,
        max_tokens=max_tokens,
        norm_eps=config.norm_eps,
        embedding_scale=config.embedding_scale,
        attention_softcap=config.attention_softcap or 0.0,
        final_softcap=config.final_softcap or 0.0,
        block_bytes=block_bytes,
        embedding=_linear(decoder.embedding),
        head=_linear(decoder.head),
        norm=_weight(decoder.norm),
    )


def _c_parts(weights: AdapterWeights) -> Any:
    """By layer, product and part, as cpu/abi.h says; what is missing stays zero, which adds nothing."""
    table = (CLowRank * (len(weights.layers) * len(PRODUCTS) * PARTS))()
    for i, layer in enumerate(weights.layers):
        for j, product in enumerate(PRODUCTS):
            for at, part in enumerate(getattr(layer, product), (i * len(PRODUCTS) + j) * PARTS):
                table[at] = CLowRank(_linear(part.down), _linear(part.up), part.first)
    return table


def _linear(linear: Any) -> CLinear:
    if not isinstance(linear, NativeLinear):
        raise TypeError(f"{type(linear).__name__} is not packed for the native kernels")
    return linear.c


def _weight(norm: RMSNorm | None) -> int | None:
    return None if norm is None else norm.weight.data_ptr()
