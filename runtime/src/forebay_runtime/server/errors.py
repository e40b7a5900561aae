"""One error body for everything that goes wrong: in OpenAI's shape, but on Anthropic's path in theirs."""

from __future__ import annotations

import http
from typing import Any

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from forebay_runtime.grammar import GrammarFailure
from forebay_runtime.request import RequestError
from forebay_runtime.server.messages import errors as messages_errors

SHUT_DOWN = "it has shut down before the answer's end"
TIMED_OUT = "the request's time was over before its end"
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


def error_object(status: int, message: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"message": message, "type": kind, "param": param, "code": code}


def error_body(error: RequestError) -> bytes:
    return orjson.dumps({"error": error_object(error.status, error.message, error.code, error.param)})


def error_response(error: RequestError, path: str = "") -> Response:
    """`path`: that of the request, which tells the client's language."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    body = messages_errors.error_body(error) if path.startswith("/v1/messages") else error_body(error)
    return Response(body, error.status, headers, "application/json")


async def on_request_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(error, request.url.path)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """What the router refuses: unknown paths and wrong methods."""
    assert isinstance(error, HTTPException)
    match error.status_code:
        case 404:
            message, code = f"There is no {request.url.path} here.", "unknown_url"
        case 405:
            allowed = (error.headers or {}).get("Allow", "")
            message, code = f"{request.url.path} does not take {request.method}, but {allowed}.", "method_not_allowed"
        case status:
            message, code = error.detail or http.HTTPStatus(status).phrase, ""
    response = error_response(RequestError(message, status=error.status_code, code=code or None), request.url.path)
    response.headers.update(error.headers or {})
    return response


async def on_disconnect(_request: Request, _error: Exception) -> Response:
    """Nobody reads this."""
    return Response(status_code=499)


async def on_exception(request: Request, _error: Exception) -> Response:
    """Ours. What went wrong is in the log, not in the reply."""
    return error_response(internal_error(), request.url.path)


def internal_error() -> RequestError:
    return RequestError("The server failed at this request.", status=500, code="internal_error")


def generation_failed(reason: str) -> RequestError:
    """An output ended with an error. What the client may know is told apart: the end of a drain's grace, or of time."""
    if reason == TIMED_OUT:
        return RequestError(f"No whole answer: {TIMED_OUT}.", status=504, code="deadline_exceeded")
    if reason == SHUT_DOWN:
        return RequestError(f"The server failed at this request: {SHUT_DOWN}.", status=503, code="draining")
    if reason.startswith(GrammarFailure.__name__):
        return RequestError(f"The grammar can't be kept to the end: {reason}.", code="invalid_grammar")
    return internal_error()
