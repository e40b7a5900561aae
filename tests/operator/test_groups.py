"""Replicas of several pods, by LeaderWorkerSets; the manifests themselves are pairs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from forebay_operator.api_names import REVISION_LABEL, WORKER
from forebay_operator.config import Config
from forebay_operator.observed import Manifest, Observed, parse_pod, parse_workload
from forebay_operator.resource import InferenceService
from forebay_operator.sync import Outcome, sync
from tests.operator.builders import NOW, desired, live, pod_body, resource, says

CHANGED = NOW - timedelta(minutes=5)
CONFIG = Config("registry/runtime:1", "registry/operator:1", {"vllm": "registry/vllm:1"})
CRASH = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 3}}}


def groups(replicas: int = 1) -> InferenceService:
    engine = {"type": "vllm", "parallelism": {"nodes": 2}}
    return resource(engine=engine, resources={"limits": {"nvidia.com/gpu": 8}}, replicas=replicas)


def workload(of: InferenceService) -> Manifest:
    return desired(sync(of, Observed(), CONFIG, NOW), "LeaderWorkerSet")


def revision(of: InferenceService) -> str:
    return parse_workload(workload(of)).revision


def seen(
    of: InferenceService, there: int, pods: list[Manifest], load: Mapping[str, int] | None = None, told: bool = True
) -> Observed:
    """`there` groups of two pods, all of the present revision; `pods` are theirs. `told`: by a controller that says of
    which generation its word is. The operator has changed the set at CHANGED."""
    made = workload(of)
    made["spec"]["replicas"] = there
    ready = sum(p["status"]["conditions"][0]["status"] == "True" for p in pods if p["metadata"]["name"].count("-") == 2)
    generation = {"observedGeneration": 1} if told else {}
    held = live(made, **generation, replicas=there, readyReplicas=ready, updatedReplicas=there)
    held["metadata"]["managedFields"][0]["time"] = f"{CHANGED:%Y-%m-%dT%H:%M:%SZ}"
    parsed = [parse_pod(p) for p in pods]
    return Observed(
        children={"LeaderWorkerSet": held},
        pods=tuple(p for p in parsed if not p.worker),
        workers=tuple(p for p in parsed if p.worker),
        load=load or {},
    )


def group(of: InferenceService, index: int, **worker: Any) -> list[Manifest]:
    name = f"demo-group-{index}"
    return [
        pod_body(name, revision(of), ready=True),
        pod_body(f"{name}-1", revision(of), component=WORKER, **({"ready": True} | worker)),
    ]


def test_where_the_cluster_has_no_leader_worker_sets_the_condition_says_what_to_install() -> None:
    outcome = sync(groups(), Observed(absent=frozenset({"LeaderWorkerSet"})), CONFIG, NOW)
    assert outcome.children is None
    assert says(outcome)["Accepted"] == ("False", "NoLeaderWorkerSets")
    accepted = outcome.status.condition("Accepted")
    assert accepted is not None
    assert "leaderworkerset.x-k8s.io/v1" in accepted.message
    assert "install LeaderWorkerSet" in accepted.message
    assert outcome.requeue_after is not None, "it may be installed later"


def test_a_replica_of_one_pod_needs_none() -> None:
    outcome = sync(resource(), Observed(absent=frozenset({"LeaderWorkerSet"})), CONFIG, NOW)
    assert {c["kind"] for c in outcome.children or ()} >= {"Deployment"}


def test_a_group_is_one_replica_and_its_first_pod_serves() -> None:
    of = groups(2)
    outcome = sync(of, seen(of, 2, [*group(of, 0), *group(of, 1)]), CONFIG, NOW)
    assert (outcome.status.replicas, outcome.status.ready_replicas) == (2, 2)
    assert says(outcome)["Ready"] == ("True", "Serving")
    service = desired(outcome, "Service")["spec"]["selector"]
    made = desired(outcome, "LeaderWorkerSet")["spec"]["leaderWorkerTemplate"]
    leader, worker = (made[t]["metadata"]["labels"] for t in ("leaderTemplate", "workerTemplate"))
    assert service.items() <= leader.items()
    assert not service.items() <= worker.items()


def test_a_worker_that_crashes_is_named() -> None:
    of = groups()
    leader = pod_body("demo-group-0", revision(of))
    _, worker = group(of, 0, ready=False, container=CRASH)
    outcome = sync(of, seen(of, 1, [leader, worker]), CONFIG, NOW)
    degraded = outcome.status.condition("Degraded")
    assert degraded is not None
    assert degraded.reason == "CrashLoop"
    assert "demo-group-0-1" in degraded.message


def shrunk(load: Mapping[str, int]) -> Outcome:
    of = groups(1)
    pods = [p for i in range(3) for p in group(of, i)]
    return sync(of, seen(of, 3, pods, load), CONFIG, NOW)


def test_on_the_way_down_the_last_groups_leave_the_rotation_for_those_are_taken_away() -> None:
    outcome = shrunk({"demo-group-0": 0, "demo-group-1": 5, "demo-group-2": 9})
    assert {name for name, mark in outcome.marks.items() if mark.since} == {"demo-group-1", "demo-group-2"}
    assert desired(outcome, "LeaderWorkerSet")["spec"]["replicas"] == 3, "they finish what they have"


def test_another_number_of_nodes_is_another_revision() -> None:
    more = resource(
        engine={"type": "vllm", "parallelism": {"nodes": 4}}, resources={"limits": {"nvidia.com/gpu": 8}}, replicas=1
    )
    assert revision(more) != revision(groups())


def test_workers_have_no_port_and_no_probe() -> None:
    spec = workload(groups())["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    assert not {"ports", "readinessProbe", "livenessProbe", "startupProbe", "lifecycle"} & spec["containers"][0].keys()
    assert "--headless" in json.dumps(spec)


def test_a_set_of_an_older_controller_that_tells_no_generation_is_ready_by_its_pods() -> None:
    of = groups()
    assert says(sync(of, seen(of, 1, group(of, 0), told=False), CONFIG, NOW))["Ready"] == ("True", "Serving")


def test_old_counts_of_such_a_controller_are_no_word_about_a_new_revision() -> None:
    before = groups()
    of = replace(before, generation=2)
    old = seen(before, 1, group(before, 0), told=False)
    changed = seen(groups(), 1, [], told=False).children["LeaderWorkerSet"]
    for template in ("leaderTemplate", "workerTemplate"):
        changed["spec"]["leaderWorkerTemplate"][template]["metadata"]["labels"][REVISION_LABEL] = "another"
    changed["status"] |= {"readyReplicas": 1}
    stale = replace(old, children={"LeaderWorkerSet": changed})
    assert says(sync(of, stale, CONFIG, NOW))["Ready"][0] == "False"


def test_a_set_that_lost_its_leaders_template_to_another_is_still_seen() -> None:
    of = groups()
    observed = seen(of, 1, [])
    del observed.children["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]["leaderTemplate"]
    assert desired(sync(of, observed, CONFIG, NOW), "LeaderWorkerSet")


def slow(seconds: int, *pods: Manifest) -> Outcome:
    of = with_deadline(seconds)
    return sync(of, seen(of, 2, list(pods)), CONFIG, NOW)


def with_deadline(seconds: int) -> InferenceService:
    engine = {"type": "vllm", "parallelism": {"nodes": 2}}
    limits = {"limits": {"nvidia.com/gpu": 8}}
    return resource(engine=engine, resources=limits, replicas=2, rollout={"progressDeadlineSeconds": seconds})


@pytest.mark.parametrize(("seconds", "late"), [(299, True), (301, False)])
def test_groups_that_make_no_progress_for_the_deadline_are_overdue(seconds: int, late: bool) -> None:
    outcome = slow(seconds)
    assert (says(outcome)["Degraded"] == ("True", "DeadlineExceeded")) is late
    assert (says(outcome)["Progressing"] == ("False", "DeadlineExceeded")) is late
    assert outcome.requeue_after == (None if late else timedelta(seconds=1))


def test_a_group_that_came_to_serve_is_progress() -> None:
    leader, worker = group(groups(2), 0)
    leader["status"]["conditions"][0]["lastTransitionTime"] = f"{NOW - timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}"
    assert says(slow(299, leader, worker))["Degraded"][0] == "False"


def test_groups_that_serve_are_never_overdue() -> None:
    of = groups()
    late = sync(of, seen(of, 1, group(of, 0)), CONFIG, NOW + timedelta(days=1))
    assert says(late)["Ready"] == ("True", "Serving")
    assert says(late)["Degraded"][0] == "False"
