"""The door to llguidance: a vocabulary once, a matcher for each grammar. Imports little: a process starts with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forebay_runtime.text.grammar_source import GrammarError, one_line

# Of one matcher. A state of the lexer takes one to two kilobytes; the rest is left as llguidance bounds it.
_LIMITS = {"max_lexer_states": 20_000, "verbose_errors": False}


@dataclass(frozen=True, slots=True)
class Words:
    """A vocabulary as data. `size`: the rows of the embedding, of which the last may have no token."""

    tokens: Sequence[bytes]
    special_ids: Sequence[int]
    eos_ids: Sequence[int]
    size: int


class _Wrapped:
    """What llguidance's TokenizerWrapper asks for."""

    def __init__(self, words: Words, encode: Callable[[str], list[int]]) -> None:
        self.eos_token_id, self.bos_token_id = words.eos_ids[0], None
        self.tokens, self.special_token_ids = words.tokens, words.special_ids
        self._encode = encode

    def __call__(self, text: bytes | str) -> list[int]:
        return self._encode(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)


def make_vocabulary(words: Words, encode: Callable[[str], list[int]]) -> Any:
    from llguidance import LLTokenizer, TokenizerWrapper

    wrapped = TokenizerWrapper(_Wrapped(words, encode))
    return LLTokenizer(wrapped, n_vocab=words.size, eos_token=list(words.eos_ids))


def make_matcher(vocabulary: Any, grammar: str, size: int) -> Any:
    """A matcher that knows its first mask already. GrammarError where there is no text that the grammar allows."""
    from llguidance import LLMatcher, LLParserLimits

    matcher = LLMatcher(vocabulary, grammar, log_level=0, limits=LLParserLimits(**_LIMITS))
    bitmask = np.zeros(-(-size // 32), dtype=np.int32)
    if not matcher.is_error():
        matcher.unsafe_compute_mask_ptr(bitmask.ctypes.data, bitmask.nbytes)
    if matcher.is_error():
        raise GrammarError(one_line(matcher.get_error()))
    if not bitmask.any():
        raise GrammarError("no text satisfies it")
    return matcher
