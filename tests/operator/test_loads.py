"""The load of pods is read from themselves; who does not tell has none."""

from aiohttp import web
from aiohttp.test_utils import TestServer

from forebay_operator.cluster.loads import Loads
from forebay_operator.observed import Pod, parse_pod
from tests.operator.builders import pod_body
from tests.operator.test_forebay_engine import METRICS


def pod(name: str, ip: str = "127.0.0.1", *, ready: bool = True) -> Pod:
    body = pod_body(name, "r", ready=ready)
    body["status"]["podIP"] = ip
    return parse_pod(body)


async def test_ready_pods_tell_and_silent_ones_are_left_out() -> None:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=METRICS)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    async with TestServer(app, host="127.0.0.1") as server:
        assert server.port
        loads = Loads(server.port)
        found = await loads.of([pod("busy"), pod("loading", ready=False), pod("silent", "127.0.0.2")], "forebay")
        await loads.close()
    assert found == {"busy": 5}
