"""However a request is scheduled, its text is the same, at temperature 0 and with a seed; and so is its vector."""

from __future__ import annotations

import random

import pytest

from forebay_runtime.drafting import NgramDrafter, StepTimes
from forebay_runtime.engine import Engine
from forebay_runtime.request import FinishReason, Pooling, Request

from .build import config, engine, request, run

Answer = tuple[tuple[int, ...], FinishReason | None, tuple[float, ...]]


@pytest.fixture(params=[0.0, 1.0], ids=["greedy", "seeded"])
def requests(request: pytest.FixtureRequest) -> list[Request]:
    """32 prompts of many lengths, some with a common beginning, each with its own seed."""
    draw = random.Random(3)
    common = [draw.randrange(5) for _ in range(30)]
    prompts = [common[: draw.randrange(30)] + draw.choices(range(5), k=draw.randrange(1, 40)) for _ in range(32)]
    return [make(str(i), prompt, request.param, seed=i) for i, prompt in enumerate(prompts)]


def make(name: str, prompt: list[int], temperature: float, seed: int) -> Request:
    pooling = {5: Pooling.MEAN, 7: Pooling.LAST}.get(seed % 8)
    return request(
        name, prompt, temperature=temperature, seed=seed, ignore_eos=seed % 3 == 0, logprobs=0, pooling=pooling
    )


def answers(made: Engine, requests: list[Request]) -> dict[str, Answer]:
    got = run(made, *requests)
    assert all(len(o.logprobs) == len(o.token_ids) for o in got.values())
    return {name: (o.token_ids, o.finish_reason, o.embedding) for name, o in got.items()}


@pytest.fixture
def alone(requests: list[Request]) -> dict[str, Answer]:
    """Each request in an engine of its own, without prefix cache or drafts."""
    got: dict[str, Answer] = {}
    for wanted in requests:
        got |= answers(engine(config(prefix_caching=False)), [wanted])
    assert {reason for _, reason, _ in got.values()} == {FinishReason.STOP, FinishReason.LENGTH}
    return got


def test_a_vector_comes_without_tokens(requests: list[Request], alone: dict[str, Answer]) -> None:
    for wanted in requests:
        token_ids, _, embedding = alone[wanted.request_id]
        assert (embedding == ()) == (wanted.pooling is None) == (token_ids != ())


def test_a_mean_is_over_all_tokens_and_the_last_one_s_is_its_own() -> None:
    prompt = [0, 1, 2, 3, 0, 1, 2]
    vectors = [
        run(engine(), request("x", prompt[:n], pooling=Pooling.LAST))["x"].embedding for n in range(1, len(prompt) + 1)
    ]
    mean = run(engine(), request("x", prompt, pooling=Pooling.MEAN))["x"].embedding
    assert mean == pytest.approx([sum(column) / len(prompt) for column in zip(*vectors, strict=True)])


def test_batched_is_alone(requests: list[Request], alone: dict[str, Answer]) -> None:
    assert answers(engine(config(prefix_caching=False)), requests) == alone


def test_chunked_is_whole(requests: list[Request], alone: dict[str, Answer]) -> None:
    assert answers(engine(config(budget=7, seqs=5, prefix_caching=False)), requests) == alone


def test_a_prefix_hit_is_cold(requests: list[Request], alone: dict[str, Answer]) -> None:
    made = engine()
    assert answers(made, requests) == alone
    assert answers(made, requests) == alone
    stats = made.stats()
    assert stats.prefix_cache_hits > stats.prefix_cache_queries / 3


def test_preempted_is_undisturbed(requests: list[Request], alone: dict[str, Answer]) -> None:
    made = engine(config(blocks=24, prefix_caching=False))
    assert answers(made, requests) == alone
    assert made.stats().num_preemptions > 5


def test_speculating_is_plain(requests: list[Request], alone: dict[str, Answer]) -> None:
    made = engine(config(prefix_caching=False), NgramDrafter(4, StepTimes(row_cost=0.001)))
    assert answers(made, requests) == alone
    assert made.stats().num_accepted_tokens > 0
    assert made.stats().num_draft_tokens > made.stats().num_accepted_tokens


@pytest.mark.parametrize(("budget", "blocks", "block_size"), [(6, 40, 4), (33, 75, 3), (40, 210, 1), (12, 14, 16)])
def test_all_at_once(
    requests: list[Request], alone: dict[str, Answer], budget: int, blocks: int, block_size: int
) -> None:
    bounds = config(seqs=6, budget=budget, blocks=blocks, block_size=block_size)
    made = engine(bounds, NgramDrafter(4, StepTimes(row_cost=0.001)))
    assert answers(made, requests) == alone
    assert answers(made, requests) == alone
