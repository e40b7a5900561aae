"""What becomes of a model's cache: made once, joined by each resource of its source, let go of by those that leave.

No I/O. The Job and the claim are no children of one resource: they have every user as an owner, so that the garbage
collector takes them with the last one. A claim that is to stay has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from forebay_operator.api_names import CLAIM_ANNOTATION, INTENT_ANNOTATION, KEPT_ANNOTATION, KIND, SERVICE_LABEL
from forebay_operator.observed import Download, Manifest, finished
from forebay_operator.quantity import parse
from forebay_operator.resource import InferenceService

MANY = "ReadWriteMany"


@dataclass(frozen=True, slots=True)
class Make:
    what: Manifest


@dataclass(frozen=True, slots=True)
class Amend:
    """A merge patch, of what is there as it was seen."""

    what: Manifest
    patch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Remove:
    """What is there as it was seen."""

    what: Manifest


Act = Make | Amend | Remove


def acts(download: Download, claim: Manifest | None, job: Manifest, resource: InferenceService) -> tuple[Act, ...]:
    """What is to be done for `claim` (None: it is the user's) and `job` to be there for this resource. A Job is made
    when its claim has been seen, and again when that is another one. The claim grows at the end, when it has been
    joined: that may be refused, and a resource that uses a claim has to be among its owners all the same."""
    found: list[Act] = []
    grows: list[Act] = []
    if claim is not None:
        if download.claim is None:
            return (Make(claim),)
        if _going(download.claim):
            return ()
        found += _amended(download.claim, _claim_patch(download.claim, claim, download.job))
        grows = [] if found else _amended(download.claim, _grown(download.claim["spec"], claim["spec"]))
    live = download.job
    if live is None:
        found.append(Make(job))
    elif not _going(live):
        stale = _stale(live, job, resource)
        found += [Remove(live)] if stale else _amended(live, _owners_patch(live, _owners(live, job)))
    return tuple(found + grows)


def releases(shares: Iterable[Manifest], names: Iterable[str], resource: InferenceService) -> tuple[Act, ...]:
    """Of what the resource shares it lets go of all but `names`; the last one takes it away."""
    kept = set(names)
    left = [m for m in shares if m["metadata"]["name"] not in kept and not _going(m)]
    found: list[Act] = []
    for live in left:
        others = [o for o in live["metadata"].get("ownerReferences") or [] if o["uid"] != resource.uid]
        found.append(Amend(live, _owners_patch(live, others)) if others else Remove(live))
    return tuple(found)


def unfinished(acts: Iterable[Act], download: Download) -> bool:
    """Whether there is more to do as soon as this is done."""
    there = [m for m in (download.claim, download.job) if m]
    again = any(isinstance(a, Remove) or a.what["kind"] == "PersistentVolumeClaim" for a in acts)
    return again or any(map(_going, there))


def _going(live: Manifest) -> bool:
    return "deletionTimestamp" in live["metadata"]


def _stale(live: Manifest, wanted: Manifest, resource: InferenceService) -> bool:
    """Whether it must be made anew: it fills a claim that is gone, has given up, or, not being done, is not what its
    maker wants now. One that is done stays as it is: what it brought is there."""
    if finished(live, "Failed") or _note(live, CLAIM_ANNOTATION) != _note(wanted, CLAIM_ANNOTATION):
        return True
    maker = (live["metadata"].get("labels") or {}).get(SERVICE_LABEL)
    orphaned = maker not in {o["name"] for o in live["metadata"].get("ownerReferences") or [] if o["kind"] == KIND}
    changed = _note(live, INTENT_ANNOTATION) != _note(wanted, INTENT_ANNOTATION)
    return changed and (maker == resource.name or orphaned) and not finished(live, "Complete")


def _note(live: Manifest, name: str) -> str:
    return str((live["metadata"].get("annotations") or {}).get(name) or "")


def _owners(*of: Manifest | None) -> list[dict[str, Any]]:
    """Of all of them, each once, in the order in which they come."""
    found: dict[str, dict[str, Any]] = {}
    for owner in (o for m in of if m for o in m["metadata"].get("ownerReferences") or []):
        found.setdefault(owner["uid"], owner)
    return list(found.values())


def _owners_patch(live: Manifest, owners: list[dict[str, Any]]) -> dict[str, Any]:
    return (
        {} if owners == (live["metadata"].get("ownerReferences") or []) else {"metadata": {"ownerReferences": owners}}
    )


def _claim_patch(live: Manifest, wanted: Manifest, job: Manifest | None) -> dict[str, Any]:
    """It stays, without an owner, while the resource that is noted on it wants it to; then it is at once of all whom
    the Job names."""
    noted, wants = _note(live, KEPT_ANNOTATION), _note(wanted, KEPT_ANNOTATION)
    mine = noted == wanted["metadata"]["labels"][SERVICE_LABEL]
    kept_for = (noted or wants) if wants else ("" if mine else noted)
    patch = _owners_patch(live, [] if kept_for else _owners(live, wanted, job))
    if kept_for != noted:
        patch.setdefault("metadata", {})["annotations"] = {KEPT_ANNOTATION: kept_for or None}
    return patch


def _grown(live: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """It grows, and never shrinks. What the API server cannot change it refuses in its own words."""
    asked, there = (s["resources"]["requests"]["storage"] for s in (wanted, live))
    of_class = wanted.get("storageClassName")
    patch = {
        **({"resources": {"requests": {"storage": asked}}} if parse(str(asked)) > parse(str(there)) else {}),
        **({"storageClassName": of_class} if of_class and of_class != live.get("storageClassName") else {}),
        **({"accessModes": [MANY]} if MANY in wanted["accessModes"] and MANY not in live["accessModes"] else {}),
    }
    return {"spec": patch} if patch else {}


def _amended(live: Manifest, patch: dict[str, Any]) -> list[Act]:
    return [Amend(live, patch)] if patch else []
