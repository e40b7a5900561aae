"""Items become messages."""

from __future__ import annotations

from typing import Any

import pytest

from forebay_runtime.request import RequestError
from forebay_runtime.server.responses.items import chat_body
from forebay_runtime.server.responses.wire import ResponsesRequest
from forebay_runtime.server.wire import parse

Json = dict[str, Any]
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"q": 1}', "id": "fc_1"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "42"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
SAID = {
    "type": "message",
    "role": "assistant",
    "id": "msg_1",
    "status": "completed",
    "content": [{"type": "output_text", "text": "so", "annotations": [], "logprobs": []}],
}


def body(value: Any, **fields: Any) -> Json:
    wire = parse(ResponsesRequest, {"model": "m", "input": value, **fields})
    return chat_body(wire, wire.input)


def text(value: str) -> list[Json]:
    return [{"type": "text", "text": value}]


def refusal(value: Any, **fields: Any) -> RequestError:
    with pytest.raises(RequestError) as refused:
        parse(ResponsesRequest, {"model": "m", "input": value, **fields})
    return refused.value


def test_a_string_is_a_user_s_message_after_the_instructions() -> None:
    messages = body("hi", instructions="Be brief.")["messages"]
    assert messages == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text("hi")}]


def test_reasoning_words_and_calls_in_a_row_are_one_turn() -> None:
    messages = body([{"role": "user", "content": "hi"}, REASONING, SAID, CALL, RESULT])["messages"]
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"q": 1}'}}
    assert messages[1:] == [
        {"role": "assistant", "content": text("so"), "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": text("42")},
    ]


def test_two_messages_in_a_row_stay_two() -> None:
    assert [m["content"] for m in body([SAID, SAID])["messages"]] == [text("so")] * 2


def test_reasoning_alone_is_a_message_without_words() -> None:
    assert body([REASONING])["messages"] == [{"role": "assistant", "content": "", "reasoning_content": "hm"}]


def test_fields_are_those_of_chats_under_other_names() -> None:
    chat = body(
        "hi",
        max_output_tokens=5,
        temperature=0,
        seed=3,
        top_k=4,
        stream=True,
        reasoning={"effort": "low"},
        tools=[{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}],
        tool_choice={"type": "function", "name": "f"},
        text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}},
        include=["message.output_text.logprobs"],
        top_logprobs=2,
    )
    del chat["messages"]
    assert chat == {
        "model": "m",
        "max_completion_tokens": 5,
        "temperature": 0,
        "seed": 3,
        "top_k": 4,
        "stream": True,
        "reasoning_effort": "low",
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
        },
        "logprobs": True,
        "top_logprobs": 2,
    }


@pytest.mark.parametrize(
    ("value", "param"),
    [
        (5, "input"),
        (None, "input"),
        ([], "input"),
        ([5], "input[0]"),
        ([{"role": "wizard", "content": "x"}], "input[0].role"),
        ([{"role": "user"}], "input[0].content"),
        ([{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}], "input[0].content[0]"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "input[0].content[0].text"),
        ([{"type": "computer_call"}], "input[0]"),
        ([{"type": "item_reference", "id": "x"}], "input[0]"),
        ([CALL | {"name": 5}], "input[0].name"),
    ],
)
def test_a_wrong_item_is_blamed_where_it_stands(value: Any, param: str) -> None:
    error = refusal(value)
    assert error.param == param
    assert param in error.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"include": ["file_search_call.results"]}, "include[0]"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"truncation": "auto"}, "truncation"),
        ({"background": True, "store": False}, "background"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
    ],
)
def test_a_wrong_field_is_blamed_by_name(fields: Json, param: str) -> None:
    assert (refusal("hi", **fields).param or "").startswith(param)
