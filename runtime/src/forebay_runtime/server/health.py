"""Liveness is progress, readiness is willingness."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response

from forebay_runtime.request import RequestError
from forebay_runtime.server.admission import Admission
from forebay_runtime.server.errors import error_response
from forebay_runtime.server.loop import EngineLoop


class Health:
    """The server listens only once the model is loaded and warm, so that neither probe has to ask for that."""

    def __init__(self, loop: EngineLoop, admission: Admission, stall_budget: float) -> None:
        self._loop, self._admission, self._stall_budget = loop, admission, stall_budget

    async def health(self, _request: Request) -> Response:
        """503 when there is work and no step has ended within the budget."""
        if self._loop.is_stalled(self._stall_budget, time.monotonic()):
            message = f"The engine has work, but no step has ended for {self._stall_budget:g} s."
            return error_response(RequestError(message, status=503, code="engine_stalled"))
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def ready(self, request: Request) -> Response:
        if self._admission.draining:
            return error_response(RequestError("The server is shutting down.", status=503, code="draining"))
        return await self.health(request)
