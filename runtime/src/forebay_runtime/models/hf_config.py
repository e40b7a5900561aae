"""config.json of a Hugging Face checkpoint -> ModelConfig. What isn't computed here is refused by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forebay_runtime.models.errors import BrokenWeights, UnsupportedModel
from forebay_runtime.models.model_config import (
    Activation,
    LayerConfig,
    Llama3Scaling,
    ModelConfig,
    RopeConfig,
)

ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Gemma3ForCausalLM": "gemma3",
}
_ACTIVATIONS: dict[str, Activation] = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
_HIDDEN_ACT = {"gemma3": "gelu_pytorch_tanh"}
_SLIDING_PATTERN = 6  # Gemma 3: each sixth layer is global, unless the config says otherwise


def from_hf(config: Mapping[str, Any]) -> ModelConfig:
    """UnsupportedModel for what this runtime doesn't compute, BrokenWeights where a number is missing."""
    architecture = _architecture(config)
    try:
        return _from_hf(architecture, config)
    except KeyError as e:
        raise BrokenWeights(f"config.json lacks {e}") from e
    except (TypeError, ValueError, ZeroDivisionError) as e:
        raise BrokenWeights(f"config.json is wrong: {e}") from e


def _architecture(config: Mapping[str, Any]) -> str:
    names = config.get("architectures") or []
    for name in names:
        if name in ARCHITECTURES:
            return ARCHITECTURES[name]
    asked = ", ".join(map(str, names)) or repr(config.get("model_type"))
    raise UnsupportedModel(f"unknown architecture {asked}; this runtime serves {', '.join(ARCHITECTURES)}")


def _from_hf(architecture: str, config: Mapping[str, Any]) -> ModelConfig:
    gemma = architecture == "gemma3"
    hidden_size, num_heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    head_dim = int(config.get("head_dim") or hidden_size // num_heads)
    scalar = config.get("query_pre_attn_scalar", 256) if gemma else head_dim
    if config.get("use_bidirectional_attention"):
        raise UnsupportedModel("config.json: use_bidirectional_attention is not supported")
    return ModelConfig(
        architecture=architecture,
        vocab_size=int(config["vocab_size"]),
        hidden_size=hidden_size,
        intermediate_size=int(config["intermediate_size"]),
        num_heads=num_heads,
        num_kv_heads=int(config.get("num_key_value_heads") or num_heads),
        head_dim=head_dim,
        norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        max_position=int(config.get("max_position_embeddings", 131072 if gemma else 2048)),
        layers=_layers(architecture, config),
        attention_scale=float(scalar) ** -0.5,
        activation=_activation(architecture, config),
        qk_norm=architecture in ("qwen3", "gemma3"),
        sandwich_norms=gemma,
        norm_offset=1.0 if gemma else 0.0,
        embedding_scale=hidden_size**0.5 if gemma else 1.0,
        attention_softcap=config.get("attn_logit_softcapping") if gemma else None,
        final_softcap=config.get("final_logit_softcapping") if gemma else None,
        eos_token_ids=token_ids(config.get("eos_token_id")),
    )


def token_ids(value: object) -> frozenset[int]:
    """`eos_token_id` is a number, a list of numbers, or nothing."""
    match value:
        case None:
            return frozenset()
        case int():
            return frozenset([value])
        case list():
            return frozenset(int(i) for i in value)
        case _:
            raise ValueError(f"eos_token_id {value!r}")


def _activation(architecture: str, config: Mapping[str, Any]) -> Activation:
    default = _HIDDEN_ACT.get(architecture, "silu")
    name = config.get("hidden_activation" if architecture == "gemma3" else "hidden_act") or default
    if name not in _ACTIVATIONS:
        raise UnsupportedModel(f"config.json: activation {name!r} is not supported")
    return _ACTIVATIONS[name]


def _layers(architecture: str, config: Mapping[str, Any]) -> tuple[LayerConfig, ...]:
    num_layers = int(config["num_hidden_layers"])
    types = config.get("layer_types") or _layer_types(architecture, config, num_layers)
    if len(types) != num_layers:
        raise ValueError(f"layer_types has {len(types)} entries for {num_layers} layers")
    return tuple(_layer(architecture, config, kind) for kind in types)


def _layer_types(architecture: str, config: Mapping[str, Any], num_layers: int) -> list[str]:
    if architecture == "gemma3":
        pattern = int(config.get("sliding_window_pattern") or _SLIDING_PATTERN)
        return ["sliding_attention" if (i + 1) % pattern else "full_attention" for i in range(num_layers)]
    if config.get("use_sliding_window"):
        first = int(config.get("max_window_layers", 28))
        return ["sliding_attention" if i >= first else "full_attention" for i in range(num_layers)]
    return ["full_attention"] * num_layers


def _layer(architecture: str, config: Mapping[str, Any], kind: str) -> LayerConfig:
    match kind:
        case "full_attention":
            return LayerConfig(_rope(architecture, config, kind))
        case "sliding_attention":
            default = 4096 if architecture == "gemma3" else None
            return LayerConfig(_rope(architecture, config, kind), int(config.get("sliding_window", default)))
        case _:
            raise UnsupportedModel(f"config.json: layer type {kind!r} is not supported")


def _rope(architecture: str, config: Mapping[str, Any], kind: str) -> RopeConfig:
    """The newer `rope_parameters` (by layer type in Gemma 3), or the older rope_theta with rope_scaling."""
    local = architecture == "gemma3" and kind == "sliding_attention"
    parameters = config.get("rope_parameters")
    if parameters is None:
        parameters = {} if local else (config.get("rope_scaling") or {})
    elif kind in parameters:
        parameters = parameters[kind]
    default = 10_000.0 if architecture != "gemma3" or local else 1_000_000.0
    older = config.get("rope_local_base_freq" if local else "rope_theta") or default
    return _scaled_rope(float(parameters.get("rope_theta", older)), parameters)


def _scaled_rope(theta: float, parameters: Mapping[str, Any]) -> RopeConfig:
    match parameters.get("rope_type", parameters.get("type", "default")):
        case "default":
            return RopeConfig(theta)
        case "linear":
            return RopeConfig(theta, float(parameters["factor"]))
        case "llama3":
            scaling = Llama3Scaling(
                low_freq_factor=float(parameters["low_freq_factor"]),
                high_freq_factor=float(parameters["high_freq_factor"]),
                original_max_position=int(parameters["original_max_position_embeddings"]),
            )
            return RopeConfig(theta, float(parameters["factor"]), scaling)
        case other:
            raise UnsupportedModel(f"config.json: rope type {other!r} is not supported")
