"""Between asyncio and the engine: one thread runs the engine, results come back to the event loop.

The thread sleeps while there is nothing to do. Between two steps it takes in what has been posted, in order.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from forebay_runtime.engine import Engine, EngineStats
from forebay_runtime.request import FinishReason, Request, RequestError, RequestOutput

log = logging.getLogger(__name__)

Sink = Callable[[RequestOutput], None]


class EngineLoop:
    """All methods belong to the event loop's thread; sinks are called there too."""

    def __init__(self, engine: Engine, on_broken: Callable[[str], None]) -> None:
        self._engine = engine
        self._on_broken = on_broken
        self._posted: queue.SimpleQueue[Request | str | None] = queue.SimpleQueue()
        self._sinks: dict[str, Sink] = {}
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._num_posted = self._num_taken = 0
        self._last_taken = time.monotonic()

    def start(self) -> None:
        self._event_loop = asyncio.get_running_loop()
        self._thread.start()

    async def stop(self) -> None:
        """Ends the thread after its present step. What still runs gets no more outputs."""
        self._sinks.clear()
        self._posted.put(None)
        await asyncio.to_thread(self._thread.join)

    def submit(self, requests: Sequence[Request], sink: Sink) -> None:
        for request in requests:
            self._sinks[request.request_id] = sink
            self._num_posted += 1
            self._posted.put(request)

    def abort(self, request_ids: Iterable[str]) -> None:
        """No output comes of these any more. Those that have ended already are passed over."""
        for request_id in request_ids:
            if self._sinks.pop(request_id, None) is not None:
                self._posted.put(request_id)

    def fail(self, request_ids: Iterable[str], reason: str) -> None:
        """Ends these with an error; those that have ended already are passed over."""
        for request_id in request_ids:
            sink = self._sinks.get(request_id)
            if sink is not None:
                self.abort([request_id])
                sink(RequestOutput(request_id, (), finish_reason=FinishReason.ERROR, error=reason))

    def fail_all(self, reason: str) -> None:
        """Ends all that runs with an error."""
        self.fail(list(self._sinks), reason)

    @property
    def num_waiting_to_be_added(self) -> int:
        return self._num_posted - self._num_taken

    def stats(self) -> EngineStats:
        return self._engine.stats()

    def is_stalled(self, budget: float, now: float) -> bool:
        """There is work, and for `budget` seconds no step has ended."""
        if not self._thread.is_alive():
            return True
        if not self._engine.has_work and not self.num_waiting_to_be_added:
            return False
        return now - max(self._engine.stats().heartbeat, self._last_taken) > budget

    # What follows runs in the engine's thread.

    def _run(self) -> None:
        try:
            while self._take_posted(wait=not self._engine.has_work):
                outputs = self._engine.step()
                if outputs:
                    self._call(self._deliver, outputs)
                broken = self._engine.stats().broken
                if broken is not None:
                    self._call(self._on_broken, broken)
                    return
        except Exception as e:
            log.exception("the engine failed")
            self._call(self._end, f"{type(e).__name__}: {e}")

    def _take_posted(self, *, wait: bool) -> bool:
        """Hands the engine what has been posted; waits for the first of it if told to. False: time to end."""
        while True:
            try:
                item = self._posted.get(block=wait)
            except queue.Empty:
                return True
            wait = False
            match item:
                case None:
                    return False
                case str():
                    self._engine.abort(item)
                case Request():
                    self._add(item)

    def _add(self, request: Request) -> None:
        try:
            self._engine.add(request)
        except RequestError as e:
            refused = RequestOutput(request.request_id, (), finish_reason=FinishReason.ERROR, error=e.message)
            self._call(self._deliver, [refused])
        finally:
            self._num_taken += 1
            self._last_taken = time.monotonic()

    def _call(self, function: Callable[..., None], argument: object) -> None:
        assert self._event_loop is not None
        try:
            self._event_loop.call_soon_threadsafe(function, argument)
        except RuntimeError:  # the event loop has ended; nobody waits for this any more
            log.debug("an output came after the end")

    # And this in the event loop's again.

    def _deliver(self, outputs: Sequence[RequestOutput]) -> None:
        for output in outputs:
            sink = self._sinks.get(output.request_id)
            if sink is None:
                continue
            if output.finish_reason is not None:
                del self._sinks[output.request_id]
            sink(output)

    def _end(self, reason: str) -> None:
        self.fail_all(reason)
        self._on_broken(reason)
