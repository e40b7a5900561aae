"""A small API server on loopback: objects by path, lists, watches that a test feeds, optimistic concurrency."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from tests.support.asgi import piece, start

Event = dict[str, Any]


class FakeApiServer:
    """`lists`: what a GET of that path lists. `objects`: what a GET of that path gives; PUT and PATCH change it.

    `events(path)` is the queue that feeds the watch of that path: events, or None to end the watch. `status` other than
    200 is the answer to everything.
    """

    def __init__(self) -> None:
        self.lists: dict[str, list[dict[str, Any]]] = {}
        self.objects: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.status = 200
        self.version = 1
        self._queues: dict[str, asyncio.Queue[Event | None]] = {}

    def events(self, path: str) -> asyncio.Queue[Event | None]:
        return self._queues.setdefault(path, asyncio.Queue())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = {k: v[0] for k, v in parse_qs(scope["query_string"].decode()).items()}
        self.requests.append((scope["method"], scope["path"], query))
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if self.status != 200:
            return await self._answer(send, self.status, {"message": "as the test wants it"})
        if "watch" in query:
            return await self._watch(scope["path"], send)
        if scope["path"] in self.lists:
            return await self._answer(send, 200, self._page(scope["path"], query))
        return await self._object(scope["method"], scope["path"], body, send)

    async def _answer(self, send: Send, status: int, document: object) -> None:
        await start(send, status, "application/json")
        await piece(send, json.dumps(document).encode(), more=False)

    def _page(self, path: str, query: dict[str, str]) -> dict[str, Any]:
        """Two objects a page, so that there are several."""
        at = int(query.get("continue") or 0)
        items = self.lists[path][at : at + 2]
        rest = str(at + 2) if at + 2 < len(self.lists[path]) else ""
        return {"metadata": {"resourceVersion": str(self.version), "continue": rest}, "items": items}

    async def _watch(self, path: str, send: Send) -> None:
        await start(send, 200, "application/json")
        while (event := await self.events(path).get()) is not None:
            line = json.dumps(event).encode() + b"\n"
            await piece(send, line[:7])
            await piece(send, line[7:])
        await piece(send, b"", more=False)

    async def _object(self, method: str, path: str, body: bytes, send: Send) -> None:
        held = self.objects.get(path)
        if held is None:
            return await self._answer(send, 404, {"message": f"{path} not found"})
        if method != "GET":
            change = json.loads(body)
            told = change.get("metadata", {}).get("resourceVersion")
            if told not in (None, held["metadata"]["resourceVersion"]):
                return await self._answer(send, 409, {"message": "the object has been modified"})
            held = change if method == "PUT" else merged(held, change)
            self.version += 1
            held["metadata"]["resourceVersion"] = str(self.version)
            self.objects[path] = held
        return await self._answer(send, 200, held)


def merged(into: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """RFC 7386, without removals."""
    return into | {
        key: merged(into.get(key, {}), value) if isinstance(value, dict) else value for key, value in change.items()
    }


def named(name: str, version: int = 1, namespace: str = "default", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "resourceVersion": str(version)}, **fields}
