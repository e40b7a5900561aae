"""Where a response is kept: its id begins with its keeper's mark, which the gateway gave the endpoint with the request.

No I/O and nothing remembered: every replica of the gateway reads the same from an id, and a request for it goes to that
endpoint alone. The mark is a digest, so that an id does not tell a client where it is served.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from forebay_operator.endpoints import Endpoint, Route
from forebay_operator.gateway import errors

CREATE = "/v1/responses"
MARK_HEADER = b"x-forebay-keeper"
_ID = r"resp_(?P<mark>[0-9a-f]{16})[0-9a-f]{32}"
_PATH = re.compile(rf"{CREATE}/(?P<id>[^/]+)(?P<part>/cancel|/input_items)?")
_METHODS = {None: ("GET", "DELETE"), "/cancel": ("POST",), "/input_items": ("GET",)}


@functools.lru_cache(maxsize=4096)
def mark(endpoint: Endpoint) -> str:
    """16 hexadecimal digits: of the pod and its address, so that a pod that follows it there has another."""
    return hashlib.blake2b(f"{endpoint.pod} {endpoint.address}".encode(), digest_size=8).hexdigest()


def methods(path: str) -> tuple[str, ...]:
    """Those that a kept response takes, or what belongs to one; empty if the path is of neither."""
    found = _PATH.fullmatch(path)
    return _METHODS[found["part"]] if found else ()


def keeper(path: str, routes: Mapping[str, Route]) -> tuple[str, Endpoint]:
    """The model and the endpoint that answer there. Refusal 404 where no endpoint has the mark in the path's id."""
    found = _PATH.fullmatch(path)
    response_id = found["id"] if found else ""
    for model, route in routes.items():
        if endpoint := _of(response_id, route):
            return model, endpoint
    raise errors.not_kept(response_id, "response_id")


def continued(body: Mapping[str, Any], route: Route) -> Endpoint | None:
    """The endpoint that keeps what the request continues; None: any of the route. Refusal 404 where it is no more.

    An id without a mark is of an engine that knows none: its endpoints are the ones to judge it.
    """
    before = body.get("previous_response_id")
    if not isinstance(before, str) or not re.fullmatch(_ID, before):
        return None
    if endpoint := _of(before, route):
        return endpoint
    raise errors.not_kept(before, "previous_response_id")


def _of(response_id: str, route: Route) -> Endpoint | None:
    found = re.fullmatch(_ID, response_id)
    return next((e for e in route.endpoints if found and mark(e) == found["mark"]), None)
