"""Revisions of the pods, and how one takes another's place. No I/O."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from forebay_operator.api_names import REVISION_LABEL
from forebay_operator.drift import digest
from forebay_operator.observed import ACCELERATORS, Manifest, Observed, accelerators
from forebay_operator.resource import Spec

# an old pod goes first and leaves its accelerators to the new one
IN_PLACE: dict[str, Any] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def surge_first(spec: Spec) -> dict[str, Any]:
    """New pods serve before old ones go; a new one that cannot serve takes nothing down."""
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": spec.rollout.surge, "maxUnavailable": 0}}


def revision(template: Manifest) -> str:
    """Short hash of all that makes the pods what they are."""
    return digest(template)[:10]


def revised(spec: Spec, workload: Manifest) -> tuple[str, Manifest]:
    """The revision of its pods, and the workload with its pods so labelled, rolling by surge."""
    group = workload["spec"].get("leaderWorkerTemplate")
    if group is None:
        template = workload["spec"]["template"]
        name = revision(template)
        parts = {"strategy": surge_first(spec), "template": _labelled(template, name)}
        return name, {**workload, "spec": {**workload["spec"], **parts}}
    templates = {name: group[name] for name in ("leaderTemplate", "workerTemplate")}
    name = revision({**templates, "size": group["size"]})
    way = surge_first(spec)
    parts = {
        "rolloutStrategy": {"type": way["type"], "rollingUpdateConfiguration": way["rollingUpdate"]},
        "leaderWorkerTemplate": {**group, **{which: _labelled(each, name) for which, each in templates.items()}},
    }
    return name, {**workload, "spec": {**workload["spec"], **parts}}


def _labelled(template: Manifest, revision: str) -> Manifest:
    about = {**template["metadata"], "labels": {**template["metadata"]["labels"], REVISION_LABEL: revision}}
    return {**template, "metadata": about}


def due(spec: Spec, observed: Observed, revision: str) -> datetime | None:
    """By when groups of pods have to have made progress, since they were last changed or one of them came to serve:
    their controller knows no deadline, as that of a Deployment does. None where its word counts or nothing is known."""
    workload = observed.workload
    if workload is None or not workload.groups or workload.revision != revision or workload.changed is None:
        return None
    served = [p.ready_changed for p in observed.pods_of(revision) if p.ready and p.ready_changed]
    return max([workload.changed, *served]) + timedelta(seconds=spec.rollout.progress_deadline_seconds)


def overdue(spec: Spec, observed: Observed, revision: str, now: datetime) -> bool:
    """Whether the revision, if it has not settled, has made no progress for its whole deadline."""
    workload = observed.workload
    if workload is None or workload.revision != revision or not workload.caught_up:
        return False
    end = due(spec, observed, revision)
    return workload.overdue or (end is not None and end <= now)


def in_place(spec: Spec, observed: Observed, deployment: Manifest, revision: str) -> bool:
    """Whether an old pod has to go before its successor can start: no accelerator is free for the new one, nothing else
    is lacking, and what one old pod holds is enough. Once begun it goes on until the old pods are gone. Never so
    for replicas of several pods."""
    if spec.rollout.in_place == "Never" or spec.engine.parallelism.nodes > 1:
        return False
    old = [p for p in observed.pods if p.revision != revision and not p.deleting]
    asked = accelerators(deployment["spec"]["template"]["spec"]["containers"])
    fits = any(all(p.accelerators.get(name, 0) >= count for name, count in asked.items()) for p in old)
    if not asked or not fits:
        return False
    return _begun(observed, revision) or any(
        _lacks_only_accelerators(p.unschedulable) for p in observed.pods_of(revision)
    )


def _begun(observed: Observed, revision: str) -> bool:
    live = observed.children.get("Deployment") or {}
    workload = observed.workload
    same = workload is not None and workload.revision == revision
    return bool(same and live["spec"].get("strategy", {}).get("rollingUpdate", {}).get("maxSurge") == 0)


def _lacks_only_accelerators(words: str) -> bool:
    lacking = re.findall(r"Insufficient ([\w./-]+\w)", words)
    return bool(lacking) and all(name.startswith(ACCELERATORS) for name in lacking)
