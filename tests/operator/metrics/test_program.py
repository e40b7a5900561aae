"""The adapter program: its two ports over a whole cluster on loopback."""

import asyncio
import contextlib
import os
import pathlib
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest

from forebay_operator import serving
from forebay_operator.api_names import RESOURCES
from forebay_operator.api_server import ApiServer
from forebay_operator.endpoints import ENDPOINT_SLICES
from forebay_operator.metrics import app, scrape
from forebay_operator.metrics.api import ROOT
from tests.operator.metrics.test_adapter import CALLER, a_cluster, held
from tests.operator.metrics.test_scrape import PAGE, page
from tests.support.api_server import FakeApiServer, named
from tests.support.asgi import on_loopback

VALUE = f"{ROOT}/namespaces/default/inferenceservices.forebay.dev/llama/queue_depth"
Get = Callable[[str, str], Awaitable[tuple[int, str]]]


def a_slice(address: str, *, ready: bool, version: int = 1) -> dict[str, object]:
    host, port = address.split(":")
    return named(
        "llama-1",
        addressType="IPv4",
        ports=[{"name": "http", "port": int(port)}],
        endpoints=[{"addresses": [host], "conditions": {"ready": ready}, "targetRef": {"name": "llama-1-x"}}],
    ) | {"metadata": {**named("llama-1", version)["metadata"], "labels": {"kubernetes.io/service-name": "llama"}}}


@contextlib.asynccontextmanager
async def adapter(server: FakeApiServer, directory: pathlib.Path) -> AsyncIterator[Get]:
    """The program in this process until the block ends, which it does by SIGTERM. Yields GET of (scheme, path)."""
    ports = serving.bind("127.0.0.1", 0), serving.bind("127.0.0.1", 0)
    addresses = {s: "{}:{}".format(*p.getsockname()) for s, p in zip(("https", "http"), ports, strict=True)}
    client = directory / "client.pem"
    client.write_bytes(CALLER.key + CALLER.certificate)
    async with on_loopback(server) as at, aiohttp.ClientSession() as session:
        running = asyncio.ensure_future(app.serve(ApiServer(f"http://{at}"), "forebay-system", directory, ports))

        async def get(scheme: str, path: str) -> tuple[int, str]:
            context = ssl.create_default_context()
            if scheme == "https":
                context.load_verify_locations(cadata=held(server)["tls.crt"].decode())
                context.load_cert_chain(client)
            name = "forebay-adapter.forebay-system.svc"
            where = f"{scheme}://{addresses[scheme]}{path}"
            async with session.get(where, ssl=context, server_hostname=name) as reply:
                return reply.status, await reply.text()

        try:
            yield get
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            await running


async def until(get: Get, scheme: str, path: str, status: int) -> str:
    async with asyncio.timeout(30):
        while (found := await get(scheme, path))[0] != status:
            pass
    return found[1]


async def test_from_a_pods_metrics_to_the_autoscalers_value(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrape, "EVERY_SECONDS", 0.02)
    server = a_cluster()
    async with on_loopback(page(PAGE)) as pod:
        service = named("llama", spec={"model": {"source": "oci://x"}})
        server.lists = {RESOURCES: [service], ENDPOINT_SLICES: [a_slice(pod, ready=False)]}
        async with adapter(server, tmp_path) as get:
            await until(get, "http", "/readyz", 200)
            assert (await get("http", "/healthz"))[0] == 200
            assert (await get("https", ROOT))[0] == 200
            assert "no ready pod" in await until(get, "https", VALUE, 404)
            server.events(ENDPOINT_SLICES).put_nowait(
                {"type": "MODIFIED", "object": a_slice(pod, ready=True, version=2)}
            )
            assert '"value":"3"' in await until(get, "https", VALUE, 200)
            metrics = (await get("http", "/metrics"))[1]
            assert "forebay_adapter_ready_pods 1.0" in metrics
            assert "forebay_adapter_services_without_data" in metrics


def test_outside_a_cluster_the_adapter_says_so_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "POD_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    from forebay_operator.cli import main

    assert main(["adapter"]) == 1
    assert capsys.readouterr().err.strip() == (
        "forebay adapter: this is no pod of the chart: KUBERNETES_SERVICE_HOST is not set"
    )
