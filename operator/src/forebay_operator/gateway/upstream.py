"""The gateway's HTTP door to one endpoint: what goes there, and what of the answer is known before it goes on."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
from yarl import URL

from forebay_operator.endpoints import Endpoint
from forebay_operator.gateway.keeping import CREATE, MARK_HEADER, mark

CONNECT_SECONDS = 2.0
KEEP_ALIVE_SECONDS = 3.0  # less than the endpoints' own, so that a pooled connection is seldom a closed one
LARGE_BYTES = 1 << 20  # aiohttp sends more than this in pieces only if it comes as a file
LOOK_SECONDS = 1.0
WHOLE_BYTES = 1 << 20  # of an answer that is held until all of it is there; a longer one goes on as it comes
HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer", b"upgrade"}
    | {b"transfer-encoding", b"proxy-connection"}
)
KEYS = frozenset({b"authorization", b"x-api-key"})
NOT_FORWARDED = HOP_BY_HOP | {b"host", b"content-length", b"expect", b"accept-encoding", MARK_HEADER}
NOT_RETURNED = HOP_BY_HOP | {b"content-length", b"date", b"server"}
EVENTS = "text/event-stream"
Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Inbound:
    """A request as it goes to an endpoint. `path` goes onto the wire as it is, and so does `query`."""

    path: str
    query: str
    headers: Headers
    body: bytes
    model: str
    key: bytes
    kept_by_one: bool = False  # it continues a response that one endpoint keeps, and nothing tells which
    method: str = "POST"


class Answer:
    """An endpoint's answer. `streams`: of events. `body`, once begun, is its beginning, or, if `whole`, all of it."""

    def __init__(self, reply: aiohttp.ClientResponse) -> None:
        self._reply, self._loop = reply, asyncio.get_running_loop()
        self.status, self.streams = reply.status, reply.content_type == EVENTS
        raw = [(n.lower(), v) for n, v in reply.raw_headers]
        dropped = NOT_RETURNED | _named(raw)
        self.headers = [(n, v) for n, v in raw if n not in dropped]
        self.body, self.whole = b"", False
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    async def begin(self) -> None:
        """Until it is worth passing on: a stream is at once, a short one when all of it is there. ClientError."""
        if not 200 <= self.status < 600:
            raise aiohttp.ClientPayloadError(f"the endpoint answered with status {self.status}")
        body = bytearray()
        while not self.streams and not self.whole and len(body) <= WHOLE_BYTES:
            piece = await self._reply.content.readany()
            body += piece
            self.whole = not piece
        self.body = bytes(body)
        if self.whole:
            self.headers.append((b"content-length", str(len(body)).encode()))

    async def rest(self) -> AsyncIterator[bytes]:
        """What comes after `body`, piece by piece: no buffer, the client's pace is the endpoint's."""
        while not self.whole and (piece := await self._reply.content.readany()):
            yield piece

    def close(self) -> None:
        """Ends the request wherever it is; one that is over leaves its connection to the next."""
        self._timer.cancel()
        self._reply.close()

    def _look(self) -> None:
        """aiohttp (3.14) closes a connection whose chunks turn into garbage, and tells nobody who reads: this does."""
        connection, content = self._reply.connection, self._reply.content
        if connection is None or content.is_eof() or content.exception() is not None:
            return
        if connection.transport is None or connection.transport.is_closing():
            content.set_exception(aiohttp.ClientPayloadError("the endpoint's answer is no HTTP any more"))
        else:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look)


def pool(idle_seconds: float) -> aiohttp.ClientSession:
    """Connections to all endpoints. There is no limit on a whole answer: a long stream is no fault, a silent one is."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds),
    )


class Upstream:
    """Sends requests to endpoints. `forward_keys`: the client's key is the endpoint's to judge, not the gateway's.

    `idle_seconds`: how long an endpoint may be silent. The session's own timeout forgets those that say 100 Continue.
    """

    def __init__(self, session: aiohttp.ClientSession, idle_seconds: float, *, forward_keys: bool) -> None:
        self._session, self._idle_seconds = session, idle_seconds
        self._dropped = NOT_FORWARDED if forward_keys else NOT_FORWARDED | KEYS

    async def send(self, inbound: Inbound, endpoint: Endpoint) -> Answer:
        """The answer, begun. ClientError, TimeoutError, OSError."""
        query = f"?{inbound.query}" if inbound.query else ""
        url = URL(f"http://{endpoint.address}{inbound.path}{query}", encoded=True)
        headers = self._headers(inbound, endpoint)
        async with asyncio.timeout(self._idle_seconds):
            reply = await self._session.request(
                inbound.method, url, headers=headers, data=_data(inbound), allow_redirects=False
            )
        answer = Answer(reply)
        try:
            await answer.begin()
        except BaseException:
            answer.close()
            raise
        return answer

    def _headers(self, inbound: Inbound, endpoint: Endpoint) -> list[tuple[str, str]]:
        dropped = self._dropped | _named(inbound.headers)
        headers = [(_text(n), _text(v)) for n, v in inbound.headers if n not in dropped]
        if inbound.path == CREATE:
            headers.append((_text(MARK_HEADER), mark(endpoint)))
        return headers


def _data(inbound: Inbound) -> bytes | io.BytesIO | None:
    if inbound.method != "POST":
        return None
    return inbound.body if len(inbound.body) < LARGE_BYTES else io.BytesIO(inbound.body)


def _named(headers: Headers) -> frozenset[bytes]:
    """Headers that the Connection header names: they are for the next hop alone (RFC 9110, section 7.6.1)."""
    words = (word.strip().lower() for n, v in headers if n == b"connection" for word in v.split(b","))
    return frozenset(words)


def _text(raw: bytes) -> str:
    """aiohttp sends text as UTF-8: bytes that are none are read as the Latin-1 that HTTP once was."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
