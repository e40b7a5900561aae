"""Answers that must look a certain way, over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.runtime.server.test_answers import CHAT, COMPLETIONS, chunks, joined, plain, text_of
from tests.support.toy_server import application, running

SCHEMA = {
    "type": "object",
    "properties": {"water": {"enum": ["low", "high"]}, "gates": {"type": "array", "items": {"type": "boolean"}}},
    "required": ["water", "gates"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "state", "schema": SCHEMA, "strict": True}}
CODE = "[A-F]{3}-[0-9]{2}"
EBNF = 'root ::= [A-F]{3} "-" [0-9]{2}'


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with running(application()) as client:
        yield client


async def text(client: httpx.AsyncClient, path: str = CHAT, **fields: Any) -> str:
    answer = await plain(client, path, **{"max_tokens": 100, "seed": 3, **fields})
    assert answer["choices"][0]["finish_reason"] == "stop"
    return text_of(answer["choices"][0])


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_an_answer_under_a_schema_is_the_same_streamed_with_logprobs_and_among_others(
    client: httpx.AsyncClient, path: str
) -> None:
    fields = {"response_format": FORMAT, "max_tokens": 150}
    alone = await text(client, path, **fields)
    assert set(json.loads(alone)) == {"water", "gates"}
    logprobs: dict[str, Any] = {"logprobs": True} if path == CHAT else {"logprobs": 1}
    streaming = asyncio.ensure_future(chunks(client, path, **fields, **logprobs))
    others = await asyncio.gather(*(text(client, path, **fields) for _ in range(4)), text_of_free(client, path))
    assert joined(await streaming) == (alone, "stop")
    assert others[:4] == [alone] * 4


async def text_of_free(client: httpx.AsyncClient, path: str) -> str:
    return text_of((await plain(client, path))["choices"][0])


async def test_every_one_of_n_outputs_keeps_the_schema(client: httpx.AsyncClient) -> None:
    answer = await plain(client, CHAT, response_format=FORMAT, n=4, temperature=1, max_tokens=150)
    for choice in answer["choices"]:
        assert json.loads(text_of(choice))["water"] in ("low", "high")


async def test_a_limit_cuts_an_answer_and_says_so(client: httpx.AsyncClient) -> None:
    answer = await plain(client, CHAT, response_format=FORMAT, max_tokens=5)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert '{"water":'.startswith(text_of(answer["choices"][0])[:9])


@pytest.mark.parametrize(
    "fields",
    [
        {"structured_outputs": {"regex": CODE}},
        {"structured_outputs": {"grammar": EBNF, "disable_any_whitespace": True}},
        {"guided_regex": CODE},
        {"guided_grammar": EBNF},
        {"regex": CODE},
        {"ebnf": EBNF},
        {"grammar": EBNF},
        {"response_format": {"type": "regex", "value": CODE}},
        {"response_format": {"type": "text"}, "regex": CODE, "guided_json": None},
        {"regex": CODE, "min_tokens": 50},
        {"regex": CODE, "ignore_eos": True},
    ],
    ids=json.dumps,
)
async def test_spellings(client: httpx.AsyncClient, fields: dict[str, Any]) -> None:
    for path in (CHAT, COMPLETIONS):
        assert re.fullmatch(CODE, await text(client, path, **fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"structured_outputs": {"choice": ["mill", "river"]}},
        {"guided_choice": ["mill", "river"]},
        {"choice": ["mill", "river"]},
        {"guided_json": {"enum": ["mill", "river"]}},
        {"structured_outputs": {"json": '{"enum": ["mill", "river"]}'}},
        {"json_schema": {"enum": ["mill", "river"]}},
    ],
    ids=json.dumps,
)
async def test_choices(client: httpx.AsyncClient, fields: dict[str, Any]) -> None:
    assert (await text(client, **fields)).strip('"') in ("mill", "river")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": {"type": "sound"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "no"}}}},
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": True}}},
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": 5, "schema": {}}}},
            "response_format.json_schema.name",
        ),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": []}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
        ({"structured_outputs": {"json_object": False}}, "structured_outputs.json_object"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": [1]}, "guided_choice"),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": 5}, "guided_json"),
        ({"guided_json": '{"items":' * 900 + "{}" + "}" * 900}, "guided_json"),
        ({"regex": ""}, "regex"),
        ({"regex": "("}, "regex"),
        ({"regex": 5}, "regex"),
        ({"grammar": "root ::= x"}, "grammar"),
        ({"regex": "a", "response_format": {"type": "json_object"}}, "regex"),
        ({"regex": "a", "grammar": EBNF}, "grammar"),
    ],
    ids=lambda value: json.dumps(value)[:80],
)
async def test_what_is_no_constraint_is_refused_by_its_name(
    client: httpx.AsyncClient, fields: dict[str, Any], param: str
) -> None:
    body = {"model": "toy", "messages": [{"role": "user", "content": "the mill"}], "stream": True, **fields}
    reply = await client.post(CHAT, json=body)
    assert reply.status_code == 400, reply.text
    error = reply.json()["error"]
    assert error["param"] == param
    assert error["message"].startswith(param)


async def test_a_schema_of_a_response_is_blamed_in_its_own_words(client: httpx.AsyncClient) -> None:
    form = {"type": "json_schema", "name": "x", "schema": {"type": "no"}}
    reply = await client.post("/v1/responses", json={"model": "toy", "input": "the mill", "text": {"format": form}})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "text.format.schema")
