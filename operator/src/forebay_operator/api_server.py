"""The narrow door to the API server: plain requests as JSON, and what its answers mean.

It speaks HTTP itself: the official client costs half of these programs' memory (docs/adr/0004-watch-without-client.md).
"""

from __future__ import annotations

import json
import pathlib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp

from forebay_operator.refusal import ApiError

ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
WATCH_SECONDS = 60  # the server ends a watch after this; a watch that dies silently is noticed soon after


class ApiServer:
    """The API server. `authorization` gives the header of each request anew: tokens are renewed meanwhile."""

    def __init__(
        self,
        url: str,
        authorization: Callable[[], str | None] = lambda: None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.url = url
        self.authorization = authorization
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def in_cluster(cls, host: str, port: str) -> ApiServer:
        """As the pod's service account."""
        at = f"[{host}]" if ":" in host else host
        tls = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
        return cls(f"https://{at}:{port}", lambda: f"Bearer {(ACCOUNT / 'token').read_text().strip()}", tls)

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def get(self, path: str, **query: str) -> dict[str, Any]:
        return await self._json("GET", path, query)

    async def put(self, path: str, body: Mapping[str, Any], **query: str) -> dict[str, Any]:
        return await self._json("PUT", path, query, json.dumps(body))

    async def merge_patch(self, path: str, body: Mapping[str, Any], **query: str) -> dict[str, Any]:
        return await self._json("PATCH", path, query, json.dumps(body), "application/merge-patch+json")

    async def watch(self, path: str, **query: str) -> AsyncIterator[dict[str, Any]]:
        """Events until the server ends the watch."""
        timeout = aiohttp.ClientTimeout(total=None, connect=5, sock_read=WATCH_SECONDS + 10)
        async with self._request("GET", path, query | {"watch": "1"}, timeout=timeout) as reply:
            if reply.status >= 300:
                answer(reply.status, await reply.read())
            rest = b""
            async for piece in reply.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield json.loads(line)

    async def send(
        self, method: str, path: str, query: Mapping[str, str], body: str | None, content: str
    ) -> tuple[int, bytes]:
        """The answer as it is: its status and its bytes."""
        timeout = aiohttp.ClientTimeout(total=30, connect=5)
        about = {"Content-Type": content, "Accept": "application/json"}
        async with self._request(method, path, query, data=body, headers=about, timeout=timeout) as reply:
            return reply.status, await reply.read()

    async def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: str | None = None,
        content: str = "application/json",
    ) -> dict[str, Any]:
        return answer(*await self.send(method, path, query, body, content))

    def _request(
        self, method: str, path: str, query: Mapping[str, str], *, headers: Mapping[str, str] | None = None, **kw: Any
    ) -> Any:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        sent = dict(headers or {})
        if authorization := self.authorization():
            sent["Authorization"] = authorization
        return self._session.request(
            method, self.url + path, params=dict(query), headers=sent, ssl=self._tls or True, **kw
        )


def answer(code: int, text: bytes) -> dict[str, Any]:
    """The object that was answered with; ApiError where it is no success."""
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        found = {"message": text.decode(errors="replace")[:300]}
    if code < 300:
        return found
    raise ApiError(code, str(found.get("reason", "")), str(found.get("message", "")))
