"""What the cluster serves, for the gateway and the adapter: custom resources and EndpointSlices as values. No I/O."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from forebay_operator.api_names import SERVICE_LABEL

ENDPOINT_SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
PORT_NAME = "http"
POD_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One pod that takes requests now. `address` is host:port; `pod` is for people."""

    address: str
    pod: str = ""


@dataclass(frozen=True, slots=True)
class Service:
    """One InferenceService: the names by which requests ask for it, the chief one first, and where it lives."""

    namespace: str
    name: str
    models: tuple[str, ...]
    created: str = ""  # RFC 3339, so that it sorts by age
    labels: Mapping[str, str] = field(default_factory=dict)
    engine: str = "forebay"

    @property
    def model(self) -> str:
        return self.models[0]


@dataclass(frozen=True, slots=True)
class Slice:
    """The ready endpoints of one EndpointSlice."""

    namespace: str
    service: str
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """A served model and the endpoints that take its requests now, perhaps none."""

    service: Service
    endpoints: tuple[Endpoint, ...]


def parse_service(resource: Mapping[str, Any]) -> Service:
    meta = resource["metadata"]
    spec = resource.get("spec") or {}
    model = spec.get("model") or {}
    return Service(
        namespace=meta["namespace"],
        name=meta["name"],
        models=tuple(dict.fromkeys([model.get("servedName") or meta["name"], *(model.get("aliases") or [])])),
        created=meta.get("creationTimestamp") or "",
        labels=dict(meta.get("labels") or {}),
        engine=(spec.get("engine") or {}).get("type") or "forebay",
    )


def parse_slice(resource: Mapping[str, Any]) -> Slice:
    """Endpoints that are not ready, or are terminating, are left out."""
    meta = resource["metadata"]
    labels = meta.get("labels") or {}
    port = _port(resource.get("ports") or [])
    found = resource.get("endpoints") or [] if port and resource.get("addressType") != "FQDN" else []
    return Slice(
        namespace=meta["namespace"],
        service=labels.get(SERVICE_LABEL) or labels.get("kubernetes.io/service-name", ""),
        endpoints=tuple(_endpoint(e, port) for e in found if _takes_requests(e)),
    )


def _port(ports: Iterable[Mapping[str, Any]]) -> int:
    by_name = {p.get("name"): p["port"] for p in ports if p.get("port")}
    return int(by_name.get(PORT_NAME) or next(iter(by_name.values()), 0))


def _takes_requests(endpoint: Mapping[str, Any]) -> bool:
    conditions = endpoint.get("conditions") or {}
    return conditions.get("ready") is not False and not conditions.get("terminating") and bool(endpoint["addresses"])


def _endpoint(endpoint: Mapping[str, Any], port: int) -> Endpoint:
    """The API server does not check what `targetRef` names, and the gateway tells it in a header."""
    host = endpoint["addresses"][0]
    pod = str((endpoint.get("targetRef") or {}).get("name", ""))
    known = pod if POD_NAME.fullmatch(pod) else ""
    return Endpoint(address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}", pod=known)


def endpoints_by_service(slices: Iterable[Slice]) -> dict[tuple[str, str], tuple[Endpoint, ...]]:
    """(namespace, name) -> its endpoints in a stable order; a pod with two addresses counts once, by the IPv4 one."""
    found: dict[tuple[str, str], dict[str, Endpoint]] = collections.defaultdict(dict)
    for piece in slices:
        pods = found[piece.namespace, piece.service]
        for endpoint in piece.endpoints:
            key = endpoint.pod or endpoint.address
            pods[key] = min(pods.get(key, endpoint), endpoint, key=lambda e: (e.address.startswith("["), e.address))
    return {name: tuple(sorted(pods.values(), key=lambda e: e.address)) for name, pods in found.items()}


def routes(services: Iterable[Service], slices: Iterable[Slice]) -> dict[str, Route]:
    """Model name -> route. Of two services with one model name the older has it: nobody can take a name away."""
    by_service = endpoints_by_service(slices)
    found: dict[str, Route] = {}
    for service in sorted(services, key=lambda s: (s.created, s.namespace, s.name)):
        endpoints = by_service.get((service.namespace, service.name), ())
        for model in service.models:
            found.setdefault(model, Route(service, endpoints))
    return found
