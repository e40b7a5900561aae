"""From a path to a model that runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from forebay_runtime.config import ModelOptions
from forebay_runtime.kernels.native import TILE, NativeLibrary
from forebay_runtime.models.checkpoint import open_checkpoint
from forebay_runtime.models.choices import (
    chosen_context,
    chosen_device,
    chosen_dtype,
    chosen_kv_dtype,
    chosen_library,
    chosen_quantization,
    library_for_packed,
)
from forebay_runtime.models.decoder import Decoder, read_layer, rotation_table
from forebay_runtime.models.layers import LayerReader, PartReader
from forebay_runtime.models.model_config import ModelConfig
from forebay_runtime.models.native_decoder import kv_bytes_per_token
from forebay_runtime.models.packed import PackedModel, PackedReader, RecordingReader
from forebay_runtime.models.packing import packing_for
from forebay_runtime.progress import Progress


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
    device = chosen_device(options.device)
    checkpoint = open_checkpoint(Path(options.path), progress)
    library = chosen_library(options, device, checkpoint.config)
    dtype = chosen_dtype(options.dtype, device, library)
    # a CPU computes float32 at least as fast as a 16-bit type; only products gain from the latter
    activations = torch.float32 if device.type == "cpu" and dtype.itemsize == 2 else dtype
    kv_dtype = chosen_kv_dtype(options, dtype, library)
    max_model_len = chosen_context(checkpoint.config, options.max_model_len)
    reader: PartReader
    if isinstance(checkpoint.source, PackedModel):
        quantization: Literal["none", "int8", "int4"] = checkpoint.source.quantization
        packed_for = library_for_packed(options, library, checkpoint.source)
        reader = PackedReader(Path(options.path), checkpoint.source, packed_for, progress)
    else:
        quantization = chosen_quantization(options.quantization, library)
        packing = packing_for(library, quantization, dtype, activations, device)
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
