"""A model in the native kernels' own layout, saved once and mapped at each start, with nothing left to compute.

A directory: packed.bin holds the numbers of norms and of packed weights, each part at a multiple of 64 bytes;
packed.json says what lies where, and of which model. The layout (kernels/cpu/abi.h) is the same for every instruction
set, so one file serves all of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Literal

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from forebay_runtime.kernels.linear import Linear
from forebay_runtime.kernels.native import Kind, NativeLibrary, NativeLinear
from forebay_runtime.models.errors import BrokenWeights, UnsupportedModel
from forebay_runtime.models.layers import Embedding, PartReader, RMSNorm
from forebay_runtime.models.model_config import ModelConfig
from forebay_runtime.progress import Progress

LAYOUT = 1  # of both files; changes with what cpu/abi.h says of packed weights
INDEX, NUMBERS = "packed.json", "packed.bin"
_ALIGNMENT = 64
_PIECE, _PAGE = 8 << 20, 4096  # bytes
_EMBEDDING, _HEAD = "model.embed_tokens", "lm_head"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor's bytes begin in packed.bin, and how many there are."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class _Linear:
    kind: Kind
    out_features: int
    in_features: int
    data: _Place
    scale: _Place
    bias: _Place | None


@dataclass(frozen=True, slots=True)
class PackedModel:
    """What packed.json says: the model, and its linear layers and norms by the name of the first tensor in each."""

    config: ModelConfig
    quantization: Literal["none", "int8", "int4"]
    num_parameters: int
    linears: dict[str, _Linear]
    norms: dict[str, _Place]


_packed_model = TypeAdapter(PackedModel)


def read_packed_model(directory: Path) -> PackedModel:
    """UnsupportedModel for another layout, BrokenWeights for what isn't whole."""
    path = directory / INDEX
    try:
        content = json.loads(path.read_bytes())
        if content["layout"] != LAYOUT:
            raise UnsupportedModel(
                f"{directory} holds packed weights of layout {content['layout']!r}, but layout {LAYOUT} is what this "
                "runtime reads: quantize the model again"
            )
        model = _packed_model.validate_python(content["model"])
    except (ValueError, KeyError, TypeError, ValidationError) as e:
        raise BrokenWeights(f"{path} is no index of packed weights") from e
    _check_places(directory / NUMBERS, model)
    return model


def _check_places(path: Path, model: PackedModel) -> None:
    if not path.is_file():
        raise BrokenWeights(f"{path} is missing")
    length = path.stat().st_size
    linears = [place for linear in model.linears.values() for place in (linear.data, linear.scale, linear.bias)]
    for place in [*linears, *model.norms.values()]:
        if place is not None and not _lies_within(place, length):
            raise BrokenWeights(f"{path} is cut off or broken")


def _lies_within(place: _Place, length: int) -> bool:
    """In whole numbers of four bytes: no part has smaller ones but in panels."""
    aligned = place.offset % _ALIGNMENT == 0 and place.length % 4 == 0
    return aligned and place.offset >= 0 and 0 <= place.length <= length - place.offset


