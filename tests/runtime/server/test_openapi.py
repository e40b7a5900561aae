"""The OpenAPI document says what the server does."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from starlette.routing import Route

from forebay_runtime.server.openapi.document import document
from forebay_runtime.server.unsupported import PATHS
from tests.support.toy_server import NAME, application, running

Client = httpx.AsyncClient
Json = dict[str, Any]
MESSAGES = [{"role": "user", "content": "the mill"}]
ASKED: list[tuple[str, Json]] = [
    ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 4, "stop": "x", "logprobs": True}),
    ("/v1/completions", {"prompt": ["the mill", [5, 6]], "max_tokens": 4, "logprobs": 2}),
    ("/v1/responses", {"input": "the mill", "max_output_tokens": 4}),
    ("/v1/responses", {"input": MESSAGES, "max_output_tokens": 4}),
    ("/v1/messages", {"messages": MESSAGES, "max_tokens": 4}),
    ("/v1/messages/count_tokens", {"messages": MESSAGES}),
    ("/v1/embeddings", {"input": ["the mill", [5, 6]]}),
    ("/v1/embeddings", {"input": "the mill", "encoding_format": "base64"}),
    ("/tokenize", {"prompt": "the mill"}),
    ("/tokenize", {"messages": MESSAGES}),
    ("/detokenize", {"tokens": [5, 6]}),
]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with running(application()) as client:
        yield client


def check(told: Json, schema: Json, value: Any) -> None:
    Draft202012Validator(schema | {"components": told["components"]}).validate(value)


def content_of(told: Json, method: str, path: str, reply: httpx.Response) -> Json:
    """The schema of a reply; KeyError unless the document knows its status and type."""
    kind = reply.headers["content-type"].split(";")[0]
    schema: Json = told["paths"][path][method]["responses"][str(reply.status_code)]["content"][kind]["schema"]
    return schema


def test_every_route_is_in_the_document_and_no_other() -> None:
    routes = [route for route in application().asgi.routes if isinstance(route, Route) and route.path not in PATHS]
    served = {
        (method.lower(), re.sub(":path", "", route.path))
        for route in routes
        for method in route.methods or ()
        if method != "HEAD"
    }
    told = document("1", with_key=False)["paths"]
    assert served == {(method, path) for path, methods in told.items() for method in methods}


def test_its_schemas_are_schemas_and_have_plain_names() -> None:
    schemas = document("1", with_key=True)["components"]["schemas"]
    for name, schema in schemas.items():
        Draft202012Validator.check_schema(schema)
        assert "__" not in name


@pytest.mark.parametrize(("path", "body"), ASKED)
async def test_bodies_and_replies_are_as_it_says(client: Client, path: str, body: Json) -> None:
    told = (await client.get("/openapi.json")).json()
    asked = {"model": NAME, **body}
    check(told, told["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"], asked)
    reply = await client.post(path, json=asked)
    assert reply.status_code == 200
    check(told, content_of(told, "post", path, reply), reply.json())


@pytest.mark.parametrize("path", sorted({path for path, _ in ASKED}))
@pytest.mark.parametrize("body", [{"model": 5}, {"model": "other"}])
async def test_refusals_are_as_it_says(client: Client, path: str, body: Json) -> None:
    told = (await client.get("/openapi.json")).json()
    right = next(asked for of, asked in ASKED if of == path)
    asked = body | right if body["model"] == "other" else body
    reply = await client.post(path, json=asked)
    assert reply.status_code == (404 if body["model"] == "other" else 400)
    check(told, content_of(told, "post", path, reply), reply.json())


@pytest.mark.parametrize("path", sorted({path for path, _ in ASKED} | {"/v1/load_lora_adapter"}))
async def test_encoded_and_large_bodies_are_refused_as_it_says(tmp_path: Path, path: str) -> None:
    async with running(application(lora_root=tmp_path)) as client:
        told = (await client.get("/openapi.json")).json()
        encoded = await client.post(path, content=b"{}", headers={"Content-Encoding": "gzip"})
        large = await client.post(path, content=b" " * 200_000)
    for reply, status in ((encoded, 415), (large, 413)):
        assert reply.status_code == status
        check(told, content_of(told, "post", path, reply), reply.json())


async def test_streams_and_what_is_read_are_as_it_says(client: Client) -> None:
    told = (await client.get("/openapi.json")).json()
    for path, body in ASKED[:5]:
        content_of(told, "post", path, await client.post(path, json={"model": NAME, "stream": True, **body}))
    made = (await client.post("/v1/responses", json={"model": NAME, "input": "x", "max_output_tokens": 2})).json()
    one = "/v1/responses/{response_id}"
    filled = {"{response_id}": made["id"], "{model}": NAME}
    for path in (one, f"{one}/input_items", "/v1/models", "/v1/models/{model}", "/health", "/ready", "/version"):
        url = path
        for name, value in filled.items():
            url = url.replace(name, value)
        reply = await client.get(url)
        check(told, content_of(told, "get", path, reply), reply.json())
    content_of(told, "get", "/metrics", await client.get("/metrics"))
    gone = await client.delete(f"/v1/responses/{made['id']}")
    check(told, content_of(told, "delete", one, gone), gone.json())


def test_it_asks_for_the_key_where_the_server_does() -> None:
    told = document("1", with_key=True)["paths"]
    guarded = {path for path, methods in told.items() if any("security" in o for o in methods.values())}
    assert guarded == set(told) - {"/health", "/ready", "/metrics", "/version"}
    assert "401" in told["/v1/models"]["get"]["responses"]
