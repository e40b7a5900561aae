"""A frozen snapshot of what the cluster has for one resource: its children, their pods, the load. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from forebay_operator.api_names import (
    CLAIM_ANNOTATION,
    COMPONENT_LABEL,
    CREDENTIALS_ANNOTATION,
    DELETION_COST,
    DRAINING_ANNOTATION,
    FIELD_OWNER,
    OUT_OF_ROTATION,
    REVISION_LABEL,
    ROTATION_LABEL,
    WORKER,
)
from forebay_operator.program import FETCHER
from forebay_operator.quantity import whole
from forebay_operator.reports import Footprint, Loading
from forebay_operator.resource.status import ModelStatus

Manifest = dict[str, Any]

ACCELERATORS = ("nvidia.com/", "amd.com/", "habana.ai/", "google.com/tpu", "aws.amazon.com/neuron", "gpu.intel.com/")


@dataclass(frozen=True, slots=True)
class Known:
    """The Secret is there; `digest` stands for its contents."""

    digest: str


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no such Secret."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The operator may not read it (yet): nothing is known of it."""


Credentials = Known | Missing | Unreadable


@dataclass(frozen=True, slots=True)
class Ended:
    """How a container's process ended, and when. `message` is its last words."""

    exit_code: int
    reason: str
    message: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Container:
    name: str
    image: str
    init: bool
    ready: bool
    restarts: int
    waiting: str
    waiting_message: str
    running_since: datetime | None
    ended: Ended | None  # the present end, else the last one


@dataclass(frozen=True, slots=True)
class Pod:
    name: str
    ip: str
    revision: str
    ready: bool
    ready_changed: datetime | None  # when it became ready, or ceased to be
    deleting: bool
    created: datetime
    phase: str
    phase_reason: str
    phase_message: str
    unschedulable: str  # the scheduler's words; empty when it is placed
    containers: tuple[Container, ...]
    deletion_cost: int | None
    draining_since: datetime | None = None  # when it was taken out of rotation
    worker: bool = False  # computes for another pod, which serves
    accelerators: Mapping[str, int] = field(default_factory=dict)  # what its containers hold, such as nvidia.com/gpu: 1

    @property
    def runs(self) -> bool:
        """Whether its engine's process is there."""
        return any(c.running_since for c in self.containers if not c.init)

    @property
    def fetches(self) -> bool:
        """Whether it brings the model from its source now."""
        return any(c.running_since for c in self.containers if c.name == FETCHER)


@dataclass(frozen=True, slots=True)
class Workload:
    """The Deployment or LeaderWorkerSet, as far as decisions need it."""

    generation: int
    observed_generation: int
    wanted: int
    revision: str
    credentials: str
    replicas: int
    updated: int
    ready: int
    overdue: bool  # its controller has seen no progress for the whole deadline
    groups: bool = False  # each replica is several pods
    changed: datetime | None = None  # when this operator last changed it
    volumes: frozenset[str] = frozenset()  # by name, those that its pods have

    @property
    def caught_up(self) -> bool:
        """Whether its controller has seen its present spec."""
        return self.observed_generation >= self.generation

    @property
    def settled(self) -> bool:
        """Whether all pods are of its present template and serve."""
        return self.caught_up and self.updated == self.replicas == self.ready == self.wanted


@dataclass(frozen=True, slots=True)
class Download:
    """What there is of the model's cache: the claim, where the operator is to ask for it, the Job that fills it, and
    that one's pods, or why none of them can be made. All resources of the source share them."""

    claim: Manifest | None = None
    job: Manifest | None = None
    pods: tuple[Pod, ...] = ()
    failed_creation: str = ""  # the API server's words

    @property
    def whole(self) -> bool:
        """Whether the Job is done, and the claim still is the one that it filled."""
        if self.job is None or not finished(self.job, "Complete"):
            return False
        filled = (self.job["metadata"].get("annotations") or {}).get(CLAIM_ANNOTATION)
        return not filled or (self.claim is not None and self.claim["metadata"]["uid"] == filled)


def finished(job: Manifest, how: str) -> bool:
    """Whether the Job has come to that end: Complete or Failed."""
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(c["type"] == how and c["status"] == "True" for c in conditions)


@dataclass(frozen=True, slots=True)
class Observed:
    """`children` are live objects by kind; `pods` are those that serve, or are to, `workers` compute for them; `load`
    is requests in flight by pod, and without an entry unknown; `rival` is an older resource with the same model name;
    `failed_creation` is why no pod can be made."""

    children: Mapping[str, Manifest] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    workers: tuple[Pod, ...] = ()
    absent: frozenset[str] = frozenset()  # kinds that the cluster does not know
    failed_creation: Mapping[str, str] = field(default_factory=dict)  # revision -> the API server's words
    credentials: Credentials | None = None
    rival: str | None = None
    load: Mapping[str, int] = field(default_factory=dict)
    stalled: frozenset[str] = frozenset()  # pods whose engine was last ended because it did not answer
    known: ModelStatus | None = None  # told by pods of another resource with this source
    footprint: tuple[str, Footprint] | None = None  # told by a pod of that revision in this pass
    loading: tuple[Loading, ...] = ()
    download: Download = Download()
    shares: tuple[Manifest, ...] = ()  # Jobs and claims, of whatever source, that name this resource as an owner

    @property
    def workload(self) -> Workload | None:
        live = self.children.get("Deployment") or self.children.get("LeaderWorkerSet")
        return None if live is None else parse_workload(live)

    def pods_of(self, revision: str) -> list[Pod]:
        return [p for p in self.pods if p.revision == revision and not p.deleting]

    def workers_of(self, revision: str) -> list[Pod]:
        return [p for p in self.workers if p.revision == revision and not p.deleting]


