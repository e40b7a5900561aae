"""The vectors of one HTTP request's prompts, in waves that the engine has places for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from forebay_runtime.request import FinishReason, Request, RequestOutput
from forebay_runtime.server.errors import generation_failed
from forebay_runtime.server.loop import EngineLoop
from forebay_runtime.server.metrics import Metrics

Vector = tuple[float, ...]


class Wave:
    """Give it to `with`: what has not ended when the block does is aborted, whatever the reason."""

    def __init__(self, requests: Sequence[Request], loop: EngineLoop, metrics: Metrics) -> None:
        self._requests = {request.request_id: request for request in requests}
        self._loop, self._metrics = loop, metrics
        self._vectors: dict[str, Vector] = {}
        self._error: str | None = None
        self._done = asyncio.Event()

    def __enter__(self) -> Wave:
        self._loop.submit(list(self._requests.values()), self._take)
        return self

    def __exit__(self, *_: object) -> None:
        left = [name for name in self._requests if name not in self._vectors]
        self._loop.abort(left)
        for name in left:
            self._metrics.finished(FinishReason.ABORT, time.monotonic() - self._requests[name].arrival)

    async def vectors(self) -> list[Vector]:
        """In the order of the requests. RequestError if one could not be computed."""
        await self._done.wait()
        if self._error is not None:
            raise generation_failed(self._error)
        return [self._vectors[name] for name in self._requests]

    def _take(self, output: RequestOutput) -> None:
        request = self._requests[output.request_id]
        if output.finish_reason is FinishReason.ERROR:
            self._error = output.error
        else:
            self._metrics.prompt(len(request.prompt_token_ids))
        self._vectors[output.request_id] = output.embedding
        assert output.finish_reason is not None
        self._metrics.finished(output.finish_reason, time.monotonic() - request.arrival)
        if self._error is not None or len(self._vectors) == len(self._requests):
            self._done.set()
