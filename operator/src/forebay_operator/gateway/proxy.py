"""The gateway's HTTP door to the endpoints: choose, send, try another while no byte has gone back, pass bytes on."""

from __future__ import annotations

import dataclasses
import io
import logging
from collections.abc import Callable, Iterator, Sequence

import aiohttp
from starlette.types import Send
from yarl import URL

from forebay_operator.endpoints import Endpoint, Route
from forebay_operator.gateway import errors, routing
from forebay_operator.gateway.load import Load
from forebay_operator.gateway.telemetry import TAIL_BYTES, Telemetry, usage_in_json, usage_in_stream

log = logging.getLogger(__name__)

ATTEMPTS = 3
BREAKS = 2
ELSEWHERE = frozenset({429, 502, 503})  # full, broken or draining: another endpoint may do better
CONNECT_SECONDS = 2.0
KEEP_ALIVE_SECONDS = 3.0  # less than the endpoints' own, so that a pooled connection is seldom a closed one
LARGE_BYTES = 1 << 20  # aiohttp sends more than this in pieces only if it comes as a file
HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer", b"upgrade"}
    | {b"transfer-encoding", b"proxy-connection"}
)
NOT_FORWARDED = HOP_BY_HOP | {b"host", b"content-length", b"expect", b"accept-encoding"}
NOT_RETURNED = HOP_BY_HOP | {b"content-length", b"date", b"server"}
Headers = list[tuple[bytes, bytes]]


@dataclasses.dataclass(frozen=True, slots=True)
class Inbound:
    """A request as it goes to an endpoint."""

    path: str
    query: str
    headers: Headers
    body: bytes
    model: str
    key: bytes
    kept: bool = False  # it asks for a response that one endpoint keeps, and others don't know
    method: str = "POST"


class BrokenOffError(Exception):
    """The endpoint broke an answer off after bytes of it had gone to the client: nothing can be put right.

    `between_events`: what went out ends with a whole server-sent event.
    """

    def __init__(self, message: str, *, between_events: bool) -> None:
        super().__init__(message)
        self.between_events = between_events


def _named(headers: Headers) -> frozenset[bytes]:
    """Headers that the Connection header names: they are for the gateway alone (RFC 9110, section 7.6.1)."""
    words = (word.strip().lower() for n, v in headers if n == b"connection" for word in v.split(b","))
    return frozenset(words)


