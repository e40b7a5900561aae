"""Requests to the API server, many at once, and the services that they make."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from forebay_operator.api_names import API_VERSION, KIND, PLURAL
from forebay_operator.api_server import ApiServer, answer
from forebay_operator.child_kinds import CHILD_KINDS

NAMESPACE = "forebay-bench"
SERVICES = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/{PLURAL}"
KINDS = [k for k in CHILD_KINDS.values() if k.kind in ("Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy")]
LISTINGS = {k.kind: k.path(NAMESPACE, "").rstrip("/") for k in KINDS}
TOGETHER = 16
JSON, MERGE, APPLY = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"
Object = dict[str, Any]


class Cluster:
    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def status(self, method: str, path: str, body: Object | None = None, content: str = JSON) -> int:
        return (await self._send(method, path, body, content, {}))[0]

    async def must(
        self, method: str, path: str, body: Object | None = None, content: str = JSON, **query: str
    ) -> Object:
        """What it answers. ApiError where it refuses."""
        return answer(*await self._send(method, path, body, content, query))

    async def _send(
        self, method: str, path: str, body: Object | None, content: str, query: dict[str, str]
    ) -> tuple[int, bytes]:
        return await self.server.send(method, path, query, None if body is None else json.dumps(body), content)

    async def each(self, names: Iterable[str], send: Callable[[str], Awaitable[object]]) -> None:
        gate = asyncio.Semaphore(TOGETHER)

        async def one(name: str) -> None:
            async with gate:
                await send(name)

        await asyncio.gather(*map(one, names))

    async def watch_budgets(self) -> AsyncIterator[Object]:
        listing = LISTINGS["PodDisruptionBudget"]
        version = (await self.server.get(listing))["metadata"]["resourceVersion"]
        async for event in self.server.watch(listing, resourceVersion=version):
            yield event["object"]


def manifest(name: str, replicas: int) -> Object:
    spec = {
        "model": {"source": "oci://registry.invalid/model:1"},
        "replicas": replicas,
        "podTemplate": {"nodeSelector": {"forebay.dev/bench": "no-node"}},
    }
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "spec": spec}
