"""Logits of tiny random models of each family, against transformers' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from forebay_runtime.config import ModelOptions
from forebay_runtime.models import load
from tests.support.families import FAMILIES, random_model
from tests.support.forward import logits_of
from tests.support.gguf_writer import GGUF_FAMILIES, write_gguf

Kernels = Literal["native", "torch"]
PROMPT = [(7 * i + i * i) % 96 for i in range(40)]


def expected_logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(torch.tensor([PROMPT])).logits[0]
    return logits


@pytest.fixture(params=["native", "torch"])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    chosen: Kernels = request.param
    return chosen


def options(path: Path, kernels: Kernels) -> ModelOptions:
    return ModelOptions(str(path), dtype="float32", device="cpu", quantization="none", kernels=kernels, threads=1)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_agree_with_transformers_from_safetensors(family: str, kernels: Kernels, tmp_path: Path) -> None:
    model = random_model(family)
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(
        logits_of(load(options(tmp_path, kernels)), PROMPT), expected_logits(model), atol=1e-4, rtol=0
    )


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_logits_agree_with_transformers_from_shards(family: str, kernels: Kernels, tmp_path: Path) -> None:
    model = random_model(family)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    torch.testing.assert_close(
        logits_of(load(options(tmp_path, kernels)), PROMPT), expected_logits(model), atol=1e-4, rtol=0
    )


@pytest.mark.parametrize("family", GGUF_FAMILIES)
def test_logits_agree_with_transformers_from_gguf(family: str, kernels: Kernels, tmp_path: Path) -> None:
    model = random_model(family)
    path = write_gguf(tmp_path / "model.gguf", model)
    torch.testing.assert_close(
        logits_of(load(options(path, kernels)), PROMPT), expected_logits(model), atol=1e-4, rtol=0
    )
