"""What the watches say is there: this operator's own children and their pods, chosen by the API server itself.

Nothing of anybody else's is sent or held. What is not here may still be there under a child's name, made by another or
robbed of its label: before a child is made, `LiveCluster` looks for itself.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Iterable, Sequence

from forebay_operator.api_names import MANAGED
from forebay_operator.api_server import ApiServer
from forebay_operator.child_kinds import SHARED_KINDS, ChildKind
from forebay_operator.cluster import kept
from forebay_operator.cluster.kept import About, Child, Failures, Kept, PodHeld, Weight, weight
from forebay_operator.informer import Change, Informer
from forebay_operator.observed import Manifest, Pod

Key = tuple[str, str]  # namespace, name


class Cache:
    """`changed` is told whose object has changed, by another's hand, and how much that weighs; own writes (`wrote`,
    `removed`) and what no decision can see tell nobody."""

    def __init__(self, server: ApiServer, kinds: Iterable[ChildKind], changed: Callable[[About, Weight], None]) -> None:
        self._changed = changed
        self.kinds = tuple(kinds)
        self._children = {
            k.kind: Informer[Kept](
                server, k.listing, kept.child(k.kind), self._told, selector=MANAGED, optional=k.optional
            )
            for k in (*self.kinds, *SHARED_KINDS.values())
        }
        self._pods = Informer[Kept](server, "/api/v1/pods", kept.pod, self._told, selector=MANAGED)
        sets = "/apis/apps/v1/replicasets"
        self._replica_sets = Informer[Kept](server, sets, kept.failures, self._told, selector=MANAGED)
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

    def shares(self, namespace: str, uid: str) -> tuple[Manifest, ...]:
        """Jobs and claims that name the resource of that UID as one of their owners."""
        held = (h.manifest for k in SHARED_KINDS for h in self._children[k] if isinstance(h, Child))
        of_it = (m for m in held if m["metadata"]["namespace"] == namespace)
        return tuple(m for m in of_it if uid in {o["uid"] for o in m["metadata"].get("ownerReferences") or []})

    def download_pods(self, namespace: str, job: str) -> tuple[Pod, ...]:
        return self.pods((namespace, _download_key(job)))

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
        heaviest: dict[About, Weight] = {}
        for before, after in changes:
            found = weight(before, after)
            for held in (before, after):
                if held and found is not Weight.NOTHING and heaviest.get(held.about) is not Weight.DAMAGE:
                    heaviest[held.about] = found
        for about, found in heaviest.items():
            self._changed(about, found)

    def _file(self, held: PodHeld | Failures, now: PodHeld | Failures | None) -> None:
        """Files it under its resource, or takes it out."""
        whose = held.about.service or _download_key(held.about.download)
        key, of = (held.about.namespace, whose), (type(held).__name__, held.about.name)
        if now is None:
            self._of[key].pop(of, None)
            if not self._of[key]:
                del self._of[key]
        else:
            self._of[key][of] = now


def _download_key(job: str) -> str:
    """No resource has such a name."""
    return f"{job}/download"
