"""The ASGI application: what the endpoints share, the layers around them, and the routes to them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute

from forebay_runtime.config import ServerConfig
from forebay_runtime.request import RequestError
from forebay_runtime.server import errors
from forebay_runtime.server.admission import Admission
from forebay_runtime.server.auth import ApiKeyGuard
from forebay_runtime.server.endpoint import Service
from forebay_runtime.server.loop import EngineLoop
from forebay_runtime.server.metrics import Load, Metrics
from forebay_runtime.server.names import ServedNames
from forebay_runtime.server.routes import every_route
from forebay_runtime.server.served import Served
from forebay_runtime.server.unknown_fields import UnknownFields


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
        served.scheduler.max_model_len,
        config.max_body_bytes,
        config.request_timeout,
    )
    return Application(_fastapi(every_route(service, served, config), config), loop, admission)


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
