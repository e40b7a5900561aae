"""What the server tells of itself: its version, its metrics, its document."""

from __future__ import annotations

import dataclasses
import functools

from starlette.requests import Request
from starlette.responses import Response

from forebay_runtime.server.json_reply import json_reply
from forebay_runtime.server.metrics import CONTENT_TYPE, Metrics
from forebay_runtime.server.openapi.document import document
from forebay_runtime.server.served import Served


class About:
    """`with_key`: the server asks for its key."""

    def __init__(self, served: Served, metrics: Metrics, *, with_key: bool) -> None:
        self._served, self._metrics = served, metrics
        self._document = functools.cache(lambda: json_reply(document(served.version, with_key=with_key)))

    async def metrics(self, _request: Request) -> Response:
        return Response(self._metrics.exposition(), media_type=CONTENT_TYPE)

    async def version(self, _request: Request) -> Response:
        served = self._served
        model = dataclasses.asdict(served.footprint)
        return json_reply({"version": served.version, **dataclasses.asdict(served.computing), "model": model})

    async def openapi(self, _request: Request) -> Response:
        return self._document()
