"""Wire models of a conversation's messages."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, model_validator

from forebay_runtime.server.wire import Wire


def _text_of(content: Any) -> Any:
    """The text of a message's content: itself, or its text parts with a line break between them."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError("must be a string or a list of content parts")
    return "\n".join(_text_of_part(part) for part in content)


def _text_of_part(part: Any) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in ("text", "refusal"):
        raise ValueError(f"content part {str(kind)[:64]!r} is not supported; this model takes parts of type 'text'")
    text = part.get(kind)
    if not isinstance(text, str):
        raise ValueError(f"a content part of type {kind!r} needs a string {kind!r}")
    return text


class TextPart(Wire):
    type: Literal["text"]
    text: str


class RefusalPart(Wire):
    type: Literal["refusal"]
    refusal: str


ContentField = str | list[TextPart | RefusalPart] | None


class CalledFunction(Wire):
    model_config = ConfigDict(strict=True, extra="allow")

    name: str
    arguments: str  # JSON, as the model wrote it


class ToolCall(Wire):
    model_config = ConfigDict(strict=True, extra="allow")

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class Message(Wire):
    model_config = ConfigDict(strict=True, extra="allow")  # templates read more than we do

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[str | None, BeforeValidator(_text_of, json_schema_input_type=ContentField)] = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None

    @model_validator(mode="after")
    def _check_role(self) -> Self:
        if self.tool_calls and self.role != "assistant":
            raise ValueError(f"a message of role {self.role!r} has no tool_calls")
        if self.role == "tool" and self.tool_call_id is None:
            raise ValueError("a message of role 'tool' needs a tool_call_id")
        return self

    @model_validator(mode="after")
    def _check_content(self) -> Self:
        if self.content is None and not (self.role == "assistant" and self.tool_calls):
            raise ValueError(f"a message of role {self.role!r} needs content")
        return self

    def for_template(self) -> dict[str, Any]:
        """Templates know no developers, do not add to null, and want a call's arguments as an object."""
        message = self.model_dump(exclude_none=True)
        message["role"] = "system" if self.role == "developer" else self.role
        message["content"] = self.content or ""
        if self.tool_calls:
            message["tool_calls"] = [_with_parsed_arguments(call) for call in message["tool_calls"]]
        return message


def _with_parsed_arguments(call: dict[str, Any]) -> dict[str, Any]:
    """What a model wrote may be no JSON, and is then given as it is."""
    function = call["function"]
    try:
        return call | {"function": function | {"arguments": json.loads(function["arguments"])}}
    except (ValueError, RecursionError):
        return call
