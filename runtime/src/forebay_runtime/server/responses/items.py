"""From the items of a response's input, and of those before it, to the messages of a chat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from forebay_runtime.server.protocol import Sampling
from forebay_runtime.server.responses.wire import (
    FunctionCallItem,
    FunctionCallOutputItem,
    Item,
    MessageItem,
    NamedFunction,
    Part,
    ReasoningItem,
    ResponsesRequest,
    SpokenPart,
    wanted_logprobs,
)

Json = dict[str, Any]

# What the chat's errors blame, in this dialect's words.
NAMES = {
    "messages": "input",
    "max_completion_tokens": "max_output_tokens",
    "response_format.json_schema": "text.format",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}


def chat_body(wire: ResponsesRequest, items: Sequence[Item]) -> Json:
    """The chat that answers: `items` are the conversation so far and the input."""
    messages = chat_messages(items)
    if wire.instructions is not None:
        messages.insert(0, {"role": "system", "content": wire.instructions})
    body = wire.model_dump(include=set(Sampling.model_fields), exclude_none=True) | {
        "model": wire.model,
        "messages": messages,
        "max_completion_tokens": wire.max_output_tokens,
        "stream": wire.stream,
        "parallel_tool_calls": wire.parallel_tool_calls,
        "chat_template_kwargs": wire.chat_template_kwargs,
        "reasoning_effort": wire.reasoning.effort if wire.reasoning else None,
        "response_format": _response_format(wire),
        "tools": [_tool(tool.model_dump(exclude_none=True)) for tool in wire.tools or ()],
        "tool_choice": _tool_choice(wire),
    }
    if wanted_logprobs(wire):
        body |= {"logprobs": True, "top_logprobs": wire.top_logprobs}
    return {name: value for name, value in body.items() if value not in (None, [])}


def chat_messages(items: Iterable[Item]) -> list[Json]:
    """Reasoning, words and calls that follow each other are one message of the assistant."""
    messages: list[Json] = []
    turn: Json | None = None
    for item in items:
        match item:
            case MessageItem(role="assistant"):
                if turn is None or turn["content"] is not None or "tool_calls" in turn:
                    turn = _new_turn(messages)
                turn["content"] = _parts(item.content)
            case ReasoningItem():
                turn = _new_turn(messages)
                turn["reasoning_content"] = "".join(part.text for part in item.content or ())
            case FunctionCallItem():
                turn = _new_turn(messages) if turn is None else turn
                turn.setdefault("tool_calls", []).append(_call(item))
            case MessageItem():
                turn = None
                messages.append({"role": item.role, "content": _parts(item.content)})
            case FunctionCallOutputItem():
                turn = None
                messages.append({"role": "tool", "tool_call_id": item.call_id, "content": _parts(item.output)})
    for message in messages:
        if message["content"] is None and "tool_calls" not in message:
            message["content"] = ""  # the model thought, and said nothing
    return messages


def _new_turn(messages: list[Json]) -> Json:
    turn: Json = {"role": "assistant", "content": None}
    messages.append(turn)
    return turn


def _parts(parts: Sequence[Part]) -> list[Json]:
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, SpokenPart)
        else {"type": "refusal", "refusal": part.refusal}
        for part in parts
    ]


def _call(item: FunctionCallItem) -> Json:
    return {"id": item.call_id, "type": "function", "function": {"name": item.name, "arguments": item.arguments}}


def _tool(tool: Json) -> Json:
    kind = tool.pop("type")
    return {"type": kind, kind: tool}


def _tool_choice(wire: ResponsesRequest) -> Any:
    choice = wire.tool_choice
    if isinstance(choice, NamedFunction):
        return {"type": "function", "function": {"name": choice.name}}
    return choice


def _response_format(wire: ResponsesRequest) -> Json | None:
    form = wire.text.format if wire.text else None
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return {"type": "json_object"}
    schema = form.model_dump(exclude_none=True, by_alias=True, exclude={"type"})
    return {"type": "json_schema", "json_schema": {"name": "answer", **schema}}
