"""Weights by their Hugging Face names, from safetensors or from a GGUF file. Files are mapped, not read."""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, Protocol

import safetensors
import torch
from torch import Tensor

from forebay_runtime.gguf_file import GgufFile, GgufTensor
from forebay_runtime.models.errors import BrokenWeights, UnsupportedTensorType, WeightsNotFound
from forebay_runtime.models.quantization.gguf import BLOCK_TYPES, OTHER_TYPES
from forebay_runtime.models.quantization.stored_rows import StoredRows, plain_rows
from forebay_runtime.progress import Progress

INDEX = "model.safetensors.index.json"


class WeightSource(Protocol):
    """`interleaved`: rows of q and k come in rotary pairs rather than in halves."""

    interleaved: bool

    def __contains__(self, name: str) -> bool: ...

    def get(self, name: str, dtype: torch.dtype) -> Tensor:
        """BrokenWeights where there is none of this name, or its data can't be read."""
        ...

    def rows(self, name: str) -> StoredRows:
        """A matrix as the file holds it. BrokenWeights where it is none, too."""
        ...


class SafetensorsSource:
    """A checkpoint in one file or in shards with an index."""

    interleaved = False

    def __init__(self, directory: Path, progress: Progress) -> None:
        paths = safetensors_files(directory)
        self._files = [_open_safetensors(path) for path in paths]
        self._progress = progress
        progress.expect(sum(path.stat().st_size for path in paths))
        self._by_name: dict[str, Any] = {name: file for file in self._files for name in file.keys()}  # noqa: SIM118
        self._directory = directory

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def get(self, name: str, dtype: torch.dtype) -> Tensor:
        return self._tensor(name).to(dtype)

    def rows(self, name: str) -> StoredRows:
        tensor = self._tensor(name)
        if tensor.dim() != 2:
            raise BrokenWeights(f"{self._directory}: {name} has shape {tuple(tensor.shape)}, which is no matrix's")
        return plain_rows(tensor)

    def _tensor(self, name: str) -> Tensor:
        if name not in self._by_name:
            raise BrokenWeights(f"{self._directory} lacks the tensor {name}")
        tensor: Tensor = self._by_name[name].get_tensor(name)
        if not tensor.is_floating_point():
            raise UnsupportedTensorType(f"{self._directory}: {name} has type {tensor.dtype}, which is not supported")
        self._progress.add(tensor.nbytes)
        return tensor


def safetensors_files(directory: Path) -> list[Path]:
    """The shards that the index names, or every .safetensors file. WeightsNotFound where a shard is missing."""
    index = directory / INDEX
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise BrokenWeights(f"{index} is no index of shards") from e
        paths = [directory / name for name in names]
    else:
        paths = sorted(directory.glob("*.safetensors"))
    for path in paths:
        if not path.is_file():
            raise WeightsNotFound(f"{path} is missing, though {index.name} names it")
    return paths


def _open_safetensors(path: Path) -> Any:
    try:
        return safetensors.safe_open(path, framework="pt")
    except (safetensors.SafetensorError, OSError) as e:
        raise BrokenWeights(f"{path} is cut off or broken: {e}") from e


_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_GGUF_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_GGUF_SANDWICH_NAMES = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_name(name: str, *, sandwich_norms: bool) -> str:
    """`model.layers.3.self_attn.q_proj.bias` -> `blk.3.attn_q.bias`."""
    stem, _, kind = name.rpartition(".")
    if not stem.startswith("model.layers."):
        return f"{_GGUF_NAMES[stem]}.{kind}"
    number, _, stem = stem.removeprefix("model.layers.").partition(".")
    names: Mapping[str, str] = _GGUF_LAYER_NAMES | (_GGUF_SANDWICH_NAMES if sandwich_norms else {})
    return f"blk.{number}.{names[stem]}.{kind}"


class GgufSource:
    """A GGUF file; tensors are dequantized when they are asked for."""

    def __init__(self, file: GgufFile, progress: Progress) -> None:
        self._progress = progress
        architecture = file.metadata.get("general.architecture")
        self.interleaved = architecture == "llama"
        self._sandwich_norms = architecture == "gemma3"
        self._path = file.path
        self._tensors = {tensor.name: tensor for tensor in file.tensors}
        for tensor in file.tensors:
            _refuse_unsupported(file.path, tensor)
        with file.path.open("rb") as opened:
            # copy-on-write: torch wants writable memory, and nothing writes to it
            self._data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
        progress.expect(len(self._data))
        for tensor in file.tensors:
            if tensor.offset + _num_bytes(tensor) > len(self._data):
                raise BrokenWeights(f"{file.path} is cut off: {tensor.name} ends beyond its end")

    def __contains__(self, name: str) -> bool:
        return gguf_name(name, sandwich_norms=self._sandwich_norms) in self._tensors

    def get(self, name: str, dtype: torch.dtype) -> Tensor:
        return self._dequantized(gguf_name(name, sandwich_norms=self._sandwich_norms), dtype)

    def rows(self, name: str) -> StoredRows:
        return self._stored(gguf_name(name, sandwich_norms=self._sandwich_norms))

    def rope_divisors(self) -> tuple[float, ...] | None:
        """What Llama 3's rotary frequencies are divided by, where the file says so."""
        name = "rope_freqs.weight"
        return tuple(self._dequantized(name, torch.float32).tolist()) if name in self._tensors else None

    def _dequantized(self, stored: str, dtype: torch.dtype) -> Tensor:
        values = self._stored(stored).floats(dtype)
        return values.view(tuple(reversed(self._tensors[stored].shape)))

    def _stored(self, stored: str) -> StoredRows:
        """Of a vector: one row."""
        if stored not in self._tensors:
            raise BrokenWeights(f"{self._path} lacks the tensor {stored}")
        tensor = self._tensors[stored]
        length = _num_bytes(tensor)
        raw = torch.frombuffer(self._data, dtype=torch.uint8, count=length, offset=tensor.offset)
        self._progress.add(length)
        return StoredRows(tensor.type, raw.view(prod(tensor.shape[1:]), -1))


def _refuse_unsupported(path: Path, tensor: GgufTensor) -> None:
    if tensor.type not in BLOCK_TYPES:
        asked = OTHER_TYPES.get(tensor.type, f"number {tensor.type}")
        read = ", ".join(kind.name for kind in BLOCK_TYPES.values())
        raise UnsupportedTensorType(f"{path}: {tensor.name} has the GGUF type {asked}; types read are {read}")
    if not tensor.shape or tensor.shape[0] % BLOCK_TYPES[tensor.type].values_per_block:
        raise BrokenWeights(f"{path}: {tensor.name} has shape {tensor.shape}, which its type does not allow")


def _num_bytes(tensor: GgufTensor) -> int:
    kind = BLOCK_TYPES[tensor.type]
    return prod(tensor.shape) // kind.values_per_block * kind.bytes_per_block
