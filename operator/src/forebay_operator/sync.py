"""The decision: what there should be, given what is asked for and what is there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from forebay_operator import caching, facts, memory, rollout, scaling, status
from forebay_operator.caching import Cached
from forebay_operator.causes import Cause
from forebay_operator.children import metadata
from forebay_operator.children.deployment import deployment, drain_seconds
from forebay_operator.children.hpa import hpa
from forebay_operator.children.leader_worker_set import leader_worker_set
from forebay_operator.children.network_policy import network_policy
from forebay_operator.children.pdb import pdb
from forebay_operator.children.role_binding import role_binding
from forebay_operator.children.service import service
from forebay_operator.config import Config
from forebay_operator.downloads import Act
from forebay_operator.engines import catalog
from forebay_operator.observed import Known, Manifest, Missing, Observed, Unreadable
from forebay_operator.ownership import foreign, left_behind, shared_foreign
from forebay_operator.profiles import applied
from forebay_operator.resource import InferenceService, InvalidSpec, Spec, Status
from forebay_operator.scaling import Mark

FOREIGN_EVERY = timedelta(seconds=30)  # what belongs to others is not watched
SOON = timedelta(seconds=1)
LOADING_EVERY = timedelta(seconds=5)
CREDENTIALS_EVERY = timedelta(seconds=10)  # Secrets are read, not watched: a watch needs far wider rights
CREDENTIALS_WAIT = timedelta(seconds=10)  # how long a fresh resource waits for the right to read its Secret


NO_GROUPS = Cause(
    "NoLeaderWorkerSets",
    "spec.engine.parallelism.nodes: replicas of several pods need the API leaderworkerset.x-k8s.io/v1, which this "
    "cluster does not have, or the operator may not use: install LeaderWorkerSet "
    "(https://lws.sigs.k8s.io/docs/installation), or ask for one node",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`children` is all that there should be, the rest goes; None leaves everything as it is.
    `marks` are put on pods before the children are applied, `acts` on shared things come after them."""

    children: tuple[Manifest, ...] | None
    status: Status
    requeue_after: timedelta | None = None
    marks: Mapping[str, Mark] = field(default_factory=dict)
    acts: tuple[Act, ...] = ()


def sync(resource: InferenceService, observed: Observed, config: Config, now: datetime) -> Outcome:
    spec = resource.spec
    if isinstance(spec, InvalidSpec):
        return _refuse(resource, observed, Cause("InvalidSpec", str(spec)), now)
    former = {kind for kind, live in observed.children.items() if left_behind(live, resource)}
    if taken := _taken(resource, observed, former):
        outcome = _refuse(resource, observed, _name_taken(taken), now)
        return replace(outcome, requeue_after=FOREIGN_EVERY)
    understood = _understood(spec, config)
    if isinstance(understood, Cause):
        return _refuse(resource, observed, understood, now)
    if understood.engine.parallelism.nodes > 1 and "LeaderWorkerSet" in observed.absent:
        return replace(_refuse(resource, observed, NO_GROUPS, now), requeue_after=FOREIGN_EVERY)
    if observed.rival:
        return _refuse(resource, observed, _model_name_taken(resource, observed.rival), now)
    program = catalog.program(understood, resource.model_names, drain_seconds(understood))
    make = leader_worker_set if understood.engine.parallelism.nodes > 1 else deployment
    plain = make(resource, understood, program, config, _credentials_digest(understood, observed))
    revision, workload = rollout.revised(understood, plain)
    model = facts.model_status(resource, observed, revision)
    told = {
        "model": model,
        "memory": memory.memory(understood, model),
        "loading": facts.loading_status(observed.loading),
    }
    if lacking := memory.shortage(understood, model):
        outcome = _refuse(resource, observed, lacking, now)
    else:
        outcome = _serve(resource, understood, observed, config, now, Wanted(revision, workload, former))
    return replace(outcome, status=outcome.status.model_copy(update=told))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The workload, and the kinds of children that stand in the way: they are on their way out."""

    revision: str
    workload: Manifest
    former: set[str]


def _serve(
    resource: InferenceService, spec: Spec, observed: Observed, config: Config, now: datetime, wanted: Wanted
) -> Outcome:
    revision, former = wanted.revision, wanted.former
    workload: Manifest | None = wanted.workload
    in_place = rollout.in_place(spec, observed, wanted.workload, revision)
    if in_place:
        wanted.workload["spec"]["strategy"] = rollout.IN_PLACE
    cached = caching.cached(resource, spec, observed, config, revision)
    held = _held(resource, observed, now)
    if cached.awaited:
        workload = caching.as_it_is(wanted.workload, observed)
    children = [
        service(resource),
        network_policy(resource, spec, config),
        pdb(resource),
        *([hpa(resource, spec.scaling)] if spec.scaling else []),
        *([role_binding(resource, config)] if _may_bind(spec, config) else []),
    ]
    retreat = scaling.retreat(observed, spec.replicas, timedelta(seconds=drain_seconds(spec)), now)
    if workload and not held:
        children.append({**workload, "spec": {**workload["spec"], "replicas": retreat.replicas}})
    overdue = rollout.overdue(spec, observed, revision, now)
    aim = status.Aim(revision, _selector(resource), in_place, retreat.draining, overdue, cached.awaited)
    due = rollout.due(spec, observed, revision)
    told = status.serving(resource, spec, observed, aim, now)
    hurries = former or retreat.draining or cached.unfinished
    history = scaling.history(told.last_scale, observed, spec.replicas, now)
    return Outcome(
        children=tuple(c for c in children if c["kind"] not in former),
        status=told.model_copy(update={"last_scale": history}),
        requeue_after=SOON if hurries else _requeue_after(observed, cached, due, now),
        marks=retreat.marks,
        acts=() if held else cached.acts,
    )


def _refuse(resource: InferenceService, observed: Observed, cause: Cause, now: datetime) -> Outcome:
    return Outcome(None, status.refused(resource, observed, cause, _selector(resource), now))


def _understood(spec: Spec, config: Config) -> Spec | Cause:
    """The spec with its profile's fields; or what is unknown here, or the chosen engine cannot do, or do without."""
    try:
        spec = applied(spec, config.profiles)
    except KeyError as e:
        known = ", ".join(sorted(config.profiles)) or "none"
        return Cause("NoSuchProfile", f"spec.resources.profile: there is no {e.args[0]!r}; the operator knows: {known}")
    engine = spec.engine
    if refusals := catalog.refusals(spec):
        return Cause("UnsupportedByEngine", f"engine {engine.type} cannot honour {'; '.join(refusals)}")
    if not engine.image and not config.image(engine.type):
        said = f"the operator was given no image for engine {engine.type}: set spec.engine.image"
        return Cause("NoEngineImage", said)
    return spec


