"""What is read from the pods themselves; who does not tell has nothing made up for it."""

import json
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from forebay_operator.cluster.pods import PodDoor, in_flight
from forebay_operator.engines.catalog import metric_names
from forebay_operator.observed import Pod, parse_pod
from forebay_operator.reports import Loading
from tests.operator.builders import pod_body
from tests.operator.test_memory import FOOTPRINT, VERSION

RUNS: Any = {"state": {"running": {"startedAt": "2026-03-01T11:59:00Z"}}}


def pod(name: str, ip: str = "127.0.0.1", *, ready: bool = True, **container: Any) -> Pod:
    body = pod_body(name, "r", ready=ready, container=container)
    body["status"]["podIP"] = ip
    return parse_pod(body)


def answering(**answers: tuple[int, str]) -> TestServer:
    async def answer(request: web.Request) -> web.Response:
        status, text = answers[request.path[1:]]
        return web.Response(status=status, text=text)

    app = web.Application()
    for path in answers:
        app.router.add_get(f"/{path}", answer)
    return TestServer(app, host="127.0.0.1")


async def test_ready_pods_tell_their_load_and_silent_ones_are_left_out() -> None:
    async with answering(metrics=(200, METRICS)) as server:
        door = PodDoor(server.port or 0)
        found = await door.loads([pod("busy"), pod("loading", ready=False), pod("silent", "127.0.0.2")], "forebay")
        await door.close()
    assert found == {"busy": 5}


async def test_a_pod_tells_what_its_model_takes() -> None:
    async with answering(version=(200, json.dumps(VERSION))) as server:
        door = PodDoor(server.port or 0)
        assert await door.footprint(pod("p")) == FOOTPRINT
        await door.close()


@pytest.mark.parametrize("told", ['{"version": "0"}', "[]", "", '{"model": {"parameters": 1e999}}', "[" * 100_000])
async def test_a_runtime_that_cannot_be_understood_tells_nothing(told: str) -> None:
    async with answering(version=(200, told)) as server:
        door = PodDoor(server.port or 0)
        assert await door.footprint(pod("p")) is None
        await door.close()


async def test_pods_that_load_tell_how_far_they_are() -> None:
    told = {"error": {"code": "loading"}, "loading": {"bytes": 10, "total": 40, "seconds": 2.0}}
    async with answering(ready=(503, json.dumps(told))) as server:
        door = PodDoor(server.port or 0)
        waiting: Any = {"state": {"waiting": {"reason": "PodInitializing"}}}
        pods = [pod("loads", ready=False, **RUNS), pod("serves", **RUNS), pod("starts", ready=False, **waiting)]
        assert await door.loading(pods) == (Loading("loads", 10, 40, 2.0),)
        await door.close()


async def test_a_pod_that_is_not_ready_for_another_reason_is_not_loading() -> None:
    async with answering(ready=(503, '{"error": {"code": "draining"}}')) as server:
        door = PodDoor(server.port or 0)
        assert await door.loading([pod("drains", ready=False, **RUNS)]) == ()
        await door.close()


NAMES = metric_names("forebay")
METRICS = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m"} 2.0
"""


def test_requests_in_flight_are_those_that_run_and_those_that_wait() -> None:
    assert in_flight(METRICS, NAMES) == 5


def test_metrics_that_do_not_tell_are_no_zero() -> None:
    with pytest.raises(ValueError, match="vllm:num_requests_waiting"):
        in_flight(METRICS.split("# TYPE vllm:num_requests_waiting")[0], NAMES)
