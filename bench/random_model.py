"""A Llama-shaped checkpoint of 1.2 billion random weights, as safetensors and as GGUF: not all is tuned to 135M."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import safetensors.torch
import torch
from torch import Tensor

LAYERS, HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY, CONTEXT = 18, 2048, 8192, 32, 8, 64, 49152, 8192
THETA, EPSILON = 500_000.0, 1e-5
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": CONTEXT,
    "rope_theta": THETA,
    "rms_norm_eps": EPSILON,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "dtype": "bfloat16",
}
_SHAPES = {
    "input_layernorm": ("attn_norm", (HIDDEN,)),
    "self_attn.q_proj": ("attn_q", (HEADS * HEAD_DIM, HIDDEN)),
    "self_attn.k_proj": ("attn_k", (KV_HEADS * HEAD_DIM, HIDDEN)),
    "self_attn.v_proj": ("attn_v", (KV_HEADS * HEAD_DIM, HIDDEN)),
    "self_attn.o_proj": ("attn_output", (HIDDEN, HEADS * HEAD_DIM)),
    "post_attention_layernorm": ("ffn_norm", (HIDDEN,)),
    "mlp.gate_proj": ("ffn_gate", (INTERMEDIATE, HIDDEN)),
    "mlp.up_proj": ("ffn_up", (INTERMEDIATE, HIDDEN)),
    "mlp.down_proj": ("ffn_down", (HIDDEN, INTERMEDIATE)),
}


def write(path: Path, directory: Path, vocabulary: Path) -> None:
    """`vocabulary`: the GGUF file whose tokenizer it gets. The same numbers in both forms, bit for bit."""
    torch.manual_seed(0)
    names, tensors = {}, {}
    for name, stored, shape in _tensors():
        scale = torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * 0.02
        names[name], tensors[name] = stored, scale.to(torch.bfloat16)
    part = path.with_suffix(".part")
    _write_gguf(part, {names[name]: _interleaved(name, tensor) for name, tensor in tensors.items()}, vocabulary)
    _write_directory(directory, tensors, part)
    part.rename(path)


def _tensors() -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """(name in safetensors, name in GGUF, shape)."""
    yield "model.embed_tokens.weight", "token_embd.weight", (VOCABULARY, HIDDEN)
    for i in range(LAYERS):
        for name, (stored, shape) in _SHAPES.items():
            yield f"model.layers.{i}.{name}.weight", f"blk.{i}.{stored}.weight", shape
    yield "model.norm.weight", "output_norm.weight", (HIDDEN,)


def _interleaved(name: str, weight: Tensor) -> Tensor:
    """GGUF's Llama rotates neighbours, Hugging Face's rotates halves: rows of queries and keys change places."""
    if ".q_proj." not in name and ".k_proj." not in name:
        return weight
    return weight.view(-1, 2, HEAD_DIM // 2, HIDDEN).transpose(1, 2).reshape(weight.shape)


def _write_gguf(path: Path, tensors: dict[str, Tensor], vocabulary: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(THETA)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_vocab_size(VOCABULARY)
    for field in gguf.GGUFReader(vocabulary).fields.values():
        if field.name.startswith("tokenizer."):
            element = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, field.contents(), field.types[0], element)
    for name, tensor in tensors.items():
        if tensor.dim() == 1:
            writer.add_tensor(name, tensor.float().numpy())
        else:
            raw = tensor.view(torch.uint8).numpy().view(np.uint8)
            writer.add_tensor(name, raw, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_directory(directory: Path, tensors: dict[str, Tensor], vocabulary: Path) -> None:
    import transformers

    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(vocabulary.parent, gguf_file=vocabulary.name)
    tokenizer.save_pretrained(directory)
    safetensors.torch.save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps(CONFIG, indent=2))
