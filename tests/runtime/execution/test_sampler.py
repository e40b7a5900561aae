"""What is drawn, given logits and parameters."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay_runtime.execution.randomness import uniform
from forebay_runtime.execution.sampler import SamplingRow, adjust, logprobs, sample, truncate
from forebay_runtime.request import SamplingParams

LOGITS = [2.0, 0.5, -1.0, 1.5, 0.0, -3.0]


def row(position: int = 0, prompt: tuple[int, ...] = (), output: tuple[int, ...] = (), **params: Any) -> SamplingRow:
    return SamplingRow(
        SamplingParams(**params),
        position,
        prompt_token_ids=prompt,
        output_token_ids=output,
        eos_token_ids=frozenset({5}),
    )


def adjusted(logits: list[float], row: SamplingRow) -> list[float]:
    tensor = torch.tensor(logits, dtype=torch.float64)
    adjust(tensor, row)
    values: list[float] = tensor.tolist()
    return values


def drawn(count: int, **params: Any) -> Counter[int]:
    """Tokens drawn at `count` positions from LOGITS."""
    rows = [row(position, temperature=1.0, **params) if "temperature" not in params else row(position, **params)
            for position in range(count)]  # fmt: skip
    return Counter(sample(torch.tensor([LOGITS] * count), rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_temperature_0_takes_the_first_of_the_largest(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0], [-1.0, -2.0, -9.0, -1.0]], dtype=dtype)
    assert sample(logits, [row(temperature=0.0)] * 3) == [1, 0, 0]


def test_greedy_and_drawn_rows_mix() -> None:
    rows = [row(temperature=0.0), row(7, temperature=1.0, seed=3), row(temperature=0.0)]
    logits = torch.tensor([LOGITS] * 3)
    tokens = sample(logits.clone(), rows)
    assert (tokens[0], tokens[2]) == (0, 0)
    assert tokens[1] == sample(logits[1:2].clone(), rows[1:2])[0]


def test_draws_follow_the_distribution() -> None:
    weights = [math.exp(x) for x in LOGITS]
    counts = drawn(20_000, seed=11)
    for token, weight in enumerate(weights):
        assert counts[token] / 20_000 == pytest.approx(weight / sum(weights), abs=0.012)


def test_temperature_sharpens() -> None:
    weights = [math.exp(x / 0.5) for x in LOGITS]
    counts = drawn(20_000, seed=5, temperature=0.5)
    assert counts[0] / 20_000 == pytest.approx(weights[0] / sum(weights), abs=0.012)


def test_tiny_temperature_is_greedy() -> None:
    assert drawn(100, temperature=1e-9) == {0: 100}


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({"top_k": 1}, {0}),
        ({"top_k": 3}, {0, 1, 3}),
        ({"top_k": 100}, {0, 1, 2, 3, 4, 5}),
        ({"top_p": 1e-9}, {0}),
        ({"top_p": 0.7}, {0, 3}),
        ({"top_p": 1.0}, {0, 1, 2, 3, 4, 5}),
        ({"min_p": 0.5}, {0, 3}),
        ({"min_p": 1.0}, {0}),
        ({"top_k": 3, "top_p": 0.9}, {0, 3, 1}),
        ({"top_k": 2, "top_p": 0.9}, {0, 3}),
        ({"top_p": 0.999, "min_p": 0.2}, {0, 1, 3}),
        ({"logit_bias": ((2, 100.0),)}, {2}),
        ({"logit_bias": ((0, -100.0), (3, -100.0)), "top_k": 1}, {1}),
    ],
)
def test_truncation_keeps(params: dict[str, Any], kept: set[int]) -> None:
    assert set(drawn(5_000, **params)) <= kept
    assert kept - {5, 2} <= set(drawn(5_000, **params)) or 2 in kept


def exact_top_p(weights: list[float], top_p: float) -> set[int]:
    order = sorted(range(len(weights)), key=lambda i: -weights[i])
    total, mass, kept = sum(weights), 0.0, set()
    for i in order:
        kept.add(i)
        mass += weights[i]
        if mass >= top_p * total:
            break
    return kept


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.integers(-400, 0), min_size=1, max_size=60, unique=True),
    top_p=st.floats(0.01, 0.999),
)
def test_top_p_keeps_the_fewest_that_make_it_up(steps: list[int], top_p: float) -> None:
    logits = [step / 20 for step in steps]
    best = max(logits)
    weights = torch.tensor([math.exp(x - best) for x in logits], dtype=torch.float64)
    expected = exact_top_p(weights.tolist(), top_p)
    truncate(weights, SamplingParams(top_p=top_p))
    kept = {i for i, weight in enumerate(weights.tolist()) if weight > 0}
    assert len(kept ^ expected) <= 1  # rounding may move the border by one
    assert max(range(len(logits)), key=logits.__getitem__) in kept


def test_penalties() -> None:
    assert adjusted(LOGITS, row(prompt=(0, 2), output=(0,), repetition_penalty=2.0))[:3] == [1.0, 0.5, -2.0]
    assert adjusted(LOGITS, row(prompt=(1,), output=(0, 0, 3), presence_penalty=0.5)) == [
        1.5,
        0.5,
        -1.0,
        1.0,
        0.0,
        -3.0,
    ]
    assert adjusted(LOGITS, row(output=(0, 0, 3), frequency_penalty=0.5)) == [1.0, 0.5, -1.0, 1.0, 0.0, -3.0]


def test_biases() -> None:
    assert adjusted(LOGITS, row(logit_bias=((1, 2.0), (4, -1.5))))[1:5] == [2.5, -1.0, 1.5, -1.5]


def test_min_tokens_bans_what_would_end_the_text() -> None:
    banned = adjusted(LOGITS, row(2, min_tokens=3, stop_token_ids=frozenset({1, 99})))
    assert [i for i, x in enumerate(banned) if x == -math.inf] == [1, 5]
    assert adjusted(LOGITS, row(3, min_tokens=3, stop_token_ids=frozenset({1}))) == LOGITS


def test_the_key_decides_and_the_neighbours_do_not() -> None:
    logits = torch.randn(8, 500, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    params: list[dict[str, Any]] = [
        {"temperature": 0.5 + i / 4, "top_p": (1.0, 0.8)[i % 2], "top_k": (0, 40)[i % 3 == 0]} for i in range(8)
    ]
    rows = [row(i, seed=i * 7, **p) for i, p in enumerate(params)]
    together = sample(logits.clone(), rows)
    assert together == [sample(logits[i : i + 1].clone(), [rows[i]])[0] for i in range(8)]


def test_random_numbers_are_uniform_and_keyed() -> None:
    values = [uniform(seed, position) for seed in range(100) for position in range(100)]
    assert len(set(values)) == len(values)
    assert 0 <= min(values) < 0.001 < 0.999 < max(values) < 1
    assert sum(values) / len(values) == pytest.approx(0.5, abs=0.01)
    assert uniform(3, 4) == uniform(3, 4) != uniform(4, 3)
    assert 0 <= uniform(-5, 0) < 1


def test_logprobs_are_of_the_models_own_distribution_and_finite() -> None:
    logits = torch.tensor([LOGITS, [0.0, -math.inf, -1e9, 0.0, -2.0, -3.0]])
    first, second = logprobs(logits, [3, 1], 3)
    total = math.log(sum(math.exp(x) for x in LOGITS))
    assert first.logprob == pytest.approx(1.5 - total)
    assert [token for token, _ in first.top] == [0, 3, 1]
    assert [value for _, value in first.top] == pytest.approx([2.0 - total, 1.5 - total, 0.5 - total])
    assert math.isfinite(second.logprob)


def test_no_alternatives_where_none_are_asked_for() -> None:
    assert logprobs(torch.tensor([LOGITS]), [0], 0)[0].top == ()
