"""The gateway's ASGI application: its routes, what it asks of a request, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import logging
from collections.abc import Callable, Mapping

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from forebay_operator.endpoints import Route
from forebay_operator.gateway import errors
from forebay_operator.gateway.admission import ApiKeys, Room, parse_body
from forebay_operator.gateway.body import Body, ClientGoneError, header
from forebay_operator.gateway.cards import Cards
from forebay_operator.gateway.errors import Refusal
from forebay_operator.gateway.proxy import BrokenOffError, Inbound, Proxy
from forebay_operator.gateway.routing import request_key
from forebay_operator.gateway.telemetry import Telemetry

log = logging.getLogger(__name__)

FORWARDED = (
    *("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/tokenize", "/detokenize"),
    *("/v1/responses", "/v1/messages", "/v1/messages/count_tokens"),
)
KEPT = "/v1/responses/"  # what follows is the id of a response that some endpoint keeps
OPEN = ("/health", "/ready", "/metrics", "/version")  # they need no key


class Gateway:
    """One OpenAI endpoint for all routes.

    `routes` and `keys` give what holds at the moment (keys: None if none are asked for); `synced` says whether the
    routes are known at all.
    """

    def __init__(
        self,
        proxy: Proxy,
        cards: Cards,
        telemetry: Telemetry,
        routes: Callable[[], Mapping[str, Route]],
        keys: Callable[[], ApiKeys | None],
        synced: Callable[[], bool],
        max_body_bytes: int,
        max_held_bytes: int,
    ) -> None:
        self._proxy, self._cards, self._telemetry = proxy, cards, telemetry
        self._routes, self._keys, self._synced = routes, keys, synced
        self._max_body_bytes, self._room = max_body_bytes, Room(max_held_bytes)
        self._active = 0
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
            log.warning("drain grace is over: in_flight=%d", self._active)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._draining:
            send = _closing(send)
        self._active += 1
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
            self._active -= 1
            if not self._active:
                self._idle.set()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """None: it has been answered."""
        method, path = scope["method"], scope["path"]
        keys = self._keys()
        if keys is not None and path not in OPEN:
            keys.check(header(scope, b"authorization"), header(scope, b"x-api-key"))
        if path in FORWARDED:
            _allow(method, path, "POST, OPTIONS")
            if method == "OPTIONS":
                return _options("POST, OPTIONS")
            await self._forward(scope, receive, send)
            return None
        if path.startswith(KEPT):
            _allow(method, path, "GET, POST, DELETE, OPTIONS")
            if method == "OPTIONS":
                return _options("GET, POST, DELETE, OPTIONS")
            await self._find(scope, receive, send)
            return None
        if path not in OPEN and path != "/v1/models" and not path.startswith("/v1/models/"):
            raise errors.not_found(path)
        _allow(method, path, "GET, HEAD, OPTIONS")
        return _options("GET, HEAD, OPTIONS") if method == "OPTIONS" else await self._get(path)

    async def _get(self, path: str) -> Response:
        match path:
            case "/health":
                return JSONResponse({"status": "ok"})
            case "/ready":
                return self._ready()
            case "/metrics":
                return self._metrics()
            case "/version":
                return JSONResponse({"version": importlib.metadata.version("forebay-operator")})
            case "/v1/models":
                return JSONResponse({"object": "list", "data": await self._cards.all(self._routes())})
            case _:
                model = path.removeprefix("/v1/models/")
                return JSONResponse(await self._cards.one(model, self._route(model)))

    def _ready(self) -> Response:
        if self._draining:
            raise Refusal(503, "The gateway is draining.", code="draining", retry_after=1)
        if not self._synced():
            raise Refusal(503, "The gateway does not know yet what is served.", code="starting", retry_after=1)
        return JSONResponse({"status": "ready"})

    def _metrics(self) -> Response:
        self._telemetry.endpoints.clear()
        for model, route in self._routes().items():
            self._telemetry.endpoints.labels(model).set(len(route.endpoints))
        return Response(self._telemetry.render(), media_type=None, headers={"Content-Type": CONTENT_TYPE_LATEST})

    def _route(self, model: str) -> Route:
        route = self._routes().get(model)
        if route is None:
            if not self._synced():
                raise Refusal(503, "The gateway does not know yet what is served.", code="starting", retry_after=1)
            raise errors.unknown_model(model)
        return route

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = Body(scope, receive, self._max_body_bytes, self._room)
        try:
            await self._forward_body(scope, await body.read(), receive, send)
        finally:
            body.release()

    async def _forward_body(self, scope: Scope, raw: bytes, receive: Receive, send: Send) -> None:
        model, body = parse_body(raw)
        self._route(model)
        inbound = Inbound(
            path=scope["path"],
            query=scope["query_string"].decode("latin-1"),
            headers=scope["headers"],
            body=raw,
            model=model,
            key=request_key(body),
            kept=bool(body.get("previous_response_id")),
        )
        del body
        with self._telemetry.in_flight.labels(model).track_inprogress():
            await self._exchange(inbound, receive, send)

    async def _find(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Which endpoint keeps a response only the endpoints know: they are asked in turn."""
        inbound = Inbound(
            method=scope["method"],
            path=scope["path"],
            query=scope["query_string"].decode("latin-1"),
            headers=scope["headers"],
            body=b"",
            model="",
            key=b"",
            kept=True,
        )
        found = asyncio.ensure_future(self._proxy.find(inbound, tuple(self._routes().values()), send))
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait((found, gone), return_when=asyncio.FIRST_COMPLETED)
            if found.done():
                found.result()
        finally:
            for task in (found, gone):
                task.cancel()
            await asyncio.wait((found, gone))

    async def _exchange(self, inbound: Inbound, receive: Receive, send: Send) -> None:
        """Passes the request on for as long as its client stays; a client that goes ends the work at the endpoint."""
        model = inbound.model
        answer = asyncio.ensure_future(self._proxy.forward(inbound, lambda: self._routes().get(model), send))
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                self._telemetry.abandoned.labels(model).inc()
                return
            self._telemetry.requests.labels(model, answer.result()).inc()
        except Refusal as refusal:
            self._telemetry.requests.labels(model, refusal.status).inc()
            raise
        except BrokenOffError as broken:
            self._telemetry.broken.labels(model).inc()
            log.warning("answer broken off model=%s: %s", model, broken)
            if broken.between_events:
                event = b"data: " + json.dumps(errors.broken(model).body).encode() + b"\n\n"
                await send({"type": "http.response.body", "body": event, "more_body": True})
        finally:
            for task in (answer, gone):
                task.cancel()
            await asyncio.wait((answer, gone))


def _closing(send: Send) -> Send:
    async def close(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await send(message)

    return close


def _allow(method: str, path: str, allow: str) -> None:
    if method not in allow.split(", "):
        raise errors.wrong_method(method, path, allow)


def _options(allow: str) -> Response:
    return Response(status_code=204, headers={"Allow": allow})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
