"""Replies of JSON."""

from __future__ import annotations

import orjson
from starlette.responses import Response


def json_reply(value: object) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")
