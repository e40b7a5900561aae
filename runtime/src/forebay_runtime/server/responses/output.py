"""The output items of a response in the making. What is done to them is told as events, streamed or not."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from forebay_runtime.text.answer import ArgumentsSaid, CallBegun, Piece, Said, Thought

Json = dict[str, Any]


class OutputItems:
    """Give it the answer's pieces; it returns the events that tell of them, without their sequence numbers."""

    def __init__(self) -> None:
        self.items: list[Json] = []  # as they are once the answer has ended
        self._open: _Message | _Reasoning | _Call | None = None

    @property
    def has_begun(self) -> bool:
        return bool(self.items) or self._open is not None

    def take(self, piece: Piece, logprobs: Sequence[Json] = ()) -> list[Json]:
        """`logprobs`: of what is said."""
        events: list[Json] = []
        match piece:
            case Said(text):
                if not isinstance(self._open, _Message):
                    events = self._begin(_Message())
                assert isinstance(self._open, _Message)
                return events + self._placed(self._open.add(text, logprobs))
            case Thought(text):
                if not isinstance(self._open, _Reasoning):
                    events = self._begin(_Reasoning())
                assert isinstance(self._open, _Reasoning)
                return events + self._placed(self._open.add(text))
            case CallBegun(_, call_id, name):
                return self._begin(_Call(call_id, name))
            case ArgumentsSaid(_, text):
                assert isinstance(self._open, _Call)
                return self._placed(self._open.add(text))

    def close(self, status: str) -> list[Json]:
        """Ends the item that is open, if one is."""
        if self._open is None:
            return []
        events = self._placed(self._open.end(status))
        self.items.append(self._open.item(status))
        self._open = None
        return events

    def _begin(self, item: _Message | _Reasoning | _Call) -> list[Json]:
        events = self.close("completed")
        self._open = item
        return events + self._placed(item.begin())

    def _placed(self, events: list[Json]) -> list[Json]:
        return [event | {"output_index": len(self.items)} for event in events]


class _Message:
    def __init__(self) -> None:
        self._id = _new_id("msg")
        self._texts: list[str] = []
        self._logprobs: list[Json] = []

    def begin(self) -> list[Json]:
        return _begun(self._item("in_progress", []), self._part())

    def add(self, text: str, logprobs: Sequence[Json]) -> list[Json]:
        self._texts.append(text)
        self._logprobs += logprobs
        event = {"type": "response.output_text.delta", "delta": text, "logprobs": list(logprobs)}
        return [_in_part(self._id, event)]

    def end(self, status: str) -> list[Json]:
        part = self._part()
        whole = {"type": "response.output_text.done", "text": part["text"], "logprobs": part["logprobs"]}
        return _ended(whole, part, self.item(status))

    def item(self, status: str) -> Json:
        return self._item(status, [self._part()])

    def _part(self) -> Json:
        return {
            "type": "output_text",
            "text": "".join(self._texts),
            "annotations": [],
            "logprobs": list(self._logprobs),
        }

    def _item(self, status: str, content: list[Json]) -> Json:
        return {"id": self._id, "type": "message", "role": "assistant", "status": status, "content": content}


class _Reasoning:
    def __init__(self) -> None:
        self._id = _new_id("rs")
        self._texts: list[str] = []

    def begin(self) -> list[Json]:
        return _begun(self._item("in_progress", []), self._part())

    def add(self, text: str) -> list[Json]:
        self._texts.append(text)
        return [_in_part(self._id, {"type": "response.reasoning_text.delta", "delta": text})]

    def end(self, status: str) -> list[Json]:
        part = self._part()
        return _ended({"type": "response.reasoning_text.done", "text": part["text"]}, part, self.item(status))

    def item(self, status: str) -> Json:
        return self._item(status, [self._part()])

    def _part(self) -> Json:
        return {"type": "reasoning_text", "text": "".join(self._texts)}

    def _item(self, status: str, content: list[Json]) -> Json:
        return {"id": self._id, "type": "reasoning", "summary": [], "status": status, "content": content}


class _Call:
    def __init__(self, call_id: str, name: str) -> None:
        self._id, self._call_id, self._name = _new_id("fc"), call_id, name
        self._arguments: list[str] = []

    def begin(self) -> list[Json]:
        return [{"type": "response.output_item.added", "item": self.item("in_progress")}]

    def add(self, text: str) -> list[Json]:
        self._arguments.append(text)
        return [{"type": "response.function_call_arguments.delta", "item_id": self._id, "delta": text}]

    def end(self, status: str) -> list[Json]:
        done = {"item_id": self._id, "name": self._name, "arguments": "".join(self._arguments)}
        return [
            {"type": "response.function_call_arguments.done", **done},
            {"type": "response.output_item.done", "item": self.item(status)},
        ]

    def item(self, status: str) -> Json:
        return {
            "id": self._id,
            "type": "function_call",
            "status": status,
            "call_id": self._call_id,
            "name": self._name,
            "arguments": "".join(self._arguments),
        }


def _new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"


def _in_part(item_id: str, event: Json) -> Json:
    return event | {"item_id": item_id, "content_index": 0}


def _begun(item: Json, part: Json) -> list[Json]:
    return [
        {"type": "response.output_item.added", "item": item},
        _in_part(item["id"], {"type": "response.content_part.added", "part": part}),
    ]


def _ended(whole: Json, part: Json, item: Json) -> list[Json]:
    return [
        _in_part(item["id"], whole),
        _in_part(item["id"], {"type": "response.content_part.done", "part": part}),
        {"type": "response.output_item.done", "item": item},
    ]
