"""What holds back the end of an engine that would drop its requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from forebay_operator import drain_gate
from forebay_operator.cli import main
from forebay_operator.program import GATE_PATH
from tests.operator.builders import SOURCE, desired, resource, wanted

NAMES = ("llamacpp:requests_deferred", "llamacpp:requests_processing")
PAGE = f"# TYPE {NAMES[0]} gauge\n{NAMES[0]} 2\n# TYPE {NAMES[1]} gauge\n{NAMES[1]} 1\n"


def gate(*counts: int | None) -> tuple[TestClient[Any, Any], list[int | None]]:
    """A gate before an engine that has so many requests in flight, look by look; and those looks that are left."""
    left = list(counts)

    async def look() -> int | None:
        return left.pop(0)

    return TestClient(TestServer(drain_gate.application(look, after=0), host="127.0.0.1")), left


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_gate, "LOOK_EVERY", 0)


@pytest.mark.parametrize("counts", [(0,), (2, 1, 0), (None, None, 0)])
async def test_it_answers_when_nothing_is_in_flight_and_what_is_not_known_is_not_zero(
    counts: Iterable[int | None],
) -> None:
    client, left = gate(*counts)
    async with client, client.get(GATE_PATH) as reply:
        assert (reply.status, left) == (200, [])


def test_beside_an_engine_that_is_guaranteed_its_resources_the_gate_is_too() -> None:
    exact = {"cpu": "4", "memory": "8Gi"}
    model = {"source": SOURCE, "file": "model.gguf"}
    engine = {"type": "llamacpp", "image": "i"}
    of = resource(model=model, engine=engine, resources={"requests": exact, "limits": exact})
    pod = desired(wanted(of), "Deployment")["spec"]["template"]["spec"]
    given = [container["resources"] for container in (*pod["initContainers"], *pod["containers"])]
    assert len(given) == 2
    assert pod["initContainers"][0]["startupProbe"]["tcpSocket"] == {"port": 8001}, (
        "it listens before the engine begins"
    )
    assert all(each["requests"] == each["limits"] and {"cpu", "memory"} <= each["limits"].keys() for each in given)


async def test_requests_may_still_be_on_their_way_when_it_is_asked() -> None:
    looked = asyncio.Event()

    async def look() -> int:
        looked.set()
        return 0

    server = TestServer(drain_gate.application(look, after=3600), host="127.0.0.1")
    async with TestClient(server) as client:
        asked = asyncio.ensure_future(client.get(GATE_PATH))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asked), 0.2)
        assert not looked.is_set()
        asked.cancel()


@pytest.mark.parametrize(
    ("status", "page", "seen"),
    [
        (200, PAGE, 3),
        (200, PAGE.replace(" 2", " 0").replace(" 1", " 0"), 0),
        (200, PAGE.replace(" 2", " NaN"), None),
        (200, f"{NAMES[0]} 0\n", None),
        (200, "<html>", None),
        (503, PAGE, None),
    ],
)
async def test_requests_are_counted_by_the_engines_own_metrics(status: int, page: str, seen: int | None) -> None:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(status=status, text=page)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    async with TestServer(app, host="127.0.0.1") as server:
        assert await drain_gate.in_flight(str(server.make_url("/metrics")), NAMES) == seen


async def test_an_engine_that_is_gone_has_nothing_in_flight(unused_tcp_port: int) -> None:
    assert await drain_gate.in_flight(f"http://127.0.0.1:{unused_tcp_port}/metrics", NAMES) == 0


def test_without_a_metric_to_go_by_it_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["drain-gate"])
    assert "--metric" in capsys.readouterr().err
