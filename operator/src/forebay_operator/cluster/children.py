"""The children that are there, and what is written of them: only what differs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from forebay_operator.api_names import FIELD_OWNER
from forebay_operator.child_kinds import ALL_KINDS, CHILD_KINDS
from forebay_operator.cluster.api import APPLY, JSON_PATCH, Api
from forebay_operator.cluster.cache import Cache
from forebay_operator.cluster.names import Key
from forebay_operator.cluster.paths import ChildId, child_id, child_path
from forebay_operator.drift import digest, disowned, displaced, intent, replacement
from forebay_operator.happenings import Change, Verb
from forebay_operator.observed import Manifest, Observed
from forebay_operator.ownership import owner_of
from forebay_operator.refusal import ApiError, Overlooked, consequence
from forebay_operator.resource import InferenceService


class Children:
    """Read from the cache, and by name where the cache cannot know; written to the API server and to the cache."""

    def __init__(self, api: Api, cache: Cache) -> None:
        self._api, self._cache = api, cache
        self._applied: dict[
            ChildId, tuple[str, str, str]
        ] = {}  # uid, digest of what was applied, and of what came of it
        self._strangers: set[ChildId] = set()  # found under a child's name, and not in the cache

    # ------------------------------------------------------------ reading

    async def of(self, key: Key) -> dict[str, Manifest]:
        namespace, name = key
        found = {k.kind: await self.find((k.kind, namespace, k.name(name))) for k in self._cache.kinds}
        return {kind: live for kind, live in found.items() if live is not None}

    async def find(self, id: ChildId) -> Manifest | None:
        live = self._cache.child(*id)
        if live is None and id in self._strangers:
            return await self.look(id)
        self._strangers.discard(id)
        return live

    async def look(self, id: ChildId) -> Manifest | None:
        """What is there under a child's name by the API server's own word: as its cache has it, which feeds the watches
        too and so is never behind them, and spares its store."""
        kind, namespace, name = id
        live = await self._api.find(ALL_KINDS[kind].path(namespace, name), resourceVersion="0")
        (self._strangers.discard if live is None else self._strangers.add)(id)
        return None if live is None else {**live, "kind": kind}

    def forget(self, key: Key) -> None:
        """Nothing is remembered of the children of a resource that is gone."""
        for kind in CHILD_KINDS.values():
            self._applied.pop((kind.kind, key[0], kind.name(key[1])), None)
            self._strangers.discard((kind.kind, key[0], kind.name(key[1])))

    # ------------------------------------------------------------ writing

    async def apply(self, manifests: Sequence[Manifest], observed: Observed) -> list[Change]:
        """Makes each manifest so; no request where nothing differs. All are tried before an error is raised.
        Overlooked, with nothing done, where something unknown stands in the place of a child that is to be made."""
        fresh = [child_id(m) for m in manifests if m["kind"] not in observed.children]
        if any(await asyncio.gather(*map(self.look, fresh))):
            raise Overlooked(f"something is there already under the name of {' or '.join(id[0] for id in fresh)}")
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
            raise consequence(e, f"{desired['kind']} {desired['metadata']['name']}") from e
        now["kind"] = desired["kind"]
        self._cache.wrote(now)
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
                    raise consequence(e, f"{child['kind']} {child['metadata']['name']}") from e
            self._cache.removed(child)
            self._applied.pop(child_id(child), None)
        return [Change(Verb.REMOVED, c["kind"]) for c in gone]