def parse_workload(live: Manifest) -> Workload:
    spec, status = live["spec"], live.get("status") or {}
    group = spec.get("leaderWorkerTemplate")
    leader = group and (group.get("leaderTemplate") or group["workerTemplate"])  # another may have taken ours out
    pods = leader or spec["template"]
    template = pods.get("metadata") or {}
    progress: Manifest = next((c for c in status.get("conditions") or [] if c["type"] == "Progressing"), {})
    generation = live["metadata"].get("generation", 0)
    return Workload(
        generation=generation,
        # older LeaderWorkerSets do not tell it; the pods' own revision keeps old counts from being taken for new ones
        observed_generation=status.get("observedGeneration", generation if group else 0),
        wanted=spec.get("replicas", 1),
        revision=(template.get("labels") or {}).get(REVISION_LABEL, ""),
        credentials=(template.get("annotations") or {}).get(CREDENTIALS_ANNOTATION, ""),
        replicas=status.get("replicas", 0),
        updated=status.get("updatedReplicas", 0),
        ready=status.get("readyReplicas", 0),
        overdue=progress.get("reason") == "ProgressDeadlineExceeded",
        groups=bool(group),
        changed=_changed(live),
        volumes=frozenset(v["name"] for v in (pods.get("spec") or {}).get("volumes") or []),
    )


def _changed(live: Manifest) -> datetime | None:
    entries = live["metadata"].get("managedFields") or []
    return next((_time(m.get("time")) for m in entries if m.get("manager") == FIELD_OWNER), None)


def scaling_active(live: Manifest) -> Manifest | None:
    """The condition by which an autoscaler says whether it can do its work; None while it has not looked yet."""
    conditions = (live.get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == "ScalingActive"), None)


def parse_pod(body: Manifest) -> Pod:
    """Annotations and quantities are whatever the pod's user wrote: what is not understood there is not there."""
    meta, status = body["metadata"], body.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or []}
    placed = conditions.get("PodScheduled", {})
    notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    cost = re.fullmatch("-?[0-9]{1,10}", notes.get(DELETION_COST, ""))
    out = labels.get(ROTATION_LABEL) == OUT_OF_ROTATION
    return Pod(
        name=meta["name"],
        ip=status.get("podIP", ""),
        revision=labels.get(REVISION_LABEL, ""),
        ready=conditions.get("Ready", {}).get("status") == "True",
        ready_changed=_time(conditions.get("Ready", {}).get("lastTransitionTime")),
        deleting="deletionTimestamp" in meta,
        created=datetime.fromisoformat(meta["creationTimestamp"]),
        phase=status.get("phase", ""),
        phase_reason=status.get("reason", ""),
        phase_message=status.get("message", ""),
        unschedulable=placed.get("message", "") if placed.get("reason") == "Unschedulable" else "",
        containers=tuple(
            _container(c, init)
            for key, init in (("initContainerStatuses", True), ("containerStatuses", False))
            for c in status.get(key) or []
        ),
        deletion_cost=int(cost[0]) if cost else None,
        draining_since=_noted_time(notes.get(DRAINING_ANNOTATION)) if out else None,
        worker=labels.get(COMPONENT_LABEL) == WORKER,
        accelerators=accelerators((body.get("spec") or {}).get("containers") or []),
    )


def accelerators(containers: Sequence[Manifest]) -> dict[str, int]:
    """What containers hold of the devices that cannot be shared: resource -> how many."""
    found: dict[str, int] = {}
    for container in containers:
        resources = container.get("resources") or {}
        for name, count in {**(resources.get("requests") or {}), **(resources.get("limits") or {})}.items():
            if name.startswith(ACCELERATORS):
                found[name] = found.get(name, 0) + whole(str(count))
    return found


def _time(stamp: str | None) -> datetime | None:
    return datetime.fromisoformat(stamp) if stamp else None


def _noted_time(stamp: str | None) -> datetime | None:
    try:
        found = _time(stamp)
    except ValueError:
        return None
    return found if found and found.tzinfo else None


def _container(body: Manifest, init: bool) -> Container:
    state, last = body.get("state") or {}, body.get("lastState") or {}
    waiting = state.get("waiting") or {}
    ended = state.get("terminated") or last.get("terminated")
    return Container(
        name=body["name"],
        image=body.get("image", ""),
        init=init,
        ready=body.get("ready", False),
        restarts=body.get("restartCount", 0),
        waiting=waiting.get("reason", ""),
        waiting_message=waiting.get("message", ""),
        running_since=_time((state.get("running") or {}).get("startedAt")),
        ended=_ended(ended) if ended else None,
    )


def _ended(body: Manifest) -> Ended:
    return Ended(body["exitCode"], body.get("reason", ""), body.get("message", ""), _time(body.get("finishedAt")))


def failed_creation(replica_sets: Sequence[Manifest]) -> dict[str, str]:
    """Revision -> why its ReplicaSet cannot make a pod."""
    return {
        (rs["metadata"].get("labels") or {}).get(REVISION_LABEL, ""): c.get("message", "")
        for rs in replica_sets
        if rs["spec"].get("replicas")
        for c in (rs.get("status") or {}).get("conditions") or []
        if c["type"] == "ReplicaFailure" and c["status"] == "True"
    }
