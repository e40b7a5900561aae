"""What the watches say is there: this operator's own children and their pods, chosen by the API server itself.

Nothing of anybody else's is sent or held. What is not here may still be there under a child's name, made by another or
robbed of its label: before a child is made, `LiveCluster` looks for itself.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forebay_operator.api_names import MANAGED, SERVICE_LABEL
from forebay_operator.api_server import ApiServer
from forebay_operator.child_kinds import ChildKind
from forebay_operator.informer import Change, Informer
from forebay_operator.observed import Manifest, Pod, failed_creation, parse_pod

Key = tuple[str, str]  # namespace, name


@dataclass(frozen=True, slots=True)
class About:
    """Who an object is of: what wakes its resource needs no more of it."""

    namespace: str
    name: str
    service: str  # by its label; empty without one
    owners: tuple[tuple[str, str], ...]  # kind, name


@dataclass(frozen=True, slots=True)
class Child:
    about: About
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class PodHeld:
    about: About
    pod: Pod


@dataclass(frozen=True, slots=True)
class Failures:
    """Of a ReplicaSet: revision -> why it cannot make a pod."""

    about: About
    words: Mapping[str, str]


Kept = Child | PodHeld | Failures


class Cache:
    """`changed` is told whose object has changed, by another's hand; own writes (`wrote`, `removed`) tell nobody."""

    def __init__(self, server: ApiServer, kinds: Iterable[ChildKind], changed: Callable[[About], None]) -> None:
        self._changed = changed
        self.kinds = tuple(kinds)
        self._children = {
            k.kind: Informer[Kept](server, k.listing, _child(k.kind), self._told, selector=MANAGED, optional=k.optional)
            for k in self.kinds
        }
        self._pods = Informer[Kept](server, "/api/v1/pods", _pod, self._told, selector=MANAGED)
        sets = "/apis/apps/v1/replicasets"
        self._replica_sets = Informer[Kept](server, sets, _failures, self._told, selector=MANAGED)
        self._of: dict[Key, dict[tuple[str, str], PodHeld | Failures]] = collections.defaultdict(dict)

    async def run(self) -> None:
        """Follows the API server for ever."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers():
                group.create_task(informer.run())

    async def until_synced(self) -> None:
        """Until everything has been listed once: before that, nothing is known."""
        for informer in self._informers():
            await informer.until_synced()

    @property
    def absent(self) -> frozenset[str]:
        """Kinds that the cluster does not know."""
        return frozenset(kind for kind, informer in self._children.items() if informer.absent)

    def child(self, kind: str, namespace: str, name: str) -> Manifest | None:
        held = self._children[kind].get(namespace, name)
        return held.manifest if isinstance(held, Child) else None

    def pods(self, key: Key) -> tuple[Pod, ...]:
        return tuple(held.pod for held in self._of.get(key, {}).values() if isinstance(held, PodHeld))

    def failed_creation(self, key: Key) -> dict[str, str]:
        """Revision -> why no pod of it can be made."""
        found = [held.words for held in self._of.get(key, {}).values() if isinstance(held, Failures)]
        return {revision: words for of_set in found for revision, words in of_set.items()}

    def wrote(self, manifest: Manifest) -> None:
        """The API server's answer to a write of this operator's own."""
        self._children[manifest["kind"]].wrote(manifest)

    def removed(self, manifest: Manifest) -> None:
        meta = manifest["metadata"]
        self._children[manifest["kind"]].removed(meta["namespace"], meta["name"])

    def _informers(self) -> list[Informer[Kept]]:
        return [*self._children.values(), self._pods, self._replica_sets]

    def _told(self, changes: Sequence[Change[Kept]]) -> None:
        for before, after in changes:
            if before and not isinstance(before, Child):
                self._file(before, None)
            if after and not isinstance(after, Child):
                self._file(after, after)
        for about in {held.about for change in changes for held in change if held}:
            self._changed(about)

    def _file(self, held: PodHeld | Failures, now: PodHeld | Failures | None) -> None:
        """Files it under its resource, or takes it out."""
        key, of = (held.about.namespace, held.about.service), (type(held).__name__, held.about.name)
        if now is None:
            self._of[key].pop(of, None)
            if not self._of[key]:
                del self._of[key]
        else:
            self._of[key][of] = now


def about(item: Mapping[str, Any]) -> About:
    meta = item["metadata"]
    return About(
        namespace=meta["namespace"],
        name=meta["name"],
        service=(meta.get("labels") or {}).get(SERVICE_LABEL, ""),
        owners=tuple((o["kind"], o["name"]) for o in meta.get("ownerReferences") or []),
    )


def _child(kind: str) -> Callable[[Mapping[str, Any]], Kept]:
    """A list's items do not say their kind. Of managers the names are enough: their fields are half of an object."""

    def keep(item: Mapping[str, Any]) -> Kept:
        meta = item["metadata"]
        managers = [{k: m.get(k) for k in ("manager", "operation")} for m in meta.get("managedFields") or []]
        return Child(about(item), {**item, "kind": kind, "metadata": {**meta, "managedFields": managers}})

    return keep


def _pod(item: Mapping[str, Any]) -> Kept:
    return PodHeld(about(item), parse_pod(dict(item)))


def _failures(item: Mapping[str, Any]) -> Kept:
    return Failures(about(item), failed_creation([dict(item)]))
