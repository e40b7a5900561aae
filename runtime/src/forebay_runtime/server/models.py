"""/v1/models."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from forebay_runtime.server.names import ServedNames


class Models:
    def __init__(self, names: ServedNames, max_model_len: int, created: int) -> None:
        self._names, self._max_model_len, self._created = names, max_model_len, created

    async def list(self, _request: Request) -> Response:
        return self._reply({"object": "list", "data": [self._model(name) for name in self._names.all]})

    async def retrieve(self, request: Request) -> Response:
        return self._reply(self._model(self._names.check(request.path_params["model"])))

    def _model(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": self._created,
            "owned_by": "forebay",
            "root": self._names.first,
            "parent": None,
            "max_model_len": self._max_model_len,
        }

    def _reply(self, value: object) -> Response:
        return Response(orjson.dumps(value), media_type="application/json")
