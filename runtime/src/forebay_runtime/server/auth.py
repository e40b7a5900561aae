"""The API key. Every path asks for it, but those that probes and scrapers read: a new route is closed by default."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from forebay_runtime.request import RequestError
from forebay_runtime.server.errors import error_response

OPEN_PATHS = frozenset({"/health", "/ready", "/metrics", "/version"})


class ApiKeyGuard:
    """Middleware: 401 without the right key, as `Authorization: Bearer KEY` or, as Anthropic's clients may send it,
    `x-api-key: KEY`. Tells nothing of either key.
    """

    def __init__(self, app: ASGIApp, api_key: str) -> None:
        self._app, self._key = app, api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        error = self._check(_given_key(Headers(scope=scope)))
        if error is None:
            await self._app(scope, receive, send)
        else:
            await error_response(error, scope["path"])(scope, receive, send)

    def _check(self, key: str) -> RequestError | None:
        if not key:
            message = "An API key is needed: send it as 'Authorization: Bearer KEY'."
            return RequestError(message, status=401, code="missing_api_key")
        if not hmac.compare_digest(key.encode(), self._key):
            return RequestError("The API key is not right.", status=401, code="invalid_api_key")
        return None


def _given_key(headers: Headers) -> str:
    """Empty where none is given. A bearer goes before the other header."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "").strip()
