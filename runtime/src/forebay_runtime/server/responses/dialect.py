"""/v1/responses as a dialect: read, translated to a chat, answered and kept."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from forebay_runtime.request import RequestError
from forebay_runtime.server.dialects import Head, Plan
from forebay_runtime.server.generation import Generation
from forebay_runtime.server.openai_dialects import ChatDialect, plan_in_words_of
from forebay_runtime.server.prompts import Prompt
from forebay_runtime.server.protocol import ChatCompletionRequest
from forebay_runtime.server.responses.items import NAMES, chat_body
from forebay_runtime.server.responses.recording import Recording
from forebay_runtime.server.responses.reply import ResponseReply
from forebay_runtime.server.responses.store import Record, ResponseStore
from forebay_runtime.server.responses.wire import UNSUPPORTED, Item, ResponsesRequest
from forebay_runtime.server.wire import parse, renamed

Json = dict[str, Any]

_ITEMS: TypeAdapter[list[Item]] = TypeAdapter(list[Item])
_ID_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}


@dataclass(frozen=True, slots=True)
class AskedResponse:
    """`context`: the items that are continued; `recording`: where the events go that nobody may be reading."""

    wire: ResponsesRequest
    chat: ChatCompletionRequest
    context: Sequence[Json]
    input: Sequence[Json]
    recording: Recording | None

    def record(self, response: Json) -> Record:
        return Record(response, self.context, self.input, recording=self.recording)


class ResponsesDialect:
    id_prefix = "resp_"

    def __init__(self, chat: ChatDialect, store: ResponseStore) -> None:
        self._chat, self._store = chat, store

    def parse(self, body: dict[str, Any]) -> AskedResponse:
        wire = parse(ResponsesRequest, body)
        _refuse_unsupported(body)
        context: list[Json] = []
        if wire.previous_response_id is not None:
            context = _continued(self._store.get(wire.previous_response_id, "previous_response_id"))
        try:
            chat = self._chat.parse(chat_body(wire, [*_ITEMS.validate_python(context), *wire.input]))
        except RequestError as e:
            raise renamed(e, NAMES) from None
        recording = Recording() if wire.background and wire.stream else None
        return AskedResponse(wire, chat, context, [_with_id(item) for item in wire.input], recording)

    def generated(self, asked: AskedResponse) -> ChatCompletionRequest:
        return asked.chat

    def num_prompts(self, asked: AskedResponse) -> int:
        return 1

    def prompts(self, asked: AskedResponse) -> list[Prompt]:
        try:
            return self._chat.prompts(asked.chat)
        except RequestError as e:
            raise renamed(e, NAMES) from None

    def plan(self, asked: AskedResponse, prompts: Sequence[Prompt]) -> Plan:
        return plan_in_words_of(NAMES, self._chat, asked.chat, prompts)

    def reply(
        self, asked: AskedResponse, prompts: Sequence[Prompt], generation: Generation, head: Head
    ) -> ResponseReply:
        def keep(response: Json) -> None:
            if asked.wire.store is not False:
                self._store.put(asked.record(response))

        return ResponseReply(asked.wire, generation, self._chat.shape(asked.chat), head, keep)


def _continued(record: Record) -> list[Json]:
    """RequestError 400 where there is no answer to go on from, or not all of it yet."""
    status = record.response["status"]
    if status not in ("completed", "incomplete"):
        message = (
            f"previous_response_id: the response is {status}; only one that has ended with an answer is continued."
        )
        raise RequestError(message, code="response_not_completed", param="previous_response_id")
    return record.conversation()


def _refuse_unsupported(body: dict[str, Any]) -> None:
    for name, why in UNSUPPORTED.items():
        if body.get(name) is not None:
            raise RequestError(f"{name} is not supported: {why}.", code="unsupported_parameter", param=name)


def _with_id(item: Item) -> Json:
    own = item.model_dump(exclude_none=True)
    own["type"] = kind = own.get("type", "message")
    return {"status": "completed", **own, "id": item.id or f"{_ID_PREFIXES[kind]}_{uuid.uuid4().hex}"}
