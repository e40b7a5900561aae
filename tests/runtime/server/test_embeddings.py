"""/v1/embeddings as clients see it."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import httpx2
import openai
import pytest

from tests.support.toy_server import NAME, application, running

Client = httpx.AsyncClient
PATH = "/v1/embeddings"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with running(application()) as client:
        yield client


async def embed(client: Client, value: Any, **fields: Any) -> dict[str, Any]:
    reply = await client.post(PATH, json={"model": NAME, "input": value, **fields})
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


async def vector(client: Client, value: Any, **fields: Any) -> list[float]:
    (datum,) = (await embed(client, value, **fields))["data"]
    numbers: list[float] = datum["embedding"]
    return numbers


def close(a: Sequence[float], b: Sequence[float]) -> bool:
    return a == pytest.approx(b, rel=1e-6)


async def test_texts_and_their_tokens_have_the_same_vectors(client: Client) -> None:
    texts = ["the river", "past the mill and the water"]
    tokens = [(await client.post("/tokenize", json={"prompt": t})).json()["tokens"] for t in texts]
    alone = [await vector(client, t) for t in texts]
    for value in (texts, tokens, [texts[0], tokens[1]]):
        answer = await embed(client, value)
        assert [d["index"] for d in answer["data"]] == [0, 1]
        assert [d["embedding"] for d in answer["data"]] == alone
        count = sum(map(len, tokens))
        assert answer["usage"] == {"prompt_tokens": count, "total_tokens": count}
    assert await vector(client, tokens[0]) == alone[0]


async def test_vectors_have_length_1_unless_told_otherwise(client: Client) -> None:
    normal, raw = await vector(client, "the river"), await vector(client, "the river", normalize=False)
    assert math.hypot(*normal) == pytest.approx(1, rel=1e-6)
    length = math.hypot(*raw)
    assert length > 2
    assert close(normal, [x / length for x in raw])


async def test_a_mean_is_that_of_the_beginnings_last_vectors(client: Client) -> None:
    tokens = (await client.post("/tokenize", json={"prompt": "the river ran past the mill"})).json()["tokens"]
    beginnings = [tokens[:n] for n in range(1, len(tokens) + 1)]
    lasts = [d["embedding"] for d in (await embed(client, beginnings, pooling="last", normalize=False))["data"]]
    mean = await vector(client, tokens, pooling="mean", normalize=False)
    assert close(mean, [sum(column) / len(tokens) for column in zip(*lasts, strict=True)])
    assert mean != lasts[-1]


async def test_base64_holds_the_same_numbers(client: Client) -> None:
    numbers = await vector(client, "the river")
    (datum,) = (await embed(client, "the river", encoding_format="base64"))["data"]
    data = base64.b64decode(datum["embedding"])
    assert list(struct.unpack(f"<{len(numbers)}f", data)) == numbers


async def test_more_inputs_than_the_engine_has_places_for(client: Client) -> None:
    inputs = [f"the river {i}" for i in range(60)]
    data = (await embed(client, inputs))["data"]
    assert [d["index"] for d in data] == list(range(60))
    assert data[59]["embedding"] == await vector(client, inputs[59])


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": None}, "input"),
        ({"input": 5}, "input"),
        ({"input": [""]}, "input"),
        ({"input": {"a": 1}}, "input"),
        ({"input": [1, "a"]}, "input"),
        ({"input": [10**9]}, "input"),
        ({"input": [1] * 300}, "input"),
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"pooling": "max"}, "pooling"),
        ({"dimensions": 2}, "dimensions"),
        ({"dimensions": 0}, "dimensions"),
        ({"model": "other"}, "model"),
    ],
)
async def test_what_is_refused_is_named(client: Client, fields: dict[str, Any], param: str) -> None:
    reply = await client.post(PATH, json={"model": NAME, "input": "the river", **fields})
    assert reply.status_code == (404 if param == "model" else 400)
    assert reply.json()["error"]["param"] == param


async def test_the_vector_s_own_size_may_be_asked_for(client: Client) -> None:
    size = len(await vector(client, "the river"))
    assert len(await vector(client, "the river", dimensions=size)) == size


async def test_openai_s_client_works_unchanged() -> None:
    app = application()
    transport = httpx2.ASGITransport(app.asgi)
    async with running(app) as client, httpx2.AsyncClient(transport=transport) as connection:
        official = openai.AsyncOpenAI(base_url="http://toy/v1", api_key="none", http_client=connection)
        answer = await official.embeddings.create(model=NAME, input=["the river", "the mill"])
        assert [d.embedding for d in answer.data] == [await vector(client, t) for t in ("the river", "the mill")]


@pytest.mark.parametrize("size", [256, 5000])
async def test_an_input_that_is_too_long_is_told_in_its_own_words(client: Client, size: int) -> None:
    for long in ("x " * size, [5] * size):
        reply = await client.post("/v1/embeddings", json={"model": NAME, "input": long})
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["param"]) == (400, "context_length_exceeded", "input")
        assert "255 tokens, but the input" in error["message"]
        assert not {"answer", "prompt"} & set(error["message"].replace(".", "").split())
