"""What a decoder layer is made of, and how it is read from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Protocol

import torch
from torch import Tensor

from forebay_runtime.kernels.activation import gated
from forebay_runtime.kernels.linear import DenseLinear, Linear
from forebay_runtime.kernels.norm import rms_norm
from forebay_runtime.kernels.rotary import interleave
from forebay_runtime.models.errors import BrokenWeights
from forebay_runtime.models.low_rank import AdaptedLayer, add_low_rank
from forebay_runtime.models.model_config import Activation, ModelConfig
from forebay_runtime.models.quantization.stored_rows import StoredRows, plain_rows
from forebay_runtime.models.weights import WeightSource

PackLinear = Callable[[Sequence[StoredRows], Tensor | None], Linear]


class Embedding(Protocol):
    def rows(self, ids: Tensor) -> Tensor:
        """(T) -> (T, hidden)"""
        ...

    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class EmbeddingTable:
    table: Tensor  # (vocab, hidden)

    def rows(self, ids: Tensor) -> Tensor:
        return self.table[ids]

    @property
    def nbytes(self) -> int:
        return self.table.nbytes


@dataclass(frozen=True, slots=True)
class Packing:
    """In which form weights are held. `embedding`: from its table (vocab, hidden), and the head if it is tied to it."""

    linear: PackLinear
    head: PackLinear
    embedding: Callable[[StoredRows, Linear | None], Embedding]


@dataclass(frozen=True, slots=True)
class RMSNorm:
    weight: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)


@dataclass(frozen=True, slots=True)
class FeedForward:
    gate_up: Linear
    down: Linear
    activation: Activation

    def __call__(self, x: Tensor, adapted: Sequence[AdaptedLayer]) -> Tensor:
        gate_up = add_low_rank(self.gate_up(x), x, [(a.rows, a.adapter.gate_up) for a in adapted])
        inner = gated(gate_up, self.activation)
        return add_low_rank(self.down(inner), inner, [(a.rows, a.adapter.down) for a in adapted])


class PartReader(Protocol):
    """Gives the parts of a model in the form that the layers compute with; several threads may ask at once."""

    @property
    def num_parameters(self) -> int:
        """Of what was read so far."""
        ...

    @property
    def weight_bytes(self) -> int:
        """Of the embedding and of the linear layers made so far."""
        ...

    def norm(self, name: str, size: int, *, rotary: bool = False, factor: float = 1.0) -> RMSNorm: ...

    def linear(self, names: Iterable[str], sizes: Iterable[int], in_size: int) -> Linear:
        """The projections of these names as one, rows one after another."""
        ...

    def embedding_and_head(self) -> tuple[Embedding, Linear]:
        """Where the model has no head of its own, the embedding serves as one."""
        ...


class LayerReader:
    """A PartReader of a checkpoint.

    Rotary rows are put into pairs, the attention scale goes into the queries, and norm weights become plain factors.
    """

    def __init__(
        self,
        config: ModelConfig,
        source: WeightSource,
        packing: Packing,
        activations: torch.dtype,
        device: torch.device,
    ) -> None:
        self._config, self._source, self._packing = config, source, packing
        self._activations, self._device = activations, device
        self._read_type = torch.float64 if activations == torch.float64 else torch.float32
        self._tallying = Lock()
        self.num_parameters = 0
        self.weight_bytes = 0

    def _tally(self, *, num_parameters: int = 0, weight_bytes: int = 0) -> None:
        with self._tallying:
            self.num_parameters += num_parameters
            self.weight_bytes += weight_bytes

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> Tensor:
        """In float32 unless it is said otherwise, or in float64 where that is computed in."""
        tensor = self._source.get(name, dtype or self._read_type)
        self._tally(num_parameters=tensor.numel())
        _check_shape(name, tuple(tensor.shape), shape)
        return tensor

    def norm(self, name: str, size: int, *, rotary: bool = False, factor: float = 1.0) -> RMSNorm:
        weight = self.tensor(f"{name}.weight", (size,)) + self._config.norm_offset
        if rotary:
            weight = interleave(weight, size)
        weight = (weight.double() * factor).to(self._device, self._activations)
        return RMSNorm(weight, self._config.norm_eps)

    def linear(self, names: Iterable[str], sizes: Iterable[int], in_size: int) -> Linear:
        pairs = list(zip(names, sizes, strict=True))
        parts = [self._rows(f"{name}.weight", (size, in_size)) for name, size in pairs]
        if not any(f"{name}.bias" in self._source for name, _ in pairs):
            return self._tallied(self._packing.linear(parts, None))
        return self._tallied(self._packing.linear(parts, torch.cat([self._bias(name, size) for name, size in pairs])))

    def embedding_and_head(self) -> tuple[Embedding, Linear]:
        shape = (self._config.vocab_size, self._config.hidden_size)
        table = self._stored("model.embed_tokens.weight", shape)
        if "lm_head.weight" in self._source:
            embedding = self._packing.embedding(table, None)
            self._tally(weight_bytes=embedding.nbytes)
            return embedding, self._tallied(self._packing.head([self._stored("lm_head.weight", shape)], None))
        head = self._packing.head([table], None)
        embedding = self._packing.embedding(table, head)
        if isinstance(embedding, EmbeddingTable) and not isinstance(head, DenseLinear):  # it stays besides the head
            self._tally(weight_bytes=embedding.nbytes)
        return embedding, self._tallied(head)

    def _tallied(self, linear: Linear) -> Linear:
        self._tally(weight_bytes=linear.nbytes)
        return linear

    def _bias(self, name: str, size: int) -> Tensor:
        """As one column, which takes its places as rows do."""
        name = f"{name}.bias"
        if name not in self._source:
            return torch.zeros(size)
        return (
            self._placed(name, plain_rows(self.tensor(name, (size,)).unsqueeze(1))).floats(self._read_type).squeeze(1)
        )

    def _rows(self, name: str, shape: tuple[int, int]) -> StoredRows:
        return self._placed(name, self._stored(name, shape))

    def _stored(self, name: str, shape: tuple[int, int]) -> StoredRows:
        rows = self._source.rows(name)
        _check_shape(name, rows.shape, shape)
        self._tally(num_parameters=shape[0] * shape[1])
        return rows

    def _placed(self, name: str, rows: StoredRows) -> StoredRows:
        config = self._config
        is_query, is_key = ".q_proj." in name, ".k_proj." in name
        if (is_query or is_key) and not self._source.interleaved:
            rows = rows.reordered(lambda raw: interleave(raw, config.head_dim))
        if is_query and not config.qk_norm:
            rows = replace(rows, factor=config.attention_scale)
        return rows


def _check_shape(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if shape != wanted:
        raise BrokenWeights(f"{name} has shape {shape}, but the config makes it {wanted}")


def read_feed_forward(reader: PartReader, config: ModelConfig, prefix: str) -> FeedForward:
    hidden, inner = config.hidden_size, config.intermediate_size
    gate_up = reader.linear((f"{prefix}.gate_proj", f"{prefix}.up_proj"), (inner, inner), hidden)
    return FeedForward(gate_up, reader.linear((f"{prefix}.down_proj",), (hidden,), inner), config.activation)
