"""How a step becomes tensors."""

from __future__ import annotations

import torch

from forebay_runtime.execution.batch import BatchLayout, causal_mask, group_sequences, make_batch
from forebay_runtime.scheduling.step import ScheduledSequence, Step
from tests.support.forward import make_sequence

LAYOUT = BatchLayout(8, 100, 4, 2, frozenset({None}), torch.float32, torch.device("cpu"))


def scheduled(computed: int, new: int, drafts: tuple[int, ...] = (), tokens: int | None = None) -> ScheduledSequence:
    ids = list(range(100, 100 + (tokens or computed + new)))
    sequence = make_sequence(ids, num_blocks=-(-(len(ids) + len(drafts)) // 8))
    sequence.num_computed_tokens = computed
    return ScheduledSequence(sequence, new, drafts)


def test_tokens_positions_and_slots() -> None:
    batch = make_batch(Step((scheduled(6, 4, drafts=(7, 8)),)), LAYOUT).model_input
    assert batch.input_ids.tolist() == [106, 107, 108, 109, 7, 8]
    assert batch.positions.tolist() == [6, 7, 8, 9, 10, 11]
    assert batch.slot_mapping.tolist() == [2 * 8 + 6, 2 * 8 + 7, 8, 9, 10, 11]
    assert batch.logits_rows.tolist() == [3, 4, 5]


def test_a_chunk_that_is_not_the_last_samples_nothing() -> None:
    assert make_batch(Step((scheduled(0, 4, tokens=20),)), LAYOUT).model_input.logits_rows.tolist() == []


def test_equal_numbers_of_queries_go_together_and_long_chunks_alone() -> None:
    members = [scheduled(5, 1), scheduled(0, 40), scheduled(9, 1), scheduled(3, 1, (1, 2)), scheduled(0, 40)]
    assert sorted(map(sorted, group_sequences(members, 8))) == [[0, 2], [1], [3], [4]]


def test_short_contexts_are_not_padded_to_a_long_one() -> None:
    members = [scheduled(40, 1)] * 10 + [scheduled(700, 1)] + [scheduled(50, 1)] * 5
    groups = group_sequences(members, 8)
    assert [10] in groups
    assert sorted(i for group in groups for i in group) == list(range(16))


def test_rows_follow_the_groups() -> None:
    step = Step((scheduled(0, 30), scheduled(5, 1), scheduled(3, 1, (1, 2)), scheduled(7, 1)))
    batch = make_batch(step, LAYOUT)
    starts = [(g.start, g.num_sequences, g.num_queries) for g in batch.model_input.groups]
    assert starts == [(0, 1, 30), (30, 2, 1), (32, 1, 3)]
    assert batch.order == (0, 1, 3, 2)
    assert batch.model_input.logits_rows.tolist() == [29, 30, 31, 32, 33, 34]


def test_masks() -> None:
    seen = causal_mask(torch.tensor([[2, 3]]), torch.tensor([[0, 1, 2, 3, 4]]), None, torch.float32)[0] == 0
    assert seen.tolist() == [[True, True, True, False, False], [True, True, True, True, False]]
    seen = causal_mask(torch.tensor([[2, 3]]), torch.tensor([[0, 1, 2, 3, 4]]), 2, torch.float32)[0] == 0
    assert seen.tolist() == [[False, True, True, False, False], [False, False, True, True, False]]


def test_a_window_leaves_out_the_blocks_before_it() -> None:
    layout = BatchLayout(8, 100, 4, 2, frozenset({None, 10}), torch.float32, torch.device("cpu"))
    (group,) = make_batch(Step((scheduled(39, 1),)), layout).model_input.groups
    assert group.views[None].block_ids.tolist() == [5, 4, 3, 2, 1]
    assert group.views[10].block_ids.tolist() == [2, 1]
    assert (group.views[10].mask[0, 0] == 0).sum() == 10
