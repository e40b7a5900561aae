"""Revisions of the pods, and how one takes another's place. No I/O."""

from __future__ import annotations

from typing import Any

from forebay_operator.drift import digest
from forebay_operator.observed import REVISION_LABEL, Manifest

# the new pod serves before an old one goes; a new one that cannot serve takes nothing down
SURGE_FIRST: dict[str, Any] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def revision(template: Manifest) -> str:
    """Short hash of all that makes the pods what they are."""
    return digest(template)[:10]


def revised(deployment: Manifest) -> tuple[str, Manifest]:
    """The revision of its pods, and the deployment with its pods so labelled, rolling by surge."""
    template = deployment["spec"]["template"]
    name = revision(template)
    about = {**template["metadata"], "labels": {**template["metadata"]["labels"], REVISION_LABEL: name}}
    spec = {**deployment["spec"], "strategy": SURGE_FIRST, "template": {**template, "metadata": about}}
    return name, {**deployment, "spec": spec}
