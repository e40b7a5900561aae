"""Anthropic's messages become a chat's."""

from __future__ import annotations

from typing import Any

import pytest

from forebay_runtime.request import RequestError
from forebay_runtime.server.messages.translation import chat_body
from forebay_runtime.server.messages.wire import MessagesRequest
from forebay_runtime.server.wire import parse

Json = dict[str, Any]
USER = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}


def body(messages: Any, **fields: Any) -> Json:
    return chat_body(parse(MessagesRequest, {"model": "m", "max_tokens": 9, "messages": messages, **fields}))


def text(*values: str) -> list[Json]:
    return [{"type": "text", "text": value} for value in values]


def refused_param(messages: Any, **fields: Any) -> str | None:
    with pytest.raises(RequestError) as refused:
        body(messages, **fields)
    assert refused.value.param is None or refused.value.param in refused.value.message
    return refused.value.param


def test_the_system_prompt_comes_first() -> None:
    want = [{"role": "system", "content": text("Be brief.")}, {"role": "user", "content": text("hi")}]
    assert body([USER], system="Be brief.")["messages"] == want
    assert body([USER], system=text("Be brief."))["messages"] == want


def test_a_turn_with_thoughts_and_calls_and_their_results() -> None:
    turn = [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"q": "ä"}},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "42"},
        {"type": "tool_result", "tool_use_id": "t2", "content": text("none"), "is_error": True},
        {"type": "text", "text": "and now?"},
    ]
    chat = body([USER, {"role": "assistant", "content": turn}, {"role": "user", "content": results}])
    call = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": '{"q":"ä"}'}}
    assert chat["messages"][1:] == [
        {"role": "assistant", "content": text("I look"), "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": text("42")},
        {"role": "tool", "tool_call_id": "t2", "content": text("none"), "is_error": True},
        {"role": "user", "content": text("and now?")},
    ]
    assert "continue_final_message" not in chat


def test_a_last_turn_of_the_assistant_is_gone_on_with() -> None:
    begun = {"role": "assistant", "content": "The answer is"}
    assert body([USER, begun])["continue_final_message"] is True
    assert "continue_final_message" not in body([USER, begun, USER])


def test_fields_are_those_of_chats_under_other_names() -> None:
    chat = body(
        [USER],
        temperature=0,
        top_k=3,
        stream=True,
        stop_sequences=["x"],
        tools=[{"name": "look", "description": "d", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        thinking={"type": "disabled"},
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
    )
    del chat["messages"]
    assert chat == {
        "model": "m",
        "max_tokens": 9,
        "temperature": 0,
        "top_k": 3,
        "stream": True,
        "stop": ["x"],
        "tools": [{"type": "function", "function": {"name": "look", "description": "d", "parameters": SCHEMA}}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "chat_template_kwargs": {"enable_thinking": False},
        "reasoning_effort": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
        },
    }
    named = body([USER], tool_choice={"type": "tool", "name": "look"})["tool_choice"]
    assert named == {"type": "function", "function": {"name": "look"}}


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ("hi", "messages"),
        ([{"role": "wizard", "content": "x"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image", "source": {}}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        ([{"role": "user", "content": [{"type": "tool_result"}]}], "messages[0].content[0].tool_use_id"),
    ],
)
def test_a_wrong_message_is_blamed_where_it_stands(messages: Any, param: str) -> None:
    assert refused_param(messages) == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": 1.5}, "temperature"),
        ({"stop_sequences": [""]}, "stop_sequences[0]"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking.type"),
    ],
)
def test_a_wrong_field_is_blamed_by_name(fields: Json, param: str) -> None:
    assert refused_param([USER], **fields) == param
