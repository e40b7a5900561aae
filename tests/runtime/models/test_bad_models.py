"""What can't be served is refused in one clear line that names the culprit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from forebay_runtime.config import ModelOptions
from forebay_runtime.models import ModelError, load
from forebay_runtime.models.errors import (
    BrokenWeights,
    ContextTooLong,
    DeviceNotFound,
    UnsupportedModel,
    UnsupportedTensorType,
    WeightsNotFound,
)
from tests.support.tiny_checkpoint import write_checkpoint


def change_config(path: Path, **changes: Any) -> None:
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | changes))


def without_weights(path: Path) -> None:
    (path / "model.safetensors").unlink()


def without_config(path: Path) -> None:
    (path / "config.json").unlink()


def cut_off(path: Path) -> None:
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def cut_off_in_the_head(path: Path) -> None:
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:20])


def missing_shard(path: Path) -> None:
    index = {"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))


def broken_index(path: Path) -> None:
    (path / "model.safetensors.index.json").write_text("[]")


def config_that_is_no_json(path: Path) -> None:
    (path / "config.json").write_text("{")


def config_that_is_a_list(path: Path) -> None:
    (path / "config.json").write_text("[]")


CASES: dict[str, tuple[Callable[[Path], None], type[ModelError], str]] = {
    "no weights": (without_weights, WeightsNotFound, "holds no weights"),
    "no config": (without_config, WeightsNotFound, "holds neither a config.json nor a .gguf file"),
    "cut off": (cut_off, BrokenWeights, "model.safetensors is cut off or broken"),
    "cut off in the head": (cut_off_in_the_head, BrokenWeights, "model.safetensors is cut off or broken"),
    "missing shard": (missing_shard, WeightsNotFound, "model-00001-of-00002.safetensors is missing"),
    "broken index": (broken_index, BrokenWeights, "is no index of shards"),
    "config no json": (config_that_is_no_json, BrokenWeights, "config.json is no JSON"),
    "config a list": (config_that_is_a_list, BrokenWeights, "config.json is no JSON object"),
    "unknown architecture": (
        lambda p: change_config(p, architectures=["MambaForCausalLM"]),
        UnsupportedModel,
        "unknown architecture MambaForCausalLM",
    ),
    "no architecture": (
        lambda p: change_config(p, architectures=None, model_type="mystery"),
        UnsupportedModel,
        "unknown architecture 'mystery'",
    ),
    "rope type": (
        lambda p: change_config(p, rope_scaling={"rope_type": "yarn", "factor": 4.0}),
        UnsupportedModel,
        "rope type 'yarn' is not supported",
    ),
    "activation": (lambda p: change_config(p, hidden_act="relu"), UnsupportedModel, "activation 'relu'"),
    "layer type": (
        lambda p: change_config(p, layer_types=["full_attention", "linear_attention"]),
        UnsupportedModel,
        "layer type 'linear_attention'",
    ),
    "layer types": (lambda p: change_config(p, layer_types=["full_attention"]), BrokenWeights, "1 entries for 2"),
    "config lacks": (lambda p: change_config(p, vocab_size=None), BrokenWeights, "config.json is wrong"),
    "other size": (lambda p: change_config(p, intermediate_size=40), BrokenWeights, "but the config makes it"),
    "more layers": (lambda p: change_config(p, num_hidden_layers=3), BrokenWeights, "lacks the tensor model.layers.2"),
    "eos": (lambda p: change_config(p, eos_token_id="</s>"), BrokenWeights, "eos_token_id '</s>'"),
}


@pytest.mark.parametrize("name", CASES)
def test_broken_checkpoint_is_refused(name: str, tmp_path: Path) -> None:
    breaks, error, words = CASES[name]
    breaks(write_checkpoint(tmp_path, "llama"))
    with pytest.raises(error, match=words) as raised:
        load(ModelOptions(str(tmp_path), device="cpu"))
    assert "\n" not in str(raised.value)


def test_missing_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsNotFound, match="does not exist"):
        load(ModelOptions(str(tmp_path / "nothing"), device="cpu"))


def test_other_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"x")
    with pytest.raises(WeightsNotFound, match=r"neither a directory nor a \.gguf file"):
        load(ModelOptions(str(tmp_path / "model.bin"), device="cpu"))


def test_context_beyond_the_models_own_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "llama")
    with pytest.raises(ContextTooLong, match="--max-model-len 300 is longer than the model's own context of 256"):
        load(ModelOptions(str(tmp_path), device="cpu", max_model_len=300))


def test_cuda_without_a_device_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(DeviceNotFound, match="--device cuda"):
        load(ModelOptions(str(write_checkpoint(tmp_path, "llama")), device="cuda"))


def write_gguf_file(path: Path, architecture: str = "llama", tensor_type: str = "F32", **values: int) -> Path:
    """A head with one tensor, too little for a model but enough to be refused for what is wrong with it."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in values.items():
        writer.add_uint32(f"{architecture}.{key}", value)
    kind = gguf.GGMLQuantizationType[tensor_type]
    size, num_bytes = gguf.GGML_QUANT_SIZES[kind]
    raw = np.zeros((4, num_bytes if tensor_type != "F32" else 64), dtype=np.uint8)
    writer.add_tensor("token_embd.weight", raw, raw_dtype=kind)
    assert size
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("tensor_type", ["Q5_K", "IQ4_NL", "Q2_K", "Q3_K", "MXFP4"])
def test_gguf_type_that_is_not_read_is_refused(tensor_type: str, tmp_path: Path) -> None:
    path = write_gguf_file(tmp_path / "model.gguf", tensor_type=tensor_type)
    with pytest.raises(UnsupportedTensorType, match=f"token_embd.weight has the GGUF type {tensor_type}; types read"):
        load(ModelOptions(str(path), device="cpu"))


def test_gguf_architecture_that_is_unknown_is_refused(tmp_path: Path) -> None:
    path = write_gguf_file(tmp_path / "model.gguf", architecture="mamba")
    with pytest.raises(UnsupportedModel, match="unknown architecture 'mamba'"):
        load(ModelOptions(str(path), device="cpu"))


def test_gguf_with_experts_is_refused(tmp_path: Path) -> None:
    path = write_gguf_file(tmp_path / "model.gguf", expert_count=8)
    with pytest.raises(UnsupportedModel, match="mixture of experts"):
        load(ModelOptions(str(path), device="cpu"))


def test_gguf_that_lacks_a_number_is_refused(tmp_path: Path) -> None:
    path = write_gguf_file(tmp_path / "model.gguf", embedding_length=16)
    with pytest.raises(BrokenWeights, match=r"lacks llama\.attention\.head_count"):
        load(ModelOptions(str(path), device="cpu"))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_gguf_that_is_cut_off_is_refused(share: float, tmp_path: Path) -> None:
    path = write_gguf_file(tmp_path / "model.gguf")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(BrokenWeights, match="cut off"):
        load(ModelOptions(str(path), device="cpu"))
