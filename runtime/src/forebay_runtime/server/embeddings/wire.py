"""OpenAI's wire model of /v1/embeddings, and what this server takes beside it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from forebay_runtime.server.protocol import PromptField
from forebay_runtime.server.wire import Wire


class EmbeddingsRequest(Wire):
    """`pooling`: how the vectors of a text's tokens become one; `normalize`: to length 1, as OpenAI's are."""

    model: str
    input: Annotated[Any, BeforeValidator(lambda value: value, json_schema_input_type=PromptField)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(None, ge=1)
    pooling: Literal["mean", "last"] | None = None
    normalize: bool | None = None
    user: str | None = None
    cache_salt: str | None = None
    priority: int | None = Field(None, ge=-(1 << 63), lt=1 << 63)
