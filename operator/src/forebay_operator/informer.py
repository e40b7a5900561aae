"""List and watch: the objects of one kind, as they are now."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import aiohttp

from forebay_operator.api_server import WATCH_SECONDS, ApiServer
from forebay_operator.refusal import ApiError

log = logging.getLogger(__name__)
T = TypeVar("T")

PAGE = 500
FIRST_DELAY, LAST_DELAY = 0.5, 15.0
ABSENT_DELAY = 30.0  # until a kind that the API server does not know is asked for again


@dataclass(frozen=True, slots=True)
class Held(Generic[T]):
    """What is kept of an object, and the resource version that it is of."""

    version: int
    value: T


Change = tuple[T | None, T | None]  # before, after; None: not there


class Informer(Generic[T]):
    """The objects of one kind as they are now. While the API server is away, the last known ones stay.

    A kind that is `optional` may be unknown to the API server, or be no business of this process: `absent` says so, and
    it is asked for again now and then.

    `keep` takes from an object what is worth its memory; an object that it does not understand (KeyError, TypeError,
    ValueError) is not there, so that one cannot hide all others. `changed` is told what has changed, with each list and
    event.
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
                if self._optional and isinstance(e, ApiError) and self._done_without(e):
                    self.absent = True
                    self._replace({}, self._seen)
                    await self._sleep(ABSENT_DELAY)
                    continue
                expired = isinstance(e, ApiError) and e.code == 410
                log.log(
                    logging.INFO if expired else logging.WARNING,
                    "watch of %s broke: %s: %s",
                    self._path,
                    type(e).__name__,
                    e,
                )
                await self._sleep(random.uniform(delay / 2, delay))
                delay = min(2 * delay, LAST_DELAY)

    def _done_without(self, error: ApiError) -> bool:
        """There is no such kind, or it may not be listed and never could: what was known once is not forgotten over a
        right that is taken away."""
        return error.code == 404 or (error.code == 403 and (self.absent or not self.synced))

    async def _list(self) -> str:
        found: dict[str, Held[T]] = {}
        query = {"limit": str(PAGE), **self._selection}
        while True:
            page = await self._api.get(self._path, **query)
            for item in page["items"]:
                if (value := self._understood(item)) is not None:
                    found[_key(item)] = Held(_version(item), value)
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
                    raise ApiError(int(item.get("code") or 500), kind, str(item.get("message")))
            version = item["metadata"]["resourceVersion"]
            self._seen = int(version)
        return version

    def _take(self, item: Mapping[str, Any]) -> Change[T] | None:
        key, version = _key(item), _version(item)
        before = self._objects.get(key)
        if before and before.version >= version:
            return None
        value = self._understood(item)
        if value is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = Held(version, value)
        return (before.value if before else None), value

    def _drop(self, item: Mapping[str, Any]) -> Change[T] | None:
        before = self._objects.get(_key(item))
        if before and before.version > _version(item):
            return None
        self._objects.pop(_key(item), None)
        return (before.value if before else self._understood(item)), None

    def _understood(self, item: Mapping[str, Any]) -> T | None:
        try:
            return self._keep(item)
        except (KeyError, TypeError, ValueError) as e:
            log.warning("%s: %s is passed over: %s: %s", self._path, _key(item), type(e).__name__, str(e)[:256])
            return None


def _version(item: Mapping[str, Any]) -> int:
    """Resource versions of one kind are numbers that grow, by Kubernetes' word since 1.35."""
    return int(item["metadata"]["resourceVersion"])


def _key(item: Mapping[str, Any]) -> str:
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
