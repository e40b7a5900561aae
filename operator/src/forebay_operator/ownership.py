"""Whose a live child is: the resource's, a former one's, or somebody else's. No I/O."""

from __future__ import annotations

from typing import Any

from forebay_operator.api_names import FIELD_OWNER, KIND
from forebay_operator.observed import Manifest
from forebay_operator.resource import InferenceService


def owner_of(live: Manifest) -> dict[str, Any] | None:
    """The controlling ownerReference."""
    owners = live["metadata"].get("ownerReferences") or []
    return next((o for o in owners if o.get("controller")), None)


def left_behind(live: Manifest, resource: InferenceService) -> bool:
    """Whether it is on its way out: being deleted, or of a former resource of the same name."""
    owner = owner_of(live)
    former = owner is not None and owner["kind"] == KIND and owner["uid"] != resource.uid
    return "deletionTimestamp" in live["metadata"] or former


def shared_foreign(live: Manifest) -> bool:
    """Whether somebody else made what several resources share: this operator never wrote it."""
    return FIELD_OWNER not in {m.get("manager") for m in live["metadata"].get("managedFields") or []}


def foreign(live: Manifest, resource: InferenceService) -> bool:
    """Whether somebody else made it: it is neither owned by the resource nor ever applied by this operator."""
    owner = owner_of(live)
    if owner is not None:
        return bool(owner["kind"] != KIND)
    applied = [m for m in live["metadata"].get("managedFields") or [] if m.get("operation") == "Apply"]
    return FIELD_OWNER not in {m.get("manager") for m in applied}
