"""Requests to the API server as plain JSON, over the official client's connection and credentials."""

from __future__ import annotations

import json
import os
import re
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from forebay_operator import telemetry
from forebay_operator.refusal import ApiError, ClusterUnavailable

JSON, MERGE, JSON_PATCH = "application/json", "application/merge-patch+json", "application/json-patch+json"
APPLY = "application/apply-patch+yaml; charset=utf-8"  # with the charset the client takes the text as it is
NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
TIMEOUT = aiohttp.ClientTimeout(total=30, connect=5)


class Api:
    def __init__(self, client: Any) -> None:
        self._client = client

    @classmethod
    async def connect(cls) -> Api:
        """As the pod's service account, else as KUBECONFIG says."""
        configuration = Configuration()
        if "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ:
            kubernetes_config.load_incluster_config(client_configuration=configuration)
        else:
            await kubernetes_config.load_kube_config(client_configuration=configuration)
        configuration.retries = 0
        return cls(ApiClient(configuration=configuration))

    async def close(self) -> None:
        await self._client.close()

    async def get(self, path: str, **query: str) -> dict[str, Any]:
        return await self.request("GET", path, query=query)

    async def find(self, path: str) -> dict[str, Any] | None:
        """None where there is no such object."""
        try:
            return await self.request("GET", path)
        except ApiError as e:
            if e.code == 404:
                return None
            raise

    async def patch(self, path: str, body: Any, kind: str, **query: str) -> dict[str, Any]:
        return await self.request("PATCH", path, body, query, kind)

    async def request(
        self, method: str, path: str, body: Any = None, query: dict[str, str] | None = None, content: str = JSON
    ) -> dict[str, Any]:
        telemetry.REQUESTS.labels(method).inc()
        headers = {"Accept": JSON, "Content-Type": content}
        url = self._client.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        try:
            await self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
            sent = as_yaml(body) if content == APPLY else body
            reply = await self._client.call_api(method, url, headers, sent, _request_timeout=TIMEOUT)
            text = await reply.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as e:
            raise ClusterUnavailable(f"{method} {path}: {e!r}") from e
        return _answer(reply.status, text)


def as_yaml(body: Any) -> str:
    """JSON that is YAML too: YAML knows no surrogate pairs, and some characters only as escapes."""
    return NOT_YAML.sub(lambda c: f"\\u{ord(c[0]):04x}", json.dumps(body, ensure_ascii=False))


def _answer(code: int, text: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        found = {"message": text.decode(errors="replace")[:300]}
    if code < 300:
        return found
    raise ApiError(code, str(found.get("reason", "")), str(found.get("message", "")))
