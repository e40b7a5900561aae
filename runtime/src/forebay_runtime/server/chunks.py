"""OpenAI's replies to chats and completions: choices in an envelope, whole or chunk by chunk."""

from __future__ import annotations

from typing import Any

import orjson

from forebay_runtime.request import RequestError
from forebay_runtime.server.choice import Choice, LogprobRow
from forebay_runtime.server.dialects import Generated, Head
from forebay_runtime.server.errors import error_body
from forebay_runtime.server.generation import Generation
from forebay_runtime.server.replies import Shape
from forebay_runtime.server.sse import DONE, event

Json = dict[str, Any]


class Chunks:
    """`shape` says how a choice looks; chunks have `usage` where it was asked for."""

    def __init__(self, wire: Generated, generation: Generation, shape: Shape, head: Head) -> None:
        self._generation, self._shape, self._head = generation, shape, head
        self._chunk_head = _chunk_head(head, shape.chunk_object)
        self._logprobs = wire.logprobs is not None and wire.logprobs is not False
        options = wire.stream_options
        self._usage = options is not None and bool(options.include_usage)
        self._running_usage = options is not None and bool(options.continuous_usage_stats)
        self._chunk_tail = b'],"usage":null}\n\n' if self._usage else b"]}\n\n"

    def opening(self) -> bytes:
        openings = [self._shape.opening(choice) for choice in self._generation.choices]
        return b"".join(self._chunk(opening) for opening in openings if opening is not None)

    def events(self, choice: Choice) -> bytes:
        piece = self._shape.piece(choice, self._rows(choice))
        data = b"" if piece is None else self._chunk(piece)
        if choice.finish_reason is not None and not choice.error:
            data += self._chunk(self._shape.closing(choice))
        return data

    def ending(self) -> bytes:
        if not self._usage:
            return DONE
        last = self._envelope(self._shape.chunk_object, []) | {"usage": self._generation.usage()}
        return event(orjson.dumps(last)) + DONE

    def failure(self, error: RequestError) -> bytes:
        return event(error_body(error))

    def whole(self) -> Json:
        choices = [self._shape.whole(c, self._rows(c)) for c in self._generation.best()]
        return self._envelope(self._shape.whole_object, choices) | {"usage": self._generation.usage()}

    def _rows(self, choice: Choice) -> list[LogprobRow] | None:
        return choice.take_rows() if self._logprobs else None

    def _chunk(self, choice: Json) -> bytes:
        """What is the same in all chunks of a stream is not encoded again for each token."""
        if self._usage and self._running_usage:
            chunk = self._envelope(self._shape.chunk_object, [choice])
            return event(orjson.dumps(chunk | {"usage": self._generation.usage()}))
        return self._chunk_head + orjson.dumps(choice) + self._chunk_tail

    def _envelope(self, kind: str, choices: list[Json]) -> Json:
        return _outside(self._head, kind) | {"choices": choices}


def _outside(head: Head, kind: str) -> Json:
    return {"id": head.request_id, "object": kind, "created": head.created, "model": head.model}


def _chunk_head(head: Head, kind: str) -> bytes:
    """An event, up to its first choice."""
    return b"data: " + orjson.dumps(_outside(head, kind)).removesuffix(b"}") + b',"choices":['
