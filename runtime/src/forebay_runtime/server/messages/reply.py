"""Anthropic's message object, and the events of its making."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from forebay_runtime.request import RequestError
from forebay_runtime.server.choice import Choice
from forebay_runtime.server.dialects import Head
from forebay_runtime.server.generation import Generation
from forebay_runtime.server.messages.errors import error_body
from forebay_runtime.server.messages.output import ContentBlocks
from forebay_runtime.server.sse import event

Json = dict[str, Any]


class MessageReply:
    """`max_tokens`: what the client granted, to tell its limit from the context's."""

    def __init__(self, generation: Generation, head: Head, max_tokens: int) -> None:
        self._generation, self._head, self._max_tokens = generation, head, max_tokens
        self._content = ContentBlocks()

    def opening(self) -> bytes:
        return _told([{"type": "message_start", "message": self._message(None, None)}])

    def events(self, choice: Choice) -> bytes:
        events = [e for piece in choice.take_pieces() for e in self._content.take(piece)]
        if choice.finish_reason is not None and not choice.error:
            events += self._content.close()
        return _told(events)

    def ending(self) -> bytes:
        reason, stop = self._stop()
        delta = {"stop_reason": reason, "stop_sequence": stop, "stop_details": None, "container": None}
        return _told([{"type": "message_delta", "delta": delta, "usage": self._usage()}, {"type": "message_stop"}])

    def failure(self, error: RequestError) -> bytes:
        return event(error_body(error), "error")

    def whole(self) -> Json:
        (choice,) = self._generation.choices
        for piece in choice.take_pieces():
            self._content.take(piece)
        self._content.close()
        return self._message(*self._stop())

    def _message(self, reason: str | None, stop: str | None) -> Json:
        return {
            "id": self._head.request_id,
            "type": "message",
            "role": "assistant",
            "model": self._head.model,
            "content": list(self._content.blocks),
            "stop_reason": reason,
            "stop_sequence": stop,
            "stop_details": None,
            "container": None,
            "usage": self._usage(),
        }

    def _stop(self) -> tuple[str, str | None]:
        (choice,) = self._generation.choices
        match choice.reason:
            case "tool_calls":
                return "tool_use", None
            case "length":
                cut = choice.num_tokens >= self._max_tokens
                return "max_tokens" if cut else "model_context_window_exceeded", None
            case _:
                return ("end_turn", None) if choice.stop_string is None else ("stop_sequence", choice.stop_string)

    def _usage(self) -> Json:
        """Anthropic's input_tokens are those that no cache gave."""
        usage = self._generation.usage()
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return {
            "input_tokens": usage["prompt_tokens"] - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": usage["completion_tokens"],
        }


def _told(events: Iterable[Json]) -> bytes:
    return b"".join(event(orjson.dumps(e), e["type"]) for e in events)
