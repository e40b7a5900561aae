"""Every route there is, and what answers it."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from forebay_runtime.config import ServerConfig
from forebay_runtime.request import Pooling, RequestError
from forebay_runtime.server.about import About
from forebay_runtime.server.adapters.endpoint import AdapterLoading
from forebay_runtime.server.answering import AnswerStyle
from forebay_runtime.server.embeddings.endpoint import WAVE, Embeddings
from forebay_runtime.server.endpoint import GenerationEndpoint, Service
from forebay_runtime.server.health import Health
from forebay_runtime.server.messages.dialect import MessagesDialect, TokenCount
from forebay_runtime.server.messages.endpoint import CountTokens
from forebay_runtime.server.models import Models
from forebay_runtime.server.openai_dialects import ChatDialect, CompletionDialect
from forebay_runtime.server.prompts import PromptReader
from forebay_runtime.server.responses.dialect import ResponsesDialect
from forebay_runtime.server.responses.endpoint import CreateResponse, KeptResponses
from forebay_runtime.server.responses.store import ResponseStore
from forebay_runtime.server.served import Served
from forebay_runtime.server.tokenization.endpoint import Tokenization
from forebay_runtime.server.unsupported import PATHS
from forebay_runtime.text.reasoning import BEGIN
from forebay_runtime.text.tool_formats import FORMATS, format_of


def every_route(service: Service, served: Served, config: ServerConfig) -> list[BaseRoute]:
    style = _style(served.tokenizer.chat_template, config)
    reader = PromptReader(
        served.tokenizer, served.template, style.tool_format, served.vocab_size, service.max_model_len
    )
    return [
        *_answers(service, reader, style),
        *_vectors_and_tokens(service, served, reader, style, config),
        *_models(service, served, config),
        *_about(service, served, config),
        *(Route(path, _not_offered, methods=["GET", "POST"]) for path in sorted(PATHS)),
    ]


def _answers(service: Service, reader: PromptReader, style: AnswerStyle) -> list[BaseRoute]:
    chat = ChatDialect(reader, service.tokenizer, style)
    completions = CompletionDialect(reader, service.tokenizer)
    return [
        Route("/v1/chat/completions", GenerationEndpoint(service, chat), methods=["POST"]),
        Route("/v1/completions", GenerationEndpoint(service, completions), methods=["POST"]),
        *_responses(service, chat),
        Route("/v1/messages", GenerationEndpoint(service, MessagesDialect(chat)), methods=["POST"]),
        Route("/v1/messages/count_tokens", CountTokens(service, TokenCount(chat, reader)).post, methods=["POST"]),
    ]


def _responses(service: Service, chat: ChatDialect) -> list[BaseRoute]:
    store = ResponseStore()
    kept, one = KeptResponses(store), "/v1/responses/{response_id}"
    generations = GenerationEndpoint(service, ResponsesDialect(chat, store))
    return [
        Route("/v1/responses", CreateResponse(generations, store), methods=["POST"]),
        Route(one, kept.one, methods=["GET", "DELETE"]),
        Route(f"{one}/cancel", kept.cancel, methods=["POST"]),
        Route(f"{one}/input_items", kept.input_items, methods=["GET"]),
    ]


def _vectors_and_tokens(
    service: Service, served: Served, reader: PromptReader, style: AnswerStyle, config: ServerConfig
) -> list[BaseRoute]:
    inputs = PromptReader(
        served.tokenizer, None, style.tool_format, served.vocab_size, service.max_model_len, answered=False
    )
    wave = min(WAVE, served.scheduler.max_num_seqs)
    tokenization = Tokenization(service, reader)
    return [
        Route("/v1/embeddings", Embeddings(service, inputs, Pooling(config.pooling), wave), methods=["POST"]),
        Route("/tokenize", tokenization.tokenize, methods=["POST"]),
        Route("/detokenize", tokenization.detokenize, methods=["POST"]),
    ]


def _models(service: Service, served: Served, config: ServerConfig) -> list[BaseRoute]:
    models = Models(service.names, served.adapters, service.max_model_len, int(time.time()))
    loading = AdapterLoading(served.adapters, service.names, config.lora_root, config.max_body_bytes)
    return [
        Route("/v1/models", models.list),
        Route("/v1/models/{model:path}", models.retrieve),
        Route("/v1/load_lora_adapter", loading.load, methods=["POST"]),
        Route("/v1/unload_lora_adapter", loading.unload, methods=["POST"]),
    ]


def _about(service: Service, served: Served, config: ServerConfig) -> list[BaseRoute]:
    health = Health(service.loop, service.admission, config.stall_budget)
    about = About(served, service.metrics, with_key=config.api_key is not None)
    return [
        Route("/health", health.health),
        Route("/ready", health.ready),
        Route("/metrics", about.metrics),
        Route("/version", about.version),
        Route("/openapi.json", about.openapi),
    ]


def _style(template: str | None, config: ServerConfig) -> AnswerStyle:
    name = config.tool_call_parser
    thinks = BEGIN in (template or "") if config.reasoning is None else config.reasoning
    return AnswerStyle(format_of(template) if name is None else FORMATS[name], thinks)


async def _not_offered(request: Request) -> Response:
    raise RequestError(f"{request.url.path} is not offered by this server.", status=404, code="unsupported_endpoint")
