"""The models as `GET /v1/models` shows them: what the cluster serves, with what an endpoint of each says about it."""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from forebay_operator.endpoints import Route
from forebay_operator.pod_answer import UntoldError, document

log = logging.getLogger(__name__)
FRESH_SECONDS = 30.0
ASK_SECONDS = 1.0
TOLD = ("max_model_len", "created", "owned_by")  # unless the cluster knows better


class Cards:
    """Asks an endpoint of each model for its card, at most twice a minute, and remembers it."""

    def __init__(self, session: aiohttp.ClientSession, clock: Callable[[], float]) -> None:
        self._session, self._clock = session, clock
        self._told: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, float] = {}

    async def all(self, routes: Mapping[str, Route]) -> list[dict[str, Any]]:
        await asyncio.gather(*(self._ask(model, route) for model, route in routes.items()))
        self._told = {model: told for model, told in self._told.items() if model in routes}
        return [self._card(model, route) for model, route in sorted(routes.items())]

    async def one(self, model: str, route: Route) -> dict[str, Any]:
        await self._ask(model, route)
        return self._card(model, route)

    def _card(self, model: str, route: Route) -> dict[str, Any]:
        card = {"id": model, "object": "model", "created": 0, "owned_by": "forebay", **self._told.get(model, {})}
        return card | ({"created": _seconds(route.service.created)} if route.service.created else {})

    async def _ask(self, model: str, route: Route) -> None:
        now = self._clock()
        if not route.endpoints or now - self._asked.get(model, -FRESH_SECONDS) < FRESH_SECONDS:
            return
        self._asked[model] = now
        try:
            answer = await document(self._session, f"http://{route.endpoints[0].address}/v1/models", ASK_SECONDS)
            told: dict[str, Any] = next((card for card in answer[1]["data"] if card.get("id") == model), {})
            self._told[model] = {key: told[key] for key in TOLD if key in told}
        except (UntoldError, KeyError, TypeError, AttributeError) as e:
            log.info("no card of model=%s: %s: %s", model, type(e).__name__, e)


def _seconds(created: str) -> int:
    return int(datetime.datetime.fromisoformat(created).timestamp())
