"""Kubernetes as one pass needs it: read the present, write only what differs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from forebay_operator import scaling
from forebay_operator.cluster.api import APPLY, JSON_PATCH, MERGE, Api
from forebay_operator.cluster.events import event
from forebay_operator.cluster.loads import Loads
from forebay_operator.cluster.names import Key, ModelNames
from forebay_operator.drift import digest, disowned, displaced, intent, replacement
from forebay_operator.happenings import Change, Happening, Verb
from forebay_operator.observed import (
    CHILD_KINDS,
    DELETION_COST,
    FIELD_OWNER,
    SERVICE_LABEL,
    Credentials,
    Known,
    Manifest,
    Missing,
    Observed,
    Unreadable,
    failed_creation,
    owner_of,
    parse_pod,
)
from forebay_operator.refusal import ApiError, ClusterUnavailable
from forebay_operator.resource import API_VERSION, PLURAL, InferenceService, InvalidSpec, Status, parse

log = logging.getLogger(__name__)
RESOURCES = f"/apis/{API_VERSION}/{PLURAL}"
ChildId = tuple[str, str, str]  # kind, namespace, name


def resource_path(key: Key) -> str:
    return f"/apis/{API_VERSION}/namespaces/{key[0]}/{PLURAL}/{key[1]}"


def child_path(manifest: Manifest) -> str:
    return CHILD_KINDS[manifest["kind"]].path(manifest["metadata"]["namespace"], manifest["metadata"]["name"])


def child_id(manifest: Manifest) -> ChildId:
    return manifest["kind"], manifest["metadata"]["namespace"], manifest["metadata"]["name"]


class LiveCluster:
    """`kinds` are the kinds of children that it may read."""

    def __init__(self, api: Api, kinds: Iterable[str] = CHILD_KINDS) -> None:
        self._api = api
        self._kinds = [CHILD_KINDS[k] for k in kinds]
        self._loads = Loads()
        self._applied: dict[
            ChildId, tuple[str, str, str]
        ] = {}  # uid, digest of what was applied, and of what came of it
        self.names = ModelNames()

    async def close(self) -> None:
        await self._loads.close()
        await self._api.close()

    async def learn_names(self) -> None:
        """Reads every resource's model name, before the first pass: no younger one may take a name at a restart."""
        for item in (await self._api.get(RESOURCES))["items"]:
            self.names.heard(parse(item))

    # ------------------------------------------------------------ reading

    async def observe(self, key: Key) -> tuple[InferenceService, Observed] | None:
        """The children first and the resource last: a child that lost its owner because the resource is being deleted
        is never seen without the deletion."""
        namespace, name = key
        selector = {"labelSelector": f"{SERVICE_LABEL}={name}"}
        children, (replica_sets, pods) = await asyncio.gather(
            asyncio.gather(*(self._api.find(kind.path(namespace, kind.name(name))) for kind in self._kinds)),
            asyncio.gather(
                self._api.get(f"/apis/apps/v1/namespaces/{namespace}/replicasets", **selector),
                self._api.get(f"/api/v1/namespaces/{namespace}/pods", **selector),
            ),
        )
        body = await self._api.find(resource_path(key))
        if body is None:
            self._forget(key)
            return None
        live = {about.kind: child for about, child in zip(self._kinds, children, strict=True) if child}
        observed = Observed(
            children={kind: {**child, "kind": kind} for kind, child in live.items()},
            pods=tuple(parse_pod(p) for p in pods["items"]),
            failed_creation=failed_creation(replica_sets["items"]),
        )
        return parse(body), await self._observed_further(parse(body), observed)

    async def _observed_further(self, resource: InferenceService, observed: Observed) -> Observed:
        """What only some resources need: the Secret that it names, who has its model name, the load of its pods."""
        if resource.deleting or isinstance(resource.spec, InvalidSpec):
            return observed
        secret = resource.spec.model.credentials_secret
        shrinks = scaling.shrinks(observed.workload, resource.spec.replicas)
        return replace(
            observed,
            credentials=await self._credentials(resource.namespace, secret) if secret else None,
            rival=await self._rival(resource),
            load=await self._loads.of(observed.pods) if shrinks else {},
        )

    async def _credentials(self, namespace: str, name: str) -> Credentials:
        try:
            found = await self._api.find(f"/api/v1/namespaces/{namespace}/secrets/{name}")
        except ApiError as e:
            if e.code in (401, 403):
                return Unreadable()
            raise
        return Missing() if found is None else Known(digest([found["metadata"]["uid"], found.get("data") or {}]))

    async def _rival(self, resource: InferenceService) -> str | None:
        """The resource that has the better claim to its model name; looked at, not only remembered."""
        for key in self.names.older(resource):
            body = await self._api.find(resource_path(key))
            if body is None:
                self.names.gone(key)
            elif parse(body).model_name == resource.model_name:
                return "/".join(key)
        return None

    def _forget(self, key: Key) -> None:
        for id in [i for i in self._applied if i[1] == key[0] and i[2] in {k.name(key[1]) for k in self._kinds}]:
            del self._applied[id]

    # ------------------------------------------------------------ writing

    async def apply(self, manifests: Sequence[Manifest], observed: Observed) -> list[Change]:
        """Makes each manifest so; no request where nothing differs. All are tried before an error is raised."""
        done = await asyncio.gather(
            *(self._apply_one(m, observed.children.get(m["kind"])) for m in manifests), return_exceptions=True
        )
        for result in done:
            if isinstance(result, BaseException):
                raise result
        return [c for c in done if isinstance(c, Change)]

    async def _apply_one(self, desired: Manifest, live: Manifest | None) -> Change | None:
        id, wanted = child_id(desired), digest(desired)
        before = self._applied.get(id)
        if live and before == (live["metadata"]["uid"], wanted, intent(live)):
            return None
        try:
            now = await self._write(desired, live)
        except ApiError as e:
            raise e.about(f"{desired['kind']} {desired['metadata']['name']}") from e
        now["kind"] = desired["kind"]
        self._applied[id] = now["metadata"]["uid"], wanted, intent(now)
        if live is None:
            return Change(Verb.MADE, desired["kind"])
        if intent(now) == intent(live):
            return None
        same = before is not None and before[1] == wanted
        return Change(Verb.PUT_BACK if same else Verb.CHANGED, desired["kind"])

    async def _write(self, desired: Manifest, live: Manifest | None) -> Manifest:
        if live and displaced(desired, live):
            return await self._replace(desired, live)
        try:
            return await self._server_side_apply(desired)
        except ApiError as e:
            if e.code != 422 or live is None:
                raise
            return await self._replace(desired, live)

    async def _server_side_apply(self, desired: Manifest) -> Manifest:
        options = {"fieldManager": FIELD_OWNER, "force": "true", "fieldValidation": "Strict"}
        return await self._api.patch(child_path(desired), desired, APPLY, **options)

    async def _replace(self, desired: Manifest, live: Manifest) -> Manifest:
        """For what server-side apply cannot put right (drift.py): the whole object, then applied to own it."""
        body, path = replacement(desired, live), child_path(desired)
        await self._api.request("PUT", path, body, {"fieldManager": FIELD_OWNER})
        now = await self._server_side_apply(desired)
        patch = disowned(now)
        return await self._api.patch(path, patch, JSON_PATCH) if patch else now

    async def prune(self, owner: InferenceService, observed: Observed, keep: Sequence[Manifest]) -> list[Change]:
        """Deletes the owner's children of kinds that are not to be kept."""
        kept = {m["kind"] for m in keep}
        gone = [
            c for k, c in observed.children.items() if k not in kept and (owner_of(c) or {}).get("uid") == owner.uid
        ]
        for child in gone:
            body = {"preconditions": {"uid": child["metadata"]["uid"]}, "propagationPolicy": "Background"}
            try:
                await self._api.request("DELETE", child_path(child), body)
            except ApiError as e:
                if e.code != 404:
                    raise e.about(f"{child['kind']} {child['metadata']['name']}") from e
            self._applied.pop(child_id(child), None)
        return [Change(Verb.REMOVED, c["kind"]) for c in gone]

    async def set_deletion_costs(self, namespace: str, costs: Mapping[str, int]) -> None:
        for pod, cost in costs.items():
            body = {"metadata": {"annotations": {DELETION_COST: str(cost)}}}
            try:
                await self._api.patch(f"/api/v1/namespaces/{namespace}/pods/{pod}", body, MERGE)
            except ApiError as e:
                if e.code != 404:
                    raise e.about(f"pod {pod}") from e

    async def write_status(self, resource: InferenceService, status: Status) -> None:
        """Writes it where it differs from what the resource has."""
        if resource.status == status:
            return
        body = {"status": status.model_dump(by_alias=True)}
        try:
            await self._api.patch(f"{resource_path(resource.key)}/status", body, MERGE, fieldManager=FIELD_OWNER)
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
