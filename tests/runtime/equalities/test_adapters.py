"""Adapters: one text, bit for bit, whoever shares the batch, and the text of a model they are merged into."""

from __future__ import annotations

import dataclasses
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from forebay_runtime.adapter import Adapter
from forebay_runtime.config import ModelOptions
from forebay_runtime.models import LoadedModel, load
from forebay_runtime.models.peft import read_adapter
from forebay_runtime.request import Pooling, Request, SamplingParams
from tests.support.adapters import write_adapter, write_merged
from tests.support.answers import Answer, answers
from tests.support.native_engine import CONTEXT
from tests.support.native_engine import engine as any_engine
from tests.support.tiny_checkpoint import FAMILIES, VOCAB, write_checkpoint

TYPES = {
    "native-float32": ModelOptions("", dtype="float32", quantization="none", kernels="native"),
    "native-bfloat16": ModelOptions("", dtype="bfloat16", quantization="none", kernels="native"),
    "native-int8": ModelOptions("", dtype="bfloat16", quantization="int8", kernels="native"),
    "native-int4": ModelOptions("", dtype="bfloat16", quantization="int4", kv_cache_dtype="int8", kernels="native"),
}
ADAPTERS: dict[str, dict[str, Any]] = {
    "every": {"rank": 4},
    "large": {"rank": 40, "alpha": 16.0, "use_rslora": True, "seed": 1},
    "queries": {"rank": 1, "alpha": 3.0, "modules": ("self_attn.q_proj", "self_attn.v_proj"), "seed": 2},
    "second-layer": {"rank": 7, "modules": ("mlp.up_proj", "self_attn.o_proj"), "layers": [1], "seed": 3},
}
ZERO = "zero"
BASE = ""
engine = partial(any_engine, budget=4000, seqs=15)


@pytest.fixture(scope="module", params=FAMILIES)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory: Path = tmp_path_factory.mktemp(request.param)
    return write_checkpoint(directory, request.param, context=CONTEXT)


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("adapters")
    made = {name: write_adapter(directory / name, **about) for name, about in ADAPTERS.items()}
    return made | {ZERO: write_adapter(directory / ZERO, rank=8, size=0.0)}


@pytest.fixture(scope="module", params=TYPES)
def model(request: pytest.FixtureRequest, checkpoint: Path) -> LoadedModel:
    return load(dataclasses.replace(TYPES[request.param], path=str(checkpoint), device="cpu", threads=1))


@pytest.fixture(scope="module")
def loaded(model: LoadedModel, adapters: dict[str, Path]) -> dict[str, Adapter]:
    return {name: Adapter(name, read_adapter(path, model, 64)) for name, path in adapters.items()}


