"""/v1/models."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from forebay_runtime.server.adapters.registry import AdapterRegistry
from forebay_runtime.server.json_reply import json_reply
from forebay_runtime.server.names import ServedNames


class Models:
    """An adapter's `parent` is the model, its `root` the path it was loaded from."""

    def __init__(self, names: ServedNames, adapters: AdapterRegistry, max_model_len: int, created: int) -> None:
        self._names, self._adapters = names, adapters
        self._max_model_len, self._created = max_model_len, created

    async def list(self, _request: Request) -> Response:
        return json_reply({"object": "list", "data": [self._model(name) for name in self._names.all]})

    async def retrieve(self, request: Request) -> Response:
        return json_reply(self._model(self._names.check(request.path_params["model"])))

    def _model(self, name: str) -> dict[str, Any]:
        loaded = self._adapters.by_name.get(name)
        return {
            "id": name,
            "object": "model",
            "created": self._created,
            "owned_by": "forebay",
            "root": self._names.first if loaded is None else loaded.path,
            "parent": None if loaded is None else self._names.first,
            "max_model_len": self._max_model_len,
        }
