"""The same objects without an operator: what the cluster itself takes for them, which no operator can go below."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from bench.control_plane.api import APPLY, LISTINGS, MERGE, NAMESPACE, SERVICES, Cluster, Object, manifest
from bench.control_plane.operator_process import IMAGE
from forebay_operator.config import Config
from forebay_operator.observed import Observed
from forebay_operator.resource import parse
from forebay_operator.sync import sync


async def make(cluster: Cluster, name: str, replicas: int, way: str) -> None:
    """A service, its first status and its children, by `way`: post or apply."""
    service = await cluster.must("POST", SERVICES, manifest(name, replicas))
    outcome = sync(parse(service), Observed(), Config(runtime_image=IMAGE, own_image=IMAGE), datetime.now(UTC))
    status = {"status": outcome.status.model_dump(by_alias=True)}
    await cluster.must("PATCH", f"{SERVICES}/{name}/status", status, MERGE)
    assert outcome.children
    await asyncio.gather(*(_child(cluster, child, way) for child in outcome.children))


async def _child(cluster: Cluster, child: Object, way: str) -> None:
    listing = LISTINGS[child["kind"]]
    if way == "post":
        await cluster.must("POST", listing, child)
    else:
        path = f"{listing}/{child['metadata']['name']}"
        await cluster.must("PATCH", path, child, APPLY, fieldManager=NAMESPACE, force="true", fieldValidation="Strict")
