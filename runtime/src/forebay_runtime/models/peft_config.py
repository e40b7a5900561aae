"""adapter_config.json of PEFT -> PeftConfig. What isn't computed here is refused by its name."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forebay_runtime.adapter import AdapterError

CONFIG = "adapter_config.json"

# Where it comes from, how it was trained, or told by the tensors' own names and shapes.
_WITHOUT_EFFECT = frozenset(
    (
        *("peft_type", "peft_version", "task_type", "auto_mapping", "base_model_name_or_path", "revision"),
        *("inference_mode", "lora_dropout", "runtime_config", "ensure_weight_tying", "qalora_group_size"),
        *("layers_to_transform", "layers_pattern", "exclude_modules", "eva_config", "loftq_config", "corda_config"),
        *("megatron_config", "megatron_core", "lora_ga_config"),
        *("r", "lora_alpha", "use_rslora", "target_modules", "bias", "init_lora_weights"),
    )
)
_INITS = (None, True, False, "gaussian", "eva", "orthogonal")  # others change the model's own weights as well


@dataclass(frozen=True, slots=True)
class PeftConfig:
    """`scale`: what up(down(x)) is multiplied by. `target_modules`: names or ends of names, if it lists any."""

    rank: int
    scale: float
    target_modules: tuple[str, ...]


def read_peft_config(directory: Path) -> PeftConfig:
    """AdapterError for what is missing, wrong, or not computed here."""
    path = directory / CONFIG
    try:
        config = json.loads(path.read_bytes())
    except OSError as e:
        raise AdapterError(f"{path} can't be read: {e.strerror}") from e
    except (ValueError, RecursionError) as e:
        raise AdapterError(f"{path} is no JSON: {e}") from e
    if not isinstance(config, dict):
        raise AdapterError(f"{path} is no JSON object")
    try:
        return _from_peft(config)
    except AdapterError as e:
        raise AdapterError(f"{path}: {e}") from None


def _from_peft(config: Mapping[str, Any]) -> PeftConfig:
    if config.get("peft_type") != "LORA":
        raise AdapterError(f"peft_type {config.get('peft_type')!r} is not supported, only LORA is")
    if config.get("bias", "none") != "none":
        raise AdapterError(f"bias {config['bias']!r} is not supported, only 'none' is")
    if config.get("init_lora_weights") not in _INITS:
        raise AdapterError(f"init_lora_weights {config['init_lora_weights']!r} is not supported")
    for name, value in config.items():
        if value and name not in _WITHOUT_EFFECT:
            raise AdapterError(f"{name} is not supported")
    rank, alpha, rslora = config.get("r"), config.get("lora_alpha"), config.get("use_rslora") or False
    if type(rank) is not int or rank < 1:
        raise AdapterError(f"r is {rank!r}, no whole number of at least 1")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not math.isfinite(alpha):
        raise AdapterError(f"lora_alpha is {alpha!r}, no number")
    if type(rslora) is not bool:
        raise AdapterError(f"use_rslora is {rslora!r}, neither true nor false")
    return PeftConfig(rank, alpha / (math.sqrt(rank) if rslora else rank), _target_modules(config))


def _target_modules(config: Mapping[str, Any]) -> tuple[str, ...]:
    match config.get("target_modules"):
        case None | str():
            return ()
        case list() as names if all(isinstance(name, str) for name in names):
            return tuple(names)
        case other:
            raise AdapterError(f"target_modules is {other!r}, neither a rule nor a list of names")
