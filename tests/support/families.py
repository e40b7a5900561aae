"""Tiny random models of each supported family, as transformers makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers

_COMMON: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

_MODELS: dict[str, tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]] = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM, {"tie_word_embeddings": False}),
    "llama-tied-biased": (
        transformers.LlamaConfig,
        transformers.LlamaForCausalLM,
        {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
    ),
    "llama3-rope": (
        transformers.LlamaConfig,
        transformers.LlamaForCausalLM,
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            }
        },
    ),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM, {"tie_word_embeddings": True}),
    "qwen2-window": (
        transformers.Qwen2Config,
        transformers.Qwen2ForCausalLM,
        {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1},
    ),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM, {"head_dim": 16}),
    "gemma3": (
        transformers.Gemma3TextConfig,
        transformers.Gemma3ForCausalLM,
        {"head_dim": 16, "sliding_window": 7, "query_pre_attn_scalar": 16, "num_hidden_layers": 6},
    ),
    "gemma3-softcap": (
        transformers.Gemma3TextConfig,
        transformers.Gemma3ForCausalLM,
        {
            "head_dim": 16,
            "sliding_window": 7,
            "query_pre_attn_scalar": 24,
            "sliding_window_pattern": 3,
            "final_logit_softcapping": 5.0,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
    ),
}
FAMILIES = tuple(_MODELS)


def random_model(family: str, seed: int = 0) -> Any:
    """Every weight is random, norms and biases too, and large enough for all parts to matter."""
    config_class, model_class, settings = _MODELS[family]
    torch.manual_seed(seed)
    model = model_class(config_class(**_COMMON | settings, attn_implementation="eager")).eval()
    for name, parameter in model.named_parameters():
        scale = 0.3 if "norm" in name or "bias" in name else 1.5 / parameter.shape[-1] ** 0.5
        offset = 1.0 if "norm" in name and "gemma" not in family else 0.0
        parameter.data.normal_(offset, scale)
    return model
