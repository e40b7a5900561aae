"""/v1/responses as clients see it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import httpx2
import openai
import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from forebay_runtime.server.responses.dialect import ResponsesDialect
from tests.support.toy_server import NAME, application, running

Client = httpx.AsyncClient
EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
PATH = "/v1/responses"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with running(application()) as client:
        yield client


def body(**fields: Any) -> dict[str, Any]:
    return {"model": NAME, "input": "the mill", "temperature": 0, "max_output_tokens": 12, **fields}


async def create(client: Client, **fields: Any) -> dict[str, Any]:
    reply = await client.post(PATH, json=body(**fields))
    assert reply.status_code == 200, reply.text
    response: dict[str, Any] = reply.json()
    return response


def events_of(text: str) -> list[dict[str, Any]]:
    events = []
    for block in text.split("\n\n"):
        if block.startswith("event: "):
            name, data = block.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {events[-1]['type']}"
    return events


async def stream(client: Client, **fields: Any) -> list[dict[str, Any]]:
    reply = await client.post(PATH, json=body(stream=True, **fields))
    assert reply.headers["content-type"].startswith("text/event-stream")
    return events_of(reply.text)


def without_ids(response: dict[str, Any]) -> dict[str, Any]:
    items = [{k: v for k, v in item.items() if k != "id"} for item in response["output"]]
    times = dict.fromkeys(("id", "created_at", "completed_at", "usage"))
    return response | times | {"output": items}


@pytest.mark.parametrize(
    "fields", [{}, {"stop": ["river"]}, {"max_output_tokens": 40, "include": ["message.output_text.logprobs"]}]
)
async def test_a_stream_tells_the_plain_response(client: Client, fields: dict[str, Any]) -> None:
    plain = await create(client, **fields)
    events = await stream(client, **fields)
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    for event in events:
        EVENT.validate_python(event)
    kinds = [e["type"] for e in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-1] == f"response.{plain['status']}"
    assert without_ids(events[-1]["response"]) == without_ids(plain)


async def test_a_response_says_why_it_is_incomplete(client: Client) -> None:
    cut = await create(client)
    assert (cut["status"], cut["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert cut["output"][0]["status"] == "incomplete"
    word = cut["output"][0]["content"][0]["text"].split()[1]
    whole = await create(client, stop=[word])
    assert (whole["status"], whole["incomplete_details"]) == ("completed", None)


async def test_an_answer_without_a_word_has_an_empty_message(client: Client) -> None:
    (end,) = (await client.post("/tokenize", json={"prompt": "<|end|>"})).json()["tokens"]
    fields = {"logit_bias": {str(end): 100}}
    assert (await create(client, **fields))["output"][0]["content"][0]["text"] == ""
    assert (await stream(client, **fields))[-1]["response"]["output"][0]["content"][0]["text"] == ""


async def test_the_answer_is_the_chat_s(client: Client) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "the mill"}]
    chat = {"model": NAME, "messages": messages, "temperature": 0, "max_tokens": 12}
    said = (await client.post("/v1/chat/completions", json=chat)).json()
    response = await create(client, instructions="Be brief.")
    assert response["output"][0]["content"][0]["text"] == said["choices"][0]["message"]["content"]
    assert response["usage"]["input_tokens"] == said["usage"]["prompt_tokens"]


async def test_a_conversation_goes_on_where_it_was(client: Client) -> None:
    first = await create(client)
    second = await create(client, previous_response_id=first["id"], input="and then?")
    third = await create(client, previous_response_id=second["id"], input="the end")
    said = [r["output"][0]["content"][0]["text"] for r in (first, second)]
    messages = [
        {"role": role, "content": content}
        for role, content in zip(
            ("user", "assistant") * 2 + ("user",),
            ("the mill", said[0], "and then?", said[1], "the end"),
            strict=True,
        )
    ]
    count = (await client.post("/tokenize", json={"messages": messages})).json()["count"]
    assert third["usage"]["input_tokens"] == count
    assert third["previous_response_id"] == second["id"]


async def test_a_response_is_kept_unless_told_otherwise(client: Client) -> None:
    kept, gone = await create(client), await create(client, store=False)
    assert (await client.get(f"{PATH}/{kept['id']}")).json() == kept
    assert (await client.get(f"{PATH}/{gone['id']}")).status_code == 404
    streamed = (await stream(client))[-1]["response"]
    assert (await client.get(f"{PATH}/{streamed['id']}")).json() == streamed
    deleted = (await client.delete(f"{PATH}/{kept['id']}")).json()
    assert deleted == {"id": kept["id"], "object": "response", "deleted": True}
    assert (await client.get(f"{PATH}/{kept['id']}")).status_code == 404
    refused = await client.post(PATH, json=body(previous_response_id=kept["id"]))
    assert (refused.status_code, refused.json()["error"]["param"]) == (404, "previous_response_id")


async def test_input_items_come_in_pages(client: Client) -> None:
    asked = [{"role": "user", "content": f"part {i}"} for i in range(3)]
    response = await create(client, input=asked)
    url = f"{PATH}/{response['id']}/input_items"
    page = (await client.get(url, params={"limit": 2, "order": "asc"})).json()
    assert [i["content"][0]["text"] for i in page["data"]] == ["part 0", "part 1"]
    assert page["has_more"]
    rest = (await client.get(url, params={"after": page["last_id"], "order": "asc"})).json()
    assert [i["content"][0]["text"] for i in rest["data"]] == ["part 2"]
    for wrong in ({"limit": 0}, {"limit": "x"}, {"order": "up"}, {"after": "nobody"}):
        refused = await client.get(url, params=wrong)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, next(iter(wrong)))


async def test_a_background_response_is_made_without_its_client(client: Client) -> None:
    begun = await create(client, background=True)
    assert (begun["status"], begun["output"]) == ("in_progress", [])
    for _ in range(100_000):
        response = (await client.get(f"{PATH}/{begun['id']}")).json()
        if response["status"] != "in_progress":
            break
        await asyncio.sleep(0)
    assert without_ids(response) | {"background": None} == without_ids(await create(client)) | {"background": None}


async def test_a_background_stream_is_read_again_from_anywhere(client: Client) -> None:
    events = await stream(client, background=True)
    url = f"{PATH}/{events[0]['response']['id']}"
    assert events_of((await client.get(url, params={"stream": "true"})).text) == events
    rest = await client.get(url, params={"stream": "true", "starting_after": 3})
    assert events_of(rest.text) == events[4:]
    plain = await create(client)
    refused = await client.get(f"{PATH}/{plain['id']}", params={"stream": "true"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "stream")


async def test_a_background_response_is_cancelled(client: Client) -> None:
    begun = await create(client, background=True, max_output_tokens=None, ignore_eos=True)
    url = f"{PATH}/{begun['id']}"
    cancelled = (await client.post(f"{url}/cancel")).json()
    assert cancelled["status"] == "cancelled"
    assert (await client.get(url)).json() == cancelled
    assert (await client.post(f"{url}/cancel")).json() == cancelled
    plain = await create(client)
    assert (await client.post(f"{PATH}/{plain['id']}/cancel")).status_code == 400
    again = await create(client, background=True, max_output_tokens=None, ignore_eos=True)
    await client.delete(f"{PATH}/{again['id']}")
    assert (await client.get(f"{PATH}/{again['id']}")).status_code == 404


async def test_only_a_response_with_an_answer_is_continued(client: Client) -> None:
    begun = await create(client, background=True, max_output_tokens=None, ignore_eos=True)
    for status in ("in_progress", "cancelled"):
        if status == "cancelled":
            await client.post(f"{PATH}/{begun['id']}/cancel")
        refused = await client.post(PATH, json=body(previous_response_id=begun["id"]))
        assert refused.status_code == 400
        error = refused.json()["error"]
        assert (error["code"], error["param"]) == ("response_not_completed", "previous_response_id")
        assert status in error["message"]
    cut = await create(client, max_output_tokens=2)
    assert cut["status"] == "incomplete"
    assert (await create(client, previous_response_id=cut["id"]))["status"] in ("completed", "incomplete")


async def test_a_response_that_failed_is_not_continued() -> None:
    async with running(application(request_timeout=0.2, step_seconds=0.01)) as client:
        asked = body(background=True, stream=True, max_output_tokens=None, ignore_eos=True)
        begun = events_of((await client.post(PATH, json=asked)).text)[0]["response"]
        refused = await client.post(PATH, json=body(previous_response_id=begun["id"]))
    assert "failed" in refused.json()["error"]["message"]


async def test_a_background_response_that_can_t_be_made_is_refused_at_once(client: Client) -> None:
    refused = await client.post(PATH, json=body(background=True, input="x " * 300))
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")


async def test_a_background_response_ends_with_its_time() -> None:
    async with running(application(step_seconds=0.02)) as client:
        timed = {"X-Request-Timeout": "0.05"}
        asked = body(background=True, stream=True, max_output_tokens=None, ignore_eos=True)
        events = events_of((await client.post(PATH, json=asked, headers=timed)).text)
        assert events[-1]["type"] == "response.failed"


async def test_a_fault_of_ours_before_a_background_response_begins_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(ResponsesDialect, "reply", fault)
    async with running(application()) as client:
        reply = await client.post(PATH, json=body(background=True))
        assert (reply.status_code, reply.json()["error"]["code"]) == (500, "internal_error")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": "x " * 300}, "input"),
        ({"max_output_tokens": "ten"}, "max_output_tokens"),
        ({"conversation": "c"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"model": "other"}, "model"),
        ({"min_tokens": 50}, "min_tokens"),
    ],
)
async def test_what_is_refused_is_named(client: Client, fields: dict[str, Any], param: str) -> None:
    error = (await client.post(PATH, json=body(**fields))).json()["error"]
    assert error["param"] == param


async def test_openai_s_client_works_unchanged() -> None:
    app = application()
    transport = httpx2.ASGITransport(app.asgi)
    async with running(app) as client, httpx2.AsyncClient(transport=transport) as connection:
        official = openai.AsyncOpenAI(base_url="http://toy/v1", api_key="none", http_client=connection)
        (end,) = (await client.post("/tokenize", json={"prompt": "<|end|>"})).json()["tokens"]
        asked: Any = {"model": NAME, "input": "the mill", "temperature": 0, "max_output_tokens": 12}
        asked["extra_body"] = {"logit_bias": {end: 100}, "min_tokens": 5}
        response = await official.responses.create(**asked)
        async with official.responses.stream(**asked) as streamed:
            text = "".join([e.delta async for e in streamed if e.type == "response.output_text.delta"])
            last = await streamed.get_final_response()
        assert text == last.output_text == response.output_text
        assert (await official.responses.retrieve(response.id)).output_text == text
        assert [i.type for i in (await official.responses.input_items.list(response.id)).data] == ["message"]
        await official.responses.delete(response.id)
