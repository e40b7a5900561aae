"""How many pods there should be, and which of them go first. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from forebay_operator.observed import Pod, Workload

UNKNOWN_LOAD = 1_000_000  # as busy as can be: what is not known is not zero


def shrinks(workload: Workload | None, wanted: int) -> bool:
    """Whether some, but not all, pods are to go."""
    return workload is not None and 0 < wanted < workload.wanted


def deletion_costs(pods: Iterable[Pod], load: Mapping[str, int]) -> dict[str, int]:
    """Pod -> its cost of deletion, its requests in flight: the ReplicaSet takes the lowest first. Only what changes."""
    costs = {p.name: load.get(p.name, UNKNOWN_LOAD) for p in pods if p.ready and not p.deleting}
    present = {p.name: p.deletion_cost for p in pods}
    return {name: cost for name, cost in costs.items() if present[name] != cost}
