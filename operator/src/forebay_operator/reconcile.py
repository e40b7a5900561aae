"""One pass over one resource: observe, decide, converge, tell. Knows nothing of kopf or of what woke it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from forebay_operator.causes import Cause
from forebay_operator.config import Config
from forebay_operator.downloads import Act
from forebay_operator.happenings import Change, Happening, happenings
from forebay_operator.observed import Manifest, Observed
from forebay_operator.refusal import NamespaceEnding, Overlooked, Refused
from forebay_operator.resource import InferenceService, Status
from forebay_operator.scaling import Mark
from forebay_operator.status import troubled
from forebay_operator.sync import Outcome, sync


class Cluster(Protocol):
    """The one door to Kubernetes. What it does may raise ClusterUnavailable; `apply` may raise Refused."""

    async def observe(self, key: tuple[str, str]) -> tuple[InferenceService, Observed] | None: ...

    async def mark_pods(self, namespace: str, marks: Mapping[str, Mark]) -> None: ...

    async def apply(self, manifests: Sequence[Manifest], observed: Observed) -> list[Change]: ...

    async def prune(self, owner: InferenceService, observed: Observed, keep: Sequence[Manifest]) -> list[Change]: ...

    async def share(self, acts: Sequence[Act]) -> list[Change]: ...

    async def write_status(self, resource: InferenceService, status: Status) -> None: ...

    async def record(self, resource: InferenceService, happened: Sequence[Happening]) -> None: ...


async def reconcile(cluster: Cluster, key: tuple[str, str], config: Config, now: datetime) -> timedelta | None:
    """After how long the next pass is due; None where there is nothing (more) to look after."""
    try:
        return await _pass(cluster, key, config, now)
    except Overlooked:
        return await _pass(cluster, key, config, now)  # it is seen this time


async def _pass(cluster: Cluster, key: tuple[str, str], config: Config, now: datetime) -> timedelta | None:
    seen = await cluster.observe(key)
    if seen is None:
        return None
    resource, observed = seen
    if resource.deleting:
        return None  # ownerReferences do the rest; touching the children now would fight the garbage collector
    outcome = sync(resource, observed, config, now)
    status, known = outcome.status, await _introduced(cluster, resource, outcome.status)
    changes: list[Change] = []
    refused = None
    try:
        changes = await _converge(cluster, resource, observed, outcome)
    except NamespaceEnding:
        return config.resync
    except Refused as e:
        status, refused = troubled(status, Cause(e.word, str(e)), now), e
    await cluster.write_status(known, status)
    await cluster.record(resource, happenings(resource, status, changes))
    if refused:
        raise refused
    return outcome.requeue_after or config.resync


async def _introduced(cluster: Cluster, resource: InferenceService, status: Status) -> InferenceService:
    """A fresh resource has a status before it has children: an autoscaler complains where it finds no selector."""
    if resource.status is not None:
        return resource
    await cluster.write_status(resource, status)
    return replace(resource, status=status)


async def _converge(cluster: Cluster, resource: InferenceService, observed: Observed, outcome: Outcome) -> list[Change]:
    if outcome.children is None:
        return []
    await cluster.mark_pods(resource.namespace, outcome.marks)
    applied = await cluster.apply(outcome.children, observed)
    pruned = await cluster.prune(resource, observed, outcome.children)
    return applied + pruned + await cluster.share(outcome.acts)
