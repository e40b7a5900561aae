"""The Event object of a happening. No I/O."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from forebay_operator.api_names import API_VERSION, FIELD_OWNER, KIND
from forebay_operator.happenings import Happening
from forebay_operator.resource import InferenceService


def event(resource: InferenceService, happening: Happening, now: datetime) -> dict[str, Any]:
    about = {"apiVersion": API_VERSION, "kind": KIND, "uid": resource.uid}
    stamp = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    return {
        "metadata": {"generateName": f"{resource.name}.", "namespace": resource.namespace},
        "involvedObject": {**about, "name": resource.name, "namespace": resource.namespace},
        "type": "Warning" if happening.warning else "Normal",
        "reason": happening.reason,
        "message": happening.message[:1000],
        "source": {"component": FIELD_OWNER},
        "reportingComponent": FIELD_OWNER,
        "reportingInstance": FIELD_OWNER,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
