"""Right bodies with something odd in them: each is answered, or refused in its dialect's shape, by name."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.support.toy_server import NAME, SCHEDULER, application, running

Json = dict[str, Any]
Place = tuple[str | int, ...]
ROUNDS = 60
ROOMY = replace(SCHEDULER, max_model_len=1024)  # for tools, which the toy spells by the letter


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = {"a": [value]}
    return value


ODD: list[Any] = [
    *(None, True, 0, -1, 1.5, 1e308, 2**31, 2**53, 2**63, 2**64, -(2**63) - 1, 10**30),
    *("", "x", "\x00", "\U0001f600", "\u202e\uffff", "x" * 70_000, "auto", "required"),
    *([], [None], [[]], [{}], [1], [-1], [2**70], ["x"] * 300, {}, {"": ""}, {"x": 1}, {"-1": 1}, {"1" * 30: 1}),
    *({"type": None}, {"type": "x"}, {"type": ["x"] * 300}, {"type": "x" * 70_000}, {"role": "user"}),
    *(nested(40), [nested(40)], {"type": "json_schema", "json_schema": {"name": "x", "schema": nested(30)}}),
]
TOOL = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"enum": ["x", 1, None]}}, "required": ["a"]}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "r"}
FORM = {"type": "json_schema", "name": "x", "schema": {"type": "object", "properties": {}}, "strict": True}
USER = {"role": "user", "content": [{"type": "text", "text": "the mill"}]}
MESSAGES: Json = {
    "model": NAME,
    "system": [{"type": "text", "text": "s"}],
    "messages": [
        USER,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]},
    ],
    "tools": [{"name": "f", "input_schema": TOOL["parameters"]}],
    "tool_choice": {"type": "auto"},
}
RIGHT: dict[str, Json] = {
    "/v1/chat/completions": {
        "model": NAME,
        "messages": [USER, {"role": "assistant", "tool_calls": [CALL]}, RESULT],
        "tools": [{"type": "function", "function": TOOL}],
        "tool_choice": "auto",
        "response_format": {"type": "json_schema", "json_schema": {k: v for k, v in FORM.items() if k != "type"}},
        "logit_bias": {"5": 1},
        "logprobs": True,
        "top_logprobs": 2,
        "stop": ["x"],
        "max_tokens": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    "/v1/completions": {"model": NAME, "prompt": ["a", [5, 6]], "n": 2, "stop": ["x"], "logprobs": 2, "max_tokens": 3},
    "/v1/responses": {
        "model": NAME,
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "r"},
        ],
        "tools": [{"type": "function", **TOOL}],
        "text": {"format": FORM},
        "metadata": {"a": "b"},
        "max_output_tokens": 3,
        "stream": True,
    },
    "/v1/messages": {**MESSAGES, "stop_sequences": ["x"], "max_tokens": 3, "stream": True},
    "/v1/messages/count_tokens": MESSAGES,
    "/v1/embeddings": {"model": NAME, "input": ["a", [5, 6]], "encoding_format": "base64"},
    "/tokenize": {"model": NAME, "messages": [USER], "chat_template_kwargs": {"a": 1}},
    "/detokenize": {"model": NAME, "tokens": [1, 2, 3]},
}  # fmt: skip


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    if at:
        yield at
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in pairs:
        yield from places(part, (*at, key))


def spoiled(body: Json, draw: random.Random) -> Json:
    """With one value replaced, added or taken out."""
    body = copy.deepcopy(body)
    *way, last = draw.choice(list(places(body)))
    holder: Any = body
    for key in way:
        holder = holder[key]
    match draw.randrange(4):
        case 0:
            holder.pop(last)
        case 1 if isinstance(holder, dict):
            holder["extra"] = draw.choice(ODD)
        case _:
            holder[last] = draw.choice(ODD)
    return body


def check(path: str, reply: httpx.Response) -> None:
    assert reply.status_code < 500
    if reply.status_code == 200:
        return
    assert len(reply.content) < 5000
    if path.startswith("/v1/messages"):
        told = reply.json()
        assert set(told) == {"type", "error", "request_id"}
        assert set(told["error"]) == {"type", "message"}
        return
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"]
    assert error["param"]


@pytest.mark.parametrize("path", RIGHT)
async def test_odd_values_anywhere(path: str) -> None:
    draw = random.Random(path)
    async with running(application(ROOMY)) as client:
        assert (await client.post(path, json=RIGHT[path])).status_code == 200
        for _ in range(ROUNDS):
            body = spoiled(RIGHT[path], draw)
            reply = await client.post(path, content=json.dumps(body))
            try:
                check(path, reply)
            except AssertionError as e:
                raise AssertionError(f"{reply.status_code} {reply.text[:500]} for {str(body)[:2000]}") from e
