"""What the operator holds of the cluster, over a real connection to a small API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from forebay_operator.api_names import DOWNLOAD_LABEL, MANAGED, REVISION_LABEL, SERVICE_LABEL
from forebay_operator.api_server import ApiServer
from forebay_operator.child_kinds import ALL_KINDS, CHILD_KINDS
from forebay_operator.cluster.cache import Cache
from forebay_operator.cluster.kept import About, Weight
from forebay_operator.observed import Manifest
from tests.operator.builders import desired, live, pod_body, resource, wanted
from tests.support.api_server import FakeApiServer
from tests.support.asgi import on_loopback

PODS, SETS = "/api/v1/pods", "/apis/apps/v1/replicasets"
SERVICES = CHILD_KINDS["Service"].listing
KEY = ("ns", "demo")


@dataclass
class Held:
    server: FakeApiServer = field(default_factory=FakeApiServer)
    cache: Cache = field(init=False)
    told: asyncio.Queue[tuple[About, Weight]] = field(default_factory=asyncio.Queue)

    def event(self, listing: str, type: str, item: Manifest) -> None:
        self.server.events(listing).put_nowait({"type": type, "object": item})

    async def next(self) -> str:
        return (await asyncio.wait_for(self.told.get(), 20))[0].name

    def changed(self, about: About, weight: Weight) -> None:
        self.told.put_nowait((about, weight))


@contextlib.asynccontextmanager
async def holding(*services: Manifest) -> AsyncIterator[Held]:
    held = Held()
    held.server.lists = {path: [] for path in (PODS, SETS, *(k.listing for k in ALL_KINDS.values()))}
    held.server.lists[SERVICES] = list(services)
    async with on_loopback(held.server) as at:
        server = ApiServer(f"http://{at}")
        held.cache = Cache(server, CHILD_KINDS.values(), held.changed)
        task = asyncio.ensure_future(held.cache.run())
        try:
            await asyncio.wait_for(held.cache.until_synced(), 20)
            yield held
        finally:
            task.cancel()
            await asyncio.wait([task])
            await server.close()


def service(version: int, **spec: Any) -> Manifest:
    found = live(desired(wanted(resource()), "Service"))
    found["metadata"] |= {"resourceVersion": str(version)}
    found["metadata"]["managedFields"] = [{"manager": "m", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]
    return {**found, "spec": {**found["spec"], **spec}}


def pod(name: str, version: int, of: str = "demo", **more: Any) -> Manifest:
    body = pod_body(name, "r1", **more)
    labels = {SERVICE_LABEL: of, REVISION_LABEL: "r1"}
    body["metadata"] |= {"namespace": "ns", "labels": labels, "resourceVersion": str(version)}
    return body


async def test_only_own_objects_are_asked_for_and_half_of_each_is_held() -> None:
    async with holding(service(1)) as held:
        assert {q.get("labelSelector") for _, _, q in held.server.requests} == {MANAGED}
        found = held.cache.child("Service", *KEY)
        assert found
        assert found["kind"] == "Service"
        assert found["metadata"]["managedFields"] == [{"manager": "m", "operation": "Apply", "time": None}]


async def test_a_change_is_told_with_whose_it_is() -> None:
    async with holding(service(1)) as held:
        assert await held.next() == "demo"
        held.event(SERVICES, "MODIFIED", service(2, type="NodePort"))
        assert await held.next() == "demo"
        found = held.cache.child("Service", *KEY)
        assert found
        assert found["spec"]["type"] == "NodePort"
        held.event(SERVICES, "DELETED", service(3))
        await held.next()
        assert held.cache.child("Service", *KEY) is None


async def test_an_own_write_is_seen_at_once_and_neither_told_nor_undone_by_what_the_watch_still_brings() -> None:
    async with holding(service(1)) as held:
        await held.next()
        held.cache.wrote(service(5, type="LoadBalancer"))
        for version, type in ((3, "NodePort"), (5, "LoadBalancer")):
            held.event(SERVICES, "MODIFIED", service(version, type=type))
        held.event(SERVICES, "DELETED", service(4))
        held.event(PODS, "ADDED", pod("p", 9))
        assert await held.next() == "p", "nothing of the Service was told"
        found = held.cache.child("Service", *KEY)
        assert found
        assert found["spec"]["type"] == "LoadBalancer"


async def test_pods_are_found_by_their_resource_until_they_go_or_are_of_another() -> None:
    async with holding() as held:
        held.event(PODS, "ADDED", pod("a", 2))
        held.event(PODS, "ADDED", pod("b", 3, ready=True))
        await held.next()
        await held.next()
        assert [(p.name, p.ready) for p in held.cache.pods(KEY)] == [("a", False), ("b", True)]
        held.event(PODS, "MODIFIED", pod("a", 4, of="other"))
        held.event(PODS, "DELETED", pod("b", 5, ready=True))
        await held.next()
        await held.next()
        await held.next()
        assert held.cache.pods(KEY) == ()
        assert [p.name for p in held.cache.pods(("ns", "other"))] == ["a"]


async def test_why_no_pod_can_be_made_is_held_by_revision() -> None:
    async with holding() as held:
        condition = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
        meta = pod("set", 2)["metadata"]
        held.event(SETS, "ADDED", {"metadata": meta, "spec": {"replicas": 1}, "status": {"conditions": [condition]}})
        await held.next()
        assert held.cache.failed_creation(KEY) == {"r1": "exceeded quota"}


async def test_what_resources_share_is_found_by_its_owners_and_a_jobs_pods_by_the_job() -> None:
    jobs = ALL_KINDS["Job"].listing
    async with holding() as held:
        owners = [{"kind": "InferenceService", "name": n, "uid": f"uid-of-{n}"} for n in ("demo", "other")]
        meta = {"name": "download-x", "namespace": "ns", "resourceVersion": "2", "ownerReferences": owners}
        held.event(jobs, "ADDED", {"metadata": meta, "spec": {}})
        await held.next()
        assert [m["kind"] for m in held.cache.shares("ns", "uid-of-other")] == ["Job"]
        assert held.cache.shares("elsewhere", "uid-of-other") == ()
        body = pod("p", 3)
        body["metadata"]["labels"] = {DOWNLOAD_LABEL: "download-x"}
        held.event(PODS, "ADDED", body)
        await held.next()
        assert [p.name for p in held.cache.download_pods("ns", "download-x")] == ["p"]
        assert held.cache.pods(("ns", "download-x")) == (), "a resource may have that name"
