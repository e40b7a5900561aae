"""Reads a request's body: bounded in size and in depth, and an object."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from forebay_runtime.request import RequestError

LARGE = 32 << 10  # bytes; from here on reading and tokenizing leave the event loop


async def read_object(scope: Scope, receive: Receive, max_bytes: int) -> tuple[dict[str, Any], int]:
    """The JSON object and the size it came in. RequestError 413 or 400; ClientDisconnect."""
    data = await _read(scope, receive, max_bytes)
    value = await asyncio.to_thread(_loads, data) if len(data) > LARGE else _loads(data)
    if not isinstance(value, dict):
        raise RequestError("The body must be a JSON object.", code="invalid_json")
    return value, len(data)


async def _read(scope: Scope, receive: Receive, max_bytes: int) -> bytes:
    headers = dict(scope["headers"])
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise RequestError("Content-Encoding: send the body as it is.", status=415, code="unsupported_encoding")
    if int(headers.get(b"content-length", b"0")) > max_bytes:
        raise _too_large(max_bytes)
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > max_bytes:
            raise _too_large(max_bytes)
        more = message.get("more_body", False)
    return b"".join(parts)


def _loads(data: bytes) -> object:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as e:
        raise RequestError(f"The body is no valid JSON: {e}", code="invalid_json") from None
    try:
        orjson.dumps(value)  # bounds the depth to 254, far below Python's own limit on recursion
    except orjson.JSONEncodeError:
        raise RequestError("The body is nested too deeply.", code="invalid_json") from None
    return value


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(f"The body is larger than {max_bytes} bytes.", status=413, code="body_too_large")
