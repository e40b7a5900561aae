"""How many pods there should be, and which of them go first. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from forebay_operator.observed import Observed, Pod, Workload
from forebay_operator.resource import Scale

KEPT = 5  # changes of the replicas that the status remembers
UNKNOWN_LOAD = 1_000_000  # as busy as can be: what is not known is not zero


def shrinks(workload: Workload | None, wanted: int) -> bool:
    """Whether some, but not all, pods are to go."""
    return workload is not None and 0 < wanted < workload.wanted


def deletion_costs(pods: Iterable[Pod], load: Mapping[str, int]) -> dict[str, int]:
    """Pod -> its cost of deletion, its requests in flight: the ReplicaSet takes the lowest first. Only what changes."""
    costs = {p.name: load.get(p.name, UNKNOWN_LOAD) for p in pods if p.ready and not p.deleting}
    present = {p.name: p.deletion_cost for p in pods}
    return {name: cost for name, cost in costs.items() if present[name] != cost}


def history(before: list[Scale], observed: Observed, wanted: int, now: datetime) -> list[Scale]:
    """The last changes of the replicas, with the one that this pass carries to the pods."""
    workload = observed.workload
    if workload is None or workload.wanted == wanted:
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
