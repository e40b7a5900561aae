"""The models as `GET /v1/models` shows them: what the cluster serves, with what an endpoint of each says about it."""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from forebay_operator.endpoints import Route
from forebay_operator.pod_answer import UntoldError, document

log = logging.getLogger(__name__)
FRESH_SECONDS = 30.0
ASK_SECONDS = 1.0
MOST = 1 << 53  # beyond it, readers of JSON do not agree on a number
TOLD: dict[str, Callable[[Any], bool]] = {  # unless the cluster knows better, and where it is what it should be
    "max_model_len": lambda told: type(told) is int and 0 < told <= MOST,
    "created": lambda told: type(told) is int and 0 <= told <= MOST,
    "owned_by": lambda told: isinstance(told, str) and len(told) <= 128 and told.isprintable(),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """When an endpoint of a model was last asked, and what is known of its card since then or before."""

    at: float
    told: Mapping[str, Any]


class Cards:
    """Asks an endpoint of each model for its card, at most twice a minute, and remembers it while there is a route."""

    def __init__(self, session: aiohttp.ClientSession, clock: Callable[[], float]) -> None:
        self._session, self._clock = session, clock
        self._asked: dict[str, Asked] = {}

    async def all(self, routes: Mapping[str, Route]) -> list[dict[str, Any]]:
        await asyncio.gather(*(self._ask(model, route) for model, route in routes.items()))
        self._forget(routes)
        return [self._card(model, route) for model, route in sorted(routes.items())]

    async def one(self, model: str, routes: Mapping[str, Route]) -> dict[str, Any]:
        """KeyError where there is no route to it."""
        route = routes[model]
        await self._ask(model, route)
        self._forget(routes)
        return self._card(model, route)

    def _forget(self, routes: Mapping[str, Route]) -> None:
        self._asked = {model: asked for model, asked in self._asked.items() if model in routes}

    def _card(self, model: str, route: Route) -> dict[str, Any]:
        told = self._asked[model].told if model in self._asked else {}
        card = {"id": model, "object": "model", "created": 0, "owned_by": "forebay", **told}
        return card | ({"created": _seconds(route.service.created)} if route.service.created else {})

    async def _ask(self, model: str, route: Route) -> None:
        now, before = self._clock(), self._asked.get(model)
        if not route.endpoints or (before and now - before.at < FRESH_SECONDS):
            return
        self._asked[model] = Asked(now, before.told if before else {})
        try:
            status, page = await document(self._session, f"http://{route.endpoints[0].address}/v1/models", ASK_SECONDS)
            if status != 200:
                raise UntoldError(f"it answers {status}")
            self._asked[model] = Asked(now, _told(page, model))
        except (UntoldError, KeyError, TypeError, AttributeError) as e:
            log.info("no card of model=%s: %s: %s", model, type(e).__name__, e)


def _told(page: Any, model: str) -> dict[str, Any]:
    card: Mapping[str, Any] = next((card for card in page["data"] if card.get("id") == model), {})
    return {key: card[key] for key, fits in TOLD.items() if key in card and fits(card[key])}


def _seconds(created: str) -> int:
    return int(datetime.datetime.fromisoformat(created).timestamp())
