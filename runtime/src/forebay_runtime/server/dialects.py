"""What chats and completions do differently: their wire models, their prompts, the shape of their replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from forebay_runtime.server import unsupported
from forebay_runtime.server.prompts import Prompt, PromptReader
from forebay_runtime.server.protocol import ChatCompletionRequest, CompletionRequest, parse
from forebay_runtime.server.replies import ChatShape, CompletionShape, Shape
from forebay_runtime.text.tokenizer import Tokenizer

Wire = TypeVar("Wire", ChatCompletionRequest, CompletionRequest)


class Dialect(Protocol[Wire]):
    def parse(self, body: dict[str, Any]) -> Wire: ...

    def num_prompts(self, wire: Wire) -> int:
        """Cheap: known before any text is read."""
        ...

    def prompts(self, wire: Wire) -> list[Prompt]: ...

    def shape(self, wire: Wire, prompts: Sequence[Prompt]) -> Shape: ...


class ChatDialect:
    def __init__(self, reader: PromptReader, tokenizer: Tokenizer) -> None:
        self._reader, self._tokenizer = reader, tokenizer

    def parse(self, body: dict[str, Any]) -> ChatCompletionRequest:
        wire = parse(ChatCompletionRequest, body)
        unsupported.refuse_unsupported(body, unsupported.CHAT)
        unsupported.refuse_constraints(body)
        return wire

    def num_prompts(self, wire: ChatCompletionRequest) -> int:
        return 1

    def prompts(self, wire: ChatCompletionRequest) -> list[Prompt]:
        variables = dict(wire.chat_template_kwargs or {})
        if wire.reasoning_effort is not None:
            variables["reasoning_effort"] = wire.reasoning_effort
        if wire.add_generation_prompt is not None:
            variables["add_generation_prompt"] = wire.add_generation_prompt
        return [self._reader.chat(wire.messages, variables)]

    def shape(self, wire: ChatCompletionRequest, prompts: Sequence[Prompt]) -> Shape:
        return ChatShape(self._tokenizer)


class CompletionDialect:
    def __init__(self, reader: PromptReader, tokenizer: Tokenizer) -> None:
        self._reader, self._tokenizer = reader, tokenizer

    def parse(self, body: dict[str, Any]) -> CompletionRequest:
        wire = parse(CompletionRequest, body)
        unsupported.refuse_unsupported(body, unsupported.COMPLETIONS)
        return wire

    def num_prompts(self, wire: CompletionRequest) -> int:
        several = isinstance(wire.prompt, list) and wire.prompt and isinstance(wire.prompt[0], str | list)
        return len(wire.prompt) if several else 1

    def prompts(self, wire: CompletionRequest) -> list[Prompt]:
        return self._reader.completion_prompts(wire.prompt)

    def shape(self, wire: CompletionRequest, prompts: Sequence[Prompt]) -> Shape:
        return CompletionShape(self._tokenizer, prompts, echo=bool(wire.echo))
