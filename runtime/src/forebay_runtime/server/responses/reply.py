"""A response object, and the events of its making."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from forebay_runtime.request import FinishReason, RequestError
from forebay_runtime.server.choice import Choice
from forebay_runtime.server.dialects import Head
from forebay_runtime.server.generation import Generation
from forebay_runtime.server.replies import ChatShape
from forebay_runtime.server.responses.output import OutputItems
from forebay_runtime.server.responses.wire import ResponsesRequest, wanted_logprobs
from forebay_runtime.server.sse import event
from forebay_runtime.text.answer import Said

Json = dict[str, Any]


class ResponseReply:
    """`shape` puts logprobs as chats do. `ended(response)` is called with the whole response."""

    def __init__(
        self,
        wire: ResponsesRequest,
        generation: Generation,
        shape: ChatShape,
        head: Head,
        ended: Callable[[Json], None],
    ) -> None:
        self._wire, self._generation, self._shape, self._head, self._ended = wire, generation, shape, head, ended
        self._logprobs = wanted_logprobs(wire)
        self._output = OutputItems()
        self._rows: list[Json] = []
        self._num_events = 0

    def response(self, status: str, **last: Any) -> Json:
        """As it stands. `last`: what only one that has ended has."""
        ended = status in ("completed", "incomplete", "failed", "cancelled")
        return {
            "id": self._head.request_id,
            "object": "response",
            "created_at": self._head.created,
            "completed_at": int(time.time()) if status == "completed" else None,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self._head.model,
            "output": list(self._output.items),
            "usage": self._usage() if ended else None,
            **_echoed(self._wire),
            **last,
        }

    def opening(self) -> bytes:
        kinds = ("response.created", "response.in_progress")
        return self._told([{"type": kind, "response": self.response("in_progress")} for kind in kinds])

    def events(self, choice: Choice) -> bytes:
        events = self._take(choice)
        if choice.finish_reason is not None and not choice.error:
            events += self._close(choice)
        return self._told(events)

    def ending(self) -> bytes:
        response = self._finished()
        return self._told([{"type": f"response.{response['status']}", "response": response}])

    def failure(self, error: RequestError) -> bytes:
        self._output.close("incomplete")
        response = self.response("failed", error={"code": "server_error", "message": error.message})
        self._ended(response)
        return self._told([{"type": "response.failed", "response": response}])

    def whole(self) -> Json:
        (choice,) = self._generation.choices
        self._take(choice)
        self._close(choice)
        return self._finished()

    def cancelled(self) -> None:
        self._output.close("incomplete")
        self._ended(self.response("cancelled"))

    def _take(self, choice: Choice) -> list[Json]:
        """What has come since the last time. Logprobs go with the next words: reasoning and calls have no place."""
        if self._logprobs:
            self._rows += self._shape.rows(choice.take_rows())
        events: list[Json] = []
        for piece in choice.take_pieces():
            if isinstance(piece, Said):
                events += self._output.take(piece, self._rows)
                self._rows = []
            else:
                events += self._output.take(piece)
        return events

    def _close(self, choice: Choice) -> list[Json]:
        """Says at least nothing: an answer without a word has an empty message."""
        silent = [] if self._output.has_begun else self._output.take(Said(""), self._rows)
        return silent + self._output.close("incomplete" if _is_cut(choice) else "completed")

    def _finished(self) -> Json:
        if _is_cut(self._generation.choices[0]):
            response = self.response("incomplete", incomplete_details={"reason": "max_output_tokens"})
        else:
            response = self.response("completed")
        self._ended(response)
        return response

    def _told(self, events: Iterable[Json]) -> bytes:
        data = []
        for e in events:
            data.append(event(orjson.dumps(e | {"sequence_number": self._num_events}), e["type"]))
            self._num_events += 1
        return b"".join(data)

    def _usage(self) -> Json:
        usage = self._generation.usage()
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": dict(usage["completion_tokens_details"]),
            "total_tokens": usage["total_tokens"],
        }


def _is_cut(choice: Choice) -> bool:
    return choice.finish_reason is FinishReason.LENGTH


def _echoed(wire: ResponsesRequest) -> Json:
    """What the request asked for, with the defaults filled in."""
    form = wire.text.format if wire.text else None
    choice = wire.tool_choice
    return {
        "instructions": wire.instructions,
        "previous_response_id": wire.previous_response_id,
        "max_output_tokens": wire.max_output_tokens,
        "max_tool_calls": None,
        "temperature": 1.0 if wire.temperature is None else wire.temperature,
        "top_p": 1.0 if wire.top_p is None else wire.top_p,
        "top_logprobs": wire.top_logprobs or 0,
        "parallel_tool_calls": wire.parallel_tool_calls is not False,
        "tool_choice": choice if isinstance(choice, str) else choice.model_dump() if choice else "auto",
        "tools": [
            tool.model_dump(exclude_none=True) | {"parameters": tool.parameters, "strict": tool.strict}
            for tool in wire.tools or ()
        ],
        "text": {"format": {"type": "text"} if form is None else form.model_dump(exclude_none=True, by_alias=True)},
        "reasoning": {"effort": wire.reasoning.effort if wire.reasoning else None, "summary": None},
        "truncation": "disabled",
        "background": bool(wire.background),
        "store": wire.store is not False,
        "service_tier": "default",
        "metadata": wire.metadata or {},
        "user": wire.user,
    }
