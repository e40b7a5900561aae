"""What is held of an object of the cluster, and what a change of it means to the decisions. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from forebay_operator.api_names import DOWNLOAD_LABEL, SERVICE_LABEL
from forebay_operator.drift import meant
from forebay_operator.observed import Manifest, Pod, failed_creation, parse_pod, parse_workload, scaling_active


@dataclass(frozen=True, slots=True)
class About:
    """Who an object is of: what wakes its resource needs no more of it."""

    namespace: str
    name: str
    service: str  # by its label; empty without one
    download: str  # by its label: the Job that it is a pod of; empty without one
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


class Weight(Enum):
    """How much a change concerns its resource."""

    NOTHING = "no decision can see it"
    NEWS = "something has come about"
    DAMAGE = "another's hand was at a child, or a pod begins or ceases to serve: the sooner seen to, the better"


def weight(before: Kept | None, after: Kept | None) -> Weight:
    """Of a change from one to the other; None is not there."""
    match before, after:
        case ((Failures() | None), (Failures() | None)):
            return Weight.NOTHING if _words(before) == _words(after) else Weight.NEWS
        case ((PodHeld() | None), (PodHeld() | None)):
            if _serves(before) != _serves(after):
                return Weight.DAMAGE
            return Weight.NOTHING if before == after else Weight.NEWS
        case Child(), Child():
            return _of_child(before.manifest, after.manifest)
    return Weight.DAMAGE


def _of_child(before: Manifest, after: Manifest) -> Weight:
    if meant(before) != meant(after):
        return Weight.DAMAGE
    return Weight.NOTHING if _told(before) == _told(after) else Weight.NEWS


def _words(held: Failures | None) -> Mapping[str, str]:
    return held.words if held else {}


def _told(live: Manifest) -> Any:
    """What decisions read of what its controller tells."""
    match live["kind"]:
        case "Deployment" | "LeaderWorkerSet":
            return parse_workload(live)
        case "HorizontalPodAutoscaler":  # what it counts is in there too, every few seconds
            return scaling_active(live)
        case "Service" | "PodDisruptionBudget" | "NetworkPolicy" | "RoleBinding":
            return None
    return live.get("status")


def _serves(held: PodHeld | None) -> bool:
    return held is not None and held.pod.ready and not held.pod.deleting


def about(item: Mapping[str, Any]) -> About:
    meta = item["metadata"]
    return About(
        namespace=meta["namespace"],
        name=meta["name"],
        service=(meta.get("labels") or {}).get(SERVICE_LABEL, ""),
        download=(meta.get("labels") or {}).get(DOWNLOAD_LABEL, ""),
        owners=tuple((o["kind"], o["name"]) for o in meta.get("ownerReferences") or []),
    )


def child(kind: str) -> Callable[[Mapping[str, Any]], Kept]:
    """A list's items do not say their kind. Who managed it and when is enough: the managed fields are half of it."""

    def keep(item: Mapping[str, Any]) -> Kept:
        meta = item["metadata"]
        managers = [{k: m.get(k) for k in ("manager", "operation", "time")} for m in meta.get("managedFields") or []]
        return Child(about(item), {**item, "kind": kind, "metadata": {**meta, "managedFields": managers}})

    return keep


def pod(item: Mapping[str, Any]) -> Kept:
    return PodHeld(about(item), parse_pod(dict(item)))


def failures(item: Mapping[str, Any]) -> Kept:
    return Failures(about(item), failed_creation([dict(item)]))
