"""How a new revision takes the place of the former: by surge, in place where no accelerator is free; and how long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forebay_operator.observed import Manifest, Observed, parse_pod
from forebay_operator.resource import InferenceService
from forebay_operator.rollout import IN_PLACE
from forebay_operator.sync import Outcome, sync
from tests.operator.builders import (
    CONFIG,
    NOW,
    desired,
    live,
    observed,
    pod_body,
    resource,
    revision,
    says,
    unschedulable,
    wanted,
)

GPU = "nvidia.com/gpu"
NO_GPU = f"0/1 nodes are available: 1 Insufficient {GPU}. preemption: 0/1 nodes are available"
OLD = "0123456789"


def on_gpus(count: int, **parts: Any) -> InferenceService:
    return resource(resources={"limits": {GPU: count}}, **parts)


def holding(gpus: int, name: str = "old") -> Manifest:
    body = pod_body(name, OLD, ready=True)
    return {**body, "spec": {"containers": [{"resources": {"limits": {GPU: str(gpus)}, "requests": {GPU: str(gpus)}}}]}}


SURGE_FIRST = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def rolled(of: InferenceService, *pods: Manifest) -> Outcome:
    return sync(of, observed(of, pods), CONFIG, NOW)


def strategy(outcome: Outcome) -> Any:
    return desired(outcome, "Deployment")["spec"]["strategy"]


def test_the_new_pod_serves_before_an_old_one_goes() -> None:
    outcome = rolled(on_gpus(1), holding(1), pod_body("new", revision(on_gpus(1))))
    assert strategy(outcome) == SURGE_FIRST


def test_as_many_new_pods_as_asked_for_start_at_once() -> None:
    assert strategy(rolled(resource(rollout={"surge": 3})))["rollingUpdate"] == {"maxSurge": 3, "maxUnavailable": 0}


def test_where_no_accelerator_is_free_an_old_pod_leaves_its_own_to_the_new_one_and_the_status_says_so() -> None:
    outcome = rolled(on_gpus(1), holding(1), unschedulable("new", revision(on_gpus(1)), NO_GPU))
    assert strategy(outcome) == IN_PLACE
    assert says(outcome)["Progressing"] == ("True", "RollingInPlace")


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (on_gpus(2), NO_GPU),
        (on_gpus(1), NO_GPU.replace(GPU, f"memory, 1 Insufficient {GPU}")),
        (on_gpus(1), "0/1 nodes are available: 1 node(s) had untolerated taint(s)"),
        (on_gpus(1, rollout={"inPlace": "Never"}), NO_GPU),
        (resource(), NO_GPU.replace(GPU, "memory")),
    ],
    ids=["more than the old one holds", "memory too", "no node fits", "forbidden", "no accelerator asked for"],
)
def test_nothing_is_taken_down_where_that_would_not_help(of: InferenceService, words: str) -> None:
    outcome = rolled(of, holding(1), unschedulable("new", revision(of), words))
    assert strategy(outcome) == SURGE_FIRST


def test_in_place_goes_on_until_the_old_pods_are_gone() -> None:
    of = on_gpus(1, replicas=2)
    before = observed(of, [holding(1), pod_body("new", revision(of))])
    deployment = {**before.children["Deployment"]}
    deployment["spec"] = {**deployment["spec"], "strategy": IN_PLACE}
    assert strategy(sync(of, _with(before, deployment), CONFIG, NOW)) == IN_PLACE
    after = observed(of, [pod_body("a", revision(of), ready=True), pod_body("b", revision(of), ready=True)])
    assert strategy(sync(of, _with(after, deployment), CONFIG, NOW)) == SURGE_FIRST


def overdue(of: InferenceService, *pods: Manifest) -> Outcome:
    seen = observed(of, pods)
    deployment = {**seen.children["Deployment"]}
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    deployment["status"] = {**deployment["status"], "conditions": [late]}
    return sync(of, _with(seen, deployment), CONFIG, NOW)


def _with(seen: Observed, deployment: Manifest) -> Observed:
    return replace(seen, children={**seen.children, "Deployment": deployment})


def test_a_revision_that_is_late_is_degraded_with_the_pods_own_reason() -> None:
    crash = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}}
    outcome = overdue(resource(), holding(0), pod_body("new", revision(resource()), container=crash))
    assert says(outcome)["Degraded"] == ("True", "CrashLoop")
    assert says(outcome)["Progressing"] == ("False", "DeadlineExceeded")
    assert says(outcome)["Available"] == ("True", "Serving")


def test_a_revision_that_is_late_without_a_word_is_degraded_all_the_same() -> None:
    outcome = overdue(resource(), holding(0), pod_body("new", revision(resource())))
    assert says(outcome)["Degraded"] == ("True", "DeadlineExceeded")
    assert says(outcome)["Ready"] == ("False", "DeadlineExceeded")


def test_the_deadline_is_the_deployments() -> None:
    of = resource(rollout={"progressDeadlineSeconds": 90})
    assert desired(wanted(of), "Deployment")["spec"]["progressDeadlineSeconds"] == 90
    assert revision(of) == revision(resource()), "a deadline rolls nothing"


class TestHistory:
    def scaled(self, before: InferenceService, to: int, **more: Any) -> list[dict[str, Any]]:
        after = replace(resource(replicas=to, **more), status=before.status)
        outcome = sync(after, observed(before), CONFIG, NOW)
        return [s.model_dump(by_alias=True) for s in outcome.status.last_scale]

    def test_a_change_by_hand_is_remembered(self) -> None:
        (step,) = self.scaled(resource(replicas=1), 3)
        said = {"from": 1, "to": 3, "why": "spec.replicas was changed", "when": "2026-03-01T12:00:00Z"}
        assert step == said

    def test_a_change_by_the_autoscaler_tells_its_measure(self) -> None:
        of = resource(replicas=1, scaling={"maxReplicas": 3, "targets": {"queueDepth": 4}})
        current = {"metric": {"name": "queue_depth"}, "current": {"averageValue": "9"}}
        status = {"desiredReplicas": 3, "currentMetrics": [{"type": "Object", "object": current}]}
        seen = observed(of)
        hpa = live(seen.children["HorizontalPodAutoscaler"], **status)
        seen = replace(seen, children={**seen.children, "HorizontalPodAutoscaler": hpa})
        after = resource(replicas=3, scaling={"maxReplicas": 3, "targets": {"queueDepth": 4}})
        (step,) = sync(after, seen, CONFIG, NOW).status.last_scale
        assert step.why == "the autoscaler, by queue_depth 9 for each pod"

    def test_the_last_five_are_kept_and_nothing_is_added_while_nothing_changes(self) -> None:
        status = sync(resource(replicas=2), observed(resource(replicas=1)), CONFIG, NOW).status
        many = status.model_copy(update={"last_scale": status.last_scale * 5})
        assert len(self.scaled(resource(replicas=2, status=many), 3)) == 5
        assert self.scaled(resource(replicas=2, status=status), 2) == [
            s.model_dump(by_alias=True) for s in status.last_scale
        ]


def test_what_a_pod_holds_is_read_from_its_containers() -> None:
    assert parse_pod(holding(3)).accelerators == {GPU: 3}
