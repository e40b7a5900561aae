"""Adapters that are read, and those that are refused by the name of what is at fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from forebay_runtime.adapter import AdapterError
from forebay_runtime.config import ModelOptions
from forebay_runtime.models import LoadedModel, load
from forebay_runtime.models.peft import read_adapter
from tests.support.adapters import SHAPES, tensor_name, write_adapter
from tests.support.tiny_checkpoint import HIDDEN, LAYERS, write_checkpoint

A, B = (tensor_name(0, "self_attn.q_proj", which) for which in "AB")
PREFIX = "base_model.model.model"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    directory: Path = tmp_path_factory.mktemp("model")
    write_checkpoint(directory, "llama")
    return load(ModelOptions(str(directory), device="cpu", threads=1))


def refusal(model: LoadedModel, directory: Path, max_rank: int = 64) -> str:
    with pytest.raises(AdapterError) as caught:
        read_adapter(directory, model, max_rank)
    message = str(caught.value)
    assert "\n" not in message
    assert str(directory) in message
    return message


def test_every_projection_of_every_layer_is_added_to(model: LoadedModel, tmp_path: Path) -> None:
    read = read_adapter(write_adapter(tmp_path), model, 64)
    counts = [[len(layer.qkv), len(layer.out), len(layer.gate_up), len(layer.down)] for layer in read.layers]
    assert counts == [[3, 1, 2, 1]] * LAYERS
    assert read.nbytes >= 2 * 4 * LAYERS * sum(ins + outs for outs, ins in SHAPES.values())


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("peft_type", "IA3"),
        ("use_dora", True),
        ("arrow_config", {"top_k": 3}),
        ("modules_to_save", ["lm_head"]),
        ("bias", "all"),
        ("bias", "lora_only"),
        ("lora_bias", True),
        ("rank_pattern", {"q_proj": 8}),
        ("alpha_pattern", {"q_proj": 8}),
        ("fan_in_fan_out", True),
        ("layer_replication", [[0, 1]]),
        ("target_parameters", ["x"]),
        ("trainable_token_indices", [1]),
        ("use_qalora", True),
        ("init_lora_weights", "pissa"),
        ("something_new", True),
        ("r", 0),
        ("r", 4.0),
        ("lora_alpha", "8"),
        ("lora_alpha", None),
        ("use_rslora", "yes"),
        ("target_modules", 5),
    ],
)
def test_what_is_not_computed_is_refused_by_its_name(
    model: LoadedModel, tmp_path: Path, setting: str, value: Any
) -> None:
    assert setting in refusal(model, write_adapter(tmp_path, **{setting: value}))


@pytest.mark.parametrize(
    "tensor",
    [
        f"{PREFIX}.layers.{LAYERS}.self_attn.q_proj.lora_A.weight",
        f"{PREFIX}.layers.0.self_attn.other_proj.lora_A.weight",
        f"{PREFIX}.layers.0.self_attn.q_proj.lora_magnitude_vector.weight",
        f"{PREFIX}.embed_tokens.lora_embedding_A",
        "base_model.model.lm_head.lora_A.weight",
        "base_model.model.transformer.h.0.attn.c_attn.lora_A.weight",
        "model.layers.0.self_attn.q_proj.weight",
    ],
)
def test_tensors_that_match_no_module_are_refused(model: LoadedModel, tmp_path: Path, tensor: str) -> None:
    assert tensor in refusal(model, write_adapter(tmp_path, tensors={tensor: torch.zeros(4, HIDDEN)}))


@pytest.mark.parametrize(
    ("tensors", "named"),
    [
        ({A: torch.zeros(4, HIDDEN + 1)}, "lora_A of model.layers.0.self_attn.q_proj"),
        ({A: torch.zeros(3, HIDDEN)}, "lora_A of model.layers.0.self_attn.q_proj"),
        ({B: torch.zeros(HIDDEN + 8, 4)}, "lora_B of model.layers.0.self_attn.q_proj"),
        ({B: torch.zeros(4)}, "lora_B of model.layers.0.self_attn.q_proj"),
        ({B: None}, "model.layers.0.self_attn.q_proj lacks its lora_B"),
        ({A: torch.full((4, HIDDEN), torch.nan)}, A),
        ({A: torch.zeros(4, HIDDEN, dtype=torch.int32)}, A),
    ],
)
def test_wrong_tensors_are_named(
    model: LoadedModel, tmp_path: Path, tensors: dict[str, torch.Tensor | None], named: str
) -> None:
    assert named in refusal(model, write_adapter(tmp_path, tensors=tensors))


def test_a_target_without_tensors_is_named(model: LoadedModel, tmp_path: Path) -> None:
    assert "'v_proj'" in refusal(model, write_adapter(tmp_path, modules=["mlp.up_proj"], target_modules=["v_proj"]))


@pytest.mark.parametrize("target", [["self_attn.v_proj"], "all-linear", None])
def test_targets_may_be_ends_of_names_or_a_rule(model: LoadedModel, tmp_path: Path, target: object) -> None:
    read = read_adapter(write_adapter(tmp_path, modules=["self_attn.v_proj"], target_modules=target), model, 64)
    assert len(read.layers[0].qkv) == 1


def test_a_rank_above_the_limit_is_refused_with_the_numbers(model: LoadedModel, tmp_path: Path) -> None:
    message = refusal(model, write_adapter(tmp_path, rank=9), max_rank=8)
    assert "9" in message
    assert "--max-lora-rank 8" in message


def test_one_without_tensors_is_refused(model: LoadedModel, tmp_path: Path) -> None:
    assert "no tensors" in refusal(model, write_adapter(tmp_path, layers=[]))


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
@pytest.mark.parametrize("content", [None, b"", b"[", b'"text"', b"[" * 100_000])
def test_missing_and_broken_files_are_named(
    model: LoadedModel, tmp_path: Path, name: str, content: bytes | None
) -> None:
    path = write_adapter(tmp_path) / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert name in refusal(model, tmp_path)


def test_a_scale_is_alpha_by_rank_or_by_its_root(model: LoadedModel, tmp_path: Path) -> None:
    """B's rows of o_proj, which are kept as they are, times the scale."""
    pair = {tensor_name(0, "self_attn.o_proj", "B"): torch.ones(HIDDEN, 4)}
    for rslora, scale in ((False, 2.0), (True, 4.0)):
        directory = write_adapter(tmp_path, alpha=8.0, tensors=pair, use_rslora=rslora)
        up: Any = read_adapter(directory, model, 64).layers[0].out[0].up
        assert up(torch.tensor([[1.0, 0, 0, 0]])).tolist() == [[scale] * HIDDEN]


def test_the_config_may_say_more_of_how_it_was_trained(model: LoadedModel, tmp_path: Path) -> None:
    directory = write_adapter(tmp_path)
    config = json.loads((directory / "adapter_config.json").read_bytes())
    told = {"peft_version": "0.18.0", "base_model_name_or_path": "x", "lora_bias": False, "qalora_group_size": 16}
    (directory / "adapter_config.json").write_text(json.dumps(config | told))
    assert read_adapter(directory, model, 64).rank == 4
