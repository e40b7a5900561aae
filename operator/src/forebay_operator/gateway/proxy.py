"""A request's way to an endpoint: choose, send, try another while no byte has gone back, pass bytes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import aiohttp
from starlette.types import Send

from forebay_operator.endpoints import Endpoint
from forebay_operator.gateway import errors, routing
from forebay_operator.gateway.load import Load
from forebay_operator.gateway.telemetry import TAIL_BYTES, Telemetry, usage_in_json, usage_in_stream
from forebay_operator.gateway.upstream import Answer, Inbound, Upstream

log = logging.getLogger(__name__)

ATTEMPTS = 3
BREAKS = 2
ELSEWHERE = frozenset({429, 502, 503})  # full, broken or draining: another endpoint may do better


class BrokenOffError(Exception):
    """The endpoint broke an answer off after bytes of it had gone to the client: nothing can be put right.

    `events`: the end of what went out, where that is a whole server-sent event; None where it is not.
    """

    def __init__(self, message: str, events: bytes | None) -> None:
        super().__init__(message)
        self.events = events


class Proxy:
    """Passes requests on to the endpoints that there are at each attempt."""

    def __init__(self, upstream: Upstream, telemetry: Telemetry, load: Load, clock: Callable[[], float]) -> None:
        self._upstream, self._telemetry, self._load, self._clock = upstream, telemetry, load, clock

    async def forward(self, inbound: Inbound, endpoints: Callable[[], Sequence[Endpoint]], send: Send) -> int:
        """Answers the request; the status that was sent. Raises a Refusal while nothing has been sent.

        A request that broke off after it was sent goes to one other endpoint only: it may be what breaks them.
        """
        began = self._clock()
        fault, breaks = errors.not_ready(inbound.model), 0
        for endpoint, others in self._attempts(inbound, endpoints):
            with self._load.request(endpoint):
                try:
                    answer = await self._upstream.send(inbound, endpoint)
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
                    elsewhere = answer.status in ELSEWHERE or (inbound.kept_by_one and answer.status == 404)
                    if not elsewhere or not others:
                        return await self._pass_on(inbound, endpoint, answer, send, began)
                    if answer.status != 404:
                        self._failed(inbound, endpoint, str(answer.status))
                finally:
                    answer.close()
        raise fault

    def _attempts(
        self, inbound: Inbound, endpoints: Callable[[], Sequence[Endpoint]]
    ) -> Iterator[tuple[Endpoint, bool]]:
        """Endpoints to try in turn, each with whether there are others after it. A single one is tried twice: what
        broke may have been a pooled connection that it had closed."""
        tried: list[Endpoint] = []
        while True:
            now = endpoints()
            attempts = max(ATTEMPTS, len(now)) if inbound.kept_by_one else ATTEMPTS
            if len(tried) >= attempts:
                return
            fresh = [e for e in now if e not in tried]
            if not now or (not fresh and len(tried) > 1):
                return
            endpoint = routing.pick(inbound.key, self._load.preferred(fresh or now), self._load.in_flight)
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

    async def _pass_on(self, inbound: Inbound, endpoint: Endpoint, answer: Answer, send: Send, began: float) -> int:
        telemetry, model = self._telemetry, inbound.model
        named = (b"x-forebay-endpoint", (endpoint.pod or endpoint.address).encode())
        telemetry.first_byte.labels(model).observe(self._clock() - began)
        await send({"type": "http.response.start", "status": answer.status, "headers": [*answer.headers, named]})
        if answer.whole:
            await send({"type": "http.response.body", "body": answer.body})
            usage = usage_in_json(answer.body)
        else:
            usage = usage_in_stream(await _pass_on_in_pieces(answer, send))
        telemetry.count_usage(model, usage)
        telemetry.duration.labels(model).observe(self._clock() - began)
        return answer.status


async def _pass_on_in_pieces(answer: Answer, send: Send) -> bytes:
    """Each piece goes on at once, unparsed. Returns the end of it."""
    tail = answer.body[-TAIL_BYTES:]
    try:
        if answer.body:
            await send({"type": "http.response.body", "body": answer.body, "more_body": True})
        async for piece in answer.rest():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            tail = (tail + piece)[-TAIL_BYTES:]
    except (aiohttp.ClientError, OSError, TimeoutError) as e:
        raise BrokenOffError(repr(e), tail if answer.streams and tail.endswith(b"\n\n") else None) from e
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    return tail
