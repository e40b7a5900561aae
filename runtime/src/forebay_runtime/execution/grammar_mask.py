"""Bars the tokens that an output's grammar does not allow, before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from forebay_runtime.grammar import fill_bitmask
from forebay_runtime.scheduling.step import ScheduledSequence

# By the byte of a bitmask: 0 where a token is allowed, -inf where it isn't. Adding these row by row stays in the cache
# and does not branch: filling by a boolean mask takes four times as long where every other token is barred.
_BARS = np.where(np.arange(256)[:, None] >> np.arange(8) & 1, 0, -np.inf).astype(np.float32)


def bar_by_grammar(logits: Tensor, scheduled: Sequence[ScheduledSequence]) -> None:
    """(rows, V) in place; 1 + drafts rows for each sequence that samples, in order. GrammarFailure.

    The row after a draft is masked as if the draft were accepted; below one that the grammar bars rows stay as they
    are, since the target never agrees with it.
    """
    rows: list[int] = []
    wanted = []
    at = 0
    for s in scheduled:
        width = 1 + len(s.draft_token_ids) if s.samples else 0
        grammar = s.sequence.request.grammar
        if grammar is not None and width:
            wanted.append((len(rows), grammar.follow(s.sequence.output_token_ids), s.draft_token_ids))
            rows += range(at, at + width)
        at += width
    if not rows:
        return
    vocab_size = logits.shape[-1]
    bitmask = np.full((len(rows), -(-vocab_size // 32)), -1, dtype=np.int32)
    fill_bitmask(bitmask, wanted)
    for row, bits in zip(rows, bitmask.view(np.uint8), strict=True):
        bars = np.take(_BARS, bits, axis=0, mode="clip").reshape(-1)[:vocab_size]
        logits[row].add_(torch.from_numpy(bars).to(logits.device))
