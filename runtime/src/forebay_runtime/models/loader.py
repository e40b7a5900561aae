"""From a path to a model that runs. The only place that decides which type and device to use."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from forebay_runtime.config import ModelOptions
from forebay_runtime.gguf_file import GgufError, find_gguf, read_gguf
from forebay_runtime.kernels.int8_linear import int8_linear
from forebay_runtime.kernels.linear import Linear, dense_linear, needs_widening
from forebay_runtime.models.decoder import Decoder, read_layer, rotation_table
from forebay_runtime.models.errors import BrokenWeights, ContextTooLong, DeviceNotFound, WeightsNotFound
from forebay_runtime.models.gguf_config import from_gguf
from forebay_runtime.models.hf_config import from_hf, token_ids
from forebay_runtime.models.layers import LayerReader, PackLinear
from forebay_runtime.models.model_config import ModelConfig
from forebay_runtime.models.quantization.int8 import quantize_per_channel
from forebay_runtime.models.weights import GgufSource, SafetensorsSource, WeightSource, safetensors_files

_DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "float64": torch.float64,
}


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """`dtype`: of the weights and of the KV cache. `activations`: of everything between."""

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
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    config, source, eos_token_ids = _open(Path(options.path))
    dtype = _dtype(options.dtype, device)
    return build(config, source, options, dtype, device, eos_token_ids)


def build(
    config: ModelConfig,
    source: WeightSource,
    options: ModelOptions,
    dtype: torch.dtype,
    device: torch.device,
    eos_token_ids: frozenset[int],
) -> LoadedModel:
    activations = torch.float32 if device.type == "cpu" and dtype.itemsize == 2 else dtype
    max_model_len = _max_model_len(config, options.max_model_len)
    pack = _packer(options.quantization, dtype, activations, device)
    reader = LayerReader(config, source, pack, activations, device)
    model = _read_decoder(reader, config, source, pack, dtype, device, activations, max_model_len)
    return LoadedModel(
        model=model,
        config=config,
        dtype=dtype,
        activations=activations,
        device=device,
        max_model_len=max_model_len,
        eos_token_ids=eos_token_ids,
        num_parameters=0,
        weight_bytes=0,
    )


def _packer(
    quantization: Literal["none", "int8"], dtype: torch.dtype, activations: torch.dtype, device: torch.device
) -> PackLinear:
    def dense(weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
        return dense_linear(weight.to(device, dtype), None if bias is None else bias.to(device, dtype))

    def int8(weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
        quantized, scale = quantize_per_channel(weight.to(device))
        return int8_linear(quantized, scale, None if bias is None else bias.to(device, activations), activations)

    match quantization:
        case "none":
            return dense
        case "int8":
            return int8


def _read_decoder(
    reader: LayerReader,
    config: ModelConfig,
    source: WeightSource,
    pack: PackLinear,
    dtype: torch.dtype,
    device: torch.device,
    activations: torch.dtype,
    max_model_len: int,
) -> Decoder:
    embedding = reader.tensor("model.embed_tokens.weight", (config.vocab_size, config.hidden_size)).to(device, dtype)
    head_name = "lm_head.weight" if "lm_head.weight" in source else None
    head_weight = reader.tensor(head_name, tuple(embedding.shape)) if head_name else embedding
    complex_type = torch.complex128 if activations == torch.float64 else torch.complex64
    ropes = {layer.rope for layer in config.layers}
    return Decoder(
        config=config,
        embedding=embedding,
        layers=[read_layer(reader, config, i) for i in range(config.num_layers)],
        norm=reader.norm("model.norm", config.hidden_size),
        head=pack(head_weight, None),
        rotations={
            rope: rotation_table(rope, config.head_dim, max_model_len, complex_type).to(device) for rope in ropes
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


def _open(path: Path) -> tuple[ModelConfig, WeightSource, frozenset[int]]:
    if not path.exists():
        raise WeightsNotFound(f"{path} does not exist")
    try:
        if (found := find_gguf(path)) is not None:
            file = read_gguf(found)
            gguf = GgufSource(file)
            config = from_gguf(file, gguf.rope_divisors())
            return config, gguf, config.eos_token_ids
    except GgufError as e:
        raise BrokenWeights(str(e)) from e
    return _open_directory(path)


def _open_directory(path: Path) -> tuple[ModelConfig, WeightSource, frozenset[int]]:
    if not path.is_dir():
        raise WeightsNotFound(f"{path} is neither a directory nor a .gguf file")
    if not (path / "config.json").is_file():
        raise WeightsNotFound(f"{path} holds neither a config.json nor a .gguf file")
    config = from_hf(_read_json(path / "config.json"))
    if not safetensors_files(path):
        raise WeightsNotFound(f"{path} holds no weights: neither *.safetensors nor a .gguf file")
    return config, SafetensorsSource(path), config.eos_token_ids | _generation_eos(path)


def _generation_eos(path: Path) -> frozenset[int]:
    file = path / "generation_config.json"
    return token_ids(_read_json(file).get("eos_token_id")) if file.is_file() else frozenset()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as e:
        raise BrokenWeights(f"{path} is no JSON: {e}") from e
    if not isinstance(value, dict):
        raise BrokenWeights(f"{path} is no JSON object")
    return value
