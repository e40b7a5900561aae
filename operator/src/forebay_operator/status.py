"""The status of a resource, computed from what is observed. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from forebay_operator import facts
from forebay_operator.causes import Cause, missing_secret, root_cause
from forebay_operator.observed import Observed, scaling_active
from forebay_operator.resource import Condition, InferenceService, Spec, Status

Truth = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A condition before it is stamped."""

    type: str
    status: Truth
    cause: Cause


@dataclass(frozen=True, slots=True)
class Aim:
    """What is being made so: the pods' revision and selector, whether old pods go before their successors serve, how
    many pods finish their requests before they go, whether the revision has made no progress for too long, and the
    claim that the model is downloaded to before there are pods of the revision."""

    revision: str
    selector: str
    in_place: bool = False
    draining: int = 0
    overdue: bool = False
    downloading_to: str = ""


def serving(resource: InferenceService, spec: Spec, observed: Observed, aim: Aim, now: datetime) -> Status:
    """Status of a resource whose children are as `aim` wants them, or are on their way there."""
    revision = aim.revision
    settled = _settled(spec, observed, revision)
    blame = None if settled else root_cause(spec, observed, revision)
    if aim.overdue and not settled:
        blame = _overdue(spec, blame)
    claims = [
        Claim("Accepted", "True", Cause("Accepted", "the spec is understood and acted on")),
        _ready(spec, observed, aim, blame),
        _available(observed),
        _progressing(spec, observed, aim),
        _degraded(blame or missing_secret(spec, observed)),
        *_scaling_active(spec, observed),
    ]
    return _status(resource, observed, revision, aim.selector, claims, now)


def refused(resource: InferenceService, observed: Observed, cause: Cause, selector: str, now: datetime) -> Status:
    """Status of a resource that cannot be acted on; what was there before stays as it is."""
    claims = [
        Claim("Accepted", "False", cause),
        Claim("Ready", "False", cause),
        _available(observed),
        Claim("Progressing", "False", cause),
        Claim("Degraded", "True", cause),
    ]
    revision = resource.status.revision if resource.status else ""
    return _status(resource, observed, revision, selector, claims, now)


def troubled(status: Status, cause: Cause, now: datetime) -> Status:
    """The same status, after the API server has refused a child."""
    found = {"Ready": "False", "Degraded": "True"}
    changed = [
        _stamp(Claim(c.type, found[c.type], cause), c, c.observed_generation, now) if c.type in found else c  # type: ignore[arg-type]
        for c in status.conditions
    ]
    return status.model_copy(update={"conditions": changed})


def _status(
    resource: InferenceService,
    observed: Observed,
    revision: str,
    selector: str,
    claims: Iterable[Claim],
    now: datetime,
) -> Status:
    prior = resource.status
    return Status(
        observed_generation=resource.generation,
        conditions=[_stamp(c, prior.condition(c.type) if prior else None, resource.generation, now) for c in claims],
        replicas=sum(not p.deleting for p in observed.pods),
        ready_replicas=_ready_pods(observed),
        selector=selector,
        url=resource.url,
        model=facts.carried(resource),
        memory=prior.memory if prior else None,
        revision=revision,
        last_scale=prior.last_scale if prior else [],
    )


def _stamp(claim: Claim, prior: Condition | None, generation: int, now: datetime) -> Condition:
    """lastTransitionTime moves only when status does."""
    same = prior is not None and prior.status == claim.status
    return Condition(
        type=claim.type,
        status=claim.status,
        reason=claim.cause.reason,
        message=claim.cause.message,
        last_transition_time=prior.last_transition_time if prior and same else f"{now:%Y-%m-%dT%H:%M:%SZ}",
        observed_generation=generation,
    )


def _ready_pods(observed: Observed) -> int:
    return sum(p.ready and not p.deleting for p in observed.pods)


def _settled(spec: Spec, observed: Observed, revision: str) -> bool:
    """Whether the wanted pods, all of this revision, serve; more than wanted may still be there, on their way out."""
    workload = observed.workload
    if workload is None or workload.revision != revision or workload.wanted < spec.replicas:
        return False
    if spec.replicas == 0 and workload.wanted:
        return False
    return workload.settled and sum(p.ready for p in observed.pods_of(revision)) >= spec.replicas


