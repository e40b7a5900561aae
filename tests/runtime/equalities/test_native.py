"""One text, bit for bit, however it is scheduled: the native kernels in the types that serve.

Prompts reach over the ends of attention's splits, and blocks lie in any order.
"""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest

from forebay_runtime.config import ModelOptions
from forebay_runtime.models import LoadedModel, load
from forebay_runtime.request import Pooling, Request, SamplingParams
from tests.support.answers import Answer, answers
from tests.support.native_engine import CONTEXT, engine
from tests.support.tiny_checkpoint import FAMILIES, VOCAB, write_checkpoint

CASES = [
    (family, *types)
    for family in FAMILIES
    for types in (
        ("float32", "none", "auto"),
        ("bfloat16", "none", "auto"),
        ("bfloat16", "int8", "auto"),
        ("bfloat16", "int4", "auto"),
        ("bfloat16", "int8", "int8"),
    )
]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    family, dtype, quantization, kv_dtype = request.param
    directory: Path = tmp_path_factory.mktemp(family)
    write_checkpoint(directory, family, context=CONTEXT)
    options = ModelOptions(
        str(directory),
        dtype=dtype,
        device="cpu",
        quantization=quantization,
        kv_cache_dtype=kv_dtype,
        kernels="native",
        threads=1,
    )
    return load(options)


@pytest.fixture(scope="module", params=[0.0, 1.0], ids=["greedy", "seeded"])
def requests(request: pytest.FixtureRequest) -> list[Request]:
    draw = random.Random(1)
    common = draw.choices(range(VOCAB), k=300)
    made = []
    for i, length in enumerate((1, 5, 16, 17, 31, 60, 255, 256, 257, 300, 520, 610)):
        shared = common[: length // 2] if i % 2 else []
        prompt = shared + draw.choices(range(VOCAB), k=length - len(shared))
        sampling = SamplingParams(temperature=request.param, seed=i, max_tokens=20, ignore_eos=True, logprobs=2)
        pooling = {9: Pooling.MEAN, 10: Pooling.LAST}.get(i)
        made.append(Request(str(i), tuple(prompt), sampling, pooling=pooling))
    return made


@pytest.mark.usefixtures("threads")
def test_in_a_batch_as_alone(model: LoadedModel, requests: list[Request], alone: dict[str, Answer]) -> None:
    assert answers(engine(model, budget=4000), requests) == alone


@pytest.mark.parametrize("budget", [13, 150])
def test_in_chunks_as_whole(budget: int, model: LoadedModel, requests: list[Request], alone: dict[str, Answer]) -> None:
    assert answers(engine(model, budget=budget), requests) == alone


def test_on_a_prefix_hit_as_cold(model: LoadedModel, requests: list[Request], alone: dict[str, Answer]) -> None:
    made = engine(model, prefix=True, block_size=32)
    assert answers(made, requests) == alone
    assert answers(made, requests) == alone
    assert made.stats().prefix_cache_hits > 0.3 * made.stats().prefix_cache_queries


def test_preempted_as_undisturbed(model: LoadedModel, requests: list[Request]) -> None:
    """Short prompts with long answers: more are admitted than can grow."""
    growing = [
        dataclasses.replace(
            wanted,
            prompt_token_ids=wanted.prompt_token_ids[:14],
            pooling=None,
            sampling=dataclasses.replace(wanted.sampling, max_tokens=60),
        )
        for wanted in requests
    ]
    undisturbed = answers(engine(model), growing)
    made = engine(model, blocks=20)
    assert answers(made, growing) == undisturbed
    assert made.stats().num_preemptions


def test_speculating_as_not(model: LoadedModel, requests: list[Request], alone: dict[str, Answer]) -> None:
    made = engine(model, num_drafts=4)
    assert answers(made, requests) == alone
    assert made.stats().num_draft_tokens


@pytest.mark.usefixtures("threads")
def test_all_of_it_together(model: LoadedModel, requests: list[Request], alone: dict[str, Answer]) -> None:
    made = engine(model, budget=61, seqs=7, blocks=70, prefix=True, num_drafts=3)
    assert answers(made, requests) == alone
    assert answers(made, requests) == alone


@pytest.mark.parametrize("family", FAMILIES)
def test_vectors_are_those_of_torch_operations(family: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, family, context=CONTEXT)
    prompt, sampling = tuple((i * 7) % VOCAB for i in range(40)), SamplingParams(max_tokens=1)
    wanted = [Request(pooling.value, prompt, sampling, pooling=pooling) for pooling in Pooling]
    native = ModelOptions(
        str(tmp_path), dtype="float32", device="cpu", quantization="none", kernels="native", threads=1
    )
    exact = dataclasses.replace(native, dtype="float64", kernels="torch")
    got, true = (answers(engine(load(options)), wanted) for options in (native, exact))
    for name, (*_, vector) in got.items():
        assert vector == pytest.approx(true[name][3], abs=1e-5)
