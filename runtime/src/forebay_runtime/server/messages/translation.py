"""From Anthropic's messages to those of a chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from forebay_runtime.server.messages.wire import (
    Block,
    CountTokensRequest,
    MessageParam,
    MessagesRequest,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolChoice,
    ToolResultBlock,
    ToolUseBlock,
)

Json = dict[str, Any]

# What the chat's errors blame, in this dialect's words.
NAMES = {
    "stop": "stop_sequences",
    "response_format.json_schema": "output_config.format",
    "response_format": "output_config.format",
    "reasoning_effort": "output_config.effort",
}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def chat_body(wire: CountTokensRequest) -> Json:
    """The chat that answers. A last message of the assistant's is gone on with."""
    messages = [message for param in wire.messages for message in _messages(param)]
    if wire.system:
        messages.insert(0, {"role": "system", "content": _parts(wire.system)})
    last = messages[-1]
    config = wire.output_config
    body = {
        "model": wire.model,
        "messages": messages,
        "continue_final_message": (last["role"] == "assistant" and "tool_calls" not in last) or None,
        "tools": [_tool(tool) for tool in wire.tools or ()],
        "reasoning_effort": config.effort if config else None,
        **_tool_choice(wire.tool_choice),
    }
    if wire.thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": wire.thinking.type == "adaptive"}
    if config is not None and config.format is not None:
        schema = {"name": "answer", "schema": config.format.schema_, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if isinstance(wire, MessagesRequest):
        body |= {name: getattr(wire, name) for name in ("max_tokens", "stream", "temperature", "top_k", "top_p")}
        body["stop"] = wire.stop_sequences
    return {name: value for name, value in body.items() if value is not None and value != []}


def _messages(param: MessageParam) -> list[Json]:
    return [_turn(param.content)] if param.role == "assistant" else _said_to_it(param.role, param.content)


def _turn(blocks: Sequence[Block]) -> Json:
    texts = [block for block in blocks if isinstance(block, TextBlock)]
    thoughts = [block.thinking for block in blocks if isinstance(block, ThinkingBlock)]
    calls = [_call(block) for block in blocks if isinstance(block, ToolUseBlock)]
    turn: Json = {"role": "assistant", "content": _parts(texts) if texts or not calls else None}
    if thoughts:
        turn["reasoning_content"] = "".join(thoughts)
    if calls:
        turn["tool_calls"] = calls
    return turn


def _said_to_it(role: str, blocks: Sequence[Block]) -> list[Json]:
    """Results of tools are messages of their own, between what was said before and after them."""
    messages: list[Json] = []
    texts: list[TextBlock] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            texts.append(block)
        elif isinstance(block, ToolResultBlock):
            messages += [{"role": role, "content": _parts(texts)}] if texts else []
            messages.append(_result(block))
            texts = []
    if texts or not messages:
        messages.append({"role": role, "content": _parts(texts)})
    return messages


def _result(block: ToolResultBlock) -> Json:
    result: Json = {"role": "tool", "tool_call_id": block.tool_use_id, "content": _parts(block.content)}
    return result | {"is_error": True} if block.is_error else result


def _parts(blocks: Sequence[TextBlock]) -> list[Json]:
    return [{"type": "text", "text": block.text} for block in blocks]


def _call(block: ToolUseBlock) -> Json:
    function = {"name": block.name, "arguments": orjson.dumps(block.input).decode()}
    return {"id": block.id, "type": "function", "function": function}


def _tool(tool: Tool) -> Json:
    function = {"name": tool.name, "parameters": tool.input_schema}
    function |= {name: value for name in ("description", "strict") if (value := getattr(tool, name)) is not None}
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice | None) -> Json:
    if choice is None:
        return {}
    named = {"type": "function", "function": {"name": choice.name}}
    body: Json = {"tool_choice": named if choice.type == "tool" else _CHOICES[choice.type]}
    return body | {"parallel_tool_calls": False} if choice.disable_parallel_tool_use else body
