"""One request and its answer, for as long as the client stays."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from starlette.types import Receive, Send

from forebay_operator.endpoints import Endpoint
from forebay_operator.gateway import errors
from forebay_operator.gateway.errors import Refusal
from forebay_operator.gateway.proxy import BrokenOffError, Proxy
from forebay_operator.gateway.telemetry import Telemetry
from forebay_operator.gateway.upstream import Inbound

log = logging.getLogger(__name__)


class Exchange:
    """Counts what becomes of the requests that it passes on."""

    def __init__(self, proxy: Proxy, telemetry: Telemetry) -> None:
        self._proxy, self._telemetry = proxy, telemetry

    async def __call__(
        self, inbound: Inbound, endpoints: Callable[[], Sequence[Endpoint]], receive: Receive, send: Send
    ) -> None:
        """Answers it, or raises a Refusal; a client that goes ends the work at the endpoint."""
        model = inbound.model
        with self._telemetry.in_flight.labels(model).track_inprogress():
            try:
                status = await _while_connected(receive, self._proxy.forward(inbound, endpoints, send))
                if status is None:
                    self._telemetry.abandoned.labels(model).inc()
                else:
                    self._telemetry.requests.labels(model, status).inc()
            except Refusal as refusal:
                self._telemetry.requests.labels(model, refusal.status).inc()
                raise
            except BrokenOffError as broken:
                self._telemetry.broken.labels(model).inc()
                log.warning("answer broken off model=%s: %s", model, broken)
                if broken.events is not None:
                    event = errors.last_event(errors.broken(model), inbound.path, broken.events)
                    await send({"type": "http.response.body", "body": event, "more_body": True})


async def _while_connected(receive: Receive, answering: Coroutine[Any, Any, int]) -> int | None:
    """What it comes to; None where the client went away before."""
    answer, gone = asyncio.ensure_future(answering), asyncio.ensure_future(_until_gone(receive))
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else None
    finally:
        for task in (answer, gone):
            task.cancel()
        await asyncio.wait((answer, gone))


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