@pytest.fixture(scope="module")
def requests(loaded: dict[str, Adapter]) -> list[Request]:
    """Each adapter and the base have prompts of several lengths, half of them with a common beginning."""
    draw = random.Random(1)
    common = draw.choices(range(VOCAB), k=300)
    made = []
    names = [*ADAPTERS, BASE]
    for i, length in enumerate((1, 33, 5, 96, 17, 31, 60, 255, 97, 300, 520, 3, 16, 200, 70)):
        shared = common[: length // 2] if i % 2 else []
        prompt = shared + draw.choices(range(VOCAB), k=length - len(shared))
        sampling = SamplingParams(temperature=float(i % 2), seed=i, max_tokens=14, ignore_eos=True, logprobs=2)
        pooling = {5: Pooling.MEAN, 9: Pooling.LAST}.get(i)
        made.append(
            Request(str(i), tuple(prompt), sampling, adapter=loaded.get(names[i % len(names)]), pooling=pooling)
        )
    return made


def with_adapter(requests: list[Request], adapter: Adapter | None) -> list[Request]:
    return [dataclasses.replace(wanted, adapter=adapter) for wanted in requests]


@pytest.mark.usefixtures("threads")
def test_beside_other_adapters_and_the_base_as_alone(
    model: LoadedModel, requests: list[Request], alone: dict[str, Answer]
) -> None:
    assert answers(engine(model), requests) == alone


@pytest.mark.parametrize("budget", [15, 150])
def test_in_chunks_as_whole(budget: int, model: LoadedModel, requests: list[Request], alone: dict[str, Answer]) -> None:
    assert answers(engine(model, budget=budget), requests) == alone


def test_on_a_prefix_hit_as_cold(model: LoadedModel, requests: list[Request], alone: dict[str, Answer]) -> None:
    made = engine(model, prefix=True)
    assert answers(made, requests) == alone
    assert answers(made, requests) == alone
    assert made.stats().prefix_cache_hits > 0.3 * made.stats().prefix_cache_queries


@pytest.mark.usefixtures("threads")
def test_preempted_speculating_and_cached_as_alone(
    model: LoadedModel, requests: list[Request], alone: dict[str, Answer]
) -> None:
    made = engine(model, budget=61, seqs=7, blocks=70, prefix=True, num_drafts=3)
    assert answers(made, requests) == alone
    assert answers(made, requests) == alone


def test_one_that_adds_zero_says_what_the_base_says(
    model: LoadedModel, loaded: dict[str, Adapter], requests: list[Request]
) -> None:
    base = answers(engine(model), with_adapter(requests, None))
    assert answers(engine(model), with_adapter(requests, loaded[ZERO])) == base
    assert answers(engine(model), with_adapter(requests, loaded["every"])) != base


def test_one_prompt_with_many_adapters_hits_no_block_of_another(
    model: LoadedModel, loaded: dict[str, Adapter], requests: list[Request]
) -> None:
    """Nor of the same weights loaded a second time: a name may have been given others meanwhile."""
    longest = max(requests, key=lambda r: len(r.prompt_token_ids))
    prompt = dataclasses.replace(longest, pooling=None)
    again = Adapter("again", loaded["every"].weights)
    made = engine(model, prefix=True)
    for adapter in (None, *loaded.values(), again):
        wanted = dataclasses.replace(prompt, adapter=adapter)
        assert answers(made, [wanted]) == answers(engine(model), [wanted])
        assert made.stats().prefix_cache_hits == 0


@pytest.mark.parametrize("name", ADAPTERS)
def test_torch_operations_say_what_the_merged_model_says(
    name: str, checkpoint: Path, adapters: dict[str, Path], tmp_path: Path
) -> None:
    exact = ModelOptions(str(checkpoint), dtype="float64", device="cpu", kernels="torch", threads=1)
    base = load(exact)
    merged = load(dataclasses.replace(exact, path=str(write_merged(tmp_path, checkpoint, adapters[name]))))
    adapter = Adapter("1", read_adapter(adapters[name], base, 64))
    draw = torch.Generator().manual_seed(0)
    asked = [
        Request(
            str(i),
            tuple(torch.randint(VOCAB, (length,), generator=draw).tolist()),
            SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True, logprobs=0),
            pooling=Pooling.MEAN if i == 2 else None,
        )
        for i, length in enumerate((40, 7, 25))
    ]
    expected = answers(engine(merged), asked)
    got = answers(
        engine(base),
        [*with_adapter(asked, adapter), *(dataclasses.replace(r, request_id=f"base {r.request_id}") for r in asked)],
    )
    for wanted in asked:
        tokens, logprobs, _, vector = got[wanted.request_id]
        assert tokens == expected[wanted.request_id][0]
        assert logprobs == pytest.approx(expected[wanted.request_id][1], abs=1e-9)
        assert vector == pytest.approx(expected[wanted.request_id][3], abs=1e-6)
        assert got[f"base {wanted.request_id}"] != got[wanted.request_id]


@pytest.mark.parametrize("name", ADAPTERS)
def test_native_kernels_say_what_torch_operations_say(name: str, checkpoint: Path, adapters: dict[str, Path]) -> None:
    """Of vectors, which show every layer's arithmetic and choose nothing."""
    native = ModelOptions(
        str(checkpoint), dtype="float32", device="cpu", quantization="none", kernels="native", threads=1
    )
    exact = dataclasses.replace(native, dtype="float64", kernels="torch")
    prompt = tuple((i * 7) % VOCAB for i in range(40))
    vectors = []
    for options in (native, exact):
        base = load(options)
        adapter = Adapter("1", read_adapter(adapters[name], base, 64))
        wanted = Request("0", prompt, SamplingParams(max_tokens=1), adapter=adapter, pooling=Pooling.LAST)
        vectors.append(answers(engine(base), [wanted])["0"][3])
    assert vectors[0] == pytest.approx(vectors[1], abs=1e-4)
