"""What the gateway answers by itself: health, metrics, its version, the models that there are."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from forebay_operator.endpoints import Route
from forebay_operator.gateway import errors
from forebay_operator.gateway.cards import Cards
from forebay_operator.gateway.errors import Refusal
from forebay_operator.gateway.telemetry import Telemetry

OPEN = ("/health", "/ready", "/metrics", "/version")  # they need no key
MODELS = "/v1/models"


class Pages:
    """`routes` gives those of the moment; `synced` says whether they are known at all."""

    def __init__(
        self,
        cards: Cards,
        telemetry: Telemetry,
        routes: Callable[[], Mapping[str, Route]],
        synced: Callable[[], bool],
    ) -> None:
        self._cards, self._telemetry, self._routes, self._synced = cards, telemetry, routes, synced

    @staticmethod
    def know(path: str) -> bool:
        return path in OPEN or path == MODELS or path.startswith(f"{MODELS}/")

    async def get(self, path: str, *, draining: bool) -> Response:
        match path:
            case "/health":
                return JSONResponse({"status": "ok"})
            case "/ready":
                return self._ready(draining)
            case "/metrics":
                return self._metrics()
            case "/version":
                return JSONResponse({"version": importlib.metadata.version("forebay-operator")})
            case "/v1/models":
                return JSONResponse({"object": "list", "data": await self._cards.all(self._routes())})
            case _:
                model = path.removeprefix(f"{MODELS}/")
                self.route(model)
                return JSONResponse(await self._cards.one(model, self._routes()))

    def route(self, model: str) -> Route:
        """Refusal 404 for a model that is not served."""
        route = self._routes().get(model)
        if route is None:
            self.check_synced()
            raise errors.unknown_model(model)
        return route

    def check_synced(self) -> None:
        """Refusal 503 before anything is known: nothing may be said to be unknown yet."""
        if not self._synced():
            raise Refusal(503, "The gateway does not know yet what is served.", code="starting", retry_after=1)

    def _ready(self, draining: bool) -> Response:
        if draining:
            raise Refusal(503, "The gateway is draining.", code="draining", retry_after=1)
        self.check_synced()
        return JSONResponse({"status": "ready"})

    def _metrics(self) -> Response:
        self._telemetry.endpoints.clear()
        for model, route in self._routes().items():
            self._telemetry.endpoints.labels(model).set(len(route.endpoints))
        return Response(self._telemetry.render(), media_type=None, headers={"Content-Type": CONTENT_TYPE_LATEST})
