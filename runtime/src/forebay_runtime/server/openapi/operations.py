"""The operations there are, each with what it takes and gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from forebay_runtime.server.adapters.wire import LoadAdapterRequest, UnloadAdapterRequest
from forebay_runtime.server.embeddings.wire import EmbeddingsRequest
from forebay_runtime.server.messages.wire import CountTokensRequest, MessagesRequest
from forebay_runtime.server.openapi import schemas
from forebay_runtime.server.protocol import ChatCompletionRequest, CompletionRequest
from forebay_runtime.server.responses.wire import ResponsesRequest
from forebay_runtime.server.tokenization.wire import DetokenizeRequest, TokenizeChat, TokenizeText

Schema = type[BaseModel]

_ASKED_WRONGLY = (400, 413, 415)
_GENERATING = (*_ASKED_WRONGLY, 404, 429, 500, 503, 504)
_RESPONSE_ID = {"name": "response_id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _query(name: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema}


@dataclass(frozen=True, slots=True)
class Operation:
    """`body` and `reply`: any of these models. `failures`: statuses with an error's body."""

    method: Literal["get", "post", "delete"]
    path: str
    summary: str
    reply: Schema | Literal["text/plain", "application/json"]
    body: tuple[Schema, ...] = ()
    failures: tuple[int, ...] = ()
    parameters: tuple[dict[str, Any], ...] = ()
    streams: bool = False
    needs_key: bool = True
    error: Schema = field(default=schemas.Error)


OPERATIONS = (
    Operation(
        *("post", "/v1/chat/completions", "Answers a chat.", schemas.ChatCompletion, (ChatCompletionRequest,)),
        failures=_GENERATING,
        streams=True,
    ),
    Operation(
        *("post", "/v1/completions", "Goes on with texts or tokens.", schemas.Completion, (CompletionRequest,)),
        failures=_GENERATING,
        streams=True,
    ),
    Operation(
        *("post", "/v1/responses", "Makes a response.", schemas.Response, (ResponsesRequest,)),
        failures=_GENERATING,
        streams=True,
    ),
    Operation(
        *("get", "/v1/responses/{response_id}", "A response that is kept.", schemas.Response),
        failures=(400, 404),
        parameters=(
            _RESPONSE_ID,
            _query("stream", enum=["true", "false"]),
            _query("starting_after", type="integer", minimum=0, maximum=999_999_999),
        ),
        streams=True,
    ),
    Operation(
        *("delete", "/v1/responses/{response_id}", "Forgets a response.", schemas.DeletedResponse),
        failures=(404,),
        parameters=(_RESPONSE_ID,),
    ),
    Operation(
        *("post", "/v1/responses/{response_id}/cancel", "Ends a response in the background.", schemas.Response),
        failures=(400, 404),
        parameters=(_RESPONSE_ID,),
    ),
    Operation(
        *("get", "/v1/responses/{response_id}/input_items", "What a response answers.", schemas.InputItems),
        failures=(400, 404),
        parameters=(
            _RESPONSE_ID,
            _query("limit", type="integer", minimum=1, maximum=100),
            _query("order", enum=["asc", "desc"]),
            _query("after", type="string"),
        ),
    ),
    Operation(
        *("post", "/v1/messages", "Answers in Anthropic's format.", schemas.AnthropicMessage, (MessagesRequest,)),
        failures=_GENERATING,
        streams=True,
        error=schemas.MessagesError,
    ),
    Operation(
        *("post", "/v1/messages/count_tokens", "Counts a prompt.", schemas.TokenCount, (CountTokensRequest,)),
        failures=(*_ASKED_WRONGLY, 404),
        error=schemas.MessagesError,
    ),
    Operation(
        *("post", "/v1/embeddings", "Makes vectors of texts.", schemas.Embeddings, (EmbeddingsRequest,)),
        failures=_GENERATING,
    ),
    Operation("get", "/v1/models", "The names of the model.", schemas.ModelList),
    Operation(
        *("get", "/v1/models/{model}", "One of the names.", schemas.Model),
        failures=(404,),
        parameters=({"name": "model", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}},),
    ),
    Operation(
        *("post", "/v1/load_lora_adapter", "Loads an adapter.", "text/plain", (LoadAdapterRequest,)),
        failures=(*_ASKED_WRONGLY, 403),
    ),
    Operation(
        *("post", "/v1/unload_lora_adapter", "Unloads an adapter.", "text/plain", (UnloadAdapterRequest,)),
        failures=(*_ASKED_WRONGLY, 403, 404),
    ),
    Operation(
        *("post", "/tokenize", "Text, or a chat, to tokens.", schemas.Tokens, (TokenizeText, TokenizeChat)),
        failures=(*_ASKED_WRONGLY, 404),
    ),
    Operation(
        *("post", "/detokenize", "Tokens to text.", schemas.Text, (DetokenizeRequest,)),
        failures=(*_ASKED_WRONGLY, 404),
    ),
    Operation("get", "/health", "Is it alive?", schemas.Status, failures=(503,), needs_key=False),
    Operation("get", "/ready", "Does it take requests?", schemas.Status, failures=(503,), needs_key=False),
    Operation("get", "/metrics", "For Prometheus.", "text/plain", needs_key=False),
    Operation("get", "/version", "Forebay's version.", schemas.Version, needs_key=False),
    Operation("get", "/openapi.json", "This document.", "application/json"),
)
