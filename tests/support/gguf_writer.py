"""Writes a transformers model as a GGUF file, with the gguf package, the way llama.cpp's converter lays it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

GGUF_FAMILIES = ("llama", "llama3-rope", "qwen2", "qwen3", "gemma3")
_ARCHITECTURES = {"gemma3_text": "gemma3"}
_TYPES = {t.name: t for t in gguf.GGMLQuantizationType}


def write_gguf(path: Path, model: Any, tensor_type: str = "F32") -> Path:
    """Matrices are held as `tensor_type`; norms and biases as F32. There is no tokenizer in the file."""
    config = model.config
    architecture = _ARCHITECTURES.get(config.model_type, config.model_type)
    writer = gguf.GGUFWriter(path, architecture)
    _write_head(writer, architecture, config)
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, architecture.upper()), config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        data = _stored(architecture, config, name, tensor.float()).numpy()
        stem, kind = name.rsplit(".", 1)
        kept = tensor_type if data.ndim == 2 else "F32"
        raw = gguf.quants.quantize(np.ascontiguousarray(data), _TYPES[kept])
        writer.add_tensor(f"{names.get_name(stem)}.{kind}", raw, raw_dtype=_TYPES[kept])
    _write_llama3_factors(writer, config)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_head(writer: gguf.GGUFWriter, architecture: str, config: Any) -> None:
    rope = config.rope_parameters
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_eos_token_id(config.eos_token_id)
    if architecture == "gemma3":
        writer.add_sliding_window(config.sliding_window)


def _stored(architecture: str, config: Any, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """llama.cpp holds Llama's q and k rows in rotary pairs, and Gemma's norm weights with the 1 added."""
    if architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
        heads = config.num_attention_heads if ".q_proj." in name else config.num_key_value_heads
        return tensor.view(heads, 2, -1, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)
    return tensor + 1 if architecture == "gemma3" and "norm" in name else tensor


def _write_llama3_factors(writer: gguf.GGUFWriter, config: Any) -> None:
    """What each rotary frequency is divided by, as llama.cpp's converter works it out for Llama 3."""
    rope = config.rope_parameters
    if rope.get("rope_type") != "llama3":
        return
    head_dim = config.hidden_size // config.num_attention_heads
    factors = []
    for i in range(0, head_dim, 2):
        wavelength = 2 * np.pi * rope["rope_theta"] ** (i / head_dim)
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = (rope["original_max_position_embeddings"] / wavelength - low) / (high - low)
        smooth = min(max(smooth, 0.0), 1.0)
        factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    writer.add_tensor("rope_freqs.weight", np.array(factors, dtype=np.float32))
