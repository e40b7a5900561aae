"""Kept responses: a request for one goes to its keeper, whichever gateway it comes to, and to nobody else."""

from __future__ import annotations

import contextlib
import json
import uuid
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from forebay_operator.endpoints import Endpoint
from forebay_operator.gateway.keeping import mark
from tests.operator.gateway.front import CHAT, gateway, routing_to
from tests.support.asgi import Recorder, answering, closed_address, on_loopback, piece, start

KEY = {"Authorization": "Bearer theirs"}


def keeping() -> Recorder:
    """An endpoint that makes responses as the runtime names them, and says who it is asked as."""

    async def answer(scope: Scope, _body: bytes, _receive: Receive, send: Send) -> None:
        word = dict(scope["headers"]).get(b"x-forebay-keeper", b"").decode()
        await start(send, 200, "application/json")
        await piece(send, json.dumps({"id": f"resp_{word}{uuid.uuid4().hex}"}).encode(), more=False)

    return Recorder(answer)


def asked(up: Recorder) -> list[tuple[str, str]]:
    return [(scope["method"], scope["path"]) for scope, _ in up.requests]


@pytest.mark.parametrize(
    ("method", "part"), [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")]
)
async def test_a_kept_response_is_asked_for_where_it_was_made_by_any_gateway(method: str, part: str) -> None:
    up, others = keeping(), [keeping() for _ in range(3)]
    async with contextlib.AsyncExitStack() as stack:
        at, *more = [await stack.enter_async_context(on_loopback(app)) for app in (up, *others)]
        first = await stack.enter_async_context(gateway(routing_to(llama=[at])))
        made = (await first.client.post("/v1/responses", json={"model": "llama", "input": "Hi"})).json()["id"]
        routes = routing_to(gemma=more[:2]) | {"llama": routing_to(llama=[at, more[2]])["llama"]}
        second = await stack.enter_async_context(gateway(routes))
        reply = await second.client.request(method, f"/v1/responses/{made}{part}?stream=false", headers=KEY)
        assert reply.status_code == 200
    assert second.value("requests_total", model="llama", status="200") == 1
    assert asked(up)[1:] == [(method, f"/v1/responses/{made}{part}")]
    assert not any(other.requests for other in others)


async def test_a_response_that_nobody_keeps_is_a_404_and_no_endpoint_hears_of_it() -> None:
    up = keeping()
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        for name in (f"resp_{'0' * 48}", "resp_1", "resp_%20HTTP/1.1", f"resp_{mark(Endpoint(at, 'pod-0'))}0"):
            reply = await front.client.get(f"/v1/responses/{name}", headers=KEY)
            assert reply.status_code == 404
    assert up.requests == []


async def test_what_else_there_might_be_below_a_response_is_not_there() -> None:
    up = keeping()
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        name = f"resp_{mark(Endpoint(at, 'pod-0'))}{'0' * 32}"
        for path in ("/%2e%2e", "/%2e%2e/chat/completions", "/cancel/x", "/other"):
            assert (await front.client.post(f"/v1/responses/{name}{path}")).status_code == 404
        assert (await front.client.post(f"/v1/responses/{name}")).headers["allow"] == "GET, DELETE, OPTIONS"
    assert up.requests == []


async def test_a_keeper_that_is_away_is_worth_asking_again() -> None:
    away = closed_address()
    async with gateway(routing_to(llama=[away])) as front:
        reply = await front.client.get(f"/v1/responses/resp_{mark(Endpoint(away, 'pod-0'))}{'0' * 32}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "model_unreachable")


async def test_a_keepers_own_word_is_the_answer() -> None:
    up = answering(409, {"error": {"message": "not in the background"}})
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        reply = await front.client.post(f"/v1/responses/resp_{mark(Endpoint(at, 'pod-0'))}{'0' * 32}/cancel")
    assert (reply.status_code, reply.json()) == (409, {"error": {"message": "not in the background"}})


async def continuing(front: Any, before: str) -> Any:
    return await front.client.post(
        "/v1/responses", json={"model": "llama", "input": "and then?", "previous_response_id": before}
    )


async def test_a_response_is_continued_by_its_keeper_alone() -> None:
    ups = [keeping() for _ in range(4)]
    async with contextlib.AsyncExitStack() as stack:
        addresses = [await stack.enter_async_context(on_loopback(app)) for app in ups]
        front = await stack.enter_async_context(gateway(routing_to(llama=addresses)))
        name = f"resp_{mark(Endpoint(addresses[2], 'pod-2'))}{'0' * 32}"
        assert (await continuing(front, name)).status_code == 200
        gone = await continuing(front, f"resp_{'0' * 48}")
    assert [len(up.requests) for up in ups] == [0, 0, 1, 0]
    assert (gone.status_code, gone.json()["error"]["param"]) == (404, "previous_response_id")


async def test_a_response_of_an_engine_without_marks_is_looked_for_among_its_models_endpoints() -> None:
    without = [answering(404, {"error": {"message": "not kept"}}) for _ in range(4)]
    up, stranger = answering(200, {"id": "resp_2"}), keeping()
    async with contextlib.AsyncExitStack() as stack:
        addresses = [await stack.enter_async_context(on_loopback(app)) for app in (*without, up)]
        other = await stack.enter_async_context(on_loopback(stranger))
        front = await stack.enter_async_context(gateway(routing_to(llama=addresses, gemma=[other])))
        assert (await continuing(front, "resp_1")).json() == {"id": "resp_2"}
        assert front.value("failed_attempts_total", model="llama", reason="404") == 0
    assert stranger.requests == []


async def test_a_client_cannot_choose_the_mark() -> None:
    up = keeping()
    async with on_loopback(up) as at, gateway(routing_to(llama=[at])) as front:
        sent = {"X-Forebay-Keeper": "f" * 16}
        made = await front.client.post("/v1%2Fresponses", json={"model": "llama", "input": "Hi"}, headers=sent)
        await front.client.post("/v1/chat/completions", json=CHAT, headers=sent)
    assert made.json()["id"].startswith(f"resp_{mark(Endpoint(at, 'pod-0'))}")
    assert b"x-forebay-keeper" not in dict(up.requests[1][0]["headers"])


def test_a_pod_that_follows_another_at_its_address_has_another_mark() -> None:
    assert mark(Endpoint("10.0.0.1:8000", "llama-1")) != mark(Endpoint("10.0.0.1:8000", "llama-2"))
