"""The NetworkPolicy: in to the serving port alone, from whom spec.access lets; out only where a model is fetched."""

from __future__ import annotations

from typing import Any

from forebay_operator.children.metadata import child, group_selector, selector
from forebay_operator.children.model_source import parse_source
from forebay_operator.config import Config
from forebay_operator.observed import Manifest
from forebay_operator.resource import InferenceService, Spec
from forebay_operator.resource.access import Peer

DNS: list[dict[str, Any]] = [{"port": 53, "protocol": p} for p in ("UDP", "TCP")]
FOREBAY = {"app.kubernetes.io/name": "forebay"}  # the chart's gateway, adapter and operator
HTTP: list[dict[str, Any]] = [{"port": "http", "protocol": "TCP"}]


def network_policy(resource: InferenceService, spec: Spec, config: Config) -> Manifest:
    # a hub or a store may be anywhere (engine.env HF_ENDPOINT), so its port and address are not narrowed
    hub: list[dict[str, Any]] = [{"ports": DNS}, {"ports": [{"port": 1, "endPort": 65535, "protocol": "TCP"}]}]
    downloads = parse_source(spec.model.source).remote and not spec.model.cache
    group = _group(resource) if spec.engine.parallelism.nodes > 1 else []
    egress = [
        *(hub if downloads else [{"ports": DNS}] if group else []),
        *({"to": peers} for peers in group),
    ]
    policy = {
        "podSelector": {"matchLabels": group_selector(resource.name) if group else selector(resource.name)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [*_ingress(spec, config), *({"from": peers} for peers in group)],
        # no rule at all lets nothing out; an empty list would say the same, but the API server drops it, so that each
        # apply of one would count as a change
        "egress": egress,
    }
    return child("NetworkPolicy", resource, spec={k: v for k, v in policy.items() if v != []})


def _group(resource: InferenceService) -> list[list[dict[str, Any]]]:
    """The pods of one replica meet on ports of their own choice."""
    return [[{"podSelector": {"matchLabels": group_selector(resource.name)}}]]


def _ingress(spec: Spec, config: Config) -> list[dict[str, Any]]:
    """No peers are everybody to Kubernetes, so that a rule for nobody must not be written at all."""
    if spec.access.peers is None:
        return [{"ports": HTTP}]
    peers = [*_forebay(config), *map(_peer, spec.access.peers)]
    return [{"from": peers, "ports": HTTP}] if peers else []


def _forebay(config: Config) -> list[dict[str, Any]]:
    if not config.namespace:
        return []
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": config.namespace}}
    return [{"namespaceSelector": namespace, "podSelector": {"matchLabels": FOREBAY}}]


def _peer(peer: Peer) -> dict[str, Any]:
    pods = {"podSelector": _labels(peer.pods)}
    return pods if peer.namespaces is None else {"namespaceSelector": _labels(peer.namespaces), **pods}


def _labels(labels: dict[str, str]) -> dict[str, Any]:
    return {"matchLabels": labels} if labels else {}
