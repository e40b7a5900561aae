"""The narrow door to the API server for the gateway and the adapter: get, patch, put, and list-and-watch of one kind.

It speaks HTTP itself: the official client costs half of these programs' memory (docs/adr/0004-watch-without-client.md).
"""

from __future__ import annotations

import asyncio
import json
import logging
import pathlib
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import aiohttp

log = logging.getLogger(__name__)
T = TypeVar("T")

ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
WATCH_SECONDS = 60  # the server ends a watch after this; a watch that dies silently is noticed soon after
PAGE = 500
FIRST_DELAY, LAST_DELAY = 0.5, 15.0


class ApiError(Exception):
    """The API server answered, but not with success. 410: what was asked for is too old."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class ApiServer:
    """The API server, as the pod's service account. The token is read for each request: it is renewed on disk."""

    def __init__(self, url: str, token: pathlib.Path | None = None, ca: pathlib.Path | None = None) -> None:
        self.url = url
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(ca)) if ca else None
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def in_cluster(cls, host: str, port: str) -> ApiServer:
        at = f"[{host}]" if ":" in host else host
        return cls(f"https://{at}:{port}", ACCOUNT / "token", ACCOUNT / "ca.crt")

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def get(self, path: str, **query: str) -> dict[str, Any]:
        return await self._json("GET", path, query)

    async def put(self, path: str, body: Mapping[str, Any], **query: str) -> dict[str, Any]:
        return await self._json("PUT", path, query, json.dumps(body))

    async def merge_patch(self, path: str, body: Mapping[str, Any], **query: str) -> dict[str, Any]:
        kind = {"Content-Type": "application/merge-patch+json"}
        return await self._json("PATCH", path, query, json.dumps(body), kind)

    async def watch(self, path: str, **query: str) -> AsyncIterator[dict[str, Any]]:
        """Events until the server ends the watch."""
        timeout = aiohttp.ClientTimeout(total=None, connect=5, sock_read=WATCH_SECONDS + 10)
        async with self._request("GET", path, query | {"watch": "1"}, timeout=timeout) as reply:
            await _succeeded(reply)
            rest = b""
            async for piece in reply.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield json.loads(line)

    async def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=20, connect=5)
        about = {"Content-Type": "application/json", **(headers or {})}
        async with self._request(method, path, query, data=body, headers=about, timeout=timeout) as reply:
            await _succeeded(reply)
            found: dict[str, Any] = await reply.json()
            return found

    def _request(
        self, method: str, path: str, query: Mapping[str, str], *, headers: Mapping[str, str] | None = None, **kw: Any
    ) -> Any:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        sent = dict(headers or {})
        if self._token:
            sent["Authorization"] = f"Bearer {self._token.read_text().strip()}"
        return self._session.request(
            method, self.url + path, params=dict(query), headers=sent, ssl=self._tls or True, **kw
        )


async def _succeeded(reply: aiohttp.ClientResponse) -> None:
    if reply.status >= 300:
        raise ApiError(reply.status, (await reply.text())[:300])


class Informer(Generic[T]):
    """The objects of one kind as they are now. While the API server is away, the last known ones stay.

    `keep` takes from an object what is worth its memory; `changed` is called after each change.
    """

    def __init__(
        self,
        api: ApiServer,
        path: str,
        keep: Callable[[Mapping[str, Any]], T],
        changed: Callable[[], None],
        *,
        selector: str = "",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api, self._path, self._keep, self._changed, self._sleep = api, path, keep, changed, sleep
        self._selection = {"labelSelector": selector} if selector else {}
        self._objects: dict[str, T] = {}
        self.synced = False

    def __iter__(self) -> Any:
        return iter(self._objects.values())

    async def run(self) -> None:
        """Follows the API server for ever."""
        delay = FIRST_DELAY
        while True:
            try:
                version = await self._list()
                delay = FIRST_DELAY
                while True:
                    version = await self._follow(version)
            except (aiohttp.ClientError, OSError, TimeoutError, ApiError, ValueError) as e:
                expired = isinstance(e, ApiError) and e.status == 410
                log.log(
                    logging.INFO if expired else logging.WARNING,
                    "watch of %s broke: %s: %s",
                    self._path,
                    type(e).__name__,
                    e,
                )
                await self._sleep(random.uniform(delay / 2, delay))
                delay = min(2 * delay, LAST_DELAY)

    async def _list(self) -> str:
        found: dict[str, T] = {}
        query = {"limit": str(PAGE), **self._selection}
        while True:
            page = await self._api.get(self._path, **query)
            found |= {_key(item): self._keep(item) for item in page["items"]}
            query["continue"] = page["metadata"].get("continue") or ""
            if not query["continue"]:
                break
        self._objects, self.synced = found, True
        self._changed()
        return str(page["metadata"]["resourceVersion"])

    async def _follow(self, version: str) -> str:
        """Watches from that version on; the version to go on from."""
        about = {"allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS), **self._selection}
        async for event in self._api.watch(self._path, resourceVersion=version, **about):
            item = event["object"]
            match event["type"]:
                case "ADDED" | "MODIFIED":
                    self._objects[_key(item)] = self._keep(item)
                    self._changed()
                case "DELETED":
                    self._objects.pop(_key(item), None)
                    self._changed()
                case "BOOKMARK":
                    pass
                case kind:
                    raise ApiError(int(item.get("code") or 500), f"{kind}: {item.get('message')}")
            version = item["metadata"]["resourceVersion"]
        return version


def _key(item: Mapping[str, Any]) -> str:
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
