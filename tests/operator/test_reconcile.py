"""One pass against a fake cluster: what it ends up with, not which calls it made."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from forebay_operator.downloads import Act
from forebay_operator.happenings import Change, Happening, Verb
from forebay_operator.observed import Known, Manifest, Observed
from forebay_operator.reconcile import reconcile
from forebay_operator.refusal import ClusterUnavailable, NamespaceEnding, Overlooked, Refused
from forebay_operator.resource import InferenceService, Status
from forebay_operator.scaling import DRAINS, STAYS, Mark
from tests.operator.builders import CONFIG, NOW, SOURCE, live, observed, pod_body, resource, revision


@dataclass
class FakeCluster:
    """Holds one resource and its children. `refuses`: kinds that the API server does not take."""

    resource: InferenceService | None
    observed: Observed = field(default_factory=Observed)
    refuses: Mapping[str, str] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)
    events: list[Happening] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    writes: int = 0
    away: bool = False
    namespace_ends: bool = False

    async def observe(self, key: tuple[str, str]) -> tuple[InferenceService, Observed] | None:
        if self.away:
            raise ClusterUnavailable("connection refused")
        return (self.resource, self.observed) if self.resource else None

    async def mark_pods(self, namespace: str, marks: Mapping[str, Mark]) -> None:
        assert self.replicas() == len(self.observed.pods), "marks come before the size is changed"
        self.marks |= marks

    async def apply(self, manifests: Sequence[Manifest], observed: Observed) -> list[Change]:
        if self.namespace_ends:
            raise NamespaceEnding("Service demo")
        for manifest in manifests:
            if words := self.refuses.get(manifest["kind"]):
                raise Refused("InvalidSpec", words)
        there = {k: c["spec"] for k, c in self.observed.children.items() if "spec" in c}
        changed = [m for m in manifests if there.get(m["kind"]) != m.get("spec")]
        self.writes += len(changed)
        children = {**self.observed.children, **{m["kind"]: live(m) for m in changed}}
        self.observed = replace(self.observed, children=children)
        return [Change(Verb.CHANGED if m["kind"] in there else Verb.MADE, m["kind"]) for m in changed]

    async def prune(self, owner: InferenceService, observed: Observed, keep: Sequence[Manifest]) -> list[Change]:
        kept = {m["kind"] for m in keep}
        gone = [k for k in observed.children if k not in kept]
        self.observed = replace(self.observed, children={k: v for k, v in self.observed.children.items() if k in kept})
        self.writes += len(gone)
        return [Change(Verb.REMOVED, k) for k in gone]

    async def share(self, acts: Sequence[Act]) -> list[Change]:
        self.acts += acts
        return []

    async def write_status(self, resource: InferenceService, status: Status) -> None:
        self.writes += status != resource.status
        self.resource = replace(resource, status=status)

    async def record(self, resource: InferenceService, happened: Sequence[Happening]) -> None:
        self.events += happened

    def replicas(self) -> int:
        return int(self.observed.children["Deployment"]["spec"]["replicas"]) if self.observed.children else 0

    def kinds(self) -> set[str]:
        return set(self.observed.children)


async def once(cluster: FakeCluster) -> timedelta | None:
    return await reconcile(cluster, ("ns", "demo"), CONFIG, NOW)


def serving(of: InferenceService) -> Observed:
    return observed(of, [pod_body(f"p{i}", revision(of), ready=True) for i in range(of.spec.replicas)])  # type: ignore[union-attr]


async def test_a_fresh_resource_has_children_a_status_and_an_event_after_one_pass() -> None:
    cluster = FakeCluster(resource())
    assert await once(cluster) == CONFIG.resync
    assert cluster.kinds() == {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"}
    assert cluster.resource
    assert cluster.resource.status
    assert [e.reason for e in cluster.events] == ["Created"]


async def test_a_second_pass_writes_nothing() -> None:
    cluster = FakeCluster(resource(), serving(resource()))
    await once(cluster)
    before, cluster.events = cluster.writes, []
    await once(cluster)
    assert cluster.writes == before
    assert cluster.events == []


async def test_what_is_gone_needs_no_further_pass() -> None:
    assert await once(FakeCluster(None)) is None


async def test_a_resource_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    cluster = FakeCluster(resource(deleting=True), Observed())
    assert await once(cluster) is None
    assert cluster.kinds() == set()
    assert cluster.writes == 0


async def test_taking_the_autoscaler_out_removes_it_and_leaves_the_size() -> None:
    scaled = resource(replicas=3, scaling={"maxReplicas": 5, "targets": {"queueDepth": 4}})
    cluster = FakeCluster(resource(replicas=3), serving(scaled))
    await once(cluster)
    assert "HorizontalPodAutoscaler" not in cluster.kinds()
    assert cluster.replicas() == 3


async def test_the_load_chooses_who_is_marked_before_the_size_is_lowered() -> None:
    before = replace(serving(resource(replicas=2)), load={"p0": 4, "p1": 0})
    cluster = FakeCluster(resource(replicas=1), before)
    await once(cluster)
    assert cluster.marks == {"p0": Mark(STAYS), "p1": Mark(DRAINS, NOW)}
    assert cluster.replicas() == 2, "p1 goes when it is out of rotation and idle"


async def test_a_refused_child_is_told_in_the_status_and_tried_again() -> None:
    cluster = FakeCluster(resource(), refuses={"Deployment": "spec.template: no"})
    with pytest.raises(Refused):
        await once(cluster)
    assert cluster.resource
    assert cluster.resource.status
    degraded = cluster.resource.status.condition("Degraded")
    assert degraded
    assert (degraded.status, degraded.reason, degraded.message) == ("True", "InvalidSpec", "spec.template: no")
    assert cluster.events[-1].warning


async def test_children_that_go_with_their_namespace_are_not_made_again() -> None:
    cluster = FakeCluster(resource(), namespace_ends=True)
    assert await once(cluster) == CONFIG.resync
    assert cluster.kinds() == set()
    assert cluster.events == []


async def test_a_fresh_resource_has_a_status_before_it_has_children() -> None:
    cluster = FakeCluster(resource(), refuses={"Service": "no"})
    before: list[Status] = []
    apply = cluster.apply

    async def watched(manifests: Sequence[Manifest], observed: Observed) -> list[Change]:
        assert cluster.resource
        assert cluster.resource.status
        before.append(cluster.resource.status)
        return await apply(manifests, observed)

    cluster.apply = watched  # type: ignore[method-assign]
    with pytest.raises(Refused):
        await once(cluster)
    assert before[0].selector
    assert [e.reason for e in cluster.events] == ["InvalidSpec"], "what is told is told of the end of the pass"


async def test_what_was_overlooked_is_seen_in_a_second_look() -> None:
    cluster = FakeCluster(resource())
    apply, tries = cluster.apply, itertools.count(1)

    async def blind_at_first(manifests: Sequence[Manifest], observed: Observed) -> list[Change]:
        if next(tries) == 1:
            theirs = {"kind": "Service", "metadata": {"name": "demo", "namespace": "ns", "uid": "x"}}
            cluster.observed = replace(cluster.observed, children={"Service": theirs})
            raise Overlooked("Service")
        return await apply(manifests, observed)

    cluster.apply = blind_at_first  # type: ignore[method-assign]
    await once(cluster)
    assert cluster.resource
    assert cluster.resource.status
    accepted = cluster.resource.status.condition("Accepted")
    assert accepted
    assert accepted.reason == "NameTaken"
    assert cluster.kinds() == {"Service"}, "nothing was made"


async def test_an_api_server_that_is_away_changes_no_status() -> None:
    cluster = FakeCluster(resource(), away=True)
    with pytest.raises(ClusterUnavailable):
        await once(cluster)
    assert cluster.writes == 0


async def test_a_secret_is_looked_at_again_soon() -> None:
    named = resource(model={"source": SOURCE, "credentialsSecret": "token"})
    after = await once(FakeCluster(named, Observed(credentials=Known("one"))))
    assert after is not None
    assert after <= timedelta(seconds=15)
