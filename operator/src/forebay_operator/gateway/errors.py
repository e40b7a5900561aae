"""Refusals in OpenAI's shape, and on Anthropic's path in theirs."""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.responses import JSONResponse, Response

_SEQUENCE_NUMBER = re.compile(rb'"sequence_number": ?(\d{1,9})')

_ANTHROPIC_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class Refusal(Exception):
    """An answer of the gateway's own. `retry_after`: seconds after which it is worth asking again."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        retry_after: int | None = None,
        allow: str | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        named = {
            "Retry-After": None if retry_after is None else str(retry_after),
            "Allow": allow,
            "WWW-Authenticate": "Bearer" if status == 401 else None,
            "Connection": "close" if close else None,
        }
        self.headers = {name: value for name, value in named.items() if value is not None}

    @property
    def body(self) -> dict[str, dict[str, str | None]]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    @property
    def anthropic_body(self) -> dict[str, Any]:
        kind = _ANTHROPIC_TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": self.message}, "request_id": None}

    def response(self, path: str = "") -> Response:
        """`path`: that of the request, which tells the client's language."""
        told = self.anthropic_body if path.startswith("/v1/messages") else self.body
        return JSONResponse(told, self.status, self.headers)


def last_event(refusal: Refusal, path: str, events: bytes) -> bytes:
    """What ends a stream that can't go on, as clients of that path know it. `events`: the end of what they have got."""
    if path.startswith("/v1/messages"):
        return b"event: error\ndata: " + json.dumps(refusal.anthropic_body).encode() + b"\n\n"
    if not path.startswith("/v1/responses"):
        return b"data: " + json.dumps(refusal.body).encode() + b"\n\n"
    numbers = _SEQUENCE_NUMBER.findall(events)
    told: dict[str, Any] = {"type": "error", "code": refusal.code, "message": refusal.message, "param": refusal.param}
    told["sequence_number"] = int(numbers[-1]) + 1 if numbers else 0
    return b"event: error\ndata: " + json.dumps(told).encode() + b"\n\n"


def not_found(path: str) -> Refusal:
    return Refusal(404, f"There is no {path} here.", code="not_found")


def wrong_method(method: str, path: str, allow: str) -> Refusal:
    return Refusal(405, f"{path} takes no {method}; it takes {allow}.", code="method_not_allowed", allow=allow)


def not_kept(response_id: str, param: str) -> Refusal:
    message = f"The response {response_id[:64]!r} is not kept here, or not any more."
    return Refusal(404, message, code="response_not_found", param=param)


def unknown_model(model: str) -> Refusal:
    message = f"The model {model[:200]!r} does not exist. GET /v1/models lists those that do."
    return Refusal(404, message, code="model_not_found", param="model")


def not_ready(model: str) -> Refusal:
    message = f"The model {model!r} has no ready endpoint now."
    return Refusal(503, message, code="model_not_ready", retry_after=2)


def unreachable(model: str) -> Refusal:
    message = f"No endpoint of the model {model!r} could be reached."
    return Refusal(503, message, code="model_unreachable", retry_after=1)


def broken(model: str) -> Refusal:
    message = f"The endpoint of the model {model!r} broke off before it answered."
    return Refusal(502, message, code="model_broken")


def late(model: str) -> Refusal:
    message = f"The endpoint of the model {model!r} sent nothing for too long."
    return Refusal(504, message, code="model_timeout")
