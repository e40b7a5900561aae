"""What lies at a model's path: its config and its weights, whichever format they come in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forebay_runtime.gguf_file import GgufError, find_gguf, read_gguf
from forebay_runtime.models.errors import BrokenWeights, WeightsNotFound
from forebay_runtime.models.gguf_config import from_gguf
from forebay_runtime.models.hf_config import from_hf, token_ids
from forebay_runtime.models.model_config import ModelConfig
from forebay_runtime.models.packed import INDEX, PackedModel, read_packed_model
from forebay_runtime.models.weights import GgufSource, SafetensorsSource, WeightSource, safetensors_files
from forebay_runtime.progress import Progress


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`source`: of the weights, or the index of those that were packed for the native kernels before."""

    config: ModelConfig
    source: WeightSource | PackedModel
    eos_token_ids: frozenset[int]


def open_checkpoint(path: Path, progress: Progress) -> Checkpoint:
    """ModelError where there is none, or none that can be read.

    Packed weights go before a GGUF file, and that before a Hugging Face checkpoint.
    """
    if not path.exists():
        raise WeightsNotFound(f"{path} does not exist")
    try:
        if (path / INDEX).is_file():
            packed = read_packed_model(path)
            return Checkpoint(packed.config, packed, packed.config.eos_token_ids)
        found = find_gguf(path)
        return _open_gguf(found, progress) if found is not None else _open_directory(path, progress)
    except GgufError as e:
        raise BrokenWeights(str(e)) from e
    except OSError as e:
        raise BrokenWeights(f"{path} can't be read: {e.strerror}") from e


def _open_gguf(path: Path, progress: Progress) -> Checkpoint:
    file = read_gguf(path)
    source = GgufSource(file, progress)
    config = from_gguf(file, source.rope_divisors())
    return Checkpoint(config, source, config.eos_token_ids)


def _open_directory(path: Path, progress: Progress) -> Checkpoint:
    if not path.is_dir():
        raise WeightsNotFound(f"{path} is neither a directory nor a .gguf file")
    if not (path / "config.json").is_file():
        raise WeightsNotFound(f"{path} holds neither a config.json nor a .gguf file")
    config = from_hf(_read_json(path / "config.json"))
    if not safetensors_files(path):
        raise WeightsNotFound(f"{path} holds no weights: neither *.safetensors nor a .gguf file")
    return Checkpoint(config, SafetensorsSource(path, progress), config.eos_token_ids | _generation_eos(path))


def _generation_eos(path: Path) -> frozenset[int]:
    file = path / "generation_config.json"
    try:
        return token_ids(_read_json(file).get("eos_token_id")) if file.is_file() else frozenset()
    except ValueError as e:
        raise BrokenWeights(f"{file}: {e}") from e


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except ValueError as e:
        raise BrokenWeights(f"{path} is no JSON: {e}") from e
    if not isinstance(value, dict):
        raise BrokenWeights(f"{path} is no JSON object")
    return value
