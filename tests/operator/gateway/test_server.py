"""The gateway's own answers: discovery, health, keys, methods, limits, and how it ends."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from forebay_operator.gateway.cards import Asked, Cards
from tests.operator.gateway.front import CHAT, gateway, routing_to
from tests.support.asgi import Recorder, answering, closed_address, on_loopback, piece, start


def assert_error(reply: httpx.Response, status: int, code: str) -> None:
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert error["code"] == code
    assert set(error) == {"message", "type", "param", "code"}


async def test_models_are_all_that_is_served_with_what_an_endpoint_says_of_them() -> None:
    cards = answering(200, {"data": [{"id": "llama", "object": "model", "created": 7, "max_model_len": 2048, "x": 1}]})
    async with on_loopback(cards) as up, gateway(routing_to(llama=[up], asleep=[])) as front:
        listed = (await front.client.get("/v1/models")).json()
        one = (await front.client.get("/v1/models/llama")).json()
        assert [(m["id"], m["object"]) for m in listed["data"]] == [("asleep", "model"), ("llama", "model")]
        assert one == {"id": "llama", "object": "model", "created": 7, "owned_by": "forebay", "max_model_len": 2048}
        assert len(cards.requests) == 1  # the second time from memory


@pytest.mark.parametrize(
    "odd",
    [
        {"created": "yesterday", "max_model_len": -1, "owned_by": 7},
        {"created": True, "max_model_len": 2**80, "owned_by": "a\x00b"},
        {"created": {"a": 1}, "max_model_len": [2048], "owned_by": "x" * 1000},
    ],
)
async def test_of_an_endpoints_card_only_what_is_right_is_shown(odd: dict[str, object]) -> None:
    cards = answering(200, {"data": [{"id": "llama", **odd}]})
    async with on_loopback(cards) as up, gateway(routing_to(llama=[up])) as front:
        one = (await front.client.get("/v1/models/llama")).json()
        assert one == {"id": "llama", "object": "model", "created": 0, "owned_by": "forebay"}


async def test_an_endpoint_that_fails_has_no_card() -> None:
    cards = answering(500, {"data": [{"id": "llama", "max_model_len": 2048}]})
    async with on_loopback(cards) as up, gateway(routing_to(llama=[up])) as front:
        assert "max_model_len" not in (await front.client.get("/v1/models/llama")).json()


async def test_a_model_that_is_gone_is_forgotten() -> None:
    cards = Cards(None, lambda: 0.0)  # type: ignore[arg-type]
    cards._asked = {"gone": Asked(0.0, {}), "llama": Asked(0.0, {"max_model_len": 1})}
    routes = routing_to(llama=["127.0.0.1:1"])
    assert (await cards.one("llama", routes))["max_model_len"] == 1
    assert set(cards._asked) == {"llama"}


async def test_models_are_listed_though_an_endpoint_is_away() -> None:
    async with gateway(routing_to(llama=[closed_address()])) as front:
        assert [m["id"] for m in (await front.client.get("/v1/models")).json()["data"]] == ["llama"]


async def test_a_model_with_a_slash_in_its_name_is_found() -> None:
    async with gateway(routing_to(**{"org/llama": []})) as front:
        assert (await front.client.get("/v1/models/org/llama")).json()["id"] == "org/llama"
        assert (await front.client.get("/v1/models/org%2Fllama")).json()["id"] == "org/llama"


async def test_unknown_model_and_known_model_without_endpoints_are_told_apart() -> None:
    async with gateway(routing_to(llama=[])) as front:
        assert_error(await front.chat(model="nobody"), 404, "model_not_found")
        assert_error(await front.client.get("/v1/models/nobody"), 404, "model_not_found")
        asleep = await front.chat()
        assert_error(asleep, 503, "model_not_ready")
        assert asleep.headers["retry-after"].isdigit()
        assert front.value("requests_total", model="llama", status="503") == 1


async def test_before_the_routes_are_known_nothing_is_said_to_be_unknown() -> None:
    async with gateway({}) as front:
        front.synced = False
        assert_error(await front.chat(), 503, "starting")
        assert_error(await front.client.get("/ready"), 503, "starting")
        assert (await front.client.get("/health")).status_code == 200


async def test_probes_metrics_and_version_need_no_key_and_everything_else_does() -> None:
    async with gateway(routing_to(llama=[]), keys="sk-right") as front:
        for path in ("/health", "/ready", "/metrics", "/version"):
            assert (await front.client.get(path)).status_code == 200, path
        for method, path in [
            ("GET", "/v1/models"),
            ("GET", "/v1/models/llama"),
            ("POST", "/v1/chat/completions"),
            ("POST", "/v1/completions"),
            ("POST", "/v1/embeddings"),
            ("DELETE", "/v1/chat/completions"),
            ("POST", "/tokenize"),
            ("GET", "/v1%2Fmodels"),
            ("GET", "/elsewhere"),
        ]:
            assert_error(await front.client.request(method, path), 401, "invalid_api_key")
        front.client.headers["Authorization"] = "Bearer sk-right"
        assert (await front.client.get("/v1/models")).status_code == 200
        assert_error(await front.client.post("/v1/rerank"), 404, "not_found")


async def test_the_gateways_key_does_not_go_on_to_the_endpoint() -> None:
    up = answering(200, {"ok": True})
    async with on_loopback(up) as at, gateway(routing_to(llama=[at]), keys="sk-right") as front:
        front.client.headers["Authorization"] = "Bearer sk-right"
        assert (await front.chat()).status_code == 200
    assert b"authorization" not in dict(up.requests[0][0]["headers"])


async def test_anthropics_clients_send_their_key_and_are_refused_in_their_own_way() -> None:
    up = answering(200, {"ok": True})
    async with on_loopback(up) as at, gateway(routing_to(llama=[at]), keys="sk-right") as front:
        asked = {"model": "llama", "messages": [], "max_tokens": 1}
        right = await front.client.post("/v1/messages", json=asked, headers={"x-api-key": "sk-right"})
        wrong = await front.client.post("/v1/messages", json=asked, headers={"x-api-key": "sk-wrong"})
        unknown = await front.client.post("/v1/messages", json={"model": "x"}, headers={"x-api-key": "sk-right"})
    assert right.status_code == 200
    assert b"x-api-key" not in dict(up.requests[0][0]["headers"])
    assert (wrong.status_code, wrong.json()["type"]) == (401, "error")
    assert wrong.json()["error"]["type"] == "authentication_error"
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "not_found_error")


async def test_without_keys_of_its_own_the_gateway_passes_the_clients_on() -> None:
    up = answering(200, {"ok": True})
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        await front.client.post("/v1/chat/completions", json=CHAT, headers={"Authorization": "Bearer theirs"})
    assert dict(up.requests[0][0]["headers"])[b"authorization"] == b"Bearer theirs"


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/v1/chat/completions", 405, "POST"),
        ("HEAD", "/v1/chat/completions", 405, "POST"),
        ("DELETE", "/v1/models", 405, "GET"),
        ("POST", "/health", 405, "GET"),
        ("OPTIONS", "/v1/chat/completions", 204, "POST"),
        ("OPTIONS", "/v1/models", 204, "GET"),
        ("HEAD", "/v1/models", 200, ""),
        ("HEAD", "/health", 200, ""),
        ("HEAD", "/nope", 404, ""),
        ("OPTIONS", "/nope", 404, ""),
        ("PROPFIND", "/v1/models", 405, "GET"),
    ],
)
async def test_methods(method: str, path: str, status: int, allow: str) -> None:
    async with gateway({}) as front:
        reply = await front.client.request(method, path)
        assert reply.status_code == status
        assert allow in reply.headers.get("allow", "")
        assert method != "HEAD" or reply.content == b""


@pytest.mark.parametrize("size", [1001, 7000, 9000])
async def test_a_body_over_the_limit_is_a_413(size: int) -> None:
    async with gateway(routing_to(llama=[])) as front:
        assert_error(await front.chat(junk="x" * size), 413, "request_too_large")


async def test_a_body_over_the_limit_in_chunks_is_a_413() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100

    async with gateway(routing_to(llama=[])) as front:
        assert_error(await front.client.post("/v1/completions", content=chunks()), 413, "request_too_large")


async def test_bodies_are_held_up_to_a_limit_for_all_requests_together() -> None:
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def answer(_scope: Scope, _body: bytes, _receive: Receive, send: Send) -> None:
        arrived.set()
        await go_on.wait()
        await start(send, 200, "application/json")
        await piece(send, b"{}", more=False)

    async with (
        on_loopback(Recorder(answer)) as up,
        gateway(routing_to(llama=[up]), max_held_bytes=1000) as front,
    ):
        first = asyncio.ensure_future(front.chat(junk="x" * 600))
        await arrived.wait()
        full = await front.chat(junk="x" * 600)
        assert_error(full, 503, "gateway_full")
        assert full.headers["retry-after"].isdigit()
        go_on.set()
        assert (await first).status_code == 200
        assert (await front.chat(junk="x" * 600)).status_code == 200


async def test_a_draining_gateway_is_not_ready_and_lets_what_runs_end() -> None:
    go_on = asyncio.Event()

    async def answer(_scope: Scope, _body: bytes, _receive: Receive, send: Send) -> None:
        await start(send, 200, "text/event-stream")
        await piece(send, b"data: 1\n\n")
        await go_on.wait()
        await piece(send, b"data: [DONE]\n\n", more=False)

    async with (
        on_loopback(Recorder(answer)) as up,
        gateway(routing_to(llama=[up])) as front,
        front.client.stream("POST", "/v1/chat/completions", json=CHAT) as stream,
    ):
        lines = stream.aiter_lines()
        assert await anext(lines) == "data: 1"
        drained = asyncio.ensure_future(front.gateway.drain(grace=60))
        await asyncio.sleep(0)
        not_ready = await front.client.get("/ready")
        assert_error(not_ready, 503, "draining")
        assert not_ready.headers["connection"] == "close"
        assert not drained.done()
        go_on.set()
        assert [line async for line in lines if line] == ["data: [DONE]"]
        await drained


async def test_a_drain_ends_with_its_grace() -> None:
    async def answer(_scope: Scope, _body: bytes, receive: Receive, send: Send) -> None:
        await start(send, 200, "text/event-stream")
        await piece(send, b"data: 1\n\n")
        while (await receive())["type"] != "http.disconnect":
            pass

    async with (
        on_loopback(Recorder(answer)) as up,
        gateway(routing_to(llama=[up])) as front,
        front.client.stream("POST", "/v1/chat/completions", json=CHAT) as stream,
    ):
        await anext(stream.aiter_lines())
        await front.gateway.drain(grace=0.01)


async def test_metrics_name_no_model_that_is_not_served() -> None:
    async with gateway(routing_to(llama=[])) as front:
        await front.chat(model="made-up-by-a-client")
        assert "made-up" not in (await front.client.get("/metrics")).text


async def test_a_fault_of_the_gateways_own_is_a_500_in_openais_shape() -> None:
    async with gateway({}) as front:
        front.routes = None  # type: ignore[assignment]
        assert_error(await front.chat(), 500, "internal_error")


async def test_the_metrics_page_is_prometheus_text() -> None:
    up = answering(200, {"usage": {"prompt_tokens": 3, "completion_tokens": 2}})
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        await front.chat()
        page = await front.client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    for line in (
        'forebay_gateway_ready_endpoints{model="llama"} 1.0',
        'forebay_gateway_requests_in_flight{model="llama"} 0.0',
        'forebay_gateway_requests_total{model="llama",status="200"} 1.0',
        'forebay_gateway_prompt_tokens_total{model="llama"} 3.0',
        'forebay_gateway_generation_tokens_total{model="llama"} 2.0',
    ):
        assert line in page.text.splitlines()
