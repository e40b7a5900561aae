"""The routes of /v1/responses."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from forebay_runtime.request import RequestError
from forebay_runtime.server import sse
from forebay_runtime.server.endpoint import GenerationEndpoint
from forebay_runtime.server.json_reply import json_reply
from forebay_runtime.server.responses.dialect import AskedResponse
from forebay_runtime.server.responses.recording import Recording
from forebay_runtime.server.responses.reply import ResponseReply
from forebay_runtime.server.responses.store import Record, ResponseStore
from forebay_runtime.server.stream import EventStream

Json = dict[str, Any]
_ITEMS_A_PAGE, _MOST_ITEMS_A_PAGE = 20, 100


class CreateResponse:
    """POST. One in the background goes on when the client leaves, and is asked for by its id."""

    def __init__(self, generations: GenerationEndpoint[AskedResponse], store: ResponseStore) -> None:
        self._generations, self._store = generations, store
        self._making: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrival = time.monotonic()
        asked, size = await self._generations.read(scope, receive)
        if not asked.wire.background:
            await self._generations.answer(asked, size, arrival, scope, receive, send)
            return
        begun = await self._begin(asked, size, arrival, scope)
        reply = json_reply(begun) if asked.recording is None else _events(asked.recording, 0)
        await reply(scope, receive, send)

    async def _begin(self, asked: AskedResponse, size: int, arrival: float, scope: Scope) -> Json:
        begun: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._make(asked, size, arrival, scope, begun))
        self._making.add(task)
        task.add_done_callback(self._making.discard)
        return await begun

    async def _make(
        self, asked: AskedResponse, size: int, arrival: float, scope: Scope, begun: asyncio.Future[Json]
    ) -> None:
        """Puts into `begun` the response as it begins, or why it can't: its client waits for either."""
        try:
            async with self._generations.begin(asked, size, arrival, scope) as (generation, reply):
                assert isinstance(reply, ResponseReply)
                response = reply.response("in_progress")
                record = asked.record(response)
                self._store.put(Record(response, record.context, record.input, asyncio.current_task(), asked.recording))
                begun.set_result(response)
                try:
                    await EventStream(generation, reply).send(asked.recording.send if asked.recording else _nowhere)
                except asyncio.CancelledError:
                    if response["id"] in self._store:
                        reply.cancelled()
        except Exception as e:
            if begun.done():
                raise
            begun.set_exception(e)
        finally:
            if asked.recording is not None:
                asked.recording.end()


class KeptResponses:
    """What is done with a response by its id."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    async def one(self, request: Request) -> Response:
        return self._delete(request) if request.method == "DELETE" else self._retrieve(request)

    def _retrieve(self, request: Request) -> Response:
        record = self._get(request)
        if request.query_params.get("stream", "false") != "true":
            return json_reply(record.response)
        if record.recording is None:
            message = "stream: only a response made with background and stream can be streamed again."
            raise RequestError(message, code="invalid_value", param="stream")
        return _events(record.recording, _count(request, "starting_after", -1) + 1)

    async def cancel(self, request: Request) -> Response:
        record = self._get(request)
        if not record.response["background"]:
            message = "Only a response made in the background can be cancelled; others end with their connection."
            raise RequestError(message, code="invalid_value", param="response_id")
        if record.making is not None:
            record.making.cancel()
            await asyncio.wait([record.making])
        return json_reply(self._get(request).response)

    def _delete(self, request: Request) -> Response:
        record = self._store.delete(request.path_params["response_id"])
        if record.making is not None:
            record.making.cancel()
        return json_reply({"id": record.response_id, "object": "response", "deleted": True})

    async def input_items(self, request: Request) -> Response:
        items = list(self._get(request).input)
        order = request.query_params.get("order", "desc")
        if order not in ("asc", "desc"):
            raise RequestError("order: is 'asc' or 'desc'.", code="invalid_value", param="order")
        if order == "desc":
            items.reverse()
        after = request.query_params.get("after")
        ids = [item["id"] for item in items]
        if after is not None:
            if after not in ids:
                raise RequestError(f"after: there is no item {after[:64]!r}.", code="invalid_value", param="after")
            items = items[ids.index(after) + 1 :]
        return json_reply(_page(items, _count(request, "limit", _ITEMS_A_PAGE)))

    def _get(self, request: Request) -> Record:
        return self._store.get(request.path_params["response_id"])


def _page(items: list[Json], limit: int) -> Json:
    if not 1 <= limit <= _MOST_ITEMS_A_PAGE:
        raise RequestError(f"limit: is from 1 to {_MOST_ITEMS_A_PAGE}.", code="invalid_value", param="limit")
    page = items[:limit]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
    return {"object": "list", "data": page, **ends, "has_more": len(items) > limit}


def _count(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise RequestError(f"{name}: is no count.", code="invalid_value", param=name)
    return int(text)


def _events(recording: Recording, first: int) -> Response:
    headers = {name.decode(): value.decode() for name, value in sse.HEADERS}
    return StreamingResponse(recording.read(first), headers=headers)


async def _nowhere(_message: Message) -> None:
    """Takes the place of a connection where nobody reads."""
