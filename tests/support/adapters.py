"""Random adapters in PEFT's form, for the checkpoints of tiny_checkpoint.py; and the same merged into their weights."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests.support.tiny_checkpoint import HEAD_DIM, HEADS, HIDDEN, INNER, KV_HEADS, LAYERS

QUERIES, KEYS = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
SHAPES = {  # (out, in)
    "self_attn.q_proj": (QUERIES, HIDDEN),
    "self_attn.k_proj": (KEYS, HIDDEN),
    "self_attn.v_proj": (KEYS, HIDDEN),
    "self_attn.o_proj": (HIDDEN, QUERIES),
    "mlp.gate_proj": (INNER, HIDDEN),
    "mlp.up_proj": (INNER, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER),
}
EVERY = tuple(SHAPES)


def tensor_name(layer: int, module: str, which: str) -> str:
    return f"base_model.model.model.layers.{layer}.{module}.lora_{which}.weight"


def write_adapter(
    directory: Path,
    *,
    rank: int = 4,
    alpha: float = 8.0,
    modules: Iterable[str] = EVERY,
    layers: Iterable[int] = range(LAYERS),
    seed: int = 0,
    size: float = 1.0,
    tensors: Mapping[str, torch.Tensor | None] | None = None,
    **config: Any,
) -> Path:
    """`size`: of the numbers in B; 0 adds nothing. `tensors` replace, or take out, some of the same name."""
    draw = torch.Generator().manual_seed(100 + seed)
    made: dict[str, torch.Tensor] = {}
    modules = tuple(modules)
    for layer in layers:
        for module in modules:
            outs, ins = SHAPES[module]
            made[tensor_name(layer, module, "A")] = torch.randn(rank, ins, generator=draw) / ins**0.5
            made[tensor_name(layer, module, "B")] = torch.randn(outs, rank, generator=draw) * size / rank**0.5
    for name, tensor in (tensors or {}).items():
        made.pop(name, None)
        if tensor is not None:
            made[name] = tensor
    directory.mkdir(parents=True, exist_ok=True)
    about = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": sorted({module.split(".")[1] for module in modules}),
        "bias": "none",
        "use_dora": False,
        "modules_to_save": None,
        "lora_dropout": 0.1,
        "task_type": "CAUSAL_LM",
        "inference_mode": True,
    }
    (directory / "adapter_config.json").write_text(json.dumps(about | config))
    save_file(made, directory / "adapter_model.safetensors")
    return directory


def write_merged(directory: Path, base: Path, adapter: Path) -> Path:
    """A checkpoint whose weights are W + scale B A, in float64."""
    config = json.loads((adapter / "adapter_config.json").read_bytes())
    rank = config["r"]
    scale = config["lora_alpha"] / (math.sqrt(rank) if config.get("use_rslora") else rank)
    weights = {name: tensor.double() for name, tensor in load_file(base / "model.safetensors").items()}
    pairs = load_file(adapter / "adapter_model.safetensors")
    for name in pairs:
        if ".lora_A." in name:
            up, down = pairs[name.replace("lora_A", "lora_B")].double(), pairs[name].double()
            weights[name.removeprefix("base_model.model.").replace(".lora_A", "")] += scale * up @ down
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_bytes((base / "config.json").read_bytes())
    save_file(weights, directory / "model.safetensors")
    return directory
