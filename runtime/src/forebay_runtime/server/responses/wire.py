"""OpenAI's wire models of /v1/responses, as far as this server acts on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from forebay_runtime.server.chat_messages import RefusalPart
from forebay_runtime.server.protocol import MAX_LOGPROBS, Sampling
from forebay_runtime.server.wire import Wire, at_fault

MOST_INPUT_ITEMS = 4096
LOGPROBS = "message.output_text.logprobs"


class SpokenPart(Wire):
    type: Literal["input_text", "output_text", "text"]
    text: str


class ReasoningPart(Wire):
    type: Literal["reasoning_text"]
    text: str


def _kind_of_part(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, dict) else getattr(part, "type", None)
    return "text" if kind in ("input_text", "output_text") else kind


Part = Annotated[
    Annotated[SpokenPart, Tag("text")] | Annotated[RefusalPart, Tag("refusal")], Discriminator(_kind_of_part)
]


def _as_parts(content: Any) -> Any:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


Content = Annotated[list[Part], BeforeValidator(_as_parts, json_schema_input_type=str | list[Part])]


class MessageItem(Wire):
    """Of anyone: what OpenAI calls an easy message, an input message or an output message."""

    type: Literal["message"] | None = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Content
    id: str | None = None
    status: str | None = None


class FunctionCallItem(Wire):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: str | None = None


class FunctionCallOutputItem(Wire):
    type: Literal["function_call_output"]
    call_id: str
    output: Content
    id: str | None = None
    status: str | None = None


class ReasoningItem(Wire):
    type: Literal["reasoning"]
    content: list[ReasoningPart] | None = None
    id: str | None = None


def _kind_of_item(item: Any) -> Any:
    kind = item.get("type") if isinstance(item, dict) else getattr(item, "type", None)
    return "message" if kind is None else kind


Item = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[FunctionCallItem, Tag("function_call")]
    | Annotated[FunctionCallOutputItem, Tag("function_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(_kind_of_item),
]


def _as_items(value: Any) -> Any:
    return [{"type": "message", "role": "user", "content": value}] if isinstance(value, str) else value


class FunctionTool(Wire):
    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class NamedFunction(Wire):
    type: Literal["function"]
    name: str


class Format(Wire):
    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None

    @model_validator(mode="after")
    def _check_schema(self) -> Self:
        if self.type == "json_schema" and self.schema_ is None:
            raise at_fault("text.format.schema", "a format of type json_schema needs a schema")
        return self


class TextConfig(Wire):
    format: Format | None = None


class Reasoning(Wire):
    effort: str | None = None


class ResponseStreamOptions(Wire):
    include_obfuscation: Literal[False] | None = None


class ResponsesRequest(Sampling):
    """Beside OpenAI's own fields the sampling of the other paths is taken: seed, top_k, stop and so on."""

    model: str
    input: Annotated[
        list[Item],
        BeforeValidator(_as_items, json_schema_input_type=str | list[Item]),
        Field(max_length=MOST_INPUT_ITEMS),
    ]
    instructions: str | None = None
    previous_response_id: str | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    include: list[Literal["message.output_text.logprobs"]] | None = None
    stream: bool | None = None
    stream_options: ResponseStreamOptions | None = None
    store: bool | None = None
    background: bool | None = None
    metadata: dict[str, Annotated[str, Field(max_length=512)]] | None = Field(None, max_length=16)
    text: TextConfig | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedFunction | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    truncation: Literal["disabled"] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    user: str | None = None

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if not self.input:
            raise at_fault("input", "holds no items")
        if self.background and self.store is False:
            raise at_fault("background", "only together with store true: how would you get the response?")
        return self


def wanted_logprobs(wire: ResponsesRequest) -> bool:
    return LOGPROBS in (wire.include or ())


UNSUPPORTED: Mapping[str, str] = {
    "conversation": "conversations are not kept by this server; use previous_response_id",
    "prompt": "prompt templates are not kept by this server; send instructions and input",
    "context_management": "this server does not compact contexts",
    "moderation": "this server does not moderate",
    "access_programs": "this server has no access programs",
    "image": "this model takes no images",
}
