"""A gateway on loopback in front of given endpoints, for tests."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from forebay_operator.endpoints import Endpoint, Route, Service
from forebay_operator.gateway import upstream
from forebay_operator.gateway.admission import ApiKeys
from forebay_operator.gateway.cards import Cards
from forebay_operator.gateway.exchange import Exchange
from forebay_operator.gateway.load import Load
from forebay_operator.gateway.pages import Pages
from forebay_operator.gateway.proxy import Proxy
from forebay_operator.gateway.server import Gateway
from forebay_operator.gateway.telemetry import Telemetry
from tests.support.asgi import on_loopback

CHAT: dict[str, Any] = {"model": "llama", "messages": [{"role": "user", "content": "Hi"}]}


@dataclass
class Front:
    """`routes` may be changed while it serves."""

    gateway: Gateway
    telemetry: Telemetry
    client: httpx.AsyncClient
    address: str
    load: Load
    routes: dict[str, Route]
    synced: bool = True
    keys: ApiKeys | None = None

    async def chat(self, **fields: object) -> httpx.Response:
        return await self.client.post("/v1/chat/completions", json=CHAT | fields)

    @property
    def busy(self) -> bool:
        """Whether anything is left of the requests that came."""
        return bool(self.gateway.active or self.load.in_flight)

    def value(self, name: str, **labels: str) -> float:
        return self.telemetry.registry.get_sample_value(f"forebay_gateway_{name}", labels) or 0.0


def routing_to(**addresses: Sequence[str]) -> dict[str, Route]:
    return {
        model: Route(Service("default", model, (model,)), tuple(Endpoint(a, f"pod-{i}") for i, a in enumerate(found)))
        for model, found in addresses.items()
    }


@contextlib.asynccontextmanager
async def gateway(
    routes: Mapping[str, Route],
    *,
    keys: str | None = None,
    max_body_bytes: int = 1000,
    max_held_bytes: int = 1 << 30,
    idle_timeout: float = 30,
) -> AsyncIterator[Front]:
    """Serves these routes until the block ends."""
    telemetry, load = Telemetry(), Load(time.monotonic)
    async with upstream.pool(idle_timeout) as session:
        door = upstream.Upstream(session, idle_timeout, forward_keys=keys is None)
        app = Gateway(
            Exchange(Proxy(door, telemetry, load, time.monotonic), telemetry),
            Pages(Cards(session, time.monotonic), telemetry, lambda: front.routes, lambda: front.synced),
            telemetry,
            routes=lambda: front.routes,
            keys=lambda: front.keys,
            max_body_bytes=max_body_bytes,
            max_held_bytes=max_held_bytes,
        )
        async with (
            on_loopback(app) as address,
            httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, verify=False, timeout=30) as client,
        ):
            front = Front(app, telemetry, client, address, load, dict(routes))
            front.keys = ApiKeys.parse(keys) if keys is not None else None
            yield front
