"""Wire models of /tokenize and /detokenize."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from forebay_runtime.server.conversation import Conversation
from forebay_runtime.server.wire import Wire, at_fault


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
