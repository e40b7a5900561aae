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

_MAX_CACHED = 128


class GrammarCompiler:
    """Of one model. Thread-safe; grammars that were asked for lately are kept. `vocab_size`: rows of the embedding."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        self._tokenizer, self._vocab_size = tokenizer, vocab_size
        self._cache: OrderedDict[GrammarSource, Grammar] = OrderedDict()
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
            grammar = self.known(source) or self._compile(source)
            with self._cache_lock:
                self._cache[source] = grammar
                if len(self._cache) > _MAX_CACHED:
                    self._cache.popitem(last=False)
            return grammar

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
