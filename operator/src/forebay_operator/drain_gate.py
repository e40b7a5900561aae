"""Holds back the end of an engine that would drop its requests on SIGTERM, from beside it in its pod.

The kubelet asks here before it tells the engine (a preStop hook of the engine's container, by HTTP), and is answered
once nothing is in flight. The pod's grace bounds that. A sleep instead would keep an idle pod, and its GPUs, for all of
the grace: the kubelet (1.37) does not cut a hook short that has begun, whatever becomes of the grace.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import aiohttp
from aiohttp import web

from forebay_operator import metrics_page, pod_answer
from forebay_operator.program import GATE_PATH, GATE_PORT, PORT, PROXY_SECONDS

log = logging.getLogger(__name__)
METRICS = f"http://127.0.0.1:{PORT}/metrics"
LOOK_EVERY, LOOK_SECONDS = 0.5, 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--metric", action="append", required=True, help="one that counts requests of the engine; may be repeated"
    )


def run(arguments: argparse.Namespace) -> int:
    """Answers until it is told to end; the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    app = application(lambda: in_flight(METRICS, arguments.metric), PROXY_SECONDS)
    web.run_app(app, port=GATE_PORT, access_log=None, print=None, shutdown_timeout=1)  # by then the engine has ended
    return 0


def application(look: Callable[[], Awaitable[int | None]], after: float) -> web.Application:
    """`look` counts the requests in flight; None where that cannot be known, which is not zero."""

    async def drained(_: web.Request) -> web.Response:
        await asyncio.sleep(after)
        while True:
            if await look() == 0:
                log.info("nothing is in flight")
                return web.Response(text="drained\n")
            await asyncio.sleep(LOOK_EVERY)

    app = web.Application()
    app.router.add_get(GATE_PATH, drained)
    return app


async def in_flight(url: str, metrics: Sequence[str]) -> int | None:
    """Requests that the engine has taken and not ended; None where it does not tell. One that is gone has none."""
    try:
        async with aiohttp.ClientSession() as session:
            status, page = await pod_answer.text(session, url, LOOK_SECONDS)
        return metrics_page.total(page, tuple(metrics)) if status == 200 else None
    except pod_answer.UntoldError as e:
        return 0 if isinstance(e.__cause__, aiohttp.ClientConnectorError) else None
    except ValueError as e:
        log.warning("the engine's metrics do not tell: %s", e)
        return None