class PackedReader:
    """The parts of a saved model. Their numbers stay in the file, which the system holds in memory; each page is
    touched once, so that progress tells what has come from the storage, and the first step waits for none.
    """

    def __init__(self, directory: Path, model: PackedModel, library: NativeLibrary, progress: Progress) -> None:
        self._model, self._library, self._directory, self._progress = model, library, directory, progress
        path = directory / NUMBERS
        with path.open("rb") as file:  # what the first step needs is then on its way
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
        length = path.stat().st_size
        self._numbers = torch.from_file(str(path), shared=False, size=length, dtype=torch.uint8)
        progress.expect(length)
        self.num_parameters, self.weight_bytes = model.num_parameters, 0
        self._tallying = Lock()

    def norm(self, name: str, size: int, *, rotary: bool = False, factor: float = 1.0) -> RMSNorm:
        """It was made for the layers that ask for it now, and so was `rotary` and `factor` seen to."""
        place = self._model.norms.get(name)
        if place is None or place.length != 4 * size:
            raise self._broken(name)
        return RMSNorm(self._tensor(place, torch.float32), self._model.config.norm_eps)

    def linear(self, names: Iterable[str], sizes: Iterable[int], in_size: int) -> Linear:
        return self._linear(next(iter(names)), sum(sizes), in_size)

    def embedding_and_head(self) -> tuple[Embedding, Linear]:
        shape = self._model.config.vocab_size, self._model.config.hidden_size
        head = self._linear(_HEAD, *shape)
        return (self._linear(_EMBEDDING, *shape) if _EMBEDDING in self._model.linears else head), head

    def _linear(self, name: str, out_size: int, in_size: int) -> NativeLinear:
        saved = self._model.linears.get(name)
        if saved is None or (saved.out_features, saved.in_features) != (out_size, in_size):
            raise self._broken(name)
        parts = (
            self._tensor(saved.data, torch.uint8),
            self._tensor(saved.scale, torch.float32),
            None if saved.bias is None else self._tensor(saved.bias, torch.float32),
        )
        lengths = self._library.packed_lengths(saved.kind, out_size, in_size)
        if tuple(part.numel() for part in parts[:2] if part is not None) != lengths:
            raise self._broken(name)
        if parts[2] is not None and parts[2].numel() != out_size:
            raise self._broken(name)
        linear = NativeLinear(self._library, saved.kind, out_size, in_size, *parts)
        with self._tallying:
            self.weight_bytes += linear.nbytes
        for part in parts:
            if part is not None:
                self._touch(part.view(torch.uint8))
        return linear

    def _touch(self, numbers: Tensor) -> None:
        for first in range(0, numbers.numel(), _PIECE):
            piece = numbers[first : first + _PIECE]
            piece[::_PAGE].sum()
            self._progress.add(piece.numel())

    def _tensor(self, place: _Place, dtype: torch.dtype) -> Tensor:
        return self._numbers[place.offset : place.offset + place.length].view(dtype)

    def _broken(self, name: str) -> BrokenWeights:
        return BrokenWeights(f"{self._directory} does not hold {name} as its own config makes it")


class RecordingReader:
    """Reads as another reader does, and remembers the parts, so that they can be saved."""

    def __init__(self, reader: PartReader) -> None:
        self._reader = reader
        self._linears: dict[str, NativeLinear] = {}
        self._norms: dict[str, RMSNorm] = {}

    @property
    def num_parameters(self) -> int:
        return self._reader.num_parameters

    @property
    def weight_bytes(self) -> int:
        return self._reader.weight_bytes

    def norm(self, name: str, size: int, *, rotary: bool = False, factor: float = 1.0) -> RMSNorm:
        self._norms[name] = self._reader.norm(name, size, rotary=rotary, factor=factor)
        return self._norms[name]

    def linear(self, names: Iterable[str], sizes: Iterable[int], in_size: int) -> Linear:
        names = tuple(names)
        return self._remembered(names[0], self._reader.linear(names, sizes, in_size))

    def embedding_and_head(self) -> tuple[Embedding, Linear]:
        embedding, head = self._reader.embedding_and_head()
        packed_head = self._remembered(_HEAD, head)
        if embedding is not packed_head:
            self._remembered(_EMBEDDING, embedding)
        return embedding, packed_head

    def _remembered(self, name: str, linear: Linear | Embedding) -> NativeLinear:
        if not isinstance(linear, NativeLinear):
            raise TypeError(f"{name} is not packed for the native kernels")
        self._linears[name] = linear
        return linear

    def save(self, directory: Path, config: ModelConfig, quantization: Literal["none", "int8", "int4"]) -> None:
        """The index comes last: without it the directory is no model."""
        with (directory / NUMBERS).open("wb") as file:
            linears = {name: _write_linear(file, self._linears[name]) for name in sorted(self._linears)}
            norms = {name: _write(file, self._norms[name].weight) for name in sorted(self._norms)}
        model = PackedModel(config, quantization, self.num_parameters, linears, norms)
        content = {"layout": LAYOUT, "model": _packed_model.dump_python(model, mode="json")}
        (directory / INDEX).write_text(json.dumps(content, indent=1))


def _write_linear(file: BinaryIO, linear: NativeLinear) -> _Linear:
    data, scale, bias = linear.parts
    return _Linear(
        linear.kind,
        linear.out_features,
        linear.in_features,
        _write(file, data),
        _write(file, scale),
        None if bias is None else _write(file, bias),
    )


def _write(file: BinaryIO, tensor: Tensor) -> _Place:
    file.write(b"\0" * (-file.tell() % _ALIGNMENT))
    offset = file.tell()
    file.write(tensor.contiguous().numpy().data)
    return _Place(offset, tensor.nbytes)
