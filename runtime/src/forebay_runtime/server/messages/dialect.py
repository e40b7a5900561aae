"""/v1/messages as a dialect, and its count of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forebay_runtime.request import RequestError
from forebay_runtime.server.dialects import Head, Plan
from forebay_runtime.server.generation import Generation
from forebay_runtime.server.messages.reply import MessageReply
from forebay_runtime.server.messages.translation import NAMES, chat_body
from forebay_runtime.server.messages.wire import UNSUPPORTED, CountTokensRequest, MessagesRequest
from forebay_runtime.server.openai_dialects import ChatDialect, plan_in_words_of
from forebay_runtime.server.prompts import Prompt, PromptReader
from forebay_runtime.server.protocol import ChatCompletionRequest
from forebay_runtime.server.wire import parse, renamed


@dataclass(frozen=True, slots=True)
class AskedMessage:
    wire: MessagesRequest
    chat: ChatCompletionRequest


class MessagesDialect:
    id_prefix = "msg_"

    def __init__(self, chat: ChatDialect) -> None:
        self._chat = chat

    def parse(self, body: dict[str, Any]) -> AskedMessage:
        wire = parse(MessagesRequest, body)
        return AskedMessage(wire, to_chat(self._chat, wire, body))

    def generated(self, asked: AskedMessage) -> ChatCompletionRequest:
        return asked.chat

    def num_prompts(self, asked: AskedMessage) -> int:
        return 1

    def prompts(self, asked: AskedMessage) -> list[Prompt]:
        return self._chat.prompts(asked.chat)

    def plan(self, asked: AskedMessage, prompts: Sequence[Prompt]) -> Plan:
        return plan_in_words_of(NAMES, self._chat, asked.chat, prompts)

    def reply(self, asked: AskedMessage, prompts: Sequence[Prompt], generation: Generation, head: Head) -> MessageReply:
        return MessageReply(generation, head, asked.wire.max_tokens)


class TokenCount:
    """How many tokens a message's prompt has."""

    def __init__(self, chat: ChatDialect, reader: PromptReader) -> None:
        self._chat, self._reader = chat, reader

    def parse(self, body: dict[str, Any]) -> ChatCompletionRequest:
        return to_chat(self._chat, parse(CountTokensRequest, body), body)

    def count(self, chat: ChatCompletionRequest) -> int:
        return len(self._reader.chat_ids(chat))


def to_chat(dialect: ChatDialect, wire: CountTokensRequest, body: dict[str, Any]) -> ChatCompletionRequest:
    """RequestError in the words of /v1/messages."""
    for name, why in UNSUPPORTED.items():
        if body.get(name) is not None:
            raise RequestError(f"{name} is not supported: {why}.", code="unsupported_parameter", param=name)
    try:
        return dialect.parse(chat_body(wire))
    except RequestError as e:
        raise renamed(e, NAMES) from None
