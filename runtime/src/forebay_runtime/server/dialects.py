"""What a dialect is: its own wire model, what is to be generated for it, and the form of its reply.

Generation itself knows one language, OpenAI's chats and completions; a dialect with words of its own translates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from forebay_runtime.request import RequestError
from forebay_runtime.server.choice import Choice
from forebay_runtime.server.constraints import Constraint
from forebay_runtime.server.generation import Generation
from forebay_runtime.server.prompts import Prompt
from forebay_runtime.server.protocol import ChatCompletionRequest, CompletionRequest
from forebay_runtime.text.answer import AnswerParser, PlainParser

Generated = ChatCompletionRequest | CompletionRequest
Asked = TypeVar("Asked")


@dataclass(frozen=True, slots=True)
class Head:
    """What a reply says of itself. `created`: seconds since the epoch."""

    request_id: str
    created: int
    model: str


@dataclass(frozen=True, slots=True)
class Plan:
    """How the answer must look, and how it is read: a new parser for each output."""

    constraint: Constraint | None = None
    parser: Callable[[], AnswerParser] = PlainParser


class Reply(Protocol):
    """The answer to one request, whole or as events on the wire."""

    def opening(self) -> bytes:
        """What goes out at once, before any token."""
        ...

    def events(self, choice: Choice) -> bytes:
        """What has become certain of a choice since the last time, its end included."""
        ...

    def ending(self) -> bytes:
        """Once every choice has ended."""
        ...

    def failure(self, error: RequestError) -> bytes:
        """The stream's last words where it can't go on."""
        ...

    def whole(self) -> dict[str, Any]: ...


class Dialect(Protocol[Asked]):
    """`id_prefix` begins the ids of its replies. RequestErrors are raised in the words of its own wire."""

    id_prefix: str

    def parse(self, body: dict[str, Any]) -> Asked: ...

    def generated(self, asked: Asked) -> Generated: ...

    def num_prompts(self, asked: Asked) -> int:
        """Cheap: known before any text is read."""
        ...

    def prompts(self, asked: Asked) -> list[Prompt]: ...

    def plan(self, asked: Asked, prompts: Sequence[Prompt]) -> Plan: ...

    def reply(self, asked: Asked, prompts: Sequence[Prompt], generation: Generation, head: Head) -> Reply: ...
