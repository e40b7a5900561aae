"""Requests on their way: streaming, other endpoints, clients that leave, endpoints that break."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from forebay_operator.gateway.routing import pick, request_key
from tests.operator.gateway.front import CHAT, Front, gateway, routing_to
from tests.support.asgi import Recorder, answering, closed_address, on_loopback, piece, start

DONE = b"data: [DONE]\n\n"
OK = {"id": "chatcmpl-1", "usage": {"prompt_tokens": 5, "completion_tokens": 4}}


class Streaming:
    """Sends one event for each `go_on.release()`, and knows whether its client left."""

    def __init__(self, *events: bytes) -> None:
        self.events, self.go_on, self.left = events, asyncio.Semaphore(0), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await start(send, 200, "text/event-stream", cache_control="no-cache")
        watcher = asyncio.ensure_future(self._watch(receive))
        for event in self.events:
            await self.go_on.acquire()
            await piece(send, event)
        await piece(send, b"", more=False)
        await watcher

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left.set()


async def preferring(front: Front, address: str) -> dict[str, Any]:
    """A chat that prefers that endpoint."""
    endpoints = front.routes["llama"].endpoints
    for i in range(1000):
        body = CHAT | {"messages": [{"role": "user", "content": f"Hi {i}"}]}
        if pick(request_key(body), endpoints, {}).address == address:
            return body
    raise AssertionError(address)


async def test_request_and_answer_pass_unchanged() -> None:
    up = answering(200, OK, x_request_id="r-1")
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        raw = b'{"model": "llama",  "prompt":"Hi", "zz": [1]}'
        headers = {"Content-Type": "application/json; charset=utf-8", "X-Trace": "t-1", "X-Hop": "h"}
        headers["Connection"] = "keep-alive, x-hop"
        reply = await front.client.post("/v1/completions?a=b%20c", content=raw, headers=headers)
    scope, body = up.requests[0]
    sent = dict(scope["headers"])
    assert (reply.status_code, reply.json(), reply.headers["x-request-id"]) == (200, OK, "r-1")
    assert (scope["path"], scope["query_string"], body) == ("/v1/completions", b"a=b%20c", raw)
    assert (sent[b"content-type"], sent[b"x-trace"]) == (b"application/json; charset=utf-8", b"t-1")
    assert b"x-hop" not in sent
    assert b"x-forebay-keeper" not in sent
    assert reply.headers["x-forebay-endpoint"] == "pod-0"


async def test_connections_to_an_endpoint_are_used_again() -> None:
    up = answering(200, OK)
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        for _ in range(3):
            await front.chat()
    assert len({scope["client"] for scope, _ in up.requests}) == 1


async def test_a_large_body_passes() -> None:
    up = answering(200, OK)
    async with on_loopback(up) as at, gateway(routing_to(llama=[at]), max_body_bytes=4 << 20) as front:
        assert (await front.chat(junk="x" * (2 << 20))).status_code == 200
    assert len(up.requests[0][1]) > 2 << 20


async def test_each_event_goes_on_before_the_next_one_is_made() -> None:
    up = Streaming(b"data: 1\n\n", b"data: 2\n\n", DONE)
    async with (
        on_loopback(up) as at,
        gateway(routing_to(llama=[at])) as front,
        front.client.stream("POST", "/v1/chat/completions", json=CHAT) as reply,
    ):
        assert reply.headers["content-type"] == "text/event-stream"
        assert reply.headers["transfer-encoding"] == "chunked"
        pieces = reply.aiter_raw()
        for event in up.events:
            up.go_on.release()
            assert await anext(pieces) == event
        assert [p async for p in pieces] == []


async def test_usage_at_the_end_of_a_stream_is_counted() -> None:
    last = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    up = Streaming(b'data: {"usage": null}\n\n', f"data: {json.dumps(last)}\n\n".encode(), DONE)
    up.go_on = asyncio.Semaphore(3)
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        assert (await front.chat(stream=True)).text.endswith("[DONE]\n\n")
        assert front.value("prompt_tokens_total", model="llama") == 7
        assert front.value("generation_tokens_total", model="llama") == 3


async def test_a_client_that_leaves_a_stream_ends_the_work_at_the_endpoint() -> None:
    up = Streaming(b"data: 1\n\n", b"data: 2\n\n", DONE)
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        up.go_on.release()
        async with front.client.stream("POST", "/v1/chat/completions", json=CHAT) as reply:
            await anext(reply.aiter_raw())
            assert front.value("requests_in_flight", model="llama") == 1
        await up.left.wait()
        up.go_on.release()
        up.go_on.release()
    assert front.value("requests_in_flight", model="llama") == 0
    assert front.value("abandoned_total", model="llama") == 1


async def test_a_client_that_leaves_a_plain_request_ends_the_work_at_the_endpoint() -> None:
    arrived, left = asyncio.Event(), asyncio.Event()

    async def answer(_scope: Scope, _body: bytes, receive: Receive, send: Send) -> None:
        arrived.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()

    async with on_loopback(Recorder(answer)) as at, gateway(routing_to(llama=[at])) as front:
        asking = asyncio.ensure_future(front.chat())
        await arrived.wait()
        asking.cancel()
        await left.wait()


@pytest.mark.parametrize("status", [429, 502, 503])
async def test_an_endpoint_that_cannot_now_is_replaced_by_another(status: int) -> None:
    full, free = answering(status, {"error": {}}, retry_after="9"), answering(200, OK)
    async with on_loopback(full) as a, on_loopback(free) as b, gateway(routing_to(llama=[a, b])) as front:
        reply = await front.client.post("/v1/chat/completions", json=await preferring(front, a))
        assert (reply.status_code, len(full.requests), len(free.requests)) == (200, 1, 1)
        assert front.value("failed_attempts_total", model="llama", reason=str(status)) == 1


@pytest.mark.parametrize("status", [429, 503])
async def test_if_all_are_full_the_last_ones_own_answer_is_passed_on(status: int) -> None:
    error = {"error": {"message": "full", "type": "x", "param": None, "code": "overloaded"}}
    both = answering(status, error, retry_after="9")
    async with on_loopback(both) as a, on_loopback(both) as b, gateway(routing_to(llama=[a, b])) as front:
        reply = await front.chat()
    assert (reply.status_code, reply.json(), reply.headers["retry-after"]) == (status, error, "9")
    assert len(both.requests) == 2


@pytest.mark.parametrize("status", [400, 404, 413, 422, 500, 504])
async def test_other_errors_are_the_answer(status: int) -> None:
    up, other = answering(status, {"error": {}}), answering(200, OK)
    async with on_loopback(up) as a, on_loopback(other) as b, gateway(routing_to(llama=[a, b])) as front:
        reply = await front.client.post("/v1/chat/completions", json=await preferring(front, a))
        assert (reply.status_code, len(other.requests)) == (status, 0)


async def test_an_endpoint_that_is_away_is_replaced_and_then_avoided() -> None:
    up, away = answering(200, OK), closed_address()
    async with on_loopback(up) as at, gateway(routing_to(llama=[away, at])) as front:
        body = await preferring(front, away)
        for _ in range(3):
            assert (await front.client.post("/v1/chat/completions", json=body)).status_code == 200
        assert front.value("failed_attempts_total", model="llama", reason="ClientConnectorError") == 1


async def test_if_no_endpoint_can_be_reached_it_is_worth_asking_again() -> None:
    async with gateway(routing_to(llama=[closed_address(), closed_address()])) as front:
        reply = await front.chat()
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "model_unreachable")
        assert reply.headers["retry-after"].isdigit()


async def test_a_request_that_broke_off_goes_to_one_other_endpoint_only() -> None:
    async def breaking(_scope: Scope, _body: bytes, _receive: Receive, send: Send) -> None:
        await start(send, 200, "application/json", content_length="9")

    up = Recorder(breaking)
    async with (
        on_loopback(up) as a,
        on_loopback(up) as b,
        on_loopback(up) as c,
        gateway(routing_to(llama=[a, b, c])) as front,
    ):
        reply = await front.chat()
    assert (reply.status_code, reply.json()["error"]["code"]) == (502, "model_broken")
    assert len(up.requests) == 2


async def until_cut(front: Front, path: str = "/v1/chat/completions") -> AsyncIterator[bytes]:
    """The pieces of a stream up to where its connection is cut; it has to be."""
    try:
        async with front.client.stream("POST", path, json=CHAT) as reply:
            async for part in reply.aiter_raw():
                yield part
    except httpx.RemoteProtocolError:
        return
    raise AssertionError("the stream ended as if it were whole")


async def test_a_stream_that_breaks_off_between_events_says_so_and_never_begins_again() -> None:
    async def answer(_scope: Scope, _body: bytes, _receive: Receive, send: Send) -> None:
        await start(send, 200, "text/event-stream")
        await piece(send, b"data: 1\n\n")

    up = Recorder(answer)
    async with on_loopback(up) as a, on_loopback(up) as b, gateway(routing_to(llama=[a, b])) as front:
        got = b"".join([part async for part in until_cut(front)])
        assert got.startswith(b"data: 1\n\n")
        assert json.loads(got.split(b"data: ")[2])["error"]["code"] == "model_broken"
        assert len(up.requests) == 1
        assert front.value("broken_total", model="llama") == 1


@pytest.mark.parametrize(
    ("path", "said", "told"),
    [
        ("/v1/messages", b"event: ping\ndata: {}\n\n", {"type": "error", "request_id": None}),
        (
            "/v1/responses",
            b'event: a\ndata: {"sequence_number":3}\n\nevent: b\ndata: {"sequence_number":4}\n\n',
            {"type": "error", "code": "model_broken", "param": None, "sequence_number": 5},
        ),
        ("/v1/responses", b": still here\n\n", {"type": "error", "sequence_number": 0}),
    ],
)
async def test_a_stream_that_breaks_off_ends_in_an_event_of_its_own_dialect(
    path: str, said: bytes, told: dict[str, Any]
) -> None:
    async def answer(_scope: Scope, _body: bytes, _receive: Receive, send: Send) -> None:
        await start(send, 200, "text/event-stream")
        await piece(send, said)

    async with on_loopback(Recorder(answer)) as at, gateway(routing_to(llama=[at])) as front:
        got = b"".join([part async for part in until_cut(front, path)])
    name, data = got.removeprefix(said).removesuffix(b"\n\n").split(b"\n")
    assert name == b"event: error"
    last = json.loads(data.removeprefix(b"data: "))
    assert last | told == last
    assert "broke off" in last.get("error", last)["message"]


async def test_a_silent_endpoint_is_a_504() -> None:
    async def answer(_scope: Scope, _body: bytes, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async with on_loopback(Recorder(answer)) as at, gateway(routing_to(llama=[at]), idle_timeout=0.05) as front:
        reply = await front.chat()
    assert (reply.status_code, reply.json()["error"]["code"]) == (504, "model_timeout")


async def test_endpoints_that_come_meanwhile_are_tried() -> None:
    up = answering(200, OK)

    async def answer(_scope: Scope, _body: bytes, _receive: Receive, send: Send) -> None:
        front.routes = routing_to(llama=[draining, at])
        await start(send, 503, "application/json")
        await piece(send, b"{}", more=False)

    async with (
        on_loopback(up) as at,
        on_loopback(Recorder(answer)) as draining,
        gateway(routing_to(llama=[draining, closed_address()])) as front,
    ):
        body = await preferring(front, draining)
        assert (await front.client.post("/v1/chat/completions", json=body)).status_code == 200


async def test_one_prompt_sticks_to_one_endpoint_and_many_at_once_use_both() -> None:
    gate, all_there = asyncio.Event(), asyncio.Event()

    async def answer(_scope: Scope, _body: bytes, _receive: Receive, send: Send) -> None:
        if len(one.requests) + len(other.requests) == 12:
            all_there.set()
        await gate.wait()
        await start(send, 200, "application/json")
        await piece(send, b"{}", more=False)

    one, other = Recorder(answer), Recorder(answer)
    async with on_loopback(one) as a, on_loopback(other) as b, gateway(routing_to(llama=[a, b])) as front:
        gate.set()
        for _ in range(4):
            await front.chat()
        assert sorted((len(one.requests), len(other.requests))) == [0, 4]
        gate.clear()
        asking = [asyncio.ensure_future(front.chat()) for _ in range(8)]
        await all_there.wait()
        gate.set()
        await asyncio.gather(*asking)
        assert min(len(one.requests), len(other.requests)) >= 2