def _ready(spec: Spec, observed: Observed, aim: Aim, blame: Cause | None) -> Claim:
    if spec.replicas == 0:
        return Claim("Ready", "False", Cause("Stopped", "spec.replicas is 0: nothing is to serve"))
    if blame:
        return Claim("Ready", "False", blame)
    if _settled(spec, observed, aim.revision):
        return Claim("Ready", "True", Cause("Serving", f"serving: {_count(spec.replicas)} of revision {aim.revision}"))
    return Claim("Ready", "False", _going_on(spec, observed, aim))


def _available(observed: Observed) -> Claim:
    if ready := _ready_pods(observed):
        return Claim("Available", "True", Cause("Serving", f"ready: {_count(ready)}"))
    return Claim("Available", "False", Cause("NoReadyPods", "no pod serves"))


def _progressing(spec: Spec, observed: Observed, aim: Aim) -> Claim:
    if aim.draining:
        said = f"{_count(aim.draining)} out of rotation: to go when their requests are done"
        return Claim("Progressing", "True", Cause("Draining", said))
    if _settled(spec, observed, aim.revision):
        done = Cause("Stopped", "all pods are gone") if spec.replicas == 0 else Cause("Settled", "nothing is changing")
        return Claim("Progressing", "False", done)
    going_on = _going_on(spec, observed, aim)
    if aim.in_place:
        said = "no accelerator is free: an old pod goes before its successor serves"
        return Claim("Progressing", "True", Cause("RollingInPlace", f"{going_on.message}; {said}"))
    if aim.overdue:
        return Claim("Progressing", "False", Cause("DeadlineExceeded", f"{going_on.message}; {_late(spec)}"))
    return Claim("Progressing", "True", going_on)


def _overdue(spec: Spec, cause: Cause | None) -> Cause:
    """A revision that is late is blamed also where no pod says what is wrong; a pod's own reason stays the reason."""
    return Cause(cause.reason, f"{cause.message}; {_late(spec)}") if cause else Cause("DeadlineExceeded", _late(spec))


def _late(spec: Spec) -> str:
    return f"no progress for {spec.rollout.progress_deadline_seconds} s (spec.rollout.progressDeadlineSeconds)"


def _going_on(spec: Spec, observed: Observed, aim: Aim) -> Cause:
    """What is on its way, and how far it is."""
    revision = aim.revision
    if aim.downloading_to and spec.replicas:
        said = (
            f"the model is downloaded to claim {aim.downloading_to}: pods of revision {revision} start when it is whole"
        )
        return Cause("Downloading", said)
    fresh = observed.pods_of(revision)
    ready = sum(p.ready for p in fresh)
    far = f"{ready} of {_count(spec.replicas)} of revision {revision} ready"
    old = [p for p in observed.pods if p.revision != revision and not p.deleting]
    if spec.replicas == 0:
        return Cause("Stopping", f"pods that still run: {len(observed.pods)}")
    if old:
        return Cause("RollingOut", f"{far}, {_count(len(old))} of former revisions there")
    if not _ready_pods(observed):
        return Cause("Starting", f"{far}: waiting for the pods to load the model")
    return Cause("Scaling", far)


def _degraded(blame: Cause | None) -> Claim:
    if blame:
        return Claim("Degraded", "True", blame)
    return Claim("Degraded", "False", Cause("NothingWrong", "nothing stands in the way"))


def _scaling_active(spec: Spec, observed: Observed) -> list[Claim]:
    """What the autoscaler says of itself, where there is to be one."""
    if spec.scaling is None:
        return []
    said = scaling_active(observed.children.get("HorizontalPodAutoscaler") or {})
    if said is None:
        return [Claim("ScalingActive", "Unknown", Cause("Waiting", "the autoscaler has not looked yet"))]
    return [Claim("ScalingActive", said["status"], Cause(said["reason"], said.get("message") or said["reason"]))]


def _count(pods: int) -> str:
    return f"{pods} pod" if pods == 1 else f"{pods} pods"
