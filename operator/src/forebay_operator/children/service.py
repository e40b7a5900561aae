"""The Service: a cluster address in front of the pods that are ready and in rotation."""

from __future__ import annotations

from forebay_operator.api_names import IN_ROTATION, ROTATION_LABEL
from forebay_operator.children.metadata import child, selector
from forebay_operator.observed import Manifest
from forebay_operator.resource import InferenceService

PORT = 80


def service(resource: InferenceService) -> Manifest:
    port = {"name": "http", "port": PORT, "targetPort": "http", "protocol": "TCP"}
    rotation = {ROTATION_LABEL: IN_ROTATION}
    spec = {"type": "ClusterIP", "selector": selector(resource.name) | rotation, "ports": [port]}
    return child("Service", resource, spec=spec)
