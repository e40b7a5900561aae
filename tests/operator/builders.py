"""Builders that let a test say only what it is about: resources, pods, and children as an API server holds them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from forebay_operator.api_names import COMPONENT, COMPONENT_LABEL, FIELD_OWNER, REVISION_LABEL
from forebay_operator.config import Config
from forebay_operator.downloads import Make
from forebay_operator.observed import Download, Manifest, Observed, parse_pod, parse_workload
from forebay_operator.resource import InferenceService, Status, parse
from forebay_operator.sync import Outcome, sync

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
CREATED = "2026-03-01T11:59:00Z"
CONFIG = Config(runtime_image="registry/runtime:1", own_image="registry/operator:1")
SOURCE = "oci://registry/model:1"
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}


def resource(
    name: str = "demo",
    spec: Mapping[str, Any] | None = None,
    *,
    status: Status | None = None,
    generation: int = 1,
    created: str = CREATED,
    deleting: bool = False,
    **parts: Any,
) -> InferenceService:
    """`parts` are blocks of the spec; the model has a source unless the test gives a spec of its own."""
    meta = {"name": name, "namespace": "ns", "uid": f"uid-of-{name}", "generation": generation}
    body: dict[str, Any] = {"metadata": {**meta, "creationTimestamp": created}}
    body["spec"] = spec if spec is not None else {"model": {"source": SOURCE}, **parts}
    if status:
        body["status"] = status.model_dump(by_alias=True)
    if deleting:
        body["metadata"]["deletionTimestamp"] = CREATED
    return parse(body)


def live(manifest: Manifest, **status: Any) -> Manifest:
    """A child as the API server holds it after this operator applied it."""
    found = copy.deepcopy(manifest)
    found["metadata"] |= {
        "uid": f"uid-of-{manifest['kind']}",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": CREATED,
        "managedFields": [{"manager": FIELD_OWNER, "operation": "Apply"}],
    }
    if status:
        found["status"] = status
    return found


def live_deployment(
    manifest: Manifest, replicas: int, ready: int, updated: int | None = None, seen: int = 1
) -> Manifest:
    counts = {"replicas": replicas, "readyReplicas": ready, "updatedReplicas": replicas if updated is None else updated}
    return live(manifest, observedGeneration=seen, **counts)


def pod_body(
    name: str,
    revision: str,
    *,
    ready: bool = False,
    component: str = COMPONENT,
    container: Mapping[str, Any] | None = None,
) -> Manifest:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    box = {
        "name": "runtime",
        "image": "registry/runtime:1",
        "ready": ready,
        "restartCount": 0,
        "state": {"running": {}},
    }
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": CREATED,
            "labels": {REVISION_LABEL: revision, COMPONENT_LABEL: component},
        },
        "status": {
            "podIP": "10.0.0.9",
            "phase": "Running",
            "conditions": [condition],
            "containerStatuses": [{**box, **(container or {})}],
        },
    }


def unschedulable(name: str, revision: str, words: str) -> Manifest:
    body = pod_body(name, revision)
    placed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    body["status"] = {"phase": "Pending", "conditions": [placed]}
    return body


def desired(outcome: Outcome, kind: str) -> Manifest:
    assert outcome.children is not None, "nothing is to be changed"
    (found,) = [c for c in outcome.children if c["kind"] == kind]
    return found


def wanted(of: InferenceService, config: Config = CONFIG) -> Outcome:
    """What there should be, when nothing is there yet."""
    return sync(of, Observed(), config, NOW)


def observed(of: InferenceService, pods: Iterable[Manifest] = (), **more: Any) -> Observed:
    """All children there as wanted; the Deployment counts the pods given."""
    outcome = wanted(of)
    assert outcome.children is not None
    bodies = list(pods)
    seen = [parse_pod(b) for b in bodies]
    children = {c["kind"]: live(c) for c in outcome.children}
    template = children["Deployment"]["spec"]["template"]
    of_it = [p for p in seen if p.revision == template["metadata"]["labels"][REVISION_LABEL]]
    children["Deployment"] = live_deployment(
        desired(outcome, "Deployment"), len(seen), sum(p.ready for p in seen), len(of_it)
    )
    return Observed(children={**children, **more.pop("children", {})}, pods=tuple(seen), **more)


def download(made: Iterable[Manifest], pods: Iterable[Manifest] = (), **job: Any) -> Download:
    """What there is of a cache when the operator has made these; `job` is the Job's status."""
    there = {m["kind"]: live(m, **(job if m["kind"] == "Job" else {})) for m in made}
    return Download(there.get("PersistentVolumeClaim"), there.get("Job"), tuple(map(parse_pod, pods)))


def makes(outcome: Outcome) -> list[Manifest]:
    return [act.what for act in outcome.acts if isinstance(act, Make)]


def cache_of(of: InferenceService, config: Config = CONFIG, **seen: Any) -> list[Manifest]:
    """The claim, where one is to be asked for, and the Job that the operator makes, one pass after the other."""
    made: list[Manifest] = []
    while more := makes(sync(of, Observed(download=download(made), **seen), config, NOW)):
        made += more
    return made


def revision(of: InferenceService, config: Config = CONFIG) -> str:
    return parse_workload(desired(wanted(of, config), "Deployment")).revision


def says(outcome: Outcome) -> dict[str, tuple[str, str]]:
    """Condition type -> (status, reason)."""
    return {c.type: (c.status, c.reason) for c in outcome.status.conditions}
