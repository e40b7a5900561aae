"""Names, labels and owner of every child."""

from __future__ import annotations

from typing import Any

from forebay_operator.api_names import (
    API_VERSION,
    COMPONENT,
    COMPONENT_LABEL,
    KIND,
    MANAGED_BY,
    MANAGED_LABEL,
    SERVICE_LABEL,
)
from forebay_operator.child_kinds import CHILD_KINDS
from forebay_operator.observed import Manifest
from forebay_operator.resource import InferenceService


def labels(name: str, component: str = COMPONENT) -> dict[str, str]:
    return {MANAGED_LABEL: MANAGED_BY, COMPONENT_LABEL: component, SERVICE_LABEL: name}


def selector(name: str) -> dict[str, str]:
    """Labels that exactly the pods of this resource that serve have, within their namespace."""
    return {COMPONENT_LABEL: COMPONENT, SERVICE_LABEL: name}


def group_selector(name: str) -> dict[str, str]:
    """Labels that all its pods have, also those that compute for another one."""
    return {SERVICE_LABEL: name}


def owner(resource: InferenceService) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": resource.name,
        "uid": resource.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def child(kind: str, resource: InferenceService, **body: Any) -> Manifest:
    """A manifest of that kind with name, labels and owner, and `body` beside them."""
    about = CHILD_KINDS[kind]
    return {
        "apiVersion": about.api_version,
        "kind": kind,
        "metadata": {
            "name": about.name(resource.name),
            "namespace": resource.namespace,
            "labels": labels(resource.name),
            "ownerReferences": [owner(resource)],
        },
        **body,
    }
