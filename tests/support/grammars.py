"""Walks through grammars without a model."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from forebay_runtime.grammar import Grammar, GrammarState, fill_bitmask
from forebay_runtime.text.tokenizer import Tokenizer


def tokens_of(bits: np.ndarray[tuple[int], np.dtype[np.int32]], vocab_size: int) -> list[int]:
    """The ids whose bits are set in one row of a bitmask."""
    found: list[int] = np.flatnonzero(np.unpackbits(bits.view(np.uint8), count=vocab_size, bitorder="little")).tolist()
    return found


def allowed_next(state: GrammarState, output_token_ids: Sequence[int], vocab_size: int) -> list[int]:
    bitmask = np.full((1, -(-vocab_size // 32)), -1, dtype=np.int32)
    fill_bitmask(bitmask, [(0, state.follow(output_token_ids), ())])
    return tokens_of(bitmask[0], vocab_size)


def random_text(grammar: Grammar, tokenizer: Tokenizer, seed: int, most: int = 300) -> str | None:
    """A text that the grammar allows, chosen token by token; None if it has not come to its end by then."""
    choose, state, output = random.Random(seed), grammar.start(), list[int]()
    while len(output) < most:
        token_id = choose.choice(allowed_next(state, output, tokenizer.vocab_size))
        if token_id in tokenizer.eos_token_ids:
            return tokenizer.decode(output)
        output.append(token_id)
    return None


def allows(grammar: Grammar, tokenizer: Tokenizer, text: str) -> bool:
    """Whether the grammar lets a model say exactly this."""
    state, output = grammar.start(), list[int]()
    for token_id in [*tokenizer.encode(text, add_special_tokens=False), min(tokenizer.eos_token_ids)]:
        if token_id not in allowed_next(state, output, tokenizer.vocab_size):
            return False
        output.append(token_id)
    return True
