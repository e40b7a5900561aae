"""The head of a GGUF file -> ModelConfig. Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from forebay_runtime.gguf_file import GgufFile
from forebay_runtime.models.errors import BrokenWeights, UnsupportedModel
from forebay_runtime.models.model_config import LayerConfig, ModelConfig, RopeConfig

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3")
_SLIDING_PATTERN = 6  # Gemma 3: each sixth layer is global
_LOCAL_THETA = 10_000.0


def from_gguf(file: GgufFile, rope_divisors: tuple[float, ...] | None = None) -> ModelConfig:
    """UnsupportedModel for what this runtime doesn't compute, BrokenWeights where a number is missing."""
    architecture = file.metadata.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise UnsupportedModel(
            f"{file.path}: unknown architecture {architecture!r}; this runtime serves {', '.join(ARCHITECTURES)}"
        )
    prefix = f"{architecture}."
    values = {k.removeprefix(prefix): v for k, v in file.metadata.items() if k.startswith(prefix)}
    _refuse_unsupported(file, values)
    try:
        return _from_gguf(str(architecture), values, file, rope_divisors)
    except KeyError as e:
        raise BrokenWeights(f"{file.path} lacks {prefix}{e.args[0]}") from e
    except (TypeError, ValueError, ZeroDivisionError) as e:
        raise BrokenWeights(f"{file.path}: {e}") from e


def _refuse_unsupported(file: GgufFile, values: Mapping[str, Any]) -> None:
    if values.get("expert_count"):
        raise UnsupportedModel(f"{file.path}: mixture of experts is not supported")
    scaling = values.get("rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise UnsupportedModel(f"{file.path}: rope scaling {scaling!r} is not supported")


def _from_gguf(
    architecture: str, values: Mapping[str, Any], file: GgufFile, rope_divisors: tuple[float, ...] | None
) -> ModelConfig:
    gemma = architecture == "gemma3"
    hidden_size, num_heads = int(values["embedding_length"]), int(values["attention.head_count"])
    head_dim = int(values.get("attention.key_length") or hidden_size // num_heads)
    if values.get("attention.value_length", head_dim) != head_dim:
        raise UnsupportedModel(f"{file.path}: key and value heads of different length are not supported")
    if values.get("rope.dimension_count", head_dim) != head_dim:
        raise UnsupportedModel(f"{file.path}: rotary embedding of a part of the head is not supported")
    eos = file.metadata.get("tokenizer.ggml.eos_token_id")
    return ModelConfig(
        architecture=architecture,
        vocab_size=_vocab_size(file),
        hidden_size=hidden_size,
        intermediate_size=int(values["feed_forward_length"]),
        num_heads=num_heads,
        num_kv_heads=int(values.get("attention.head_count_kv", num_heads)),
        head_dim=head_dim,
        norm_eps=float(values["attention.layer_norm_rms_epsilon"]),
        max_position=int(values["context_length"]),
        layers=_gemma_layers(values) if gemma else _layers(values, rope_divisors),
        attention_scale=_attention_scale(architecture, values, head_dim),
        activation="gelu_tanh" if gemma else "silu",
        qk_norm=architecture in ("qwen3", "gemma3"),
        sandwich_norms=gemma,
        embedding_scale=hidden_size**0.5 if gemma else 1.0,
        attention_softcap=values.get("attn_logit_softcapping"),
        final_softcap=values.get("final_logit_softcapping"),
        eos_token_ids=frozenset([eos]) if isinstance(eos, int) else frozenset(),
    )


def _vocab_size(file: GgufFile) -> int:
    for tensor in file.tensors:
        if tensor.name == "token_embd.weight":
            return tensor.shape[-1]
    raise BrokenWeights(f"{file.path} lacks the tensor token_embd.weight")


def _attention_scale(architecture: str, values: Mapping[str, Any], head_dim: int) -> float:
    """The file doesn't hold Gemma's query_pre_attn_scalar: the head's length, but for the 27B, which has 62 layers."""
    if architecture == "gemma3" and int(values["block_count"]) == 62:
        head_dim = int(values["embedding_length"]) // int(values["attention.head_count"])
    return float(head_dim**-0.5)


def _layers(values: Mapping[str, Any], rope_divisors: tuple[float, ...] | None) -> tuple[LayerConfig, ...]:
    rope = replace(_rope(values, 10_000.0), divisors=rope_divisors)
    return (LayerConfig(rope),) * int(values["block_count"])


def _gemma_layers(values: Mapping[str, Any]) -> tuple[LayerConfig, ...]:
    window = int(values["attention.sliding_window"])
    local = LayerConfig(RopeConfig(float(values.get("rope.freq_base_swa", _LOCAL_THETA))), window)
    everywhere = LayerConfig(_rope(values, 1_000_000.0))
    num_layers = int(values["block_count"])
    pattern = values.get("attention.sliding_window_pattern", _SLIDING_PATTERN)
    slides = pattern if isinstance(pattern, list) else [(i + 1) % int(pattern) != 0 for i in range(num_layers)]
    if len(slides) != num_layers:
        raise ValueError(f"attention.sliding_window_pattern has {len(slides)} entries for {num_layers} layers")
    return tuple(local if sliding else everywhere for sliding in slides)


def _rope(values: Mapping[str, Any], theta: float) -> RopeConfig:
    linear = values.get("rope.scaling.type") == "linear"
    factor = float(values.get("rope.scaling.factor", 1.0)) if linear else 1.0
    return RopeConfig(float(values.get("rope.freq_base", theta)), factor)
