"""What is to compute and in which types: what was asked for, against what the machine and the model allow."""

from __future__ import annotations

import logging
from typing import Literal

import torch

from forebay_runtime.config import ModelOptions
from forebay_runtime.kernels.linear import needs_widening
from forebay_runtime.kernels.native import MAX_HEAD_DIM, NativeLibrary, native_library, why_none
from forebay_runtime.models.errors import ContextTooLong, DeviceNotFound, KernelsNotFound, UnsupportedModel
from forebay_runtime.models.model_config import ModelConfig
from forebay_runtime.models.packed import PackedModel

log = logging.getLogger(__name__)

_DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "float64": torch.float64,
}


def chosen_dtype(asked: str, device: torch.device, library: NativeLibrary | None) -> torch.dtype:
    """auto: bfloat16, but float32 for torch operations on a CPU that has no bfloat16 arithmetic."""
    if asked != "auto":
        return _DTYPES[asked]
    return torch.float32 if library is None and needs_widening(torch.bfloat16, device) else torch.bfloat16


def chosen_device(asked: str) -> torch.device:
    if asked == "cuda" and not torch.cuda.is_available():
        raise DeviceNotFound("--device cuda: torch sees no CUDA device here; use --device cpu or auto")
    return torch.device("cuda" if asked != "cpu" and torch.cuda.is_available() else "cpu")


def chosen_context(config: ModelConfig, asked: int | None) -> int:
    if asked is not None and asked > config.max_position:
        raise ContextTooLong(
            f"--max-model-len {asked} is longer than the model's own context of {config.max_position} tokens"
        )
    return asked or config.max_position


def chosen_library(options: ModelOptions, device: torch.device, config: ModelConfig) -> NativeLibrary | None:
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


def chosen_quantization(
    asked: Literal["auto", "none", "int8", "int4"], library: NativeLibrary | None
) -> Literal["none", "int8", "int4"]:
    if asked == "int4" and library is None:
        raise KernelsNotFound("--quantization int4 is served by the native CPU kernels only, which are not in use")
    if asked != "auto":
        return asked
    return "none" if library is None else "int8"


def library_for_packed(options: ModelOptions, library: NativeLibrary | None, saved: PackedModel) -> NativeLibrary:
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


def chosen_kv_dtype(options: ModelOptions, dtype: torch.dtype, library: NativeLibrary | None) -> torch.dtype:
    asked = options.kv_cache_dtype
    found = dtype if asked == "auto" else torch.int8 if asked == "int8" else _DTYPES[asked]
    if found != dtype and library is None:
        raise KernelsNotFound(
            f"--kv-cache-dtype {asked} is served by the native CPU kernels only, which are not in use"
        )
    return found
