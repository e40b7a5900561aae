"""The operator's requests to the API server: counted, and written only while it may."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import aiohttp

from forebay_operator import telemetry
from forebay_operator.api_server import ApiServer, answer
from forebay_operator.refusal import ApiError, ClusterUnavailable

JSON, MERGE, JSON_PATCH = "application/json", "application/merge-patch+json", "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class Api:
    """`may_write` is asked before each request that changes something: False where another operator may be at work."""

    def __init__(self, server: ApiServer, may_write: Callable[[], bool] = lambda: True) -> None:
        self._server, self._may_write = server, may_write

    async def get(self, path: str, **query: str) -> dict[str, Any]:
        return await self.request("GET", path, query=query)

    async def find(self, path: str, **query: str) -> dict[str, Any] | None:
        """None where there is no such object."""
        try:
            return await self.request("GET", path, query=query)
        except ApiError as e:
            if e.code == 404:
                return None
            raise

    async def patch(self, path: str, body: Any, kind: str, **query: str) -> dict[str, Any]:
        return await self.request("PATCH", path, body, query, kind)

    async def request(
        self, method: str, path: str, body: Any = None, query: dict[str, str] | None = None, content: str = JSON
    ) -> dict[str, Any]:
        if method != "GET" and not self._may_write():
            raise ClusterUnavailable(f"{method} {path}: not sent: the lease is not this operator's")
        telemetry.REQUESTS.labels(method).inc()
        sent = None if body is None else as_yaml(body) if content == APPLY else json.dumps(body)
        try:
            code, text = await self._server.send(method, path, query or {}, sent, content)
        except (aiohttp.ClientError, OSError, TimeoutError) as e:
            raise ClusterUnavailable(f"{method} {path}: {e!r}") from e
        return answer(code, text)


def as_yaml(body: Any) -> str:
    """JSON that is YAML too: YAML knows no surrogate pairs, and some characters only as escapes."""
    return NOT_YAML.sub(lambda c: f"\\u{ord(c[0]):04x}", json.dumps(body, ensure_ascii=False))
