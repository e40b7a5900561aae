"""List and watch, whatever the API server does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from forebay_operator.api_server import ApiServer
from forebay_operator.informer import Informer
from tests.support.api_server import FakeApiServer, named
from tests.support.asgi import closed_address, on_loopback

PATH = "/apis/forebay.dev/v1alpha1/inferenceservices"


@dataclass
class Watching:
    """An informer at work. `until` waits for a state of its objects, not for time."""

    server: FakeApiServer
    informer: Informer[str] = field(init=False)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    delays: list[float] = field(default_factory=list)

    async def until(self, *names: str) -> None:
        async with asyncio.timeout(20):
            while sorted(self.informer) != sorted(names):
                self.changed.clear()
                await self.changed.wait()

    async def sleep(self, seconds: float) -> None:
        self.delays.append(seconds)
        self.changed.set()
        await asyncio.sleep(0)


def understood(item: Mapping[str, Any]) -> str:
    if "odd" in item:
        raise ValueError("an odd object")
    return str(item["metadata"]["name"])


@contextlib.asynccontextmanager
async def watching(
    server: FakeApiServer, address: str | None = None, *, optional: bool = False
) -> AsyncIterator[Watching]:
    found = Watching(server)
    async with on_loopback(server) as at:
        api = ApiServer(f"http://{address or at}")
        found.informer = Informer(
            api,
            PATH,
            understood,
            lambda _: found.changed.set(),
            selector="a=b",
            optional=optional,
            sleep=found.sleep,
        )
        task = asyncio.ensure_future(found.informer.run())
        try:
            yield found
        finally:
            task.cancel()
            await asyncio.wait([task])
            await api.close()


def an_api_server(*names: str) -> FakeApiServer:
    server = FakeApiServer()
    server.lists[PATH] = [named(name) for name in names]
    return server


async def test_all_pages_are_listed_with_the_selector() -> None:
    async with watching(an_api_server("a", "b", "c")) as w:
        await w.until("a", "b", "c")
        assert w.informer.synced
        assert {query["labelSelector"] for _, _, query in w.server.requests} == {"a=b"}


async def test_changes_are_followed() -> None:
    async with watching(an_api_server("a")) as w:
        await w.until("a")
        events = w.server.events(PATH)
        events.put_nowait({"type": "ADDED", "object": named("b", 2)})
        await w.until("a", "b")
        events.put_nowait({"type": "MODIFIED", "object": named("b", 3)})
        events.put_nowait({"type": "DELETED", "object": named("a", 4)})
        await w.until("b")


async def test_an_object_that_is_not_understood_hides_no_other() -> None:
    server = an_api_server("a")
    server.lists[PATH].append(named("b", odd=True))
    async with watching(server) as w:
        await w.until("a")
        events = w.server.events(PATH)
        events.put_nowait({"type": "ADDED", "object": named("c", 2, odd=True)})
        events.put_nowait({"type": "DELETED", "object": named("b", 3, odd=True)})
        events.put_nowait({"type": "MODIFIED", "object": named("a", 4, odd=True)})
        await w.until()
        events.put_nowait({"type": "MODIFIED", "object": named("a", 5)})
        await w.until("a")
        assert w.delays == []


async def test_a_watch_that_ends_goes_on_from_the_last_version_it_saw() -> None:
    async with watching(an_api_server("a")) as w:
        await w.until("a")
        events = w.server.events(PATH)
        events.put_nowait({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "77"}}})
        events.put_nowait(None)
        events.put_nowait({"type": "ADDED", "object": named("b", 78)})
        await w.until("a", "b")
        watches = [q["resourceVersion"] for _, _, q in w.server.requests if "watch" in q]
        assert watches == ["1", "77"]
        assert w.delays == []


async def test_a_version_too_old_means_a_new_list() -> None:
    async with watching(an_api_server("a")) as w:
        await w.until("a")
        w.server.lists[PATH] = [named("c", 9)]
        gone = {"kind": "Status", "code": 410, "message": "too old resource version"}
        w.server.events(PATH).put_nowait({"type": "ERROR", "object": gone})
        await w.until("c")


async def test_while_the_api_server_fails_the_last_known_objects_stay() -> None:
    async with watching(an_api_server("a")) as w:
        await w.until("a")
        w.server.status = 500
        w.server.events(PATH).put_nowait(None)
        while len(w.delays) < 4:
            w.changed.clear()
            await w.changed.wait()
        assert (list(w.informer), w.informer.synced) == (["a"], True)
        assert max(w.delays) <= 15
        w.server.status, w.server.lists[PATH] = 200, [named("b")]
        await w.until("b")


async def test_an_api_server_that_is_away_at_the_start_is_waited_for() -> None:
    async with watching(an_api_server("a"), closed_address()) as w:
        while len(w.delays) < 3:
            w.changed.clear()
            await w.changed.wait()
        assert not w.informer.synced


async def test_a_kind_that_the_cluster_does_not_have_is_empty_until_it_is_installed_and_again_when_it_is_gone() -> None:
    async with watching(FakeApiServer(), optional=True) as w:
        await w.informer.until_synced()
        assert (list(w.informer), w.informer.absent) == ([], True)
        w.server.lists[PATH] = [named("a")]
        await w.until("a")
        assert not w.informer.absent
        del w.server.lists[PATH]
        w.server.events(PATH).put_nowait({"type": "ERROR", "object": {"code": 404, "message": "gone"}})
        await w.until()
        assert w.informer.absent


async def test_an_optional_kind_that_may_not_be_listed_is_absent_until_it_may() -> None:
    server = an_api_server("a")
    server.status = 403
    async with watching(server, optional=True) as w:
        async with asyncio.timeout(20):
            await w.informer.until_synced()
        assert w.informer.absent
        server.status = 200
        await w.until("a")
        assert not w.informer.absent


async def test_what_was_known_of_an_optional_kind_stays_when_a_right_is_taken_away() -> None:
    server = an_api_server("a")
    async with watching(server, optional=True) as w:
        await w.until("a")
        server.status = 403
        w.server.events(PATH).put_nowait(None)
        while len(w.delays) < 2:
            w.changed.clear()
            await asyncio.wait_for(w.changed.wait(), 20)
        assert [*w.informer] == ["a"]
        assert not w.informer.absent
