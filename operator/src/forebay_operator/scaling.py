"""How many pods there should be, and which of them go first. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from forebay_operator.observed import Observed, Pod, Workload
from forebay_operator.resource import Scale

KEPT = 5  # changes of the replicas that the status remembers
UNKNOWN_LOAD = 1_000_000  # as busy as can be: what is not known is not zero
LEAVES, DRAINS, STAYS = -1, 0, 1  # costs of deletion: of a pod that is to go now, later, and not at all
UNTIL_KNOWN = timedelta(seconds=3)  # until every proxy knows that a pod is out of rotation


def shrinks(workload: Workload | None, wanted: int) -> bool:
    """Whether some, but not all, pods are to go."""
    return workload is not None and 0 < wanted < workload.wanted


@dataclass(frozen=True, slots=True)
class Mark:
    """What a pod bears: `cost`, by which the ReplicaSet chooses who goes, the lowest first; `since`, from when on it
    gets no new requests (None: it gets them)."""

    cost: int
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Retreat:
    """`replicas` is what the workload may be lowered to now; `marks` are the changed ones; `draining` counts pods that
    finish their requests first."""

    replicas: int
    marks: Mapping[str, Mark] = field(default_factory=dict)
    draining: int = 0


def retreat(observed: Observed, wanted: int, deadline: timedelta, now: datetime) -> Retreat:
    """The way down: who is to go gets no new requests, and goes once it has none in flight or the deadline is past.

    Who goes: first those that do not serve, then those that are on their way out already, then the least busy; of
    equals the youngest. While a roll is under way they are only ranked, and where everything is to stop nobody is
    waited for: SIGTERM drains as well.
    """
    pods = [p for p in observed.pods if not p.deleting]
    if wanted == 0:
        return Retreat(0)
    if not shrinks(observed.workload, wanted):
        return Retreat(wanted, _changed(pods, {p.name: Mark(STAYS) for p in pods if p.draining_since}))
    if len({p.revision for p in pods}) > 1:
        return Retreat(wanted, _changed(pods, {p.name: Mark(_load(observed, p)) for p in pods if p.ready}))
    ranked = sorted(pods, key=_ordinal if "LeaderWorkerSet" in observed.children else partial(_worth, observed))
    count = max(0, len(pods) - wanted)
    leaving, staying = ranked[:count], ranked[count:]
    gone = [p for p in leaving if _done(observed, p, deadline, now)]
    marks = {p.name: Mark(LEAVES if p in gone else DRAINS, p.draining_since or now) for p in leaving if p.ready}
    marks |= {p.name: Mark(STAYS) for p in staying if p.ready}
    waited_for = len(leaving) - len(gone)
    return Retreat(wanted + waited_for, _changed(pods, marks), waited_for)


def _worth(observed: Observed, pod: Pod) -> tuple[bool, bool, int, float]:
    return pod.ready, pod.draining_since is None, _load(observed, pod), -pod.created.timestamp()


def _ordinal(pod: Pod) -> int:
    """A LeaderWorkerSet takes its last groups away, whatever they have to do."""
    return -int(pod.name.rpartition("-")[2])


def _load(observed: Observed, pod: Pod) -> int:
    return observed.load.get(pod.name, UNKNOWN_LOAD)


def _done(observed: Observed, pod: Pod, deadline: timedelta, now: datetime) -> bool:
    if not pod.ready:
        return True
    if pod.draining_since is None:
        return False
    since = now - pod.draining_since
    return since >= deadline or (since >= UNTIL_KNOWN and _load(observed, pod) == 0)


def _changed(pods: Iterable[Pod], marks: Mapping[str, Mark]) -> dict[str, Mark]:
    borne = {p.name: (p.deletion_cost, p.draining_since) for p in pods}
    return {name: mark for name, mark in marks.items() if borne[name] != (mark.cost, mark.since)}


def history(before: list[Scale], observed: Observed, wanted: int, now: datetime) -> list[Scale]:
    """The last changes of the replicas, with the one that this pass carries to the pods."""
    workload = observed.workload
    if workload is None or workload.wanted == wanted or (before and before[0].to == wanted):
        return before
    stamp = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    step = {"from": workload.wanted, "to": wanted, "why": _why(observed, wanted), "when": stamp}
    return [Scale.model_validate(step), *before][:KEPT]


def _why(observed: Observed, wanted: int) -> str:
    status = (observed.children.get("HorizontalPodAutoscaler") or {}).get("status") or {}
    if status.get("desiredReplicas") != wanted:
        return "spec.replicas was changed"
    measures = [m["object"] for m in status.get("currentMetrics") or [] if m.get("type") == "Object"]
    said = ", ".join(f"{m['metric']['name']} {_current(m['current'])}" for m in measures)
    return f"the autoscaler, by {said}" if said else "the autoscaler"


def _current(current: Mapping[str, Any]) -> str:
    return f"{current['averageValue']} for each pod" if "averageValue" in current else str(current.get("value", "?"))
