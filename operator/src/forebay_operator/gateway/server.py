"""The gateway's ASGI application: its paths, what it asks of a request, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from forebay_operator.endpoints import Endpoint, Route
from forebay_operator.gateway import errors, keeping
from forebay_operator.gateway.admission import ApiKeys, Room, parse_body
from forebay_operator.gateway.body import Body, ClientGoneError, header
from forebay_operator.gateway.errors import Refusal
from forebay_operator.gateway.exchange import Exchange
from forebay_operator.gateway.pages import OPEN, Pages
from forebay_operator.gateway.routing import request_key
from forebay_operator.gateway.telemetry import Telemetry
from forebay_operator.gateway.upstream import Inbound

log = logging.getLogger(__name__)

FORWARDED = (
    *("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/tokenize", "/detokenize"),
    *(keeping.CREATE, "/v1/messages", "/v1/messages/count_tokens"),
)


Answer = Callable[[Scope, Receive, Send], Awaitable[Response | None]]  # None: it has been answered


class Gateway:
    """One OpenAI endpoint for all routes.

    `routes` and `keys` give what holds at the moment (keys: None if none are asked for).
    """

    def __init__(
        self,
        exchange: Exchange,
        pages: Pages,
        telemetry: Telemetry,
        routes: Callable[[], Mapping[str, Route]],
        keys: Callable[[], ApiKeys | None],
        max_body_bytes: int,
        max_held_bytes: int,
    ) -> None:
        self._exchange, self._pages, self._telemetry = exchange, pages, telemetry
        self._routes, self._keys = routes, keys
        self._max_body_bytes, self._room = max_body_bytes, Room(max_held_bytes)
        self.active = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False

    async def drain(self, grace: float) -> None:
        """Not ready from now on; returns when nothing is in flight, or the grace (seconds) is over.

        Requests that still come are answered: an endpoint is known for a while after it stops being ready.
        """
        self._draining = True
        self._telemetry.draining.set(1)
        try:
            await asyncio.wait_for(self._idle.wait(), grace)
        except TimeoutError:
            log.warning("drain grace is over: in_flight=%d", self.active)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._draining:
            send = _closing(send)
        self.active += 1
        self._idle.clear()
        try:
            response = await self._answer(scope, receive, send)
            if response is not None:
                await response(scope, receive, send)
        except Refusal as refusal:
            await refusal.response(scope["path"])(scope, receive, send)
        except ClientGoneError:
            pass
        except Exception:
            log.exception("unexpected fault path=%s", scope["path"])
            ours = Refusal(500, "The gateway failed on this request.", code="internal_error")
            with contextlib.suppress(RuntimeError):  # an answer has begun: uvicorn cuts it off
                await ours.response(scope["path"])(scope, receive, send)
        finally:
            self.active -= 1
            if not self.active:
                self._idle.set()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """None: it has been answered."""
        method, path, keys = scope["method"], scope["path"], self._keys()
        if keys is not None and path not in OPEN:
            keys.check(header(scope, b"authorization"), header(scope, b"x-api-key"))
        answer, methods = self._at(path)
        allow = ", ".join((*methods, "OPTIONS"))
        if method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": allow})
        if method not in methods:
            raise errors.wrong_method(method, path, allow)
        return await answer(scope, receive, send)

    def _at(self, path: str) -> tuple[Answer, tuple[str, ...]]:
        """What answers there, and the methods that it takes."""
        if path in FORWARDED:
            return self._forward, ("POST",)
        if methods := keeping.methods(path):
            return self._forward_to_keeper, methods
        if self._pages.know(path):
            return self._own, ("GET", "HEAD")
        raise errors.not_found(path)

    async def _own(self, scope: Scope, _receive: Receive, _send: Send) -> Response:
        return await self._pages.get(scope["path"], draining=self._draining)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = Body(scope, receive, self._max_body_bytes, self._room)
        try:
            await self._forward_body(scope, await body.read(), receive, send)
        finally:
            body.release()

    async def _forward_body(self, scope: Scope, raw: bytes, receive: Receive, send: Send) -> None:
        model, body = parse_body(raw)
        keeper = keeping.continued(body, self._pages.route(model))
        inbound = _inbound(scope, model, raw, request_key(body), kept_by_one=bool(body.get("previous_response_id")))
        del body
        await self._exchange(inbound, self._endpoints(model, keeper), receive, send)

    async def _forward_to_keeper(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._pages.check_synced()
        model, keeper = keeping.keeper(scope["path"], self._routes())
        await self._exchange(_inbound(scope, model), self._endpoints(model, keeper), receive, send)

    def _endpoints(self, model: str, only: Endpoint | None) -> Callable[[], Sequence[Endpoint]]:
        """Those of the model at each moment, or the one of them that alone can answer."""

        def now() -> Sequence[Endpoint]:
            route = self._routes().get(model)
            return [e for e in (route.endpoints if route else ()) if only in (None, e)]

        return now


def _inbound(scope: Scope, model: str, body: bytes = b"", key: bytes = b"", *, kept_by_one: bool = False) -> Inbound:
    return Inbound(
        method=scope["method"],
        path=scope["path"],  # one that is known here word for word: it needs no escapes
        query=scope["query_string"].decode("latin-1"),
        headers=scope["headers"],
        body=body,
        model=model,
        key=key,
        kept_by_one=kept_by_one,
    )


def _closing(send: Send) -> Send:
    async def close(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await send(message)

    return close
