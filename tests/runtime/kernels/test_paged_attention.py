"""Attention over blocks scattered through a cache equals attention over each sequence's own keys and values."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay_runtime.execution.batch import BatchLayout, make_batch
from forebay_runtime.kernels import reference
from forebay_runtime.kernels.paged_attention import LayerCache, paged_attention, write_kv
from forebay_runtime.request import Request, SamplingParams
from forebay_runtime.scheduling.sequence import Sequence
from forebay_runtime.scheduling.step import ScheduledSequence, Step

NUM_BLOCKS = 200


@dataclass(frozen=True)
class Shape:
    num_kv_heads: int
    group: int
    head_dim: int
    block_size: int


shapes = st.builds(
    Shape,
    num_kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    head_dim=st.sampled_from([4, 8, 16]),
    block_size=st.sampled_from([1, 4, 16]),
)
# (computed, new): a first chunk, a later one, a decode, a verification of drafts, a long chunk
parts = st.tuples(st.integers(0, 40), st.sampled_from([1, 1, 1, 2, 4, 16, 17, 30]))


def scheduled(computed: int, new: int, blocks: list[int], block_size: int) -> ScheduledSequence:
    total = computed + new
    table = [blocks.pop() for _ in range(-(-total // block_size))]
    sequence = Sequence(Request("r", (0,), SamplingParams()), [0] * total, total, table, num_computed_tokens=computed)
    return ScheduledSequence(sequence, new)


@settings(max_examples=40, deadline=None)
@given(shape=shapes, members=st.lists(parts, min_size=1, max_size=6), window=st.sampled_from([None, 1, 5, 33]))
def test_paged_attention_is_dense_attention(shape: Shape, members: list[tuple[int, int]], window: int | None) -> None:
    check(shape, members, window, None, torch.float64)


@settings(max_examples=10, deadline=None)
@given(shape=shapes, members=st.lists(parts, min_size=1, max_size=4))
def test_scores_are_capped(shape: Shape, members: list[tuple[int, int]]) -> None:
    check(shape, members, None, 0.7, torch.float64)


@pytest.mark.parametrize("kept", [torch.float32, torch.bfloat16, torch.float16])
def test_cache_of_another_type(kept: torch.dtype) -> None:
    check(Shape(2, 2, 8, 4), [(7, 1), (9, 1), (0, 20), (3, 2)], None, None, torch.float32, kept=kept)


def check(
    shape: Shape,
    members: list[tuple[int, int]],
    window: int | None,
    softcap: float | None,
    dtype: torch.dtype,
    kept: torch.dtype | None = None,
) -> None:
    draw = torch.Generator().manual_seed(0)
    blocks = list(range(NUM_BLOCKS * 16 // shape.block_size))
    num_blocks = len(blocks)
    random.Random(0).shuffle(blocks)
    step = Step(tuple(scheduled(c, n, blocks, shape.block_size) for c, n in members))
    num_heads = shape.num_kv_heads * shape.group
    layout = BatchLayout(
        shape.block_size, num_blocks, num_heads, shape.num_kv_heads, frozenset({window}), dtype, torch.device("cpu")
    )
    batch = make_batch(step, layout)
    # whatever earlier owners left in a block is finite and must not matter
    store = torch.randn(2, shape.num_kv_heads, num_blocks, shape.block_size, shape.head_dim, generator=draw) * 100
    cache = LayerCache(*store.to(kept or dtype))
    queries, expected = [], []
    for i in batch.order:
        s = step.sequences[i]
        computed, total = s.sequence.num_computed_tokens, s.sequence.num_tokens
        keys, values = torch.randn(2, total, shape.num_kv_heads, shape.head_dim, generator=draw).to(dtype)
        query = torch.randn(s.num_new_tokens, num_heads, shape.head_dim, generator=draw).to(dtype)
        slots = [s.sequence.block_table[p // shape.block_size] * shape.block_size + p % shape.block_size
                 for p in range(total)]  # fmt: skip
        write_kv(cache, keys, values, torch.tensor(slots))
        queries.append(query)
        expected += [
            reference.attention(query[j], keys[: computed + j + 1], values[: computed + j + 1], window, softcap)
            for j in range(s.num_new_tokens)
        ]
    flat = torch.cat(queries)
    out = torch.cat([paged_attention(flat[g.rows], cache, g, window, softcap) for g in batch.model_input.groups])
    atol = 1e-12 if dtype == torch.float64 else 1e-5 if kept == dtype else 0.05
    torch.testing.assert_close(out, torch.stack(expected).flatten(1), atol=atol, rtol=0)


def test_new_keys_and_values_lie_in_their_slots_and_nowhere_else() -> None:
    nan = float("nan")
    cache = LayerCache(torch.full((2, 6, 4, 8), nan), torch.full((2, 6, 4, 8), nan))
    keys, values = torch.randn(2, 3, 2, 8)
    write_kv(cache, keys, values, torch.tensor([5, 22, 0]))
    for store, new in ((cache.keys, keys), (cache.values, values)):
        slots = store.flatten(1, 2)
        torch.testing.assert_close(slots[:, [5, 22, 0]], new.transpose(0, 1))
        assert torch.isnan(slots).sum() == slots.numel() - new.numel()
