"""The ASGI application: every route there is."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import orjson
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from forebay_runtime.config import ServerConfig
from forebay_runtime.request import Pooling, RequestError
from forebay_runtime.server import errors
from forebay_runtime.server.adapters.endpoint import AdapterLoading
from forebay_runtime.server.admission import Admission
from forebay_runtime.server.answering import AnswerStyle
from forebay_runtime.server.auth import ApiKeyGuard
from forebay_runtime.server.embeddings.endpoint import WAVE, Embeddings
from forebay_runtime.server.endpoint import GenerationEndpoint, Service
from forebay_runtime.server.health import Health
from forebay_runtime.server.loop import EngineLoop
from forebay_runtime.server.messages.dialect import MessagesDialect, TokenCount
from forebay_runtime.server.messages.endpoint import CountTokens
from forebay_runtime.server.metrics import CONTENT_TYPE, Load, Metrics
from forebay_runtime.server.models import Models
from forebay_runtime.server.names import ServedNames
from forebay_runtime.server.openai_dialects import ChatDialect, CompletionDialect
from forebay_runtime.server.openapi.document import document
from forebay_runtime.server.prompts import PromptReader
from forebay_runtime.server.responses.dialect import ResponsesDialect
from forebay_runtime.server.responses.endpoint import CreateResponse, KeptResponses
from forebay_runtime.server.responses.store import ResponseStore
from forebay_runtime.server.served import Served
from forebay_runtime.server.tokenization import Tokenization
from forebay_runtime.server.unknown_fields import UnknownFields
from forebay_runtime.server.unsupported import PATHS
from forebay_runtime.text.reasoning import BEGIN
from forebay_runtime.text.tool_formats import FORMATS, format_of


@dataclass(frozen=True, slots=True)
class Application:
    """What `make_application` wires, for whoever runs it."""

    asgi: FastAPI
    loop: EngineLoop
    admission: Admission


def make_application(served: Served, config: ServerConfig, on_broken: Callable[[str], None]) -> Application:
    """`on_broken(reason)` is called when the engine can't go on; every request has been failed by then."""
    loop, admission = EngineLoop(served.engine, on_broken), Admission(served.scheduler)
    names = ServedNames(config.served_names, served.adapters)
    metrics = Metrics(names.first, served.version, lambda: _load(loop, admission))
    max_model_len = served.scheduler.max_model_len
    style = _style(served.tokenizer.chat_template, config)
    reader = PromptReader(served.tokenizer, served.template, style.tool_format, served.vocab_size, max_model_len)
    service = Service(
        loop,
        admission,
        metrics,
        names,
        served.tokenizer,
        ThreadPoolExecutor(1, "text"),
        ThreadPoolExecutor(1, "grammar"),
        served.grammars,
        served.vocab_size,
        max_model_len,
        config.max_body_bytes,
        config.request_timeout,
    )
    health = Health(loop, admission, config.stall_budget)
    models = Models(names, served.adapters, max_model_len, int(time.time()))
    loading = AdapterLoading(served.adapters, names, config.lora_root, config.max_body_bytes)
    tokenization = Tokenization(service, reader)

    async def scrape(_request: Request) -> Response:
        return Response(metrics.exposition(), media_type=CONTENT_TYPE)

    async def version(_request: Request) -> Response:
        about = dataclasses.asdict(served.computing), dataclasses.asdict(served.footprint)
        return _json({"version": served.version, **about[0], "model": about[1]})

    @functools.cache
    def described() -> Response:
        return _json(document(served.version, with_key=config.api_key is not None))

    async def openapi(_request: Request) -> Response:
        return described()

    inputs = PromptReader(served.tokenizer, None, style.tool_format, served.vocab_size, max_model_len, answered=False)
    embeddings = Embeddings(service, inputs, Pooling(config.pooling), min(WAVE, served.scheduler.max_num_seqs))
    chat = ChatDialect(reader, served.tokenizer, style)
    routes: list[BaseRoute] = [
        Route("/v1/chat/completions", GenerationEndpoint(service, chat), methods=["POST"]),
        Route(
            "/v1/completions",
            GenerationEndpoint(service, CompletionDialect(reader, served.tokenizer)),
            methods=["POST"],
        ),
        *_responses(service, chat),
        Route("/v1/messages", GenerationEndpoint(service, MessagesDialect(chat)), methods=["POST"]),
        Route("/v1/messages/count_tokens", CountTokens(service, TokenCount(chat, reader)).post, methods=["POST"]),
        Route("/v1/embeddings", embeddings, methods=["POST"]),
        Route("/v1/models", models.list),
        Route("/v1/models/{model:path}", models.retrieve),
        Route("/v1/load_lora_adapter", loading.load, methods=["POST"]),
        Route("/v1/unload_lora_adapter", loading.unload, methods=["POST"]),
        Route("/tokenize", tokenization.tokenize, methods=["POST"]),
        Route("/detokenize", tokenization.detokenize, methods=["POST"]),
        Route("/health", health.health),
        Route("/ready", health.ready),
        Route("/metrics", scrape),
        Route("/version", version),
        Route("/openapi.json", openapi),
        *(Route(path, _not_offered, methods=["GET", "POST"]) for path in sorted(PATHS)),
    ]
    return Application(_fastapi(routes, config), loop, admission)


def _style(template: str | None, config: ServerConfig) -> AnswerStyle:
    name = config.tool_call_parser
    thinks = BEGIN in (template or "") if config.reasoning is None else config.reasoning
    return AnswerStyle(format_of(template) if name is None else FORMATS[name], thinks)


def _fastapi(routes: list[BaseRoute], config: ServerConfig) -> FastAPI:
    handlers: dict[Any, Any] = {
        RequestError: errors.on_request_error,
        HTTPException: errors.on_http_exception,
        ClientDisconnect: errors.on_disconnect,
        Exception: errors.on_exception,
    }
    layers = [] if config.api_key is None else [Middleware(ApiKeyGuard, api_key=config.api_key)]
    layers.append(Middleware(UnknownFields, strict=config.strict_fields))
    return FastAPI(
        openapi_url=None, routes=routes, exception_handlers=handlers, middleware=layers, redirect_slashes=False
    )


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


def _load(loop: EngineLoop, admission: Admission) -> Load:
    stats = loop.stats()
    return Load(
        num_running=stats.num_running,
        num_waiting=stats.num_waiting + loop.num_waiting_to_be_added,
        kv_cache_usage=stats.kv_cache_usage,
        prefix_cache_queries=stats.prefix_cache_queries,
        prefix_cache_hits=stats.prefix_cache_hits,
        num_preemptions=stats.num_preemptions,
        num_draft_tokens=stats.num_draft_tokens,
        num_accepted_tokens=stats.num_accepted_tokens,
        num_steps=stats.num_steps,
        draining=admission.draining,
    )


async def _not_offered(request: Request) -> Response:
    raise RequestError(f"{request.url.path} is not offered by this server.", status=404, code="unsupported_endpoint")


def _json(value: Any) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")
