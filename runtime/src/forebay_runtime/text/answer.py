"""What an answer is made of: things said, things thought, and calls of tools, piece by piece or whole.

A parser reads an answer's text as it comes. Joined over the pushes and `finish`, its pieces do not depend on how the
text was cut.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Said:
    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """The answer's `index`-th call, counted from 0. Its arguments follow, before any other call begins."""

    index: int
    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsSaid:
    """More of the JSON text of a call's arguments."""

    index: int
    text: str


Piece = Said | Thought | CallBegun | ArgumentsSaid


class AnswerParser(Protocol):
    """Of one answer. `markers`: the control tokens whose text it needs to see; others are hidden from it."""

    markers: frozenset[str]

    @property
    def thought_end(self) -> int:
        """How far its thoughts and their marks reach, in characters of what was pushed: beyond all of it while they go
        on, 0 where there are none.
        """
        ...

    def push(self, text: str) -> list[Piece]:
        """What has become certain with this text."""
        ...

    def finish(self) -> list[Piece]:
        """The rest, once no text comes any more."""
        ...


class PlainParser:
    """All is said."""

    markers: frozenset[str] = frozenset()
    thought_end = 0

    def push(self, text: str) -> list[Piece]:
        return [Said(text)] if text else []

    def finish(self) -> list[Piece]:
        return []


@dataclass(slots=True)
class Call:
    call_id: str
    name: str
    arguments: str = ""


@dataclass(slots=True)
class Answer:
    """The whole of it."""

    said: str = ""
    thought: str = ""
    calls: list[Call] = field(default_factory=list)


def answer_of(pieces: Iterable[Piece]) -> Answer:
    answer = Answer()
    for piece in pieces:
        match piece:
            case Said(text):
                answer.said += text
            case Thought(text):
                answer.thought += text
            case CallBegun(_, call_id, name):
                answer.calls.append(Call(call_id, name))
            case ArgumentsSaid(index, text):
                answer.calls[index].arguments += text
    return answer


def new_call_id() -> str:
    return f"call_{secrets.token_hex(12)}"
