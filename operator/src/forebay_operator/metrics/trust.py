"""Who the adapter is to the API server, and whom it believes, kept in step with the cluster.

See docs/adr/0003-adapter-certificate.md. Three objects are read here and nowhere else: the Secret with the adapter's
certificate (filled by the first replica), the APIService (whose caBundle it writes), and the ConfigMap that says who
may ask on the API server's behalf.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
import logging
import pathlib
import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp

from forebay_operator.api_server import ApiServer
from forebay_operator.metrics import certificate
from forebay_operator.metrics.certificate import Pair
from forebay_operator.refusal import ApiError

log = logging.getLogger(__name__)

SERVICE = "forebay-adapter"
SECRET = "forebay-adapter-tls"
API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta2.custom.metrics.k8s.io"
CALLERS = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
AGAIN_SECONDS, UNTIL_READY_SECONDS = 60.0, 2.0


class ConflictError(Exception):
    """The cluster is not set up for this adapter; the message says what is in the way."""


class Trust:
    """`context` is for the TLS port; it lets in only callers with a certificate of the request-header CA. `allowed`
    are their names. `ready` once all of it is in place; it stays so while the API server is away."""

    def __init__(self, api: ApiServer, namespace: str, directory: pathlib.Path) -> None:
        self._api, self._namespace, self._directory = api, namespace, directory
        self._secret_path = f"/api/v1/namespaces/{namespace}/secrets/{SECRET}"
        self._pair: Pair | None = None
        self._caller_ca = ""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.allowed: frozenset[str] = frozenset()
        self.ready = False

    async def run(self) -> None:
        while True:
            try:
                await self.refresh()
            except ConflictError as e:
                self.ready = False
                log.error("%s", e)
            except (ApiError, aiohttp.ClientError, OSError, TimeoutError, ValueError) as e:
                log.warning("trust not renewed: %s: %s", type(e).__name__, e)
            await asyncio.sleep(AGAIN_SECONDS if self.ready else UNTIL_READY_SECONDS)

    async def refresh(self) -> None:
        """Brings everything in step once. A change of another replica in between is an ApiError 409: again, then."""
        self._believe(await self._api.get(CALLERS))
        pair = await self._agreed_pair()
        if pair != self._pair:
            self._serve_with(pair)
        await self._register(pair)
        self.ready = True

    def _believe(self, callers: Mapping[str, Any]) -> None:
        told = callers.get("data") or {}
        ca = told.get("requestheader-client-ca-file")
        if not ca:
            raise ConflictError("the API server names no request-header CA: its aggregation layer is not set up")
        self.allowed = frozenset(json.loads(told.get("requestheader-allowed-names") or "[]"))
        if ca != self._caller_ca:
            self.context.load_verify_locations(cadata=ca)
            self._caller_ca = ca

    async def _agreed_pair(self) -> Pair:
        """The pair in the Secret; if it holds none to serve with, a new one that is now in it."""
        secret = await self._api.get(self._secret_path)
        held = {name: base64.b64decode(value) for name, value in (secret.get("data") or {}).items()}
        pair = Pair(held.get("tls.crt", b""), held.get("tls.key", b""))
        now = datetime.datetime.now(datetime.UTC)
        if not certificate.serves(pair, now):
            pair = certificate.make(SERVICE, self._namespace, now)
            data = {"tls.crt": _base64(pair.certificate), "tls.key": _base64(pair.key)}
            await self._api.put(self._secret_path, {**secret, "data": data}, fieldManager=SERVICE)
            log.info("made a certificate for %s.%s.svc", SERVICE, self._namespace)
        return pair

    def _serve_with(self, pair: Pair) -> None:
        path = self._directory / "tls.pem"
        path.touch(mode=0o600)
        path.write_bytes(pair.key + pair.certificate)
        self.context.load_cert_chain(path)
        path.unlink()
        self._pair = pair

    async def _register(self, pair: Pair) -> None:
        registered = await self._api.get(API_SERVICE)
        service = registered["spec"].get("service") or {}
        if (service.get("namespace"), service.get("name")) != (self._namespace, SERVICE):
            owner = f"{service.get('namespace')}/{service.get('name')}"
            raise ConflictError(f"custom.metrics.k8s.io/v1beta2 belongs to {owner}; this adapter leaves it alone")
        bundle = _base64(pair.certificate)
        if registered["spec"].get("caBundle") != bundle:
            version = registered["metadata"]["resourceVersion"]
            change = {"metadata": {"resourceVersion": version}, "spec": {"caBundle": bundle}}
            await self._api.merge_patch(API_SERVICE, change, fieldManager=SERVICE)


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
