"""A step as tensors: the tokens of all sequences in one flat row, and who may see what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from forebay_runtime.execution.adapted import adapted_rows
from forebay_runtime.kernels.paged_attention import (
    MAX_QUERIES_IN_PRODUCT,
    AttentionGroup,
    ContextView,
    is_tiled,
    value_rows,
)
from forebay_runtime.models.decoder import ModelInput
from forebay_runtime.scheduling.step import ScheduledSequence, Step

_WORTH_A_GROUP = 512  # padded tokens saved that pay for the calls of one more group


@dataclass(frozen=True, slots=True)
class Batch:
    """`order[i]`: which scheduled sequence comes i-th in `model_input`; logits come in that order too."""

    model_input: ModelInput
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """What of the model and of its cache the tensors of a step depend on. `windows`: one entry per kind of layer."""

    block_size: int
    num_blocks: int
    num_heads: int
    num_kv_heads: int
    windows: frozenset[int | None]
    activations: torch.dtype
    device: torch.device


def make_batch(step: Step, layout: BatchLayout) -> Batch:
    scheduled = step.sequences
    grouped = group_sequences(scheduled, layout.block_size)
    groups, start = [], 0
    for members in grouped:
        sequences = [scheduled[i] for i in members]
        views = {w: context_view(sequences, w, layout) for w in layout.windows}
        groups.append(AttentionGroup(start, len(sequences), num_queries(sequences[0]), views))
        start += len(sequences) * num_queries(sequences[0])
    order = tuple(i for members in grouped for i in members)
    return Batch(_model_input([scheduled[i] for i in order], groups, layout), order)


def num_queries(scheduled: ScheduledSequence) -> int:
    return scheduled.num_new_tokens + len(scheduled.draft_token_ids)


def group_sequences(scheduled: Sequence[ScheduledSequence], block_size: int) -> list[list[int]]:
    """Indices, grouped by number of queries and then by length of context; long chunks stay alone.

    Within a group contexts are padded to the longest, so a group ends where splitting saves more than it costs.
    """
    by_queries: dict[int, list[int]] = {}
    groups: list[list[int]] = []
    for i, s in enumerate(scheduled):
        if num_queries(s) > MAX_QUERIES_IN_PRODUCT:
            groups.append([i])
        else:
            by_queries.setdefault(num_queries(s), []).append(i)
    for members in by_queries.values():
        groups += _split_by_length(members, [_num_blocks(scheduled[i], block_size) for i in members], block_size)
    return groups


def _split_by_length(members: list[int], num_blocks: list[int], block_size: int) -> list[list[int]]:
    pairs = sorted(zip(num_blocks, members, strict=True), key=lambda pair: -pair[0])
    groups: list[list[int]] = []
    longest = 0
    for i, (blocks, member) in enumerate(pairs):
        if not groups or (longest - blocks) * (len(pairs) - i) * block_size > _WORTH_A_GROUP:
            groups.append([])
            longest = blocks
        groups[-1].append(member)
    return groups


def _num_blocks(scheduled: ScheduledSequence, block_size: int) -> int:
    return -(-(scheduled.sequence.num_computed_tokens + num_queries(scheduled)) // block_size)


def context_view(sequences: Sequence[ScheduledSequence], window: int | None, layout: BatchLayout) -> ContextView:
    """The blocks from the first that any query of the sequence sees to its last, padded to the group's longest."""
    block_size, queries = layout.block_size, num_queries(sequences[0])
    firsts = [s.sequence.num_computed_tokens for s in sequences]
    skipped = [0 if window is None else max(0, first - window + 1) // block_size for first in firsts]
    ends = [_num_blocks(s, block_size) for s in sequences]
    length = max(end - skip for end, skip in zip(ends, skipped, strict=True))
    ids: list[int] = []
    for s, skip, end in zip(sequences, skipped, ends, strict=True):
        ids += s.sequence.block_table[skip:end]
        ids += [0] * (length - (end - skip))
    query_positions = torch.tensor(firsts).unsqueeze(1) + torch.arange(queries)
    key_positions = torch.tensor(skipped).unsqueeze(1) * block_size + torch.arange(length * block_size)
    mask = causal_mask(query_positions, key_positions, window, layout.activations).to(layout.device)
    block_ids = torch.tensor(ids).to(layout.device)
    if is_tiled(len(sequences), queries):
        return ContextView(block_ids, mask, block_ids[:0], block_ids[:0])
    slots = block_ids.unsqueeze(1) * block_size + torch.arange(block_size, device=layout.device)
    queries_per_kv_head = layout.num_heads // layout.num_kv_heads * queries
    rows, bags = value_rows(
        slots.view(len(sequences), -1), layout.num_kv_heads, queries_per_kv_head, layout.num_blocks * block_size
    )
    return ContextView(block_ids, mask, rows, bags)


def causal_mask(query_positions: Tensor, key_positions: Tensor, window: int | None, dtype: torch.dtype) -> Tensor:
    """(B, queries), (B, L) -> (B, queries, L): 0 where the query sees the key, else -inf."""
    distance = query_positions.unsqueeze(2) - key_positions.unsqueeze(1)
    hidden = distance < 0
    if window is not None:
        hidden |= distance >= window
    return torch.zeros(distance.shape, dtype=dtype).masked_fill_(hidden, float("-inf"))


def _model_input(
    ordered: Sequence[ScheduledSequence], groups: Sequence[AttentionGroup], layout: BatchLayout
) -> ModelInput:
    block_size = layout.block_size
    input_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    rows: list[int] = []
    for s in ordered:
        first, last = s.sequence.num_computed_tokens, s.sequence.num_computed_tokens + num_queries(s)
        table = s.sequence.block_table
        input_ids += s.sequence.token_ids[first : first + s.num_new_tokens]
        input_ids += s.draft_token_ids
        positions += range(first, last)
        slots += [table[p // block_size] * block_size + p % block_size for p in range(first, last)]
        rows += range(len(input_ids) - s.num_rows, len(input_ids))
    tensors = (
        torch.tensor(values, dtype=torch.long).to(layout.device) for values in (input_ids, positions, slots, rows)
    )
    ids, where, slot_mapping, logits_rows = tensors
    return ModelInput(ids, where, slot_mapping, groups, logits_rows, adapted_rows(ordered))
