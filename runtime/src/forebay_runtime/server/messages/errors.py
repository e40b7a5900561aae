"""Errors in Anthropic's shape."""

from __future__ import annotations

import orjson

from forebay_runtime.request import RequestError

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def error_body(error: RequestError) -> bytes:
    other = "api_error" if error.status >= 500 else "invalid_request_error"
    told = {"type": _TYPES.get(error.status, other), "message": error.message}
    return orjson.dumps({"type": "error", "error": told, "request_id": None})
