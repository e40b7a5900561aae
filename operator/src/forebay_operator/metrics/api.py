"""custom.metrics.k8s.io/v1beta2 as the aggregation layer asks for it. Discovery is answered from memory, always."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any
from urllib.parse import parse_qs

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from forebay_operator.api_names import API_VERSION, GROUP, KIND, PLURAL
from forebay_operator.endpoints import Service
from forebay_operator.metrics import selector
from forebay_operator.metrics.window import METRICS, NoData, Value

log = logging.getLogger(__name__)

GROUP_VERSION = "custom.metrics.k8s.io/v1beta2"
ROOT = f"/apis/{GROUP_VERSION}"
RESOURCE = f"{PLURAL}.{GROUP}"
Values = Callable[[str, str], dict[str, Value | NoData]]


class StatusError(Exception):
    """An answer of kind Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message

    def response(self) -> Response:
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        return JSONResponse(body | {"message": self.message, "reason": self.reason, "code": self.code}, self.code)


def discovery() -> dict[str, Any]:
    resources = [
        {
            "name": f"{RESOURCE}/{metric}",
            "singularName": "",
            "namespaced": True,
            "kind": "MetricValueList",
            "verbs": ["get"],
        }
        for metric in METRICS
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION, "resources": resources}


def quantity(value: float) -> str:
    """As Kubernetes writes it: whole, or in thousandths."""
    milli = round(value * 1000)
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def item(service: Service, metric: str, value: Value, now: datetime.datetime) -> dict[str, Any]:
    at = (now - datetime.timedelta(seconds=value.age)).astimezone(datetime.UTC)
    document: dict[str, Any] = {
        "describedObject": {
            "kind": KIND,
            "namespace": service.namespace,
            "name": service.name,
            "apiVersion": API_VERSION,
        },
        "metric": {"name": metric, "selector": None},
        "timestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "value": quantity(value.value),
    }
    return document if value.window is None else document | {"windowSeconds": round(value.window)}


class MetricsApi:
    """The application on the TLS port. `allowed` names the client certificates that may ask; it is empty for any that
    the request-header CA signed. Who asks there is the API server, which has authorized its caller before."""

    def __init__(
        self,
        services: Callable[[], Iterable[Service]],
        values: Values,
        allowed: Callable[[], Collection[str]],
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._services, self._values, self._allowed, self._now = services, values, allowed, now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response: Response = JSONResponse(self._answer(scope))
        except StatusError as e:
            response = e.response()
        await response(scope, receive, send)

    def _answer(self, scope: Scope) -> dict[str, Any]:
        peer, allowed = scope.get("extensions", {}).get("tls", {}).get("client_cert_name"), self._allowed()
        if peer is None or (allowed and peer not in allowed):
            raise StatusError(401, "Unauthorized", "only the API server's aggregation layer may ask here")
        if scope["method"] not in ("GET", "HEAD"):
            raise StatusError(405, "MethodNotAllowed", f"{scope['method']} is not offered; GET is")
        path = scope["path"].rstrip("/")
        if path == ROOT:
            return discovery()
        match path.removeprefix(ROOT + "/").split("/") if path.startswith(ROOT + "/") else []:
            case ["namespaces", namespace, resource, name, metric] if resource == RESOURCE:
                return self._list(namespace, name, metric, parse_qs(scope["query_string"].decode("latin-1")))
            case _:
                raise StatusError(404, "NotFound", "the server could not find the requested resource")

    def _list(self, namespace: str, name: str, metric: str, query: dict[str, list[str]]) -> dict[str, Any]:
        if any(query.get("metricLabelSelector", ())):
            raise StatusError(400, "BadRequest", "metricLabelSelector: these metrics have no labels of their own")
        here = [s for s in self._services() if s.namespace == namespace and metric in METRICS]
        if name == "*":
            chosen = self._selected(here, query.get("labelSelector", [""])[0])
        else:
            chosen = [s for s in here if s.name == name]
        items = [found for service in chosen if (found := self._item(service, metric))]
        if not items and name != "*":
            message = f"the server could not find the metric {metric} for {RESOURCE} {name}"
            raise StatusError(404, "NotFound", message + self._why(chosen, metric))
        return {"kind": "MetricValueList", "apiVersion": GROUP_VERSION, "metadata": {}, "items": items}

    @staticmethod
    def _selected(services: Iterable[Service], text: str) -> list[Service]:
        try:
            matches = selector.parse(text)
        except ValueError as e:
            raise StatusError(400, "BadRequest", f"labelSelector: {e}") from None
        return [service for service in services if matches(service.labels)]

    def _item(self, service: Service, metric: str) -> dict[str, Any] | None:
        value = self._values(service.namespace, service.name)[metric]
        return item(service, metric, value, self._now()) if isinstance(value, Value) else None

    def _why(self, chosen: Iterable[Service], metric: str) -> str:
        values = (self._values(s.namespace, s.name)[metric] for s in chosen)
        return "".join(f": {value.reason}" for value in values if isinstance(value, NoData))
