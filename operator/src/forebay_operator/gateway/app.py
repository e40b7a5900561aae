"""The gateway program: its arguments, where its routes come from, and what runs beside it."""

from __future__ import annotations

import argparse
import asyncio
import collections
import logging
import os
import pathlib
import sys
import time
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from forebay_operator import endpoints, serving
from forebay_operator.api_names import MANAGED, RESOURCES
from forebay_operator.api_server import ApiServer
from forebay_operator.endpoints import Endpoint, Route, Service
from forebay_operator.gateway import upstream
from forebay_operator.gateway.admission import ApiKeys
from forebay_operator.gateway.cards import Cards
from forebay_operator.gateway.exchange import Exchange
from forebay_operator.gateway.load import Load
from forebay_operator.gateway.pages import Pages
from forebay_operator.gateway.proxy import Proxy
from forebay_operator.gateway.server import Gateway
from forebay_operator.gateway.telemetry import Telemetry
from forebay_operator.informer import Informer

log = logging.getLogger(__name__)
RELOAD_SECONDS = 10.0


class StartError(Exception):
    """The gateway cannot start; the message is the one line that says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="0.0.0.0", help="address to listen on")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument(
        "--upstream",
        action="append",
        default=[],
        metavar="MODEL=URL",
        help="serve MODEL from this http address instead of asking Kubernetes; may be repeated",
    )
    parser.add_argument("--api-keys-file", type=pathlib.Path, help="one key a line; without it no key is asked for")
    parser.add_argument("--max-body-bytes", type=int, default=8 << 20)
    parser.add_argument("--max-held-bytes", type=int, default=128 << 20, help="of bodies of all requests in flight")
    parser.add_argument("--idle-timeout", type=float, default=600.0, help="seconds an endpoint may be silent")
    parser.add_argument("--drain-grace", type=float, default=300.0, help="seconds that running answers have to end")
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])


def run(args: argparse.Namespace) -> int:
    """Serves until it is told to end; the exit status."""
    try:
        source = Fixed(args.upstream) if args.upstream else Watched(_api_server(os.environ))
        keys = KeyFile(args.api_keys_file) if args.api_keys_file else None
        socket = serving.bind(args.host, args.port)
    except (StartError, OSError) as e:
        print(f"forebay gateway: {e}", file=sys.stderr)  # noqa: T201
        return 1
    return serving.run(_main(args, source, keys, socket), args.log_level)


async def _main(args: argparse.Namespace, source: Fixed | Watched, keys: KeyFile | None, socket: Any) -> None:
    telemetry, load = Telemetry(), Load(time.monotonic)
    async with upstream.pool(args.idle_timeout) as session:
        door = upstream.Upstream(session, args.idle_timeout, forward_keys=keys is None)
        gateway = Gateway(
            Exchange(Proxy(door, telemetry, load, time.monotonic), telemetry),
            Pages(Cards(session, time.monotonic), telemetry, lambda: source.routes, lambda: source.synced),
            telemetry,
            routes=lambda: source.routes,
            keys=lambda: keys.keys if keys else None,
            max_body_bytes=args.max_body_bytes,
            max_held_bytes=args.max_held_bytes,
        )
        work = [*source.work(), *([keys.follow()] if keys else [])]
        await serving.serve((serving.server(gateway), socket), work=work, drain=lambda: gateway.drain(args.drain_grace))


class Fixed:
    """Routes given on the command line."""

    synced = True

    def __init__(self, upstreams: Iterable[str]) -> None:
        found: dict[str, list[Endpoint]] = collections.defaultdict(list)
        for pair in upstreams:
            model, _, url = pair.partition("=")
            parts = urlsplit(url)
            if not model or parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/"):
                raise StartError(f"--upstream {pair!r} is not MODEL=http://HOST:PORT")
            found[model].append(Endpoint(parts.netloc))
        self.routes: Mapping[str, Route] = {
            model: Route(Service("", model, (model,)), tuple(at)) for model, at in found.items()
        }

    def work(self) -> list[Coroutine[Any, Any, None]]:
        return []


class Watched:
    """Routes as the cluster has them now."""

    def __init__(self, api: ApiServer) -> None:
        self.routes: Mapping[str, Route] = {}
        self._services = Informer(api, RESOURCES, endpoints.parse_service, self._changed)
        self._slices = Informer(api, endpoints.ENDPOINT_SLICES, endpoints.parse_slice, self._changed, selector=MANAGED)

    @property
    def synced(self) -> bool:
        return self._services.synced and self._slices.synced

    def _changed(self, _: object) -> None:
        self.routes = endpoints.routes(self._services, self._slices)

    def work(self) -> list[Coroutine[Any, Any, None]]:
        return [self._services.run(), self._slices.run()]


class KeyFile:
    """The API keys as the file has them; a file without keys lets nobody in, an unreadable one changes nothing."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        try:
            self.keys = ApiKeys.parse(path.read_text())
        except UnicodeDecodeError as e:
            raise StartError(f"{path} is no text: {e.reason}") from None
        if not len(self.keys):
            raise StartError(f"{path} holds no key")

    async def follow(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            try:
                self.keys = ApiKeys.parse(self._path.read_text())
            except (OSError, UnicodeDecodeError) as e:
                log.warning("keys not read again: %s", type(e).__name__)


def _api_server(environment: Mapping[str, str]) -> ApiServer:
    try:
        return ApiServer.in_cluster(environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"])
    except KeyError:
        raise StartError("this is no pod of a cluster; give --upstream MODEL=URL") from None
