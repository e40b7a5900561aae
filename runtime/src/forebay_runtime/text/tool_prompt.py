"""Tells a model of its tools: through its chat template, or in words where the template has no place for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from forebay_runtime.request import RequestError
from forebay_runtime.text.chat import ChatTemplate
from forebay_runtime.text.tool_formats import ToolFormat

Message = dict[str, Any]
_PROBE = "probe_of_tools"


class ToolPrompter:
    """Of one model."""

    def __init__(self, template: ChatTemplate, tool_format: ToolFormat) -> None:
        self._template, self._format = template, tool_format

    @cached_property
    def knows_tools(self) -> bool:
        """Whether the template writes the tools that it is given."""
        function = {"name": _PROBE, "description": "", "parameters": {"type": "object", "properties": {}}}
        try:
            tools = [{"type": "function", "function": function}]
            text = self._template.render([{"role": "user", "content": "x"}], {"tools": tools})
        except RequestError:
            return False
        return _PROBE in text

    def prepared(
        self, messages: list[Message], tools: Sequence[Mapping[str, Any]]
    ) -> tuple[list[Message], dict[str, Any]]:
        """The messages and variables for the template. Tools are in OpenAI's form."""
        if self.knows_tools:
            return messages, {"tools": list(tools)} if tools else {}
        messages = _told_in_words(messages, self._format)
        return (_with_instructions(messages, self._format, tools) if tools else messages), {}


def _with_instructions(
    messages: list[Message], tool_format: ToolFormat, tools: Sequence[Mapping[str, Any]]
) -> list[Message]:
    told = tool_format.instructions([tool["function"] for tool in tools])
    first = messages[0]
    if first["role"] != "system":
        return [{"role": "system", "content": told}, *messages]
    return [first | {"content": f"{first['content']}\n\n{told}" if first["content"] else told}, *messages[1:]]


def _told_in_words(messages: list[Message], tool_format: ToolFormat) -> list[Message]:
    """Calls become the assistant's words, and results the user's, who stands where the template knows no tools."""
    told: list[Message] = []
    for message in messages:
        if message.get("tool_calls"):
            message = _said_calls(message, tool_format)
        elif message["role"] == "tool":
            result = f"<tool_response>\n{message['content']}\n</tool_response>"
            if told and told[-1].get("is_result"):
                told[-1]["content"] += f"\n{result}"
                continue
            message = {"role": "user", "content": result, "is_result": True}
        told.append(message)
    return [{key: value for key, value in message.items() if key != "is_result"} for message in told]


def _said_calls(message: Message, tool_format: ToolFormat) -> Message:
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]]
    words = [message["content"], tool_format.write(calls)]
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return rest | {"content": "\n".join(filter(None, words))}