def _taken(resource: InferenceService, observed: Observed, former: set[str]) -> list[Manifest]:
    """What stands under the name of something that the operator is to make, and was made by another."""
    shared = [m for m in (observed.download.claim, observed.download.job) if m and shared_foreign(m)]
    children = [c for k, c in sorted(observed.children.items()) if k not in former and foreign(c, resource)]
    return [*children, *shared]


def _name_taken(taken: list[Manifest]) -> Cause:
    names = " and ".join(f"{m['kind']} {m['metadata']['name']}" for m in taken)
    return Cause("NameTaken", f"{names} in this namespace belong to somebody else: rename one of the two")


def _model_name_taken(resource: InferenceService, rival: str) -> Cause:
    names = " or ".join(f'"{name}"' for name in resource.model_names)
    said = f"the model name {names} is served by {rival}, which is older: choose another servedName or alias"
    return Cause("ModelNameTaken", said)


def _selector(resource: InferenceService) -> str:
    return ",".join(f"{k}={v}" for k, v in sorted(metadata.selector(resource.name).items()))


def _may_bind(spec: Spec, config: Config) -> bool:
    return bool(spec.model.credentials_secret and config.service_account and config.credentials_role)


def _credentials_digest(spec: Spec, observed: Observed) -> str:
    """What is not known rolls nothing: the digest that the pods have is carried on. With a cache they need none."""
    if spec.model.cache:
        return ""
    match observed.credentials:
        case Known(digest):
            return digest
        case None:
            return ""
        case Missing() | Unreadable():
            return observed.workload.credentials if observed.workload else ""


def _held(resource: InferenceService, observed: Observed, now: datetime) -> bool:
    """Whether the first pods wait: for a Secret that is not there, or, for a moment, for the right to read it. Where a
    cache has the model whole they need none."""
    if observed.workload is not None or observed.download.whole:
        return False
    match observed.credentials:
        case Missing():
            return True
        case Unreadable():
            return now - resource.created < CREDENTIALS_WAIT
        case Known() | None:
            return False


def _requeue_after(observed: Observed, cached: Cached, due: datetime | None, now: datetime) -> timedelta | None:
    """`due` is when a rollout has to have made progress."""
    again = [due - now] if due and due > now else []
    if soon := _soon(observed, cached):
        again.append(soon)
    return min(again, default=None)


def _soon(observed: Observed, cached: Cached) -> timedelta | None:
    loading = LOADING_EVERY if observed.loading or cached.awaited else None
    match observed.credentials:
        case None:
            return loading
        case Unreadable() if observed.workload is None:
            return SOON / 5
        case Missing():
            return SOON
        case Known() | Unreadable():
            return loading or CREDENTIALS_EVERY
