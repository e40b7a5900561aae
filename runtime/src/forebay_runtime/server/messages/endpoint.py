"""POST /v1/messages/count_tokens."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from forebay_runtime.server.body import read_object
from forebay_runtime.server.endpoint import Service
from forebay_runtime.server.json_reply import json_reply
from forebay_runtime.server.messages.dialect import TokenCount


class CountTokens:
    def __init__(self, service: Service, counting: TokenCount) -> None:
        self._service, self._counting = service, counting

    async def post(self, request: Request) -> Response:
        body, _ = await read_object(request.scope, request.receive, self._service.max_body_bytes)
        count = await asyncio.get_running_loop().run_in_executor(
            self._service.text_thread, copy_context().run, self._count, body
        )
        return json_reply({"input_tokens": count})

    def _count(self, body: dict[str, Any]) -> int:
        chat = self._counting.parse(body)
        self._service.names.check(chat.model)
        return self._counting.count(chat)
