"""Kubernetes as one pass needs it: read the present, write only what differs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from forebay_operator import facts, scaling
from forebay_operator.api_names import (
    DELETION_COST,
    DRAINING_ANNOTATION,
    FIELD_OWNER,
    IN_ROTATION,
    OUT_OF_ROTATION,
    RESOURCES,
    ROTATION_LABEL,
)
from forebay_operator.causes import killed_as_stalled, suspects
from forebay_operator.children import download
from forebay_operator.cluster.api import MERGE, Api
from forebay_operator.cluster.cache import Cache
from forebay_operator.cluster.children import Children
from forebay_operator.cluster.events import event
from forebay_operator.cluster.names import Key, ModelNames
from forebay_operator.cluster.paths import child_id, resource_path
from forebay_operator.cluster.pods import PodDoor
from forebay_operator.cluster.sharing import carry_out
from forebay_operator.downloads import Act, Make
from forebay_operator.drift import digest
from forebay_operator.happenings import Change, Happening
from forebay_operator.observed import (
    Credentials,
    Download,
    Known,
    Manifest,
    Missing,
    Observed,
    Pod,
    Unreadable,
    finished,
)
from forebay_operator.refusal import ApiError, ClusterUnavailable, Overlooked, consequence
from forebay_operator.resource import InferenceService, InvalidSpec, Spec, Status, parse
from forebay_operator.scaling import Mark

log = logging.getLogger(__name__)


class LiveCluster:
    """Children and pods come from the cache, the resource and what else is read from the API server itself."""

    def __init__(self, api: Api, cache: Cache) -> None:
        self._api, self._cache = api, cache
        self._pods = PodDoor()
        self._children = Children(api, cache)
        self._told: dict[Key, str] = {}  # the resource version that the last status written came to
        self.names, self.models = ModelNames(), facts.KnownModels()

    async def close(self) -> None:
        await self._pods.close()

    async def learn_names(self) -> None:
        """Reads every resource's model names, before the first pass: no younger one may take a name at a restart."""
        for item in (await self._api.get(RESOURCES))["items"]:
            self.heard(parse(item))

    def heard(self, resource: InferenceService) -> set[Key]:
        """Takes down what matters to others; the resources that are concerned."""
        self.models.heard(resource)
        return self.names.heard(resource)

    def gone(self, key: Key) -> set[Key]:
        """Forgets a resource; those that are concerned."""
        self.models.gone(key)
        return self.names.gone(key)

    # ------------------------------------------------------------ reading

    async def observe(self, key: Key) -> tuple[InferenceService, Observed] | None:
        """The children first and the resource last: a child that lost its owner because the resource is being deleted
        is never seen without the deletion."""
        children = await self._children.of(key)
        pods, failed = self._cache.pods(key), self._cache.failed_creation(key)
        body = await self._api.find(resource_path(key))
        if body is None:
            self._told.pop(key, None)
            self._children.forget(key)
            return None
        resource = parse(body)
        observed = Observed(
            children=children,
            pods=tuple(p for p in pods if not p.worker),
            workers=tuple(p for p in pods if p.worker),
            absent=self._cache.absent,
            failed_creation=failed,
        )
        return resource, await self._observed_further(resource, observed)

    def is_own_status(self, key: Key, version: str) -> bool:
        """Whether the resource is as this operator's last write of its status left it: nothing new."""
        return self._told.get(key) == version

    async def _observed_further(self, resource: InferenceService, observed: Observed) -> Observed:
        """What only some resources need: the Secret that it names, who has its model name, the load of its pods."""
        if resource.deleting or isinstance(resource.spec, InvalidSpec):
            return observed
        secret = resource.spec.model.credentials_secret
        observed = replace(observed, **await self._download(resource.namespace, resource.uid, resource.spec))
        shrinks = scaling.shrinks(observed.workload, resource.spec.replicas)
        return replace(
            observed,
            credentials=await self._credentials(resource.namespace, secret) if secret else None,
            rival=await self._rival(resource),
            load=await self._pods.loads(observed.pods, resource.spec.engine.type) if shrinks else {},
            stalled=await self._stalled(resource.namespace, observed.pods),
            known=self.models.of(resource),
            **await self._reported(resource, resource.spec, observed),
        )

    async def _download(self, namespace: str, uid: str, spec: Spec) -> dict[str, Any]:
        """What there is of its cache, and of those that it had before."""
        found: dict[str, Any] = {"shares": self._cache.shares(namespace, uid)}
        if spec.model.cache:
            job, claim = download.job_name(spec), download.claim_name(spec)
            of_ours = ("PersistentVolumeClaim", namespace, claim) if spec.model.cache.size else None
            live, pods = await self._children.find(("Job", namespace, job)), self._cache.download_pods(namespace, job)
            found["download"] = Download(
                await self._children.find(of_ours) if of_ours else None,
                live,
                pods,
                await self._failed_creation(live) if live and not pods and not finished(live, "Complete") else "",
            )
        return found

    async def _failed_creation(self, job: Manifest) -> str:
        """The last words on why it has no pod: a Job's status does not tell."""
        meta = job["metadata"]
        events = await self._events(meta["namespace"], "Job", meta["name"], "FailedCreate")
        said = [
            (e.get("lastTimestamp") or "", e.get("message") or "")
            for e in events
            if e["involvedObject"].get("uid") == meta["uid"]
        ]
        return max(said, default=("", ""))[1]

    async def _reported(self, resource: InferenceService, spec: Spec, observed: Observed) -> dict[str, Any]:
        """What our own runtime tells of its model, where it isn't known yet, of its loading and of downloads."""
        pods = observed.pods
        busy = [*observed.download.pods, *(p for p in pods if p.fetches or spec.engine.type == "forebay")]
        if spec.engine.type != "forebay":
            return {"loading": await self._pods.loading(busy)}
        asked = facts.wanted_from(resource, pods)
        footprint = await self._pods.footprint(asked) if asked else None
        told = (asked.revision, footprint) if asked and footprint else None
        return {"footprint": told, "loading": await self._pods.loading(busy)}

    async def _stalled(self, namespace: str, pods: Sequence[Pod]) -> frozenset[str]:
        """Pods that the kubelet says it has ended because they did not answer."""
        found = set()
        for pod in suspects(pods):
            events = await self._events(namespace, "Pod", pod.name, "Killing")
            said = [e for e in events if "liveness probe" in e.get("message", "")]
            times = [datetime.fromisoformat(e["lastTimestamp"]) for e in said if e.get("lastTimestamp")]
            if killed_as_stalled(pod, times):
                found.add(pod.name)
        return frozenset(found)

    async def _events(self, namespace: str, kind: str, name: str, reason: str) -> list[Manifest]:
        about = {"involvedObject.kind": kind, "involvedObject.name": name, "reason": reason}
        selector = ",".join(f"{k}={v}" for k, v in about.items())
        found = await self._api.get(f"/api/v1/namespaces/{namespace}/events", fieldSelector=selector)
        return list(found["items"])

    async def _credentials(self, namespace: str, name: str) -> Credentials:
        try:
            found = await self._api.find(f"/api/v1/namespaces/{namespace}/secrets/{name}")
        except ApiError as e:
            if e.code in (401, 403):
                return Unreadable()
            raise
        return Missing() if found is None else Known(digest([found["metadata"]["uid"], found.get("data") or {}]))

    async def _rival(self, resource: InferenceService) -> str | None:
        """The resource that has the better claim to one of its model names; looked at, not only remembered."""
        for key in self.names.older(resource):
            body = await self._api.find(resource_path(key))
            if body is None:
                self.names.gone(key)
            elif not set(parse(body).model_names).isdisjoint(resource.model_names):
                return "/".join(key)
        return None

    # ------------------------------------------------------------ writing

    async def apply(self, manifests: Sequence[Manifest], observed: Observed) -> list[Change]:
        return await self._children.apply(manifests, observed)

    async def prune(self, owner: InferenceService, observed: Observed, keep: Sequence[Manifest]) -> list[Change]:
        return await self._children.prune(owner, observed, keep)

    async def share(self, acts: Sequence[Act]) -> list[Change]:
        """Carries them out in their order. Overlooked where something unknown stands in the place of what is to be
        made; ClusterUnavailable where another resource was faster."""
        found = []
        for act in acts:
            if isinstance(act, Make) and await self._children.look(child_id(act.what)):
                raise Overlooked(f"something is there already under the name of {act.what['kind']}")
            found.append(await carry_out(act, self._api, self._cache))
        return found

    async def mark_pods(self, namespace: str, marks: Mapping[str, Mark]) -> None:
        for pod, mark in marks.items():
            since = mark.since.isoformat() if mark.since else None
            meta = {
                "labels": {ROTATION_LABEL: OUT_OF_ROTATION if mark.since else IN_ROTATION},
                "annotations": {DELETION_COST: str(mark.cost), DRAINING_ANNOTATION: since},
            }
            try:
                await self._api.patch(f"/api/v1/namespaces/{namespace}/pods/{pod}", {"metadata": meta}, MERGE)
            except ApiError as e:
                if e.code != 404:
                    raise consequence(e, f"Pod {pod}") from e

    async def write_status(self, resource: InferenceService, status: Status) -> None:
        """Writes it where it differs from what the resource has."""
        if resource.status == status:
            return
        body = {"status": status.model_dump(by_alias=True)}
        try:
            path = f"{resource_path(resource.key)}/status"
            now = await self._api.patch(path, body, MERGE, fieldManager=FIELD_OWNER)
            if now["metadata"]["generation"] == resource.generation and "deletionTimestamp" not in now["metadata"]:
                self._told[resource.key] = now["metadata"]["resourceVersion"]
        except ApiError as e:
            if e.code != 404:
                raise ClusterUnavailable(f"status of {resource.name}: {e}") from e

    async def record(self, resource: InferenceService, happened: Sequence[Happening]) -> None:
        """Events for people; an Event that cannot be written is no failure of the pass."""
        for happening in happened:
            try:
                body = event(resource, happening, datetime.now(UTC))
                await self._api.request("POST", f"/api/v1/namespaces/{resource.namespace}/events", body)
            except (ApiError, ClusterUnavailable) as e:
                log.info("%s/%s: no event %s: %s", *resource.key, happening.reason, e)
