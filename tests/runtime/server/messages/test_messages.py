"""/v1/messages as clients see it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.toy_server import NAME, application, running

Client = httpx.AsyncClient
PATH = "/v1/messages"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with running(application()) as client:
        yield client


def body(**fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "the mill"}]
    return {"model": NAME, "messages": messages, "temperature": 0, "max_tokens": 12, **fields}


async def create(client: Client, **fields: Any) -> dict[str, Any]:
    reply = await client.post(PATH, json=body(**fields))
    assert reply.status_code == 200, reply.text
    message: dict[str, Any] = reply.json()
    return message


async def stream(client: Client, **fields: Any) -> list[dict[str, Any]]:
    reply = await client.post(PATH, json=body(stream=True, **fields))
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = []
    for block in reply.text.strip().split("\n\n"):
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


@pytest.mark.parametrize("fields", [{}, {"stop_sequences": ["zz", "river", "past"], "max_tokens": 60}])
async def test_a_stream_tells_the_plain_message(client: Client, fields: dict[str, Any]) -> None:
    plain = await create(client, **fields)
    first, *middle, last, end = await stream(client, **fields)
    assert first["type"] == "message_start"
    assert [e["type"] for e in (*middle[:1], middle[-1])] == ["content_block_start", "content_block_stop"]
    text = "".join(e["delta"]["text"] for e in middle[1:-1])
    assert plain["content"] == [{"type": "text", "text": text}]
    assert last["delta"]["stop_reason"] == plain["stop_reason"]
    assert last["delta"]["stop_sequence"] == plain["stop_sequence"]
    assert last["usage"]["output_tokens"] == plain["usage"]["output_tokens"]
    assert end == {"type": "message_stop"}


async def test_the_answer_is_the_chat_s(client: Client) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "the mill"}]
    chat = {"model": NAME, "messages": messages, "temperature": 0, "max_tokens": 12}
    said = (await client.post("/v1/chat/completions", json=chat)).json()
    message = await create(client, system="Be brief.")
    assert message["content"][0]["text"] == said["choices"][0]["message"]["content"]
    usage = message["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == said["usage"]["prompt_tokens"]
    count = await client.post(f"{PATH}/count_tokens", json={**body(system="Be brief."), "max_tokens": None})
    assert count.json() == {"input_tokens": said["usage"]["prompt_tokens"]}


async def test_why_it_ended_is_told(client: Client) -> None:
    cut = await create(client)
    assert (cut["stop_reason"], cut["stop_sequence"]) == ("max_tokens", None)
    word = cut["content"][0]["text"].split()[1]
    stopped = await create(client, stop_sequences=["zz", word])
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", word)
    full = await create(client, max_tokens=5000)
    assert full["stop_reason"] == "model_context_window_exceeded"


async def test_a_begun_answer_is_gone_on_with(client: Client) -> None:
    user = {"role": "user", "content": "the mill"}
    begun = [user, {"role": "assistant", "content": "the river"}]
    chat = {"model": NAME, "messages": begun, "temperature": 0, "max_tokens": 12, "continue_final_message": True}
    said = (await client.post("/v1/chat/completions", json=chat)).json()
    assert (await create(client, messages=begun))["content"][0]["text"] == said["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("fields", "status", "kind", "word"),
    [
        ({"max_tokens": "ten"}, 400, "invalid_request_error", "max_tokens"),
        ({"model": "other"}, 404, "not_found_error", "other"),
        ({"messages": [{"role": "user", "content": "x " * 300}]}, 400, "invalid_request_error", "256"),
        ({"container": "c"}, 400, "invalid_request_error", "container"),
        ({"zz": "x" * 100_000}, 413, "request_too_large", "bytes"),
    ],
)
async def test_errors_have_anthropic_s_shape(
    client: Client, fields: dict[str, Any], status: int, kind: str, word: str
) -> None:
    reply = await client.post(PATH, json=body(**fields))
    assert reply.status_code == status
    error = reply.json()
    assert (error["type"], error["error"]["type"]) == ("error", kind)
    assert word in error["error"]["message"]


async def test_a_wrong_method_and_a_wrong_key_have_it_too() -> None:
    async with running(application(api_key="secret-key")) as client:
        for headers in ({}, {"x-api-key": "wrong"}, {"Authorization": "Bearer wrong", "x-api-key": "secret-key"}):
            refused = await client.post(PATH, json=body(), headers=headers)
            assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
        for headers in ({"x-api-key": "secret-key"}, {"Authorization": "Bearer secret-key"}):
            assert (await client.post(PATH, json=body(), headers=headers)).status_code == 200
        wrong = await client.get(PATH, headers={"x-api-key": "secret-key"})
        assert (wrong.status_code, wrong.json()["type"]) == (405, "error")
