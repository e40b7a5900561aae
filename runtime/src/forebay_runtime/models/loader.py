"""From a path to a model that runs. The only place that decides which type and device to use."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from forebay_runtime.config import ModelOptions
from forebay_runtime.kernels.int8_linear import int8_linear
from forebay_runtime.kernels.linear import Linear, dense_linear, needs_widening
from forebay_runtime.kernels.native import (
    MAX_HEAD_DIM,
    TILE,
    Kind,
    NativeLibrary,
    NativeLinear,
    native_library,
    why_none,
)
from forebay_runtime.models.checkpoint import open_checkpoint
from forebay_runtime.models.decoder import Decoder, read_layer, rotation_table
from forebay_runtime.models.errors import ContextTooLong, DeviceNotFound, KernelsNotFound, UnsupportedModel
from forebay_runtime.models.layers import Embedding, EmbeddingTable, LayerReader, Packing, PackLinear, PartReader
from forebay_runtime.models.model_config import ModelConfig
from forebay_runtime.models.native_decoder import kv_bytes_per_token
from forebay_runtime.models.packed import PackedModel, PackedReader, RecordingReader
from forebay_runtime.models.quantization.int8 import quantize_per_channel
from forebay_runtime.progress import Progress

log = logging.getLogger(__name__)

_DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "float64": torch.float64,
}


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """`dtype`: of the weights that aren't quantized. `activations`: of everything between. `kv_dtype`: of the KV cache.

    `library`: the native kernels for which the weights are packed; None: torch operations compute.
    """

    model: Decoder
    config: ModelConfig
    dtype: torch.dtype
    activations: torch.dtype
    kv_dtype: torch.dtype
    quantization: Literal["none", "int8", "int4"]
    device: torch.device
    library: NativeLibrary | None
    max_model_len: int
    eos_token_ids: frozenset[int]
    num_parameters: int
    weight_bytes: int

    @property
    def vocab_size(self) -> int:
        return self.config.vocab_size

    @property
    def num_layers(self) -> int:
        return self.config.num_layers

    @property
    def kv_bytes_per_token(self) -> int:
        if self.library is not None:
            return kv_bytes_per_token(self.config, self.kv_dtype)
        return self.config.kv_values_per_token * self.kv_dtype.itemsize

    @property
    def block_multiple(self) -> int:
        """What the KV cache's blocks must be multiples of, in tokens."""
        return 1 if self.library is None else TILE


def load(options: ModelOptions, progress: Progress | None = None, save_to: Path | None = None) -> LoadedModel:
    """ModelError, with one line that says why, for whatever can't be served.

    `save_to`: a directory in which the packed weights are saved, so that the next start need not pack them.
    """
    progress = progress or Progress()
    device = _device(options.device)
    checkpoint = open_checkpoint(Path(options.path), progress)
    library = _library(options, device, checkpoint.config)
    dtype = _dtype(options.dtype, device, library)
    # a CPU computes float32 at least as fast as a 16-bit type; only products gain from the latter
    activations = torch.float32 if device.type == "cpu" and dtype.itemsize == 2 else dtype
    kv_dtype = _kv_dtype(options, dtype, library)
    max_model_len = _max_model_len(checkpoint.config, options.max_model_len)
    reader: PartReader
    if isinstance(checkpoint.source, PackedModel):
        quantization: Literal["none", "int8", "int4"] = checkpoint.source.quantization
        packed_for = _library_for_packed(options, library, checkpoint.source)
        reader = PackedReader(Path(options.path), checkpoint.source, packed_for, progress)
    else:
        quantization = _quantization(options.quantization, library)
        packing = _packing(library, quantization, dtype, activations, device)
        reader = LayerReader(checkpoint.config, checkpoint.source, packing, activations, device)
    recording = None if save_to is None else RecordingReader(reader)
    num_threads = options.threads or torch.get_num_threads()
    # a layer per thread: thousands of small operations, each split among threads, would wait for one another
    torch.set_num_threads(1)
    with ThreadPoolExecutor(num_threads) as pool:
        model = _read_decoder(recording or reader, checkpoint.config, max_model_len, pool)
    if save_to is not None and recording is not None:
        recording.save(save_to, replace(checkpoint.config, eos_token_ids=checkpoint.eos_token_ids), quantization)
    if library is None:
        torch.set_num_threads(num_threads)
    else:
        library.set_threads(num_threads)  # torch keeps one thread: only sampling is left to it
    return LoadedModel(
        model=model,
        config=checkpoint.config,
        dtype=dtype,
        activations=activations,
        kv_dtype=kv_dtype,
        quantization=quantization,
        device=device,
        library=library,
        max_model_len=max_model_len,
        eos_token_ids=checkpoint.eos_token_ids,
        num_parameters=reader.num_parameters,
        weight_bytes=reader.weight_bytes,
    )


def _library(options: ModelOptions, device: torch.device, config: ModelConfig) -> NativeLibrary | None:
    """The native kernels, if they are wanted and can serve this. KernelsNotFound if they are asked for and can't."""
    if options.kernels == "torch":
        return None
    reasons = {
        f"they are for a CPU, not for {device.type}": device.type != "cpu",
        f"they don't compute in {options.dtype}": options.dtype not in ("auto", "bfloat16", "float32"),
        f"heads of {config.head_dim} are too large": config.head_dim > MAX_HEAD_DIM,
        why_none(): native_library() is None,
    }
    why = next((reason for reason, applies in reasons.items() if applies), None)
    if why is None:
        return native_library()
    if options.kernels == "native":
        raise KernelsNotFound(f"--kernels native: {why}")
    if device.type == "cpu":
        log.warning("the native kernels are not used: %s; torch operations serve, several times slower", why)
    return None


