"""Who is let in: counted when a request arrives, before anything is done for it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

from forebay_runtime.config import SchedulerConfig
from forebay_runtime.request import RequestError
from forebay_runtime.scheduling.admission import check_room
from forebay_runtime.scheduling.retry_after import FinishRate


class Admission:
    """The sequences of requests that are being answered. In the event loop's thread alone."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self._rate = FinishRate()
        self._idle = asyncio.Event()
        self._idle.set()
        self.num_sequences = 0
        self.draining = False

    @contextlib.contextmanager
    def enter(self, num_sequences: int) -> Iterator[None]:
        """Holds places for a request's sequences. RequestError: 503 while draining, 429 when full, 400 if never."""
        self._check(num_sequences)
        self.num_sequences += num_sequences
        self._idle.clear()
        try:
            yield
        finally:
            self.num_sequences -= num_sequences
            self._rate.add(time.monotonic())
            if not self.num_sequences:
                self._idle.set()

    async def drain(self, grace: float) -> bool:
        """Takes nothing new and waits until all is answered; False if `grace` seconds were not enough."""
        self.draining = True
        try:
            await asyncio.wait_for(self._idle.wait(), grace)
        except TimeoutError:
            return False
        return True

    def _check(self, num_sequences: int) -> None:
        if self.draining:
            raise RequestError("The server is shutting down.", status=503, code="draining", retry_after=1)
        most = self._config.max_num_seqs + self._config.max_num_waiting
        if num_sequences > most:
            raise RequestError(
                f"The request asks for {num_sequences} outputs (prompts times n); this server takes {most} at once.",
                code="too_many_outputs",
                param="n",
            )
        waiting = max(0, self.num_sequences - self._config.max_num_seqs)
        retry_after = self._rate.seconds_for(max(1, waiting // 2), time.monotonic())
        check_room(self.num_sequences + num_sequences - 1, self._config, retry_after)
