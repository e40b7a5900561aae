"""OpenAI's wire models of chats and completions, and those of /tokenize, as far as this server acts on them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from forebay_runtime.server.wire import Wire, at_fault

MAX_OUTPUTS = 128  # n, as OpenAI bounds it
MAX_LOGPROBS = 20
_INT64 = 1 << 63


def _stop_strings(value: Any) -> Any:
    values = [value] if isinstance(value, str) else value
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise ValueError("must be a string or a list of strings")
    if not all(values):
        raise ValueError("a stop string must not be empty")
    return values


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


StopString = Annotated[str, Field(min_length=1, max_length=4096)]
StopField = StopString | Annotated[list[StopString], Field(max_length=64)] | None


class TextPart(Wire):
    type: Literal["text"]
    text: str


class RefusalPart(Wire):
    type: Literal["refusal"]
    refusal: str


ContentField = str | list[TextPart | RefusalPart] | None
TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
PromptField = str | TokenIds | Annotated[list[str | TokenIds], Field(min_length=1)]


class StreamOptions(Wire):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


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


class ToolFunction(Wire):
    model_config = ConfigDict(strict=True, extra="allow")  # templates read more than we do

    name: str = Field(pattern=r"^[A-Za-z0-9_.:/-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    @field_validator("parameters")
    @classmethod
    def _check_parameters(cls, parameters: dict[str, Any] | None) -> dict[str, Any] | None:
        if parameters is not None and parameters.get("type", "object") != "object":
            raise ValueError("must be the schema of an object")
        return parameters


class ChatTool(Wire):
    model_config = ConfigDict(strict=True, extra="allow")

    type: Literal["function"]
    function: ToolFunction


class FunctionName(Wire):
    name: str


class NamedTool(Wire):
    type: Literal["function"]
    function: FunctionName


class AllowedTools(Wire):
    mode: Literal["auto", "required"]
    tools: list[NamedTool] = Field(min_length=1)


class AllowedToolsChoice(Wire):
    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


ToolChoice = Literal["none", "auto", "required"] | NamedTool | AllowedToolsChoice


class Sampling(Wire):
    """How tokens are drawn and where they end: the same words on every path."""

    min_tokens: int | None = Field(None, ge=0)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=-1)
    min_p: float | None = Field(None, ge=0, le=1)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    repetition_penalty: float | None = Field(None, gt=0, le=10)
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    seed: int | None = Field(None, ge=-_INT64, lt=_INT64)
    stop: Annotated[list[StopString], BeforeValidator(_stop_strings, json_schema_input_type=StopField)] = Field(
        default_factory=list, max_length=64
    )
    stop_token_ids: list[Annotated[int, Field(ge=0)]] | None = Field(None, max_length=1024)
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    ignore_eos: bool | None = None
    cache_salt: str | None = None
    priority: int | None = Field(None, ge=-_INT64, lt=_INT64)  # lower ones go first


class Constrained(Wire):
    """What says how the answer must look; constraints.py reads these. All but the first are others' words for it."""

    response_format: Any = None
    structured_outputs: Any = None  # vLLM's, and before that its guided_*
    guided_json: Any = None
    guided_regex: Any = None
    guided_choice: Any = None
    guided_grammar: Any = None
    json_schema: Any = None  # llama.cpp's and SGLang's
    grammar: Any = None
    regex: Any = None
    ebnf: Any = None
    choice: Any = None


class _Generation(Sampling, Constrained):
    """What chats and completions have in common."""

    model: str
    n: int | None = Field(None, ge=1, le=MAX_OUTPUTS)
    max_tokens: int | None = Field(None, ge=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @model_validator(mode="after")
    def _check_stream_options(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise at_fault("stream_options", "only together with stream true")
        return self

    @property
    def num_outputs(self) -> int:
        """How many are generated for each prompt, though not all may be shown."""
        return self.n or 1


class Conversation(Wire):
    """What a chat's prompt is made of."""

    messages: list[Message] = Field(min_length=1)
    tools: list[ChatTool] | None = Field(None, max_length=128)
    tool_choice: ToolChoice | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None

    @model_validator(mode="after")
    def _check_tools(self) -> Self:
        names = [tool.function.name for tool in self.tools or ()]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise at_fault(f"tools[{i}].function.name", f"{name!r} is there twice")
        missing = [name for name in self._chosen_names if name not in names]
        if missing:
            raise at_fault("tool_choice", f"there is no tool {missing[0][:64]!r}")
        if self.must_call and not names:
            raise at_fault("tool_choice", "only together with tools")
        return self

    @property
    def callable_tools(self) -> list[ChatTool]:
        """Those that the answer may call."""
        if self.tool_choice == "none":
            return []
        chosen = self._chosen_names
        return [tool for tool in self.tools or () if not chosen or tool.function.name in chosen]

    @property
    def must_call(self) -> bool:
        choice = self.tool_choice
        if isinstance(choice, AllowedToolsChoice):
            return choice.allowed_tools.mode == "required"
        return choice == "required" or isinstance(choice, NamedTool)

    @property
    def _chosen_names(self) -> list[str]:
        match self.tool_choice:
            case NamedTool(function=function):
                return [function.name]
            case AllowedToolsChoice(allowed_tools=allowed):
                return [tool.function.name for tool in allowed.tools]
        return []

    @model_validator(mode="after")
    def _check_end(self) -> Self:
        if self.continue_final_message and self.add_generation_prompt:
            raise at_fault("continue_final_message", "not together with add_generation_prompt true")
        if self.continue_final_message and self.messages[-1].content is None:
            raise at_fault("continue_final_message", "the last message has no content")
        return self


class ChatCompletionRequest(_Generation, Conversation):
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    parallel_tool_calls: bool | None = None

    @model_validator(mode="after")
    def _check_logprobs(self) -> Self:
        if self.top_logprobs and not self.logprobs:
            raise at_fault("top_logprobs", "only together with logprobs true")
        return self


class CompletionRequest(_Generation):
    prompt: Annotated[Any, BeforeValidator(lambda prompt: prompt, json_schema_input_type=PromptField)]
    best_of: int | None = Field(None, ge=1, le=MAX_OUTPUTS)
    logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    echo: bool | None = None

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if self.num_outputs < (self.n or 1):
            raise at_fault("best_of", f"must not be less than n, which is {self.n}")
        if self.stream and self.num_outputs > (self.n or 1):
            raise at_fault("best_of", "which outputs are the best is known at their end: not together with stream true")
        if self.echo and self.logprobs is not None:
            raise at_fault("logprobs", "not supported together with echo by this server")
        return self

    @property
    def num_outputs(self) -> int:
        return (self.n or 1) if self.best_of is None else self.best_of


class TokenizeText(Wire):
    """`content` is llama.cpp's word for the prompt, `add_special` for the flag."""

    model: str | None = None
    prompt: str | None = None
    content: str | None = None
    add_special_tokens: bool | None = None
    add_special: bool | None = None

    @model_validator(mode="after")
    def _check_input(self) -> Self:
        if self.prompt is None and self.content is None:
            raise at_fault("prompt", "prompt or messages is missing")
        return self


class TokenizeChat(Conversation):
    model: str | None = None


class DetokenizeRequest(Wire):
    model: str | None = None
    tokens: list[Annotated[int, Field(ge=0)]]
