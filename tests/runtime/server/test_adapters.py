"""Adapters are models of their own to clients, and come and go while the server runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from forebay_runtime.adapter import AdapterError
from forebay_runtime.server.adapters.registry import AdapterRegistry
from tests.support.toy_server import MOST_ADAPTERS, NAME, application, running

Client = httpx.AsyncClient
LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
PROMPT = "the river ran past the mill and"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What may be loaded, with a way out of it."""
    directory = tmp_path / "adapters"
    directory.mkdir()
    for name in ("poet", "clerk", "third", "fourth"):
        (directory / name).write_text(name)
    (tmp_path / "secret").write_text("secret")
    (directory / "link").symlink_to(tmp_path / "secret")
    return directory


@pytest.fixture
async def client(root: Path) -> AsyncIterator[Client]:
    async with running(application(lora_root=root)) as client:
        yield client


async def load(client: Client, name: str, path: str | None = None, **fields: Any) -> httpx.Response:
    return await client.post(LOAD, json={"lora_name": name, "lora_path": path or name, **fields})


async def said(client: Client, model: str, **fields: Any) -> str:
    asked = {"model": model, "prompt": PROMPT, "max_tokens": 12, "temperature": 0, **fields}
    reply = await client.post("/v1/completions", json=asked)
    assert reply.status_code == 200, reply.text
    assert reply.json()["model"] == model
    text: str = reply.json()["choices"][0]["text"]
    return text


def error_of(reply: httpx.Response, status: int) -> tuple[str, str, str]:
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    return error["code"], error["param"], error["message"]


async def test_each_is_a_model_with_answers_of_its_own(client: Client) -> None:
    for name in ("poet", "clerk"):
        assert (await load(client, name)).status_code == 200
    texts = [await said(client, name) for name in (NAME, "poet", "clerk")]
    assert len(set(texts)) == 3
    assert await asyncio.gather(*(said(client, name) for name in (NAME, "poet", "clerk"))) == texts


async def test_every_dialect_takes_its_name(client: Client) -> None:
    await load(client, "poet")
    chat = {"model": "poet", "messages": [{"role": "user", "content": "the mill"}], "max_tokens": 4}
    for path, body in (
        ("/v1/chat/completions", chat),
        ("/v1/messages", chat),
        ("/v1/responses", {"model": "poet", "input": "the mill", "max_output_tokens": 4}),
        ("/v1/embeddings", {"model": "poet", "input": "the mill"}),
        ("/tokenize", {"model": "poet", "prompt": "the mill"}),
    ):
        reply = await client.post(path, json=body)
        assert reply.status_code == 200, reply.text
        assert reply.json().get("model", "poet") == "poet"


async def test_its_vectors_are_its_own(client: Client) -> None:
    await load(client, "poet")
    replies = [await client.post("/v1/embeddings", json={"model": m, "input": PROMPT}) for m in (NAME, "poet")]
    first, second = (reply.json()["data"][0]["embedding"] for reply in replies)
    assert first != second


async def test_they_are_listed_below_their_model(client: Client) -> None:
    await load(client, "poet")
    listed = {model["id"]: model for model in (await client.get("/v1/models")).json()["data"]}
    assert (listed["poet"]["parent"], listed["poet"]["root"]) == (NAME, "poet")
    assert listed[NAME]["parent"] is None
    assert (await client.get("/v1/models/poet")).json() == listed["poet"]


async def test_one_that_is_loaded_again_never_says_what_was_kept_of_the_former(client: Client, root: Path) -> None:
    """The prefix cache has blocks of the former under the same name, filled by other weights."""
    await load(client, "poet")
    first = await said(client, "poet")
    (root / "poet").write_text("another poet")
    assert (await client.post(UNLOAD, json={"lora_name": "poet"})).status_code == 200
    await load(client, "poet")
    second = await said(client, "poet")
    assert second != first
    (root / "poet").write_text("poet")
    assert (await load(client, "poet", load_inplace=True)).status_code == 200
    assert await said(client, "poet") == first


