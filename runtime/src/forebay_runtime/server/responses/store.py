"""The responses that can be asked for again, in bounded memory: the ones that were not used for longest go first."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from forebay_runtime.request import RequestError
from forebay_runtime.server.responses.recording import Recording

Json = dict[str, Any]
MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """`response` as it was last told. `context`: the items that it continued; `input`: its own, with ids.

    `making`: the task that makes it in the background, until it has ended. `recording`: its events, if it was streamed
    from there.
    """

    response: Json
    context: Sequence[Json]
    input: Sequence[Json]
    making: asyncio.Task[None] | None = None
    recording: Recording | None = None

    @property
    def response_id(self) -> str:
        return str(self.response["id"])

    def conversation(self) -> list[Json]:
        """What a response that follows this one continues."""
        return [*self.context, *self.input, *self.response["output"]]

    def size(self) -> int:
        """Bytes, about: of its text in JSON."""
        events = self.recording.size if self.recording is not None else 0
        return len(orjson.dumps((self.response, list(self.context), list(self.input)))) + events


class ResponseStore:
    """Thread-safe: a long body, and with it what it continues, is read off the event loop."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._records: OrderedDict[str, tuple[Record, int]] = OrderedDict()
        self.num_bytes = 0

    def __contains__(self, response_id: str) -> bool:
        return response_id in self._records

    def put(self, record: Record) -> None:
        """Keeps it, in the place of an earlier state of the same response."""
        size = record.size()
        with self._lock:
            self._drop(record.response_id)
            self._records[record.response_id] = (record, size)
            self.num_bytes += size
            while self.num_bytes > self._max_bytes:
                self._drop(next(iter(self._records)))

    def get(self, response_id: str, param: str = "response_id") -> Record:
        """RequestError 404 if it isn't kept (any more)."""
        with self._lock:
            found = self._records.get(response_id)
            if found is None:
                message = f"The response {response_id[:64]!r} is not kept here, or not any more."
                raise RequestError(message, status=404, code="response_not_found", param=param)
            self._records.move_to_end(response_id)
            return found[0]

    def delete(self, response_id: str) -> Record:
        """Forgets it and returns what was known. RequestError 404."""
        record = self.get(response_id)
        with self._lock:
            self._drop(response_id)
        return record

    def _drop(self, response_id: str) -> None:
        dropped = self._records.pop(response_id, None)
        if dropped is not None:
            self.num_bytes -= dropped[1]
