"""Tools over HTTP: forced calls parse and validate, streamed or not."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.runtime.server.test_answers import CHAT, chunks, plain
from tests.support.toy_server import SCHEDULER, application, running


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": "does it", "parameters": parameters}}


LAMP = tool("set_lamp", room={"enum": ["hall", "attic"]}, on={"type": "boolean"})
DOOR = tool("open/door.v2", side={"enum": ["front", "back"]})
TOOLS = {"tools": [LAMP, DOOR], "max_tokens": 150}
NAMED = {"type": "function", "function": {"name": "open/door.v2"}}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with running(application(dataclasses.replace(SCHEDULER, max_model_len=2000))) as client:
        yield client


def check(call: dict[str, Any]) -> str:
    assert call["id"]
    assert call["type"] == "function"
    arguments = json.loads(call["function"]["arguments"])
    name: str = call["function"]["name"]
    if name == "set_lamp":
        assert arguments["room"] in ("hall", "attic")
        assert isinstance(arguments["on"], bool)
    else:
        assert arguments["side"] in ("front", "back")
    return name


async def message(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await plain(client, CHAT, **TOOLS, **fields)
    assert answer["choices"][0]["finish_reason"] == "tool_calls"
    made: dict[str, Any] = answer["choices"][0]["message"]
    return made


async def test_required_calls_and_the_call_goes_on(client: httpx.AsyncClient) -> None:
    made = await message(client, tool_choice="required", parallel_tool_calls=False)
    assert made["content"] is None
    assert len(made["tool_calls"]) == 1
    check(made["tool_calls"][0])
    result = {"role": "tool", "tool_call_id": made["tool_calls"][0]["id"], "content": "done"}
    history = [{"role": "user", "content": "the mill"}, made, result]
    reply = await client.post(CHAT, json={"model": "toy", "messages": history, "tools": [LAMP], "max_tokens": 2})
    assert reply.status_code == 200, reply.text


@pytest.mark.parametrize(
    "choice",
    [
        NAMED,
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}},
    ],
)
async def test_a_chosen_tool_is_the_one_that_is_called(client: httpx.AsyncClient, choice: dict[str, Any]) -> None:
    made = await message(client, tool_choice=choice, parallel_tool_calls=False)
    assert [check(call) for call in made["tool_calls"]] == ["open/door.v2"]


async def test_a_streamed_call_is_the_plain_one(client: httpx.AsyncClient) -> None:
    fields = {**TOOLS, "tool_choice": NAMED}
    (whole,) = (await message(client, tool_choice=NAMED))["tool_calls"]
    deltas = [d for c in await chunks(client, CHAT, **fields) for d in c["choices"][0]["delta"].get("tool_calls", ())]
    assert all(delta["index"] == 0 for delta in deltas)
    assert [delta["function"].get("name") for delta in deltas] == ["open/door.v2"] + [None] * (len(deltas) - 1)
    assert "".join(d["function"]["arguments"] for d in deltas) == whole["function"]["arguments"]
    assert len(deltas) > 2


async def test_none_is_a_plain_chat(client: httpx.AsyncClient) -> None:
    bare = await plain(client, CHAT)
    assert (await plain(client, CHAT, tools=[LAMP], tool_choice="none"))["choices"] == bare["choices"]
    assert (await plain(client, CHAT, tools=[]))["choices"] == bare["choices"]
    told = await plain(client, CHAT, **TOOLS)
    assert told["usage"]["prompt_tokens"] > bare["usage"]["prompt_tokens"]


async def test_what_may_be_called_stands_beside_what_must_be_said(client: httpx.AsyncClient) -> None:
    for seed in range(3):
        answer = await plain(client, CHAT, **TOOLS, choice=["yes", "no"], temperature=1, seed=seed)
        made = answer["choices"][0]["message"]
        assert made["content"] in ("yes", "no") or [check(call) for call in made["tool_calls"]]


async def test_a_schema_that_can_not_be_kept_is_blamed(client: httpx.AsyncClient) -> None:
    odd = tool("odd", a={"not": {"type": "string"}})
    body = {"model": "toy", "messages": [{"role": "user", "content": "x"}], "tools": [LAMP, odd]}
    choice = {"type": "function", "function": {"name": "odd"}}
    reply = await client.post(CHAT, json=body | {"tool_choice": choice})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "tools[1].function.parameters")
    reply = await client.post(CHAT, json=body | {"tool_choice": "required"})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "tools")
    reply = await client.post(CHAT, json=body | {"tool_choice": "auto", "max_tokens": 2})
    assert reply.status_code == 200