def pool(idle_seconds: float) -> aiohttp.ClientSession:
    """Connections to all endpoints. There is no limit on a whole answer: a long stream is no fault, a silent one is."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds),
    )


class Proxy:
    """Passes requests on. `forward_keys`: the client's Authorization is the endpoint's to judge, not the gateway's."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        telemetry: Telemetry,
        load: Load,
        clock: Callable[[], float],
        *,
        forward_keys: bool,
    ) -> None:
        self._session, self._telemetry, self._load, self._clock = session, telemetry, load, clock
        self._dropped = NOT_FORWARDED if forward_keys else NOT_FORWARDED | {b"authorization", b"x-api-key"}

    async def forward(self, inbound: Inbound, route: Callable[[], Route | None], send: Send) -> int:
        """Answers the request; the status that was sent. Raises a Refusal while nothing has been sent.

        A request that broke off after it was sent goes to one other endpoint only: it may be what breaks them.
        """
        began = self._clock()
        fault, breaks = errors.not_ready(inbound.model), 0
        for endpoint, others in self._attempts(inbound, route):
            with self._load.request(endpoint):
                try:
                    reply, body = await self._send(inbound, endpoint)
                except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as e:
                    self._failed(inbound, endpoint, type(e).__name__)
                    fault = errors.unreachable(inbound.model)
                    continue
                except TimeoutError as e:
                    raise errors.late(inbound.model) from e
                except (aiohttp.ClientError, OSError) as e:
                    self._failed(inbound, endpoint, type(e).__name__)
                    fault, breaks = errors.broken(inbound.model), breaks + 1
                    if breaks == BREAKS:
                        break
                    continue
                try:
                    elsewhere = reply.status in ELSEWHERE or (inbound.kept and reply.status == 404)
                    if not elsewhere or not others:
                        return await self._pass_on(inbound, endpoint, reply, body, send, began)
                    if reply.status != 404:
                        self._failed(inbound, endpoint, str(reply.status))
                finally:
                    reply.close()
        raise fault

    async def find(self, inbound: Inbound, routes: Sequence[Route], send: Send) -> None:
        """Passes on what the first endpoint says that knows what is asked for; a 404 if none does."""
        fault = errors.not_found(inbound.path)
        for route in routes:
            asked = dataclasses.replace(inbound, model=route.service.model)
            for endpoint in route.endpoints:
                try:
                    reply, body = await self._send(asked, endpoint)
                except (aiohttp.ClientError, OSError, TimeoutError) as e:
                    self._failed(asked, endpoint, type(e).__name__)
                    fault = errors.unreachable(asked.model)
                    continue
                try:
                    if reply.status != 404:
                        await self._pass_on(asked, endpoint, reply, body, send, self._clock())
                        return
                finally:
                    reply.close()
        raise fault

    def _attempts(self, inbound: Inbound, route: Callable[[], Route | None]) -> Iterator[tuple[Endpoint, bool]]:
        """Endpoints to try in turn, each with whether there are others after it. A single one is tried twice: what
        broke may have been a pooled connection that it had closed."""
        tried: list[Endpoint] = []
        while True:
            now = route()
            endpoints = now.endpoints if now else ()
            attempts = max(ATTEMPTS, len(endpoints)) if inbound.kept else ATTEMPTS
            if len(tried) >= attempts:
                return
            fresh = [e for e in endpoints if e not in tried]
            if not endpoints or (not fresh and len(tried) > 1):
                return
            endpoint = routing.pick(inbound.key, self._load.preferred(fresh or endpoints), self._load.in_flight)
            tried.append(endpoint)
            yield endpoint, len(fresh) > 1 and len(tried) < attempts

    def _failed(self, inbound: Inbound, endpoint: Endpoint, reason: str) -> None:
        self._telemetry.failed_attempts.labels(inbound.model, reason).inc()
        if reason != "429":
            self._load.avoid(endpoint)
        log.warning(
            "attempt failed model=%s endpoint=%s pod=%s reason=%s",
            *(inbound.model, endpoint.address, endpoint.pod, reason),
        )

    async def _send(self, inbound: Inbound, endpoint: Endpoint) -> tuple[aiohttp.ClientResponse, bytes | None]:
        """The answer, and its body unless it is a stream: an answer in one piece goes on when all of it is there."""
        query = f"?{inbound.query}" if inbound.query else ""
        dropped = self._dropped | _named(inbound.headers)
        headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in inbound.headers if n not in dropped]
        reply = await self._session.request(
            inbound.method,
            URL(f"http://{endpoint.address}{inbound.path}{query}", encoded=True),
            headers=headers,
            data=None
            if inbound.method != "POST"
            else inbound.body
            if len(inbound.body) < LARGE_BYTES
            else io.BytesIO(inbound.body),
            allow_redirects=False,
        )
        if reply.content_type == "text/event-stream":
            return reply, None
        try:
            return reply, await reply.read()
        except BaseException:
            reply.close()
            raise

    async def _pass_on(
        self,
        inbound: Inbound,
        endpoint: Endpoint,
        reply: aiohttp.ClientResponse,
        body: bytes | None,
        send: Send,
        began: float,
    ) -> int:
        headers = [(n.lower(), v) for n, v in reply.raw_headers if n.lower() not in NOT_RETURNED]
        headers.append((b"x-forebay-endpoint", (endpoint.pod or endpoint.address).encode()))
        telemetry, model = self._telemetry, inbound.model
        if body is None:
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            telemetry.first_byte.labels(model).observe(self._clock() - began)
            usage = usage_in_stream(await self._stream(reply, send))
        else:
            headers.append((b"content-length", str(len(body)).encode()))
            telemetry.first_byte.labels(model).observe(self._clock() - began)
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            usage = usage_in_json(body)
        telemetry.count_usage(model, usage)
        telemetry.duration.labels(model).observe(self._clock() - began)
        return reply.status

    @staticmethod
    async def _stream(reply: aiohttp.ClientResponse, send: Send) -> bytes:
        """Each piece goes on at once: no buffer, no parsing, the client's pace is the endpoint's. Returns the end."""
        content, tail = reply.content, b""
        try:
            while piece := await content.readany():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                tail = (tail + piece)[-TAIL_BYTES:]
        except (aiohttp.ClientError, OSError, TimeoutError) as e:
            raise BrokenOffError(repr(e), between_events=tail.endswith(b"\n\n")) from e
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return tail
