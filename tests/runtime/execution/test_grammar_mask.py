"""Grammars over logits: what they bar is never drawn, row by row and draft by draft."""

from __future__ import annotations

import pytest
import torch

from forebay_runtime.execution.runner import sample_step
from forebay_runtime.grammar import Grammar, GrammarFailure
from forebay_runtime.request import Request, SamplingParams
from forebay_runtime.scheduling.sequence import Sequence
from forebay_runtime.scheduling.step import ScheduledSequence
from forebay_runtime.text.grammar import GrammarCompiler
from forebay_runtime.text.grammar_source import GrammarKind, GrammarSource
from forebay_runtime.text.tokenizer import Tokenizer
from tests.support.toy_text import toy_tokenizer

PROMPT = (1, 2, 3)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return toy_tokenizer()


@pytest.fixture(scope="module")
def ab(tokenizer: Tokenizer) -> Grammar:
    """Some a, then some b."""
    return GrammarCompiler(tokenizer, tokenizer.vocab_size).compile(GrammarSource(GrammarKind.REGEX, "a{1,3}b{1,2}"))


def sequence(tokenizer: Tokenizer, output: str, grammar: Grammar | None, **params: object) -> Sequence:
    sampling = SamplingParams(temperature=0.0, max_tokens=20, **params)  # type: ignore[arg-type]
    state = None if grammar is None else grammar.start()
    request = Request("r", PROMPT, sampling, tokenizer.eos_token_ids, grammar=state)
    tokens = [*PROMPT, *tokenizer.encode(output)]
    return Sequence(request, tokens, len(PROMPT), num_computed_tokens=len(tokens) - 1)


def sampled(
    tokenizer: Tokenizer, scheduled: list[ScheduledSequence], favourite: str = "z", second: str = "b"
) -> list[str]:
    """The texts that are drawn where the model likes one token best, then another."""
    rows = sum(1 + len(s.draft_token_ids) for s in scheduled)
    logits = torch.zeros((rows, tokenizer.vocab_size))
    logits[:, tokenizer.encode(favourite)] = 5.0
    logits[:, tokenizer.encode(second)] = 4.0
    return [tokenizer.decode(s.token_ids) for s in sample_step(logits, scheduled)]


def test_each_row_keeps_its_own_grammar_and_the_others_are_free(tokenizer: Tokenizer, ab: Grammar) -> None:
    scheduled = [
        ScheduledSequence(sequence(tokenizer, output, grammar), 1)
        for output, grammar in (("", ab), ("qq", None), ("a", ab), ("aab", ab), ("aabb", ab))
    ]
    assert sampled(tokenizer, scheduled) == ["a", "z", "b", "b", "<|end|>"]


def test_drafts_are_judged_as_the_grammar_advances(tokenizer: Tokenizer, ab: Grammar) -> None:
    def drafted(draft: str) -> str:
        s = ScheduledSequence(sequence(tokenizer, "a", ab), 1, tuple(tokenizer.encode(draft)))
        return sampled(tokenizer, [s])[0]

    assert drafted("bb") == "bb<|end|>"
    assert drafted("bz") == "bb"
    assert drafted("zb") == "b"


def test_asking_again_for_the_same_step_gives_the_same(tokenizer: Tokenizer, ab: Grammar) -> None:
    s = ScheduledSequence(sequence(tokenizer, "aa", ab), 1, tuple(tokenizer.encode("bb")))
    assert sampled(tokenizer, [s]) == sampled(tokenizer, [s])


def test_a_grammar_at_its_end_wins_over_min_tokens(tokenizer: Tokenizer, ab: Grammar) -> None:
    early = sequence(tokenizer, "ab", ab, min_tokens=20)
    late = sequence(tokenizer, "abb", ab, min_tokens=20)
    scheduled = [ScheduledSequence(early, 1), ScheduledSequence(late, 1)]
    assert sampled(tokenizer, scheduled, favourite="<|end|>") == ["b", "<|end|>"]


def test_an_output_that_the_grammar_does_not_know_fails_that_output(tokenizer: Tokenizer, ab: Grammar) -> None:
    with pytest.raises(GrammarFailure):
        sampled(tokenizer, [ScheduledSequence(sequence(tokenizer, "ax", ab), 1)])
