"""Reads an adapter in PEFT's form: adapter_config.json and adapter_model.safetensors in one directory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors
import torch
from torch import Tensor

from forebay_runtime.adapter import AdapterError
from forebay_runtime.kernels.linear import DenseLinear, Linear
from forebay_runtime.kernels.rotary import interleave
from forebay_runtime.models.loader import LoadedModel
from forebay_runtime.models.low_rank import AdapterWeights, LayerAdapter, LowRank
from forebay_runtime.models.model_config import ModelConfig
from forebay_runtime.models.peft_config import PeftConfig, read_peft_config

TENSORS = "adapter_model.safetensors"
_TENSOR = re.compile(r"base_model\.model\.model\.layers\.(\d{1,6})\.([a-z_.]+)\.lora_([AB])\.weight")


@dataclass(frozen=True, slots=True)
class Projection:
    """What an adapter can add to: `size` columns from `first` on of a product that has `inputs`."""

    product: str
    first: int
    size: int
    inputs: int


Pairs = dict[tuple[int, str], dict[str, Tensor]]  # by layer and projection: A (rank, in) and B (out, rank)


def read_adapter(directory: Path, base: LoadedModel, max_rank: int) -> AdapterWeights:
    """AdapterError, with one line that names the culprit, for what can't be served, or does not belong to `base`."""
    config = read_peft_config(directory)
    if config.rank > max_rank:
        raise AdapterError(f"{directory}: its rank r is {config.rank}, more than --max-lora-rank {max_rank}")
    path, projections = directory / TENSORS, projections_of(base.config)
    try:
        pairs = _read_pairs(path, base.config.num_layers, projections)
        _check_pairs(pairs, config, projections)
    except AdapterError as e:
        raise AdapterError(f"{path}: {e}") from e
    pack = _packing(base)
    layers: list[dict[str, list[LowRank]]] = [{} for _ in range(base.config.num_layers)]
    for (layer, name), pair in pairs.items():
        projection = projections[name]
        up = _as_packed(pair["B"].double() * config.scale, name, base.config)
        part = LowRank(projection.first, projection.size, config.rank, pack(pair["A"]), pack(up))
        layers[layer].setdefault(projection.product, []).append(part)
    made = [LayerAdapter(**{product: tuple(parts) for product, parts in layer.items()}) for layer in layers]
    return AdapterWeights(made, config.rank)


def projections_of(config: ModelConfig) -> Mapping[str, Projection]:
    """By their names within a layer, in the order in which they are packed."""
    hidden, inner = config.hidden_size, config.intermediate_size
    queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    return {
        "self_attn.q_proj": Projection("qkv", 0, queries, hidden),
        "self_attn.k_proj": Projection("qkv", queries, keys, hidden),
        "self_attn.v_proj": Projection("qkv", queries + keys, keys, hidden),
        "self_attn.o_proj": Projection("out", 0, hidden, queries),
        "mlp.gate_proj": Projection("gate_up", 0, inner, hidden),
        "mlp.up_proj": Projection("gate_up", inner, inner, hidden),
        "mlp.down_proj": Projection("down", 0, hidden, inner),
    }


def _read_pairs(path: Path, num_layers: int, projections: Mapping[str, Projection]) -> Pairs:
    pairs: Pairs = {}
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            for tensor_name in sorted(file.keys()):
                found = _TENSOR.fullmatch(tensor_name)
                if found is None:
                    raise AdapterError(f"{tensor_name} is nothing that is added to a layer's projection")
                layer, name, which = int(found[1]), found[2], found[3]
                if layer >= num_layers or name not in projections:
                    raise AdapterError(f"{tensor_name}: this model has no such module")
                pairs.setdefault((layer, name), {})[which] = _finite(tensor_name, file.get_tensor(tensor_name))
    except (safetensors.SafetensorError, OSError) as e:
        raise AdapterError(f"it can't be read: {e}") from e
    return pairs


def _finite(name: str, tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point() or tensor.itemsize < 2:
        raise AdapterError(f"{name} has type {tensor.dtype}, which is not supported")
    if not torch.isfinite(tensor).all():
        raise AdapterError(f"{name} holds numbers that are not finite")
    return tensor


def _check_pairs(pairs: Pairs, config: PeftConfig, projections: Mapping[str, Projection]) -> None:
    if not pairs:
        raise AdapterError("it holds no tensors")
    for (layer, name), pair in pairs.items():
        where, projection = f"model.layers.{layer}.{name}", projections[name]
        shapes = {"A": (config.rank, projection.inputs), "B": (projection.size, config.rank)}
        for which, shape in shapes.items():
            if which not in pair:
                raise AdapterError(f"{where} lacks its lora_{which}")
            if tuple(pair[which].shape) != shape:
                raise AdapterError(
                    f"lora_{which} of {where} has shape {tuple(pair[which].shape)}, but r and the model make it {shape}"
                )
    modules = [f".model.layers.{layer}.{name}" for layer, name in pairs]
    for target in config.target_modules:
        if not any(module.endswith(f".{target}") for module in modules):
            raise AdapterError(f"it holds nothing for {target!r}, which target_modules names")


def _as_packed(up: Tensor, name: str, config: ModelConfig) -> Tensor:
    """Rows in the form in which models.layers keeps the projection's own."""
    is_query, is_key = name == "self_attn.q_proj", name == "self_attn.k_proj"
    if is_query or is_key:
        up = interleave(up, config.head_dim)
    return up * config.attention_scale if is_query and not config.qk_norm else up


def _packing(base: LoadedModel) -> Callable[[Tensor], Linear]:
    """In the type of the model's own weights before they are quantized. Sums are float32 whatever the type."""
    library = base.library
    if library is not None:
        wide = base.dtype == torch.float32
        # pairs of inputs lie together in bfloat16: an odd number would be read beyond its end
        return lambda weight: library.pack("float32" if wide or weight.shape[1] % 2 else "bfloat16", weight)
    return lambda weight: DenseLinear(weight.to(base.device, base.activations))
