"""The metrics adapter program: its arguments, its two ports, and what runs beside them."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Mapping
from socket import socket

import aiohttp
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from forebay_operator import endpoints, serving
from forebay_operator.api_names import MANAGED, RESOURCES
from forebay_operator.api_server import ApiServer
from forebay_operator.endpoints import Endpoint
from forebay_operator.engines.catalog import metric_names
from forebay_operator.informer import Informer
from forebay_operator.metrics.api import MetricsApi
from forebay_operator.metrics.scrape import Scraper
from forebay_operator.metrics.trust import Trust
from forebay_operator.metrics.window import NoData, Value, window
from forebay_operator.program import MetricNames


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="0.0.0.0", help="address to listen on")
    parser.add_argument("--port", type=int, default=8443, help="of the metrics API, over TLS")
    parser.add_argument("--health-port", type=int, default=8080, help="of /healthz, /readyz and /metrics")
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])


def run(args: argparse.Namespace) -> int:
    """Serves until it is told to end; the exit status."""
    try:
        api = ApiServer.in_cluster(os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"])
        namespace = os.environ["POD_NAMESPACE"]
        ports = serving.bind(args.host, args.port), serving.bind(args.host, args.health_port)
    except KeyError as e:
        print(f"forebay adapter: this is no pod of the chart: {e.args[0]} is not set", file=sys.stderr)  # noqa: T201
        return 1
    except OSError as e:
        print(f"forebay adapter: {e}", file=sys.stderr)  # noqa: T201
        return 1
    with tempfile.TemporaryDirectory() as directory:
        return serving.run(serve(api, namespace, pathlib.Path(directory), ports), args.log_level)


async def serve(api: ApiServer, namespace: str, directory: pathlib.Path, ports: tuple[socket, socket]) -> None:
    """Both ports, over this API server."""
    watched = Watched(api)
    trust = Trust(api, namespace, directory)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        scraper = Scraper(session, lambda: watched.endpoints, watched.names)

        def values(namespace: str, name: str) -> dict[str, Value | NoData]:
            return window(scraper.pods(namespace, name), time.monotonic())

        metrics = MetricsApi(lambda: watched.services, values, lambda: trust.allowed)
        await serving.serve(
            (serving.server(metrics, trust.context), ports[0]),
            (serving.server(Health(trust, watched, scraper)), ports[1]),
            work=[watched.services.run(), watched.slices.run(), scraper.run(), trust.run()],
            drain=_no_drain,
        )
    await api.close()


async def _no_drain() -> None:
    """Every answer is short: uvicorn's own end is enough."""


class Watched:
    """The services, and the ready pods of each, as the cluster has them now."""

    def __init__(self, api: ApiServer) -> None:
        self.endpoints: Mapping[tuple[str, str], tuple[Endpoint, ...]] = {}
        self._engines: Mapping[tuple[str, str], str] = {}
        self.services = Informer(api, RESOURCES, endpoints.parse_service, self._services_changed)
        self.slices = Informer(api, endpoints.ENDPOINT_SLICES, endpoints.parse_slice, self._changed, selector=MANAGED)

    def names(self, key: tuple[str, str]) -> MetricNames:
        """What the engine of that service calls its metrics."""
        return metric_names(self._engines.get(key, ""))

    def _services_changed(self, _: object) -> None:
        self._engines = {(s.namespace, s.name): s.engine for s in self.services}

    def _changed(self, _: object) -> None:
        self.endpoints = endpoints.endpoints_by_service(self.slices)


class Health:
    """The plain port. Ready as soon as discovery can be answered: an APIService without an endpoint hurts everybody."""

    def __init__(self, trust: Trust, watched: Watched, scraper: Scraper) -> None:
        self._trust, self._watched, self._scraper = trust, watched, scraper
        self._registry = CollectorRegistry()
        gauge = {"namespace": "forebay", "subsystem": "adapter", "registry": self._registry}
        self._ready_pods = Gauge("ready_pods", "Pods that are scraped.", **gauge)
        self._no_data = Gauge("services_without_data", "Services whose metrics are not known now.", **gauge)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope["path"])(scope, receive, send)

    def _answer(self, path: str) -> Response:
        match path:
            case "/healthz":
                return PlainTextResponse("ok\n")
            case "/readyz":
                return PlainTextResponse("ready\n") if self._trust.ready else PlainTextResponse("not ready\n", 503)
            case "/metrics":
                return Response(self._render(), headers={"Content-Type": CONTENT_TYPE_LATEST})
            case _:
                return PlainTextResponse("not found\n", 404)

    def _render(self) -> bytes:
        now = time.monotonic()
        found = [window(self._scraper.pods(s.namespace, s.name), now) for s in self._watched.services]
        self._ready_pods.set(sum(map(len, self._watched.endpoints.values())))
        self._no_data.set(sum(any(isinstance(v, NoData) for v in values.values()) for values in found))
        return bytes(generate_latest(self._registry))
