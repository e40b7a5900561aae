"""What is refused, with which status, and in the one shape there is."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.toy_server import NAME, application, running

Client = httpx.AsyncClient
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
USER = [{"role": "user", "content": "the mill"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
CALLED = {"type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with running(application()) as client:
        yield client


def error_of(reply: httpx.Response, status: int) -> dict[str, Any]:
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"].startswith("application/json")
    error: dict[str, Any] = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error


async def refused(client: Client, status: int = 400, path: str = CHAT, **fields: Any) -> dict[str, Any]:
    asked = {"messages": USER} if path == CHAT else {"prompt": "the mill"}
    return error_of(await client.post(path, json={"model": NAME, "max_tokens": 2, **asked, **fields}), status)


async def accepted(client: Client, path: str = CHAT, **fields: Any) -> None:
    asked = {"messages": USER} if path == CHAT else {"prompt": "the mill"}
    reply = await client.post(path, json={"model": NAME, "max_tokens": 2, **asked, **fields})
    assert reply.status_code == 200, reply.text


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", "ten"),
        ("max_tokens", 1.5),
        ("max_tokens", True),
        ("max_tokens", 0),
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("temperature", "hot"),
        ("top_p", 1.1),
        ("top_k", -2),
        ("min_p", 1.1),
        ("n", 0),
        ("n", 129),
        ("seed", 2**63),
        ("seed", 2**70),
        ("stop", 5),
        ("stop", [""]),
        ("stop", ["x"] * 65),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -2.1),
        ("repetition_penalty", 0),
        ("logit_bias", [1]),
        ("logit_bias", {"x": 1}),
        ("logit_bias", {"1": 101}),
        ("logit_bias", {"99999": 1}),
        ("stream", "yes"),
        ("stream_options", {"include_usage": True}),
        ("stop_token_ids", [-1]),
        ("min_tokens", 3),
        ("structural_tag", {"type": "x"}),
        ("prompt_logprobs", 1),
        ("use_beam_search", True),
    ],
)
async def test_a_wrong_field_is_refused_by_name(client: Client, path: str, field: str, value: Any) -> None:
    assert (await refused(client, path=path, **{field: value}))["param"].startswith(field)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("top_logprobs", 2),
        ("tools", [{"type": "function"}]),
        ("tools", [{"type": "browser"}]),
        ("tools", "f"),
        ("tools", [{"type": "function", "function": {"name": ""}}]),
        ("tools", [{"type": "function", "function": {"name": "a b"}}]),
        ("tools", [{"type": "function", "function": {"name": "f", "parameters": {"type": "string"}}}]),
        ("tools[1].function.name", [TOOL, TOOL]),
        ("tools", [{"type": "function", "function": {"name": f"f{i}"}} for i in range(129)]),
        ("tool_choice", "required"),
        ("tool_choice", "maybe"),
        ("tool_choice", {"type": "function", "function": {"name": "f"}}),
        ("tool_choice", {"type": "function"}),
        ("parallel_tool_calls", 1),
        ("messages", [*USER, {"role": "assistant", "tool_calls": [{"id": "1"}]}]),
        ("messages", [*USER, {"role": "assistant", "tool_calls": [{"id": 1, **CALLED}]}]),
        ("messages", [*USER, {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f"}}]}]),
        ("messages", [{"role": "user", "content": "x", "tool_calls": [{"id": "1", **CALLED}]}]),
        ("messages", [*USER, {"role": "tool", "content": "x"}]),
        ("response_format", "json"),
        ("response_format", {}),
        ("functions", [{"name": "f"}]),
        ("modalities", ["text", "audio"]),
        ("chat_template_kwargs", {"chat_template": "x"}),
        ("chat_template_kwargs", {"bos_token": "x"}),
        ("chat_template_kwargs", {"messages": []}),
        ("messages", []),
        ("messages", [{"role": "wizard", "content": "x"}]),
        ("messages", [{"role": "user"}]),
        ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
    ],
)
async def test_what_chats_can_t_do_yet_is_refused_by_name(client: Client, field: str, value: Any) -> None:
    name = field.partition("[")[0]
    assert (await refused(client, **{name: value}))["param"].startswith(field)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("best_of", 0),
        ("best_of", 129),
        ("priority", 1.5),
        ("suffix", "x"),
        ("logprobs", 21),
        ("prompt", []),
        ("prompt", [[]]),
        ("prompt", [1, "a"]),
        ("prompt", [10**9]),
        ("prompt", [1.5]),
        ("prompt", 5),
        ("prompt", ""),
        ("prompt", [True]),
    ],
)
async def test_what_completions_can_t_do_is_refused_by_name(client: Client, field: str, value: Any) -> None:
    assert (await refused(client, path=COMPLETIONS, **{field: value}))["param"] == field


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [TOOL], "tool_choice": "none"},
        {"tools": []},
        {"response_format": {"type": "text"}},
        {"zz_unknown": {"deep": [1, {"x": None}]}, "user": "u", "store": False, "metadata": {}},
        dict.fromkeys(("stop", "seed", "n", "tools", "tool_choice", "response_format", "stream_options", "top_k")),
        {
            "messages": [
                {"role": "developer", "content": "x"},
                {"role": "user", "content": [{"type": "text", "text": ""}]},
            ]
        },
        {"messages": [*USER, {"role": "assistant", "content": None, "tool_calls": [{"id": "1", **CALLED}]}, *USER]},
        {"temperature": 2, "top_p": 0, "top_k": -1, "seed": -1},
    ],
)
async def test_what_asks_for_nothing_more_is_borne(client: Client, fields: dict[str, Any]) -> None:
    await accepted(client, **fields)


async def test_a_message_is_continued_or_answered(client: Client) -> None:
    error = await refused(client, continue_final_message=True, add_generation_prompt=True)
    assert error["param"] == "continue_final_message"


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_a_missing_field_is_named(client: Client, path: str) -> None:
    error = error_of(await client.post(path, json={"model": NAME}), 400)
    assert (error["code"], error["param"]) == ("missing_required_parameter", "messages" if path == CHAT else "prompt")
    assert error_of(await client.post(path, json={"messages": USER, "prompt": "x"}), 400)["param"] == "model"


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_another_model_is_404(client: Client, path: str) -> None:
    error = await refused(client, 404, path, model="other")
    assert (error["code"], error["param"]) == ("model_not_found", "model")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_too_long_prompt_is_400_with_the_numbers(client: Client, stream: bool) -> None:
    error = await refused(client, path=COMPLETIONS, prompt=[1] * 300, stream=stream)
    assert error["code"] == "context_length_exceeded"
    assert "256" in error["message"]
    assert "300" in error["message"]


async def test_a_text_that_can_t_fit_is_refused_unread(client: Client) -> None:
    error = await refused(client, messages=[{"role": "user", "content": "x" * 50_000}])
    assert error["code"] == "context_length_exceeded"


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b'{"a": NaN}', b"\x00", b'{"model":"toy"} x', b"\xff"])
async def test_a_body_that_is_no_json_object_is_400(client: Client, raw: bytes) -> None:
    assert error_of(await client.post(CHAT, content=raw), 400)["code"] == "invalid_json"


@pytest.mark.parametrize("depth", [300, 5_000, 40_000])
async def test_deep_nesting_is_400(client: Client, depth: int) -> None:
    raw = b'{"model":"toy","zz":' + b"[" * depth + b"]" * depth + b"}"
    assert error_of(await client.post(CHAT, content=raw), 400)["code"] == "invalid_json"


async def test_a_large_body_is_413(client: Client) -> None:
    assert error_of(await client.post(CHAT, content=b" " * 100_001), 413)["code"] == "body_too_large"


async def test_unknown_paths_and_methods_have_the_same_shape(client: Client) -> None:
    error_of(await client.get("/nope"), 404)
    reply = await client.get(CHAT)
    error_of(reply, 405)
    assert reply.headers["allow"] == "POST"
    assert error_of(await client.post("/v1/rerank", json={}), 404)["code"] == "unsupported_endpoint"


async def test_more_outputs_than_the_server_takes_are_400(client: Client) -> None:
    assert (await refused(client, n=17))["code"] == "too_many_outputs"
    assert (await refused(client, path=COMPLETIONS, prompt=["a"] * 17))["code"] == "too_many_outputs"


@pytest.mark.parametrize("path", ["/v1/models", CHAT, COMPLETIONS, "/v1/embeddings", "/v1/nope", "/tokenize", "/nope"])
@pytest.mark.parametrize("key", [None, "Bearer wrong", "Bearer", "secret-key", "Basic c2VjcmV0LWtleQ=="])
async def test_every_path_asks_for_the_key(path: str, key: str | None) -> None:
    async with running(application(api_key="secret-key")) as client:
        headers = {} if key is None else {"Authorization": key}
        reply = await client.request("GET" if path == "/v1/models" else "POST", path, json={}, headers=headers)
    error = error_of(reply, 401)
    assert error["code"] == ("invalid_api_key" if key == "Bearer wrong" else "missing_api_key")
    assert "secret" not in reply.text


async def test_the_right_key_opens_and_probes_need_none() -> None:
    async with running(application(api_key="secret-key")) as client:
        assert (await client.get("/v1/models", headers={"Authorization": "Bearer secret-key"})).status_code == 200
        for path in ("/health", "/ready", "/metrics", "/version"):
            assert (await client.get(path)).status_code == 200


STRANGE = {"zz": 1, "user": "u", "suffix": None, "stream": True, "stream_options": {"include_usage": True, "é\r\n": 0}}


def body(path: str, **fields: Any) -> dict[str, Any]:
    asked = {"messages": USER} if path == CHAT else {"prompt": "the mill"}
    return {"model": NAME, **({} if path == "/tokenize" else {"max_tokens": 2}), **asked, **fields}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_unknown_fields_are_told_in_a_header(client: Client, path: str) -> None:
    reply = await client.post(path, json=body(path, **STRANGE))
    assert reply.status_code == 200
    assert set(reply.headers["x-unknown-fields"].split(", ")) == {"zz", "stream_options.%C3%A9%0D%0A"}
    assert "x-unknown-fields" not in (await client.post(path, json=body(path, user="u"))).headers


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, "/tokenize"])
async def test_a_strict_server_refuses_unknown_fields_by_name(path: str) -> None:
    async with running(application(strict_fields=True)) as strict:
        error = error_of(await strict.post(path, json=body(path, zz={"deep": [1]})), 400)
        assert (error["code"], error["param"]) == ("unknown_parameter", "zz")
        assert (await strict.post(path, json=body(path))).status_code == 200
        borne: dict[str, Any] = {"user": "u", "metadata": {}, "tools": None}
        assert (await strict.post(path, json=body(path, **borne))).status_code == 200


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan", "inf", ""])
async def test_a_wrong_timeout_is_refused_by_name(client: Client, seconds: str) -> None:
    reply = await client.post(CHAT, json=body(CHAT), headers={"X-Request-Timeout": seconds})
    assert error_of(reply, 400)["param"] == "X-Request-Timeout"


async def test_an_encoded_body_is_refused(client: Client) -> None:
    reply = await client.post(CHAT, json=body(CHAT), headers={"Content-Encoding": "gzip"})
    assert error_of(reply, 415)["code"] == "unsupported_encoding"


async def test_a_refusal_takes_no_thread(client: Client) -> None:
    """A flood of them would wait for each other's."""
    before = set(threading.enumerate())
    await refused(client, temperature=-1)
    error_of(await client.get("/nowhere"), 404)
    assert set(threading.enumerate()) <= before


LONG = "x" * 60_000


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/responses", {"input": [{"type": LONG}]}),
        ("/v1/messages", {"messages": [{"role": "user", "content": [{"type": LONG}]}]}),
        (CHAT, {"messages": [{"role": LONG, "content": "x"}]}),
        (CHAT, {"messages": USER, "logit_bias": {LONG: "x"}}),
        (CHAT, {"messages": USER, "tool_choice": {"type": "function", "function": {"name": LONG}}}),
        (CHAT, {"messages": USER, "chat_template_kwargs": {"messages": LONG}, LONG: 1}),
        ("/v1/load_lora_adapter", {"lora_name": LONG, "lora_path": LONG}),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
async def test_refusals_quote_no_more_than_a_little(path: str, fields: dict[str, Any], strict: bool) -> None:
    async with running(application(strict_fields=strict)) as client:
        reply = await client.post(path, json={"model": NAME, "max_tokens": 2, **fields})
    assert 400 <= reply.status_code < 500
    assert len(reply.content) < 3000
    assert len(reply.headers.get("x-unknown-fields", "")) < 3000
