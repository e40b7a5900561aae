"""What a change of an object means to the decisions."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from forebay_operator.api_names import SERVICE_LABEL
from forebay_operator.cluster import kept
from forebay_operator.cluster.kept import Kept, Weight, weight
from forebay_operator.observed import Manifest
from tests.operator.builders import desired, live, pod_body, resource, wanted

SCALED = resource(scaling={"maxReplicas": 2, "targets": {"queueDepth": 1}})


def child(kind: str, **status: Any) -> Manifest:
    return live(desired(wanted(SCALED), kind), **status)


def scaler(active: str, replicas: int) -> Manifest:
    said = [{"type": "ScalingActive", "status": active, "reason": "r"}]
    return child("HorizontalPodAutoscaler", conditions=said, currentReplicas=replicas)


def held(kind: str, manifest: Manifest) -> Kept:
    return kept.child(kind)(manifest)


def changed(kind: str, before: Manifest, after: Manifest) -> Weight:
    after = copy.deepcopy(after)
    after["metadata"]["resourceVersion"] = "2"
    return weight(held(kind, before), held(kind, after))


def pod(**more: Any) -> Kept:
    body = pod_body("p", "r", **more)
    body["metadata"] |= {"namespace": "ns", "labels": {SERVICE_LABEL: "demo"}}
    return kept.pod(body)


def replica_set(words: str | None) -> Kept:
    meta = {"name": "s", "namespace": "ns", "labels": {SERVICE_LABEL: "demo"}}
    said = [{"type": "ReplicaFailure", "status": "True", "message": words}] if words else []
    return kept.failures({"metadata": meta, "spec": {"replicas": 1}, "status": {"conditions": said}})


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget", "NetworkPolicy"])
def test_a_status_that_nothing_is_decided_by_is_nothing(kind: str) -> None:
    assert changed(kind, child(kind), child(kind, expectedPods=3)) is Weight.NOTHING


def test_a_deployment_tells_by_its_counts_and_not_by_its_own_annotation_or_stamps() -> None:
    before = child("Deployment", observedGeneration=1)
    noted = copy.deepcopy(before)
    noted["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "1"}
    noted["status"]["conditions"] = [{"type": "Available", "status": "True", "lastUpdateTime": "2026-03-01T12:00:00Z"}]
    assert changed("Deployment", before, noted) is Weight.NOTHING
    assert changed("Deployment", before, child("Deployment", observedGeneration=1, replicas=1)) is Weight.NEWS


def test_an_autoscaler_tells_whether_it_works_and_not_what_it_counts() -> None:
    kind = "HorizontalPodAutoscaler"
    assert changed(kind, scaler("True", 1), scaler("True", 2)) is Weight.NOTHING
    assert changed(kind, scaler("True", 1), scaler("False", 1)) is Weight.NEWS


@pytest.mark.parametrize("kind", ["Service", "Deployment", "HorizontalPodAutoscaler"])
def test_what_is_meant_by_a_child_is_not_another_hands(kind: str) -> None:
    before, after = child(kind), child(kind)
    after["metadata"]["labels"]["a"] = "b"
    assert changed(kind, before, after) is Weight.DAMAGE
    assert weight(held(kind, before), None) is Weight.DAMAGE
    assert weight(None, held(kind, before)) is Weight.DAMAGE


def test_a_pod_is_news_and_more_where_it_begins_or_ceases_to_serve() -> None:
    assert weight(pod(), pod()) is Weight.NOTHING
    assert weight(None, pod()) is Weight.NEWS
    assert weight(pod(), pod(container={"restartCount": 1})) is Weight.NEWS
    assert weight(pod(), pod(ready=True)) is Weight.DAMAGE
    assert weight(pod(ready=True), None) is Weight.DAMAGE


def test_a_replica_set_is_news_where_it_fails() -> None:
    assert weight(None, replica_set(None)) is Weight.NOTHING
    assert weight(replica_set(None), replica_set("exceeded quota")) is Weight.NEWS
    assert weight(replica_set("exceeded quota"), None) is Weight.NEWS
