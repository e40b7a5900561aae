"""The NetworkPolicy: in to the serving port alone; out only where a model is fetched from a hub."""

from __future__ import annotations

from typing import Any

from forebay_operator.children.metadata import child, selector
from forebay_operator.observed import Manifest
from forebay_operator.resource import InferenceService, Spec

DNS: list[dict[str, Any]] = [{"port": 53, "protocol": p} for p in ("UDP", "TCP")]


def network_policy(resource: InferenceService, spec: Spec) -> Manifest:
    # a hub may be anywhere (engine.env HF_ENDPOINT), so its port and address are not narrowed
    hub: list[dict[str, Any]] = [{"ports": DNS}, {"ports": [{"port": 1, "endPort": 65535, "protocol": "TCP"}]}]
    policy = {
        "podSelector": {"matchLabels": selector(resource.name)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": "http", "protocol": "TCP"}]}],
        # no rule at all lets nothing out; an empty list would say the same, but the API server drops it, so that each
        # apply of one would count as a change
        **({"egress": hub} if spec.model.source.startswith("hf://") else {}),
    }
    return child("NetworkPolicy", resource, spec=policy)
