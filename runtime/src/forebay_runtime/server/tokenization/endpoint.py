"""/tokenize and /detokenize, in vLLM's shapes."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from forebay_runtime.request import RequestError
from forebay_runtime.server.body import read_object
from forebay_runtime.server.endpoint import Service
from forebay_runtime.server.json_reply import json_reply
from forebay_runtime.server.prompts import PromptReader
from forebay_runtime.server.tokenization.wire import DetokenizeRequest, TokenizeChat, TokenizeText
from forebay_runtime.server.wire import parse


class Tokenization:
    def __init__(self, service: Service, reader: PromptReader) -> None:
        self._service, self._reader = service, reader

    async def tokenize(self, request: Request) -> Response:
        body = await self._body(request)
        wire: TokenizeText | TokenizeChat
        wire = parse(TokenizeText, body) if body.get("messages") is None else parse(TokenizeChat, body)
        self._service.names.check(wire.model)
        token_ids = await asyncio.get_running_loop().run_in_executor(self._service.text_thread, self._encode, wire)
        most = self._service.max_model_len
        return json_reply({"count": len(token_ids), "max_model_len": most, "tokens": token_ids})

    async def detokenize(self, request: Request) -> Response:
        wire = parse(DetokenizeRequest, await self._body(request))
        self._service.names.check(wire.model)
        wrong = next((i for i in wire.tokens if i >= self._service.vocab_size), None)
        if wrong is not None:
            raise RequestError(f"tokens: {wrong} is no token id of this model.", code="invalid_value", param="tokens")
        return json_reply({"prompt": self._service.tokenizer.decode(wire.tokens)})

    async def _body(self, request: Request) -> dict[str, Any]:
        body, _ = await read_object(request.scope, request.receive, self._service.max_body_bytes)
        return body

    def _encode(self, wire: TokenizeText | TokenizeChat) -> list[int]:
        if isinstance(wire, TokenizeChat):
            return self._reader.chat_ids(wire)
        text = wire.prompt if wire.prompt is not None else wire.content
        special = wire.add_special if wire.add_special_tokens is None else wire.add_special_tokens
        return self._service.tokenizer.encode(text or "", add_special_tokens=special is not False)