async def test_requests_end_on_what_they_began_with(root: Path) -> None:
    async with running(application(lora_root=root, step_seconds=0.005)) as client:
        await load(client, "poet")
        whole = await said(client, "poet", max_tokens=100)
        asked = {"model": "poet", "prompt": PROMPT, "max_tokens": 100, "temperature": 0, "stream": True}
        text = ""
        async with client.stream("POST", "/v1/completions", json=asked) as reply:
            assert reply.status_code == 200
            assert (await client.post(UNLOAD, json={"lora_name": "poet"})).status_code == 200
            async for line in reply.aiter_lines():
                if line.startswith("data: {"):
                    text += json.loads(line.removeprefix("data: "))["choices"][0]["text"]
        assert text == whole
        refused = await client.post("/v1/completions", json=asked)
        assert error_of(refused, 404)[:2] == ("model_not_found", "model")


async def test_names_that_are_taken_are_refused(client: Client) -> None:
    await load(client, "poet")
    for name in (NAME, "toy-alias", "poet"):
        assert error_of(await load(client, name, "clerk"), 400)[:2] == ("name_taken", "lora_name")
    assert error_of(await load(client, NAME, "clerk", load_inplace=True), 400)[0] == "name_taken"


async def test_no_more_than_there_is_room_for(client: Client) -> None:
    for i in range(MOST_ADAPTERS):
        assert (await load(client, f"poet-{i}", "poet")).status_code == 200
    code, _, message = error_of(await load(client, "one-more", "poet"), 400)
    assert code == "invalid_adapter"
    assert "--max-loras" in message
    assert (await load(client, "poet-0", "clerk", load_inplace=True)).status_code == 200


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "link", "poet/../../secret", "x\0y", "a" * 4000])
async def test_only_what_lies_below_the_root_is_read(client: Client, path: str) -> None:
    code, param, message = error_of(await load(client, "x", path), 400)
    assert param == "lora_path"
    assert code in ("invalid_value", "invalid_adapter")
    assert "secret" not in message


async def test_what_can_not_be_read_is_refused_with_the_reason(client: Client) -> None:
    code, param, message = error_of(await load(client, "x", "missing"), 400)
    assert (code, param) == ("invalid_adapter", "lora_path")
    assert "missing" in message


@pytest.mark.parametrize("body", [{}, {"lora_name": 5, "lora_path": "poet"}, {"lora_name": "", "lora_path": "poet"}])
async def test_wrong_bodies_name_the_field(client: Client, body: dict[str, Any]) -> None:
    assert error_of(await client.post(LOAD, json=body), 400)[1] == "lora_name"


async def test_one_that_is_not_there_can_not_be_unloaded(client: Client) -> None:
    for name in ("nobody", NAME):
        assert error_of(await client.post(UNLOAD, json={"lora_name": name}), 404)[1] == "lora_name"


async def test_without_a_root_none_is_loaded(root: Path) -> None:
    async with running(application()) as client:
        for reply in (await load(client, "poet", str(root / "poet")), await client.post(UNLOAD, json={})):
            assert error_of(reply, 403)[0] == "lora_loading_off"


async def test_the_key_is_asked_for(root: Path) -> None:
    async with running(application(api_key="k", lora_root=root)) as client:
        assert (await load(client, "poet")).status_code == 401


class Large:
    nbytes = 10 << 20


def test_what_memory_does_not_hold_is_refused_with_the_numbers() -> None:
    adapters = AdapterRegistry(lambda path: Large(), most=8, memory=25 << 20)
    for name in ("poet", "clerk", "poet"):
        adapters.put(name, "path", adapters.read(Path("path")))
    with pytest.raises(AdapterError, match=r"takes 10.0 MiB, but 5.0 MiB are left"):
        adapters.put("third", "path", Large())
    adapters.remove("clerk")
    adapters.put("third", "path", Large())
    assert set(adapters.by_name) == {"poet", "third"}
