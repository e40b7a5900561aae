"""Compiles what clients ask an answer to look like. Whatever can't be kept exactly is refused with its reason."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from forebay_runtime.grammar import Grammar
from forebay_runtime.text.grammar_source import GrammarError, GrammarSource
from forebay_runtime.text.grammar_trial import GrammarTrial
from forebay_runtime.text.matcher import Words, make_matcher, make_vocabulary
from forebay_runtime.text.tokenizer import Tokenizer

MAX_BYTES = 64 << 20
# What a grammar takes, measured: some 26 bytes a character of its text, and classes of Unicode half a megabyte.
_BYTES_A_CHARACTER, _BYTES_AT_LEAST = 32, 512 << 10


class GrammarCompiler:
    """Of one model. Thread-safe; grammars that were asked for lately are kept, in `max_bytes` or about that.

    `vocab_size`: rows of the embedding.
    """

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, max_bytes: int = MAX_BYTES) -> None:
        self._tokenizer, self._vocab_size, self._max_bytes = tokenizer, vocab_size, max_bytes
        self._cache: OrderedDict[GrammarSource, Grammar] = OrderedDict()
        self.num_bytes = 0  # of those that are kept
        self._cache_lock, self._compile_lock = threading.Lock(), threading.Lock()
        self._vocabulary: Any = None
        self._trial: GrammarTrial | None = None

    def known(self, source: GrammarSource) -> Grammar | None:
        """At once: what is kept."""
        with self._cache_lock:
            grammar = self._cache.get(source)
            if grammar is not None:
                self._cache.move_to_end(source)
            return grammar

    def compile(self, source: GrammarSource) -> Grammar:
        """May take seconds for a large one. GrammarError says in one line why the source can't be kept."""
        with self._compile_lock:
            known = self.known(source)
            if known is not None:
                return known
            grammar = self._compile(source)
            self._keep(source, grammar)
            return grammar

    def _keep(self, source: GrammarSource, grammar: Grammar) -> None:
        with self._cache_lock:
            self._cache[source] = grammar
            self.num_bytes += num_bytes(source)
            while self.num_bytes > self._max_bytes:
                dropped, _ = self._cache.popitem(last=False)
                self.num_bytes -= num_bytes(dropped)

    def _compile(self, source: GrammarSource) -> Grammar:
        if self._trial is None:
            words = self._words()
            self._vocabulary = make_vocabulary(words, self._encode)
            self._trial = GrammarTrial(words)
        grammar = self._trial.translate(source)
        return Grammar(make_matcher(self._vocabulary, grammar, self._vocab_size))

    def _words(self) -> Words:
        tokenizer = self._tokenizer
        if not tokenizer.eos_token_ids:
            raise GrammarError("this model has no token that ends an answer")
        tokens = [tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)]
        return Words(tokens, sorted(tokenizer.special_ids), sorted(tokenizer.eos_token_ids), self._vocab_size)

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)


def num_bytes(source: GrammarSource) -> int:
    """Of what is compiled from it, about."""
    return _BYTES_AT_LEAST + _BYTES_A_CHARACTER * (len(source.text) + len(source.frame or ""))
