"""The narrow door to the API server: plain requests, and list-and-watch of one kind.

It speaks HTTP itself: the official client costs half of these programs' memory (docs/adr/0004-watch-without-client.md).
"""

from __future__ import annotations

import asyncio
import json
import logging
import pathlib
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import aiohttp

log = logging.getLogger(__name__)
T = TypeVar("T")

ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
WATCH_SECONDS = 60  # the server ends a watch after this; a watch that dies silently is noticed soon after
PAGE = 500
FIRST_DELAY, LAST_DELAY = 0.5, 15.0
ABSENT_DELAY = 30.0  # until a kind that the API server does not know is asked for again


class ApiError(Exception):
    """The API server answered, but not with success. 410: what was asked for is too old."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


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
                raise ApiError(reply.status, (await reply.text())[:300])
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
        status, text = await self.send(method, path, query, body, content)
        if status >= 300:
            raise ApiError(status, text.decode(errors="replace")[:300])
        found: dict[str, Any] = json.loads(text)
        return found

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


@dataclass(frozen=True, slots=True)
class Held(Generic[T]):
    """What is kept of an object, and the resource version that it is of."""

    version: int
    value: T


Change = tuple[T | None, T | None]  # before, after; None: not there


class Informer(Generic[T]):
    """The objects of one kind as they are now. While the API server is away, the last known ones stay.

    A kind that is `optional` may be unknown to the API server: `absent` says so, and it is asked again now and then.

    `keep` takes from an object what is worth its memory; `changed` is told what has changed, with each list and event.
    What the process itself has written is taken in at once (`wrote`, `removed`), so that it is never blind to its own
    doings: an older state that the watch still brings is passed over, and one that is known already is no change.
    """

    def __init__(
        self,
        api: ApiServer,
        path: str,
        keep: Callable[[Mapping[str, Any]], T],
        changed: Callable[[Sequence[Change[T]]], None],
        *,
        selector: str = "",
        optional: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api, self._path, self._keep, self._changed, self._sleep = api, path, keep, changed, sleep
        self._selection = {"labelSelector": selector} if selector else {}
        self._objects: dict[str, Held[T]] = {}
        self._seen = 0  # the latest version of a list or event
        self._optional, self.absent = optional, False
        self._synced = asyncio.Event()

    @property
    def synced(self) -> bool:
        return self._synced.is_set()

    async def until_synced(self) -> None:
        await self._synced.wait()

    def __iter__(self) -> Iterator[T]:
        return (held.value for held in self._objects.values())

    def get(self, namespace: str, name: str) -> T | None:
        held = self._objects.get(f"{namespace}/{name}")
        return held.value if held else None

    def wrote(self, item: Mapping[str, Any]) -> None:
        """The API server's answer to a write of this process's own."""
        self._take(item)

    def removed(self, namespace: str, name: str) -> None:
        """This process has deleted it."""
        self._objects.pop(f"{namespace}/{name}", None)

    async def run(self) -> None:
        """Follows the API server for ever."""
        delay = FIRST_DELAY
        while True:
            try:
                version = await self._list()
                delay, self.absent = FIRST_DELAY, False
                while True:
                    version = await self._follow(version)
            except (aiohttp.ClientError, OSError, TimeoutError, ApiError, ValueError) as e:
                if self._optional and isinstance(e, ApiError) and e.status == 404:
                    self.absent = True
                    self._replace({}, self._seen)
                    await self._sleep(ABSENT_DELAY)
                    continue
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
        found: dict[str, Held[T]] = {}
        query = {"limit": str(PAGE), **self._selection}
        while True:
            page = await self._api.get(self._path, **query)
            found |= {_key(item): Held(_version(item), self._keep(item)) for item in page["items"]}
            query["continue"] = page["metadata"].get("continue") or ""
            if not query["continue"]:
                break
        version = str(page["metadata"]["resourceVersion"])
        self._replace(found, int(version))
        return version

    def _replace(self, found: dict[str, Held[T]], version: int) -> None:
        """All of a list of that version; what this process wrote later stays, unless the API server's own history went
        back (a restored backup)."""
        before = self._objects
        later = {key: held for key, held in before.items() if held.version > version >= self._seen}
        self._objects, self._seen = found | later, version
        self._synced.set()
        self._changed(
            [
                (was.value if was else None, now.value if now else None)
                for key in before.keys() | self._objects.keys()
                if (was := before.get(key)) != (now := self._objects.get(key))
            ]
        )

    async def _follow(self, version: str) -> str:
        """Watches from that version on; the version to go on from."""
        about = {"allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS), **self._selection}
        async for event in self._api.watch(self._path, resourceVersion=version, **about):
            item = event["object"]
            match event["type"]:
                case "ADDED" | "MODIFIED":
                    if change := self._take(item):
                        self._changed([change])
                case "DELETED":
                    if change := self._drop(item):
                        self._changed([change])
                case "BOOKMARK":
                    pass
                case kind:
                    raise ApiError(int(item.get("code") or 500), f"{kind}: {item.get('message')}")
            version = item["metadata"]["resourceVersion"]
            self._seen = int(version)
        return version

    def _take(self, item: Mapping[str, Any]) -> Change[T] | None:
        key, version = _key(item), _version(item)
        before = self._objects.get(key)
        if before and before.version >= version:
            return None
        self._objects[key] = Held(version, self._keep(item))
        return (before.value if before else None), self._objects[key].value

    def _drop(self, item: Mapping[str, Any]) -> Change[T] | None:
        before = self._objects.get(_key(item))
        if before and before.version > _version(item):
            return None
        self._objects.pop(_key(item), None)
        return (before.value if before else self._keep(item)), None


def _version(item: Mapping[str, Any]) -> int:
    """Resource versions of one kind are numbers that grow, by Kubernetes' word since 1.35."""
    return int(item["metadata"]["resourceVersion"])


def _key(item: Mapping[str, Any]) -> str:
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
