"""POST /v1/load_lora_adapter and /v1/unload_lora_adapter."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from forebay_runtime.adapter import AdapterError
from forebay_runtime.request import RequestError
from forebay_runtime.server.adapters.registry import AdapterRegistry
from forebay_runtime.server.adapters.wire import LoadAdapterRequest, UnloadAdapterRequest
from forebay_runtime.server.body import read_object
from forebay_runtime.server.names import ServedNames
from forebay_runtime.server.wire import parse


class AdapterLoading:
    """`root`: below which adapters may be loaded from; None: not at all. Paths are files of this machine, which whoever
    may ask for tokens need not be allowed to choose.
    """

    def __init__(self, adapters: AdapterRegistry, names: ServedNames, root: Path | None, max_body_bytes: int) -> None:
        self._adapters, self._names, self._max_body_bytes = adapters, names, max_body_bytes
        self._root = None if root is None else root.resolve()
        self._one_at_a_time = asyncio.Lock()

    async def load(self, request: Request) -> Response:
        root = self._allowed()
        wire = parse(LoadAdapterRequest, await self._body(request))
        path = _below(root, wire.lora_path)
        async with self._one_at_a_time:
            self._check_name(wire.lora_name, replaces=wire.load_inplace is True)
            try:
                self._adapters.check_room(wire.lora_name)
                weights = await asyncio.to_thread(self._adapters.read, path)
                self._adapters.put(wire.lora_name, wire.lora_path, weights)
            except AdapterError as e:
                message = f"The adapter {wire.lora_name!r} can't be loaded: {e}."
                raise RequestError(message, code="invalid_adapter", param="lora_path") from None
        return PlainTextResponse(f"The adapter {wire.lora_name!r} is loaded.")

    async def unload(self, request: Request) -> Response:
        self._allowed()
        name = parse(UnloadAdapterRequest, await self._body(request)).lora_name
        if not self._adapters.remove(name):
            message = f"No adapter {name!r} is loaded."
            raise RequestError(message, status=404, code="model_not_found", param="lora_name")
        return PlainTextResponse(f"The adapter {name!r} is unloaded; requests that have it go on with it.")

    def _allowed(self) -> Path:
        if self._root is None:
            message = "Adapters can't be loaded or unloaded while this server runs: it has no --lora-root."
            raise RequestError(message, status=403, code="lora_loading_off")
        return self._root

    def _check_name(self, name: str, *, replaces: bool) -> None:
        if name in self._names.of_the_model:
            message = f"lora_name: {name!r} is a name of the model itself."
        elif name in self._adapters.by_name and not replaces:
            message = f"lora_name: an adapter {name!r} is loaded already; load_inplace replaces it."
        else:
            return
        raise RequestError(message, code="name_taken", param="lora_name")

    async def _body(self, request: Request) -> dict[str, Any]:
        body, _ = await read_object(request.scope, request.receive, self._max_body_bytes)
        return body


def _below(root: Path, given: str) -> Path:
    """RequestError for what leads out of `root`, by a link too; it tells nothing of what lies there."""
    try:
        path = (root / given).resolve()
    except (OSError, ValueError, RuntimeError):  # too long, a zero byte, links in a circle
        path = root.parent
    if not path.is_relative_to(root):
        message = "lora_path: is not below the directory that --lora-root allows."
        raise RequestError(message, code="invalid_value", param="lora_path")
    return path
