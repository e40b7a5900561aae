"""Fields of a body that nobody here reads: told in a header of the reply, or refused where the server is strict."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forebay_runtime.request import RequestError
from forebay_runtime.server.unsupported import NAMES

HEADER = b"x-unknown-fields"
# They change nothing in an answer: for accounts, for the bookkeeping of clients, or hints for speed.
_WITHOUT_EFFECT = frozenset(
    (
        *("user", "metadata", "store", "service_tier", "safety_identifier", "prediction", "verbosity"),
        *("prompt_cache_key", "prompt_cache_retention"),
    )
)
# Conversations are the templates' to read, which know more fields than we do.
_CONVERSATION = frozenset(("messages", "input", "system", "tools"))
_MOST_NAMES, _LONGEST_NAME = 16, 64

_seen: ContextVar[_Seen] = ContextVar("unknown fields of the present request")


class _Seen:
    """Of one request."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.names: list[str] = []


class UnknownFields:
    """Middleware. `heed` may be called anywhere below it."""

    def __init__(self, app: ASGIApp, strict: bool) -> None:
        self._app, self._strict = app, strict

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seen = _Seen(strict=self._strict)
        _seen.set(seen)

        async def send_with_names(message: Message) -> None:
            if seen.names and message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (HEADER, _header(seen.names))]}
            await send(message)

        await self._app(scope, receive, send_with_names)


def heed(model: type[BaseModel], body: Mapping[str, Any]) -> None:
    """Notes the fields that `model` doesn't have, in depth. RequestError 400 that names the first if the server is
    strict. `model` is one that takes `body`.
    """
    seen = _seen.get(None)
    if seen is None:
        return
    seen.names += unknown(model, body)
    if seen.strict and seen.names:
        raise RequestError(
            f"{seen.names[0]} is not known to this server.", code="unknown_parameter", param=seen.names[0]
        )


def unknown(model: type[BaseModel], body: Mapping[str, Any]) -> list[str]:
    asked = {name: value for name, value in body.items() if name not in _CONVERSATION}
    try:
        model.model_validate(asked, extra="forbid")
    except ValidationError as e:
        locations = [
            f["loc"] for f in e.errors(include_url=False, include_input=False) if f["type"] == "extra_forbidden"
        ]
        return [".".join(map(str, loc)) for loc in locations if len(loc) > 1 or not _is_known(str(loc[0]))]
    return []


def _is_known(name: str) -> bool:
    return name in _WITHOUT_EFFECT or name in NAMES


def _header(names: list[str]) -> bytes:
    """Names are the client's own words: only what a header may hold goes back."""
    return ", ".join(quote(name[:_LONGEST_NAME], safe=".") for name in names[:_MOST_NAMES]).encode()
