"""The PodDisruptionBudget: a drained node takes away one pod at a time, and a pod that serves nothing at once."""

from __future__ import annotations

from forebay_operator.children.metadata import child, selector
from forebay_operator.observed import Manifest
from forebay_operator.resource import InferenceService


def pdb(resource: InferenceService) -> Manifest:
    spec = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": selector(resource.name)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return child("PodDisruptionBudget", resource, spec=spec)
