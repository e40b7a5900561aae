"""One text, however it is scheduled: real arithmetic in float64, so that rounding flips nothing.

The same equalities hold without arithmetic in tests/runtime/engine; here kernels, cache and sampler take part.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from forebay_runtime.config import ModelOptions, SchedulerConfig
from forebay_runtime.drafting import NgramDrafter, StepTimes
from forebay_runtime.engine import Engine
from forebay_runtime.execution import Runner
from forebay_runtime.models import LoadedModel, load
from forebay_runtime.request import FinishReason, Pooling, Request, SamplingParams
from forebay_runtime.scheduling.scheduler import Scheduler
from tests.support.answers import Answer, answers
from tests.support.tiny_checkpoint import FAMILIES, VOCAB, write_checkpoint


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    directory: Path = tmp_path_factory.mktemp(request.param)
    write_checkpoint(directory, request.param)
    torch.set_num_threads(1)
    return load(ModelOptions(str(directory), dtype="float64", device="cpu"))


@pytest.fixture(scope="module", params=[0.0, 1.0], ids=["greedy", "seeded"])
def requests(request: pytest.FixtureRequest) -> list[Request]:
    """32 prompts of 1 to 60 tokens, half of them with a common beginning, with all that sampling knows."""
    draw = random.Random(1)
    common = draw.choices(range(VOCAB), k=30)
    made = []
    for i in range(32):
        prompt = common[: draw.randrange(30) if i % 2 else 0] + draw.choices(range(VOCAB), k=draw.randrange(1, 30))
        sampling = SamplingParams(
            temperature=request.param,
            top_p=(1.0, 0.9)[i % 2],
            top_k=(0, 12)[i % 3 == 0],
            repetition_penalty=(1.0, 1.1)[i % 5 == 0],
            presence_penalty=(0.0, 0.3)[i % 5 == 1],
            seed=i,
            max_tokens=14,
            min_tokens=(0, 5)[i % 4 == 0],
            ignore_eos=i % 3 == 0,
            logprobs=0,
        )
        pooling = {5: Pooling.MEAN, 6: Pooling.LAST}.get(i % 8)
        made.append(Request(str(i), tuple(prompt), sampling, frozenset({3, 7, 20}), pooling=pooling))
    return made


def engine(
    model: LoadedModel,
    *,
    budget: int = 256,
    seqs: int = 32,
    blocks: int = 512,
    block_size: int = 8,
    prefix_caching: bool = False,
    num_drafts: int = 0,
) -> Engine:
    bounds = SchedulerConfig(
        max_num_seqs=seqs,
        max_num_batched_tokens=budget,
        max_model_len=model.max_model_len,
        block_size=block_size,
        num_blocks=blocks,
        prefix_caching=prefix_caching,
    )
    drafter = NgramDrafter(num_drafts, StepTimes(row_cost=0.001)) if num_drafts else None
    return Engine(Scheduler(bounds), Runner(model, num_blocks=blocks, block_size=block_size), drafter)


def assert_same(got: dict[str, Answer], wanted: dict[str, Answer]) -> None:
    assert {n: (tokens, reason) for n, (tokens, _, reason, _) in got.items()} == {
        n: (tokens, reason) for n, (tokens, _, reason, _) in wanted.items()
    }
    for name, (_, logprobs, _, embedding) in got.items():
        assert logprobs == pytest.approx(wanted[name][1], abs=1e-9)
        assert embedding == pytest.approx(wanted[name][3], rel=1e-6)


@pytest.fixture(scope="module")
def alone(model: LoadedModel, requests: list[Request]) -> dict[str, Answer]:
    """Each request by itself, its prompt whole, without prefix cache and drafts."""
    got: dict[str, Answer] = {}
    for wanted in requests:
        got |= answers(engine(model, blocks=16), [wanted])
    assert {reason for _, _, reason, _ in got.values()} == {FinishReason.STOP, FinishReason.LENGTH}
    return got


def test_in_a_batch_of_32_as_alone(model: LoadedModel, requests: list[Request], alone: dict[str, Answer]) -> None:
    assert_same(answers(engine(model, budget=2000), requests), alone)


def test_in_chunks_as_whole(model: LoadedModel, requests: list[Request], alone: dict[str, Answer]) -> None:
    assert_same(answers(engine(model, budget=13, seqs=8), requests), alone)


def test_on_a_prefix_hit_as_cold(model: LoadedModel, requests: list[Request], alone: dict[str, Answer]) -> None:
    made = engine(model, prefix_caching=True)
    assert_same(answers(made, requests), alone)
    assert_same(answers(made, requests), alone)
    assert made.stats().prefix_cache_hits > 0.3 * made.stats().prefix_cache_queries


def test_preempted_as_undisturbed(model: LoadedModel, requests: list[Request], alone: dict[str, Answer]) -> None:
    made = engine(model, blocks=36, block_size=2)
    assert_same(answers(made, requests), alone)
    assert made.stats().num_preemptions >= 3


def test_speculating_as_not(model: LoadedModel, requests: list[Request], alone: dict[str, Answer]) -> None:
    made = engine(model, num_drafts=4)
    assert_same(answers(made, requests), alone)
    assert 0 < made.stats().num_accepted_tokens < made.stats().num_draft_tokens


def test_all_of_it_together(model: LoadedModel, requests: list[Request], alone: dict[str, Answer]) -> None:
    made = engine(model, budget=29, seqs=7, blocks=40, block_size=3, prefix_caching=True, num_drafts=3)
    assert_same(answers(made, requests), alone)
    assert_same(answers(made, requests), alone)
    assert made.stats().num_preemptions
    assert made.stats().prefix_cache_hits
    assert made.stats().num_accepted_tokens
