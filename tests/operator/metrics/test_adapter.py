"""The adapter as a whole: over TLS, against an API server and a pod on loopback."""

import base64
import contextlib
import datetime
import json
import pathlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from forebay_operator.api_server import ApiServer
from forebay_operator.metrics import certificate
from forebay_operator.metrics.api import ROOT, MetricsApi
from forebay_operator.metrics.certificate import Pair
from forebay_operator.metrics.trust import API_SERVICE, CALLERS, ConflictError, Trust
from tests.support.api_server import FakeApiServer, named
from tests.support.asgi import on_loopback

SECRET = "/api/v1/namespaces/forebay-system/secrets/forebay-adapter-tls"
NAME = "front-proxy-client"


def a_client(name: str) -> Pair:
    """A self-signed client certificate of that name: its own CA."""
    now, key = datetime.datetime.now(datetime.UTC), ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pair(made.public_bytes(Encoding.PEM), private)


CALLER = a_client(NAME)


def a_cluster(owner: str = "forebay-adapter", allowed: tuple[str, ...] = (NAME,)) -> FakeApiServer:
    server = FakeApiServer()
    callers = {
        "requestheader-client-ca-file": CALLER.certificate.decode(),
        "requestheader-allowed-names": json.dumps(allowed),
    }
    server.objects = {
        SECRET: named("forebay-adapter-tls", namespace="forebay-system", type="Opaque"),
        API_SERVICE: named("v1beta2", spec={"service": {"namespace": "forebay-system", "name": owner}}),
        CALLERS: named("extension-apiserver-authentication", namespace="kube-system", data=callers),
    }
    return server


@contextlib.asynccontextmanager
async def trust(server: FakeApiServer, directory: pathlib.Path) -> AsyncIterator[Trust]:
    async with on_loopback(server) as at:
        api = ApiServer(f"http://{at}")
        yield Trust(api, "forebay-system", directory)
        await api.close()


def held(server: FakeApiServer) -> dict[str, Any]:
    return {k: base64.b64decode(v) for k, v in server.objects[SECRET].get("data", {}).items()}


async def test_the_first_replica_makes_the_certificate_and_registers_it(tmp_path: pathlib.Path) -> None:
    server = a_cluster()
    async with trust(server, tmp_path) as first:
        before = first.ready
        await first.refresh()
        assert (before, first.ready) == (False, True)
    pair = held(server)
    assert certificate.serves(Pair(pair["tls.crt"], pair["tls.key"]), datetime.datetime.now(datetime.UTC))
    assert base64.b64decode(server.objects[API_SERVICE]["spec"]["caBundle"]) == pair["tls.crt"]
    assert server.objects[SECRET]["type"] == "Opaque"


async def test_the_second_replica_takes_what_is_there_and_writes_nothing(tmp_path: pathlib.Path) -> None:
    server = a_cluster()
    async with trust(server, tmp_path) as first:
        await first.refresh()
    server.requests.clear()
    async with trust(server, tmp_path) as second:
        await second.refresh()
        assert second.ready
    assert {method for method, _, _ in server.requests} == {"GET"}


async def test_an_api_service_of_another_adapter_is_left_alone(tmp_path: pathlib.Path) -> None:
    server = a_cluster(owner="prometheus-adapter")
    async with trust(server, tmp_path) as mine:
        with pytest.raises(ConflictError, match="belongs to forebay-system/prometheus-adapter"):
            await mine.refresh()
        assert not mine.ready
    assert "caBundle" not in server.objects[API_SERVICE]["spec"]


async def test_without_a_request_header_ca_nobody_is_believed(tmp_path: pathlib.Path) -> None:
    server = a_cluster()
    server.objects[CALLERS]["data"] = {}
    async with trust(server, tmp_path) as mine:
        with pytest.raises(ConflictError, match="request-header CA"):
            await mine.refresh()


@contextlib.asynccontextmanager
async def over_tls(server: FakeApiServer, directory: pathlib.Path, client: Pair | None) -> AsyncIterator[Any]:
    """GET of a path at the adapter's TLS port, as that client."""
    async with trust(server, directory) as mine:
        await mine.refresh()
        app = MetricsApi(list, lambda _namespace, _name: {}, lambda: mine.allowed)
        context = ssl.create_default_context(cadata=held(server)["tls.crt"].decode())
        if client:
            path = directory / "client.pem"
            path.write_bytes(client.key + client.certificate)
            context.load_cert_chain(path)
        async with on_loopback(app, mine.context) as at, aiohttp.ClientSession() as session:

            async def get(path: str) -> int:
                name = "forebay-adapter.forebay-system.svc"
                async with session.get(f"https://{at}{path}", ssl=context, server_hostname=name) as reply:
                    return reply.status

            yield get


async def test_the_aggregation_layer_is_answered_under_the_services_name(tmp_path: pathlib.Path) -> None:
    async with over_tls(a_cluster(), tmp_path, CALLER) as get:
        assert await get(ROOT) == 200


async def test_a_certificate_of_the_right_ca_with_another_name_is_a_401(tmp_path: pathlib.Path) -> None:
    async with over_tls(a_cluster(allowed=("kube-aggregator",)), tmp_path, CALLER) as get:
        assert await get(ROOT) == 401


async def test_without_a_certificate_no_connection_is_made(tmp_path: pathlib.Path) -> None:
    async with over_tls(a_cluster(), tmp_path, None) as get:
        with pytest.raises((aiohttp.ClientError, OSError)):
            await get(ROOT)


async def test_a_certificate_of_another_ca_makes_no_connection(tmp_path: pathlib.Path) -> None:
    async with over_tls(a_cluster(), tmp_path, a_client(NAME)) as get:
        with pytest.raises((aiohttp.ClientError, OSError)):
            await get(ROOT)
