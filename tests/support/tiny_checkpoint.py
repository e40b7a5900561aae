"""Random checkpoints of a few thousand weights in Hugging Face's form, the same from the same seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 2, 32, 48, 4, 2, 8, 32

_CONFIG: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCAB,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "eos_token_id": 7,
}
_FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"architectures": ["LlamaForCausalLM"], "hidden_act": "silu"},
    # One layer of each kind: a window shorter than the prompts, and the whole context.
    "gemma3": {
        "architectures": ["Gemma3ForCausalLM"],
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": HEAD_DIM,
        "sliding_window": 11,
        "layer_types": ["sliding_attention", "full_attention"],
    },
}
FAMILIES = tuple(_FAMILIES)


def write_checkpoint(directory: Path, family: str, seed: int = 0, context: int = 256) -> Path:
    """The embedding serves as the head too; its size makes the distributions peaked, but not to a point."""
    draw = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int, scale: float = 1.0) -> torch.Tensor:
        values = torch.randn(rows, columns, generator=draw)
        return values.mul_(scale / columns**0.5)

    def norm(size: int) -> torch.Tensor:
        return torch.rand(size, generator=draw) * 0.2 + (0.0 if family == "gemma3" else 1.0)

    weights = {"model.embed_tokens.weight": matrix(VOCAB, HIDDEN, 2.0), "model.norm.weight": norm(HIDDEN)}
    norms = ["input_layernorm", "post_attention_layernorm"]
    if family == "gemma3":
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for i in range(LAYERS):
        layer = f"model.layers.{i}"
        weights |= {
            f"{layer}.self_attn.q_proj.weight": matrix(HEADS * HEAD_DIM, HIDDEN, 2.0),
            f"{layer}.self_attn.k_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN, 2.0),
            f"{layer}.self_attn.v_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{layer}.self_attn.o_proj.weight": matrix(HIDDEN, HEADS * HEAD_DIM),
            f"{layer}.mlp.gate_proj.weight": matrix(INNER, HIDDEN),
            f"{layer}.mlp.up_proj.weight": matrix(INNER, HIDDEN),
            f"{layer}.mlp.down_proj.weight": matrix(HIDDEN, INNER),
        }
        weights |= {f"{layer}.{name}.weight": norm(HIDDEN) for name in norms}
        if family == "gemma3":
            weights |= {f"{layer}.self_attn.{name}.weight": norm(HEAD_DIM) for name in ("q_norm", "k_norm")}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(
        json.dumps(_CONFIG | _FAMILIES[family] | {"max_position_embeddings": context})
    )
    save_file(weights, directory / "model.safetensors")
    return directory
