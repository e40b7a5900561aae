"""Telling whether a live child still is what was applied. No I/O.

What server-side apply cannot put right by itself is found here too: in a list that is keyed by more than the name
(ports by number, mounts by path), an entry whose key was changed by hand stays beside the one that is applied again.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from forebay_operator.api_names import FIELD_OWNER
from forebay_operator.observed import Manifest

VOLATILE = ("resourceVersion", "generation", "managedFields", "creationTimestamp")
COUNTED = "deployment.kubernetes.io/"
KEYS = {"ports": ("port", "containerPort", "protocol"), "volumeMounts": ("mountPath",)}


def digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def intent(live: Manifest) -> str:
    """Digest of what is meant by an object."""
    return digest(meant(live))


def meant(live: Manifest) -> Manifest:
    """All of an object but its status, what the API server and its controller count, and what it is: a list leaves it
    out."""
    meta = {k: v for k, v in live["metadata"].items() if k not in VOLATILE}
    notes = {k: v for k, v in (meta.pop("annotations", None) or {}).items() if not k.startswith(COUNTED)}
    meta["annotations"] = notes
    return {**{k: v for k, v in live.items() if k not in ("status", "kind", "apiVersion")}, "metadata": meta}


def displaced(desired: Any, live: Any) -> bool:
    """Whether an entry of ours stands in `live` under another key than `desired` gives it."""
    if isinstance(desired, dict) and isinstance(live, dict):
        return any(_displaced_at(k, v, live[k]) for k, v in desired.items() if k in live)
    if isinstance(desired, list) and isinstance(live, list):
        by_name = {e["name"]: e for e in live if isinstance(e, dict) and "name" in e}
        named = [e for e in desired if isinstance(e, dict) and e.get("name") in by_name]
        return any(displaced(e, by_name[e["name"]]) for e in named)
    return False


def _displaced_at(key: str, desired: Any, live: Any) -> bool:
    if key not in KEYS or not isinstance(desired, list) or not isinstance(live, list):
        return displaced(desired, live)
    wanted = {(e.get("name"), *(e.get(k) for k in KEYS[key])) for e in desired}
    names = {e.get("name") for e in desired}
    found = {(e.get("name"), *(e.get(k) for k in KEYS[key])) for e in live if e.get("name") in names}
    return bool(found - wanted)


def replacement(desired: Manifest, live: Manifest) -> Manifest:
    """`desired` in place of all of `live`, but for the labels and annotations that others have put there."""
    meta = live["metadata"]
    kept = {k: {**(meta.get(k) or {}), **desired["metadata"].get(k, {})} for k in ("labels", "annotations")}
    return {**desired, "metadata": {**desired["metadata"], **kept, "resourceVersion": meta["resourceVersion"]}}


def disowned(live: Manifest) -> list[dict[str, Any]]:
    """A JSON patch that leaves this operator the owner by server-side apply alone: what it once put there by an update
    would otherwise never be removed again. Empty when there is no such thing."""
    entries = live["metadata"].get("managedFields") or []
    kept = [e for e in entries if e.get("manager") != FIELD_OWNER or e.get("operation") == "Apply"]
    if len(kept) == len(entries):
        return []
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
        {"op": "replace", "path": "/metadata/managedFields", "value": kept},
    ]
