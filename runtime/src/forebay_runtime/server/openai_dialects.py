"""OpenAI's chats and completions: the two dialects that need no translation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from forebay_runtime.request import RequestError
from forebay_runtime.server import unsupported
from forebay_runtime.server.answering import AnswerStyle, plan
from forebay_runtime.server.chunks import Chunks
from forebay_runtime.server.constraints import constraint_of
from forebay_runtime.server.dialects import Head, Plan, Reply
from forebay_runtime.server.generation import Generation
from forebay_runtime.server.prompts import Prompt, PromptReader, num_prompts
from forebay_runtime.server.protocol import ChatCompletionRequest, CompletionRequest
from forebay_runtime.server.replies import ChatShape, CompletionShape
from forebay_runtime.server.wire import parse, renamed, renamed_param
from forebay_runtime.text.tokenizer import Tokenizer


class ChatDialect:
    id_prefix = "chatcmpl-"

    def __init__(self, reader: PromptReader, tokenizer: Tokenizer, style: AnswerStyle) -> None:
        self._reader, self._tokenizer, self._style = reader, tokenizer, style

    def parse(self, body: dict[str, Any]) -> ChatCompletionRequest:
        wire = parse(ChatCompletionRequest, body)
        unsupported.refuse_unsupported(body, unsupported.CHAT)
        return wire

    def generated(self, asked: ChatCompletionRequest) -> ChatCompletionRequest:
        return asked

    def num_prompts(self, asked: ChatCompletionRequest) -> int:
        return 1

    def prompts(self, asked: ChatCompletionRequest) -> list[Prompt]:
        return [self._reader.chat(asked)]

    def plan(self, asked: ChatCompletionRequest, prompts: Sequence[Prompt]) -> Plan:
        return plan(asked, prompts[0], self._style, self._tokenizer)

    def reply(
        self, asked: ChatCompletionRequest, prompts: Sequence[Prompt], generation: Generation, head: Head
    ) -> Reply:
        return Chunks(asked, generation, self.shape(asked), head)

    def shape(self, asked: ChatCompletionRequest) -> ChatShape:
        return ChatShape(self._tokenizer)


def plan_in_words_of(
    names: dict[str, str], chat: ChatDialect, asked: ChatCompletionRequest, prompts: Sequence[Prompt]
) -> Plan:
    """A chat's plan, where `names` lead from the chat's fields to those of the dialect that asked for the chat."""
    try:
        made = chat.plan(asked, prompts)
    except RequestError as e:
        raise renamed(e, names) from None
    if made.constraint is None:
        return made
    return replace(made, constraint=replace(made.constraint, param=renamed_param(made.constraint.param, names)))


class CompletionDialect:
    id_prefix = "cmpl-"

    def __init__(self, reader: PromptReader, tokenizer: Tokenizer) -> None:
        self._reader, self._tokenizer = reader, tokenizer

    def parse(self, body: dict[str, Any]) -> CompletionRequest:
        wire = parse(CompletionRequest, body)
        unsupported.refuse_unsupported(body, unsupported.COMPLETIONS)
        return wire

    def generated(self, asked: CompletionRequest) -> CompletionRequest:
        return asked

    def num_prompts(self, asked: CompletionRequest) -> int:
        return num_prompts(asked.prompt)

    def prompts(self, asked: CompletionRequest) -> list[Prompt]:
        return self._reader.completion_prompts(asked.prompt)

    def plan(self, asked: CompletionRequest, prompts: Sequence[Prompt]) -> Plan:
        return Plan(constraint_of(asked))

    def reply(self, asked: CompletionRequest, prompts: Sequence[Prompt], generation: Generation, head: Head) -> Reply:
        return Chunks(asked, generation, CompletionShape(self._tokenizer, prompts, echo=bool(asked.echo)), head)
