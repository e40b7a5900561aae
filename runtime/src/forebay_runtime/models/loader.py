"""From a path to a model that runs. The only place that decides which type and device to use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from forebay_runtime.config import ModelOptions
from forebay_runtime.kernels.int8_linear import int8_linear
from forebay_runtime.kernels.linear import Linear, dense_linear, needs_widening
from forebay_runtime.models.checkpoint import Checkpoint, open_checkpoint
from forebay_runtime.models.decoder import Decoder, read_layer, rotation_table
from forebay_runtime.models.errors import ContextTooLong, DeviceNotFound
from forebay_runtime.models.layers import LayerReader, PackLinear
from forebay_runtime.models.model_config import ModelConfig
from forebay_runtime.models.quantization.int8 import quantize_per_channel

_DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "float64": torch.float64,
}


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """`dtype`: of the weights that aren't quantized and of the KV cache. `activations`: of everything between."""

    model: Decoder
    config: ModelConfig
    dtype: torch.dtype
    activations: torch.dtype
    device: torch.device
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
        return self.config.kv_values_per_token * self.dtype.itemsize


def load(options: ModelOptions) -> LoadedModel:
    """ModelError, with one line that says why, for whatever can't be served."""
    device = _device(options.device)
    dtype = _dtype(options.dtype, device)
    # a CPU computes float32 at least as fast as a 16-bit type; only products gain from the latter
    activations = torch.float32 if device.type == "cpu" and dtype.itemsize == 2 else dtype
    checkpoint = open_checkpoint(Path(options.path))
    max_model_len = _max_model_len(checkpoint.config, options.max_model_len)
    pack = _int8(device, activations) if options.quantization == "int8" else _dense(device, dtype)
    reader = LayerReader(checkpoint.config, checkpoint.source, pack, activations, device)
    num_threads = options.threads or torch.get_num_threads()
    # a layer per thread: thousands of small operations, each split among threads, would wait for one another
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(num_threads) as pool:
            model = _read_decoder(reader, checkpoint, dtype, max_model_len, pool)
    finally:
        torch.set_num_threads(num_threads)
    return LoadedModel(
        model=model,
        config=checkpoint.config,
        dtype=dtype,
        activations=activations,
        device=device,
        max_model_len=max_model_len,
        eos_token_ids=checkpoint.eos_token_ids,
        num_parameters=reader.num_parameters,
        weight_bytes=reader.weight_bytes,
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


def _read_decoder(
    reader: LayerReader, checkpoint: Checkpoint, dtype: torch.dtype, max_model_len: int, pool: ThreadPoolExecutor
) -> Decoder:
    config = checkpoint.config
    layers = pool.map(lambda index: read_layer(reader, config, index), range(config.num_layers))
    embedding = reader.embedding("model.embed_tokens.weight", dtype)
    untied = "lm_head.weight" in checkpoint.source
    return Decoder(
        config=config,
        embedding=embedding,
        layers=list(layers),
        norm=reader.norm("model.norm", config.hidden_size),
        head=reader.linear(("lm_head",), (config.vocab_size,), config.hidden_size)
        if untied
        else reader.tied_head(embedding),
        rotations={
            rope: rotation_table(rope, config.head_dim, max_model_len, reader.complex_type).to(embedding.device)
            for rope in {layer.rope for layer in config.layers}
        },
    )


def _dtype(asked: str, device: torch.device) -> torch.dtype:
    """auto: bfloat16, but float32 on a CPU that has no bfloat16 arithmetic."""
    if asked != "auto":
        return _DTYPES[asked]
    return torch.float32 if needs_widening(torch.bfloat16, device) else torch.bfloat16


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