def _quantization(
    asked: Literal["auto", "none", "int8", "int4"], library: NativeLibrary | None
) -> Literal["none", "int8", "int4"]:
    if asked == "int4" and library is None:
        raise KernelsNotFound("--quantization int4 is served by the native CPU kernels only, which are not in use")
    if asked != "auto":
        return asked
    return "none" if library is None else "int8"


def _library_for_packed(options: ModelOptions, library: NativeLibrary | None, saved: PackedModel) -> NativeLibrary:
    """Whatever is asked for otherwise than it was packed is refused: the weights are what they are."""
    if library is None:
        raise KernelsNotFound(f"{options.path} is packed for the native CPU kernels, which are not in use")
    if options.quantization not in ("auto", saved.quantization):
        raise UnsupportedModel(
            f"--quantization {options.quantization}: {options.path} was quantized to {saved.quantization}; "
            "quantize the model that it was made of"
        )
    if options.dtype not in ("auto", "bfloat16"):
        raise UnsupportedModel(f"--dtype {options.dtype}: {options.path} was packed as bfloat16")
    return library


def _kv_dtype(options: ModelOptions, dtype: torch.dtype, library: NativeLibrary | None) -> torch.dtype:
    asked = options.kv_cache_dtype
    found = dtype if asked == "auto" else torch.int8 if asked == "int8" else _DTYPES[asked]
    if found != dtype and library is None:
        raise KernelsNotFound(
            f"--kv-cache-dtype {asked} is served by the native CPU kernels only, which are not in use"
        )
    return found


def _packing(
    library: NativeLibrary | None,
    quantization: Literal["none", "int8", "int4"],
    dtype: torch.dtype,
    activations: torch.dtype,
    device: torch.device,
) -> Packing:
    if library is not None:
        return _native_packing(library, quantization, dtype)
    pack = _int8(device, activations) if quantization == "int8" else _dense(device, dtype)
    return Packing(pack, pack, lambda table, _: EmbeddingTable(table), dtype)


def _native_packing(
    library: NativeLibrary, quantization: Literal["none", "int8", "int4"], dtype: torch.dtype
) -> Packing:
    """The head is int8 where the layers are int4: it decides between tokens, and other runtimes keep it finer too."""
    plain: Kind = "float32" if dtype == torch.float32 else "bfloat16"
    kind: Kind = plain if quantization == "none" else quantization
    head_kind: Kind = "int8" if kind == "int4" else kind

    def embedding(table: Tensor, head: Linear | None) -> Embedding:
        return head if isinstance(head, NativeLinear) else library.pack(plain, table)

    return Packing(
        linear=lambda weight, bias: library.pack(kind, weight, bias),
        head=lambda weight, bias: library.pack(head_kind, weight, bias),
        embedding=embedding,
        table=torch.float32,
    )


def _dense(device: torch.device, dtype: torch.dtype) -> PackLinear:
    def pack(weight: Tensor, bias: Tensor | None) -> Linear:
        return dense_linear(weight.to(device, dtype), None if bias is None else bias.to(device, dtype))

    return pack


def _int8(device: torch.device, activations: torch.dtype) -> PackLinear:
    def pack(weight: Tensor, bias: Tensor | None) -> Linear:
        quantized, scale = quantize_per_channel(weight.to(device))
        return int8_linear(quantized, scale, None if bias is None else bias.to(device, activations), activations)

    return pack


def _read_decoder(reader: PartReader, config: ModelConfig, max_model_len: int, pool: ThreadPoolExecutor) -> Decoder:
    ends = pool.submit(reader.embedding_and_head)
    layers = list(pool.map(lambda index: read_layer(reader, config, index), range(config.num_layers)))
    embedding, head = ends.result()
    norm = reader.norm("model.norm", config.hidden_size)
    angles = torch.complex128 if norm.weight.dtype == torch.float64 else torch.complex64
    return Decoder(
        config=config,
        embedding=embedding,
        layers=layers,
        norm=norm,
        head=head,
        rotations={
            rope: rotation_table(rope, config.head_dim, max_model_len, angles).to(norm.weight.device)
            for rope in {layer.rope for layer in config.layers}
        },
    )


def _dtype(asked: str, device: torch.device, library: NativeLibrary | None) -> torch.dtype:
    """auto: bfloat16, but float32 for torch operations on a CPU that has no bfloat16 arithmetic."""
    if asked != "auto":
        return _DTYPES[asked]
    return torch.float32 if library is None and needs_widening(torch.bfloat16, device) else torch.bfloat16


def _device(asked: str) -> torch.device:
    if asked == "cuda" and not torch.cuda.is_available():
        raise DeviceNotFound("--device cuda: torch sees no CUDA device here; use --device cpu or auto")
    return torch.device("cuda" if asked != "cpu" and torch.cuda.is_available() else "cpu")


def _max_model_len(config: ModelConfig, asked: int | None) -> int:
    if asked is not None and asked > config.max_position:
        raise ContextTooLong(
            f"--max-model-len {asked} is longer than the model's own context of {config.max_position} tokens"
        )
    return asked or config.max_position
