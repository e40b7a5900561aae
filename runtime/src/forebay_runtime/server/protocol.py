"""OpenAI's wire models of chats and completions, as far as this server acts on them."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from forebay_runtime.server.conversation import Conversation
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


StopString = Annotated[str, Field(min_length=1, max_length=4096)]
StopField = StopString | Annotated[list[StopString], Field(max_length=64)] | None


TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
PromptField = str | TokenIds | Annotated[list[str | TokenIds], Field(min_length=1)]


class StreamOptions(Wire):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


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
