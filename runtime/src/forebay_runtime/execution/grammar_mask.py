"""Bars the tokens that an output's grammar does not allow, before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from forebay_runtime.grammar import fill_bitmask
from forebay_runtime.scheduling.step import ScheduledSequence


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
    bits = np.unpackbits((~bitmask).view(np.uint8), axis=1, count=vocab_size, bitorder="little")
    barred = torch.from_numpy(bits.view(np.bool_)).to(logits.device)
    for row, bars in zip(rows, barred, strict=True):
        logits[row].masked_fill_(bars, float("-inf"))
