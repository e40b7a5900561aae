"""The operator program: its arguments, the lease that it works under, and what runs beside it."""

from __future__ import annotations

import argparse
import asyncio
import logging
import pathlib
import signal
import socket
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from forebay_operator import probes, profiles, telemetry
from forebay_operator.api_server import ApiServer
from forebay_operator.cluster import Access, AccessError, Api, LeaseHolder, access
from forebay_operator.config import Config
from forebay_operator.engines.catalog import ENGINES
from forebay_operator.handlers import Wiring, operate

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runtime-image", required=True, help="image of the pods that serve, where the spec names none"
    )
    parser.add_argument("--own-image", required=True, help="image of this operator, for what pods run of it")
    parser.add_argument(
        "--engine-image",
        action="append",
        default=[],
        type=_engine_image,
        metavar="TYPE=IMAGE",
        help="image of pods with that spec.engine.type, where the spec names none; may be repeated",
    )
    parser.add_argument("--profiles-file", type=pathlib.Path, help="YAML of the profiles that resources may name")
    parser.add_argument("--image-pull-policy", default="IfNotPresent", choices=["Always", "IfNotPresent", "Never"])
    parser.add_argument("--service-account", default="", metavar="NAMESPACE/NAME", help="the operator's own account")
    parser.add_argument("--credentials-role", default="", help="ClusterRole that it binds to itself to read Secrets")
    parser.add_argument(
        "--resync-seconds", type=float, default=300, help="longest time between two looks at a resource"
    )
    parser.add_argument(
        "--lease",
        type=_namespaced,
        metavar="NAMESPACE/NAME",
        help="Lease by which one of several operators is at work",
    )
    parser.add_argument("--identity", default=socket.gethostname(), help="this operator's name in the Lease")
    parser.add_argument("--port", type=int, default=8080, help="port of /healthz and /metrics")
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])


def _engine_image(text: str) -> tuple[str, str]:
    engine, _, image = text.partition("=")
    if engine not in ENGINES or not image:
        raise argparse.ArgumentTypeError(f"{text!r} is not TYPE=IMAGE with a TYPE of {', '.join(ENGINES)}")
    return engine, image


def _namespaced(text: str) -> str:
    if text.count("/") != 1 or not all(text.split("/")):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return text


def run(arguments: argparse.Namespace) -> int:
    """Works until it is told to end, or until another operator has the lease; the exit status."""
    logging.basicConfig(
        level=arguments.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s", force=True
    )
    logging.getLogger("kopf").setLevel(max(logging.WARNING, logging.getLogger().level))
    try:
        return asyncio.run(_main(_config(arguments), arguments.port, arguments.lease, arguments.identity))
    except AccessError as e:
        log.error("no way to the API server: %s", e)
    except profiles.ProfilesError as e:
        log.error("%s: %s", arguments.profiles_file, e)
    return 1


def _config(arguments: argparse.Namespace) -> Config:
    """ProfilesError."""
    return Config(
        runtime_image=arguments.runtime_image,
        own_image=arguments.own_image,
        profiles=profiles.read(arguments.profiles_file) if arguments.profiles_file else {},
        engine_images=dict(arguments.engine_image),
        image_pull_policy=arguments.image_pull_policy,
        service_account=arguments.service_account,
        credentials_role=arguments.credentials_role,
        resync=timedelta(seconds=arguments.resync_seconds),
    )


async def _main(config: Config, port: int, lease: str | None, identity: str) -> int:
    way = access()
    server = way.api_server()
    endpoint = await probes.serve(port)
    try:
        if not lease:
            return await operate(way, Wiring(config, server, Api(server), asyncio.Event()))
        namespace, name = lease.split("/", 1)
        return await _elected(config, way, server, LeaseHolder(Api(server), namespace, name, identity))
    finally:
        await endpoint.close()
        await server.close()


async def _elected(config: Config, way: Access, server: ApiServer, holder: LeaseHolder) -> int:
    """Waits for the lease, works while it has it; 1 where it was lost."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)  # kopf sets its own when it starts
    if not await _before(stop, holder.acquire()):
        return 0
    telemetry.LEADING.set(1)
    holding = asyncio.create_task(holder.hold())
    holding.add_done_callback(lambda _: stop.set())
    status = await operate(way, Wiring(config, server, Api(server, holder.held), stop))
    if holding.done():
        return 1
    holding.cancel()
    await holder.release()
    return status


async def _before(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Whether the work was done before it was told to stop."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    done = working.done()
    for task in (working, stopping):
        task.cancel()
    if done:
        await working
    return done
