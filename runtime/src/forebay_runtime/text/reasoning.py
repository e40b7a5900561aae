"""Tells what a model thinks from what it says: thoughts stand between two marks, at the answer's beginning."""

from __future__ import annotations

import enum
import sys
from dataclasses import replace

from forebay_runtime.text.answer import AnswerParser, Piece, Thought
from forebay_runtime.text.detokenizer import overlap
from forebay_runtime.text.grammar_source import GrammarSource, lark_text
from forebay_runtime.text.tokenizer import Tokenizer

BEGIN, END = "<think>", "</think>"


def thoughts_before(source: GrammarSource, tokenizer: Tokenizer, *, thinking: bool) -> GrammarSource:
    """The same, after thoughts: that have begun already, or that may come."""
    begin, end = (lark_text(mark, (BEGIN, END), tokenizer) for mark in (BEGIN, END))
    frame = (source.frame or "start: @answer").replace("start:", "body:", 1)
    thought = f"{'' if thinking else begin} thought GAP?"
    start = f"start: {thought if thinking else f'({thought})?'} body"
    return replace(source, frame=f"{start}\nthought[stop={end}]: /(?s:.*)/\nGAP: /\\n{{1,2}}/\n{frame}")


class _Mode(enum.Enum):
    BEGINNING = enum.auto()
    THINKING = enum.auto()
    ENDING = enum.auto()  # blanks between thoughts and words
    SAYING = enum.auto()


class ReasoningParser:
    """`inner` reads what is said. `thinking`: the prompt has begun the thoughts already."""

    def __init__(self, inner: AnswerParser, *, thinking: bool) -> None:
        self._inner = inner
        self.markers = inner.markers | {BEGIN, END}
        self._mode = _Mode.THINKING if thinking else _Mode.BEGINNING
        self._text = ""
        self._num_chars = 0  # pushed, until thoughts have ended
        self._thought_end = 0
        self._has_thought = False

    @property
    def thought_end(self) -> int:
        return sys.maxsize if self._mode is _Mode.THINKING else self._thought_end

    def push(self, text: str) -> list[Piece]:
        if self._mode is _Mode.SAYING:
            return self._inner.push(text)
        self._num_chars += len(text)
        self._text += text
        pieces: list[Piece] = []
        if self._mode is _Mode.BEGINNING:
            self._begin()
        if self._mode is _Mode.THINKING:
            pieces += self._think()
        if self._mode is _Mode.ENDING and self._text.strip():
            self._text, self._mode = self._text.lstrip(), _Mode.SAYING
        if self._mode is _Mode.SAYING:
            pieces += self._inner.push(self._text)
            self._text = ""
        return pieces

    def finish(self) -> list[Piece]:
        rest, self._text = self._text, ""
        match self._mode:
            case _Mode.BEGINNING:
                pieces = self._inner.push(rest)
            case _Mode.THINKING:
                pieces = self._thought(rest)
            case _:
                pieces = []
        return [*pieces, *self._inner.finish()]

    def _begin(self) -> None:
        rest = self._text.lstrip()
        if rest.startswith(BEGIN):
            self._text, self._mode = rest.removeprefix(BEGIN), _Mode.THINKING
        elif not BEGIN.startswith(rest):
            self._mode = _Mode.SAYING

    def _think(self) -> list[Piece]:
        at = self._text.find(END)
        if at >= 0:
            thought, self._text = self._text[:at], self._text[at + len(END) :]
            self._mode = _Mode.ENDING
            self._thought_end = self._num_chars - len(self._text)
            return self._thought(thought.rstrip())
        certain = len(self._text) - overlap(self._text, END)
        certain = len(self._text[:certain].rstrip())  # blanks before the end are no thought
        thought, self._text = self._text[:certain], self._text[certain:]
        return self._thought(thought)

    def _thought(self, text: str) -> list[Piece]:
        if not self._has_thought:
            text = text.lstrip()
        self._has_thought = self._has_thought or bool(text)
        return [Thought(text)] if text else []
