"""What the gateway knows of its endpoints from its own requests: how many are in flight, and which just failed."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Collection, Iterator

from forebay_operator.endpoints import Endpoint

AVOID_SECONDS = 3.0  # about as long as it takes until a dead pod is no endpoint any more


class Load:
    """Counts by address. The clock is given, so that tests need not wait."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.in_flight: collections.Counter[str] = collections.Counter()
        self._avoided: dict[str, float] = {}

    @contextlib.contextmanager
    def request(self, endpoint: Endpoint) -> Iterator[None]:
        self.in_flight[endpoint.address] += 1
        try:
            yield
        finally:
            self.in_flight[endpoint.address] -= 1
            if not self.in_flight[endpoint.address]:
                del self.in_flight[endpoint.address]

    def avoid(self, endpoint: Endpoint) -> None:
        """It refused or broke a request: others are preferred for a while."""
        now = self._clock()
        self._avoided = {a: until for a, until in self._avoided.items() if until > now}
        self._avoided[endpoint.address] = now + AVOID_SECONDS

    def preferred(self, endpoints: Collection[Endpoint]) -> Collection[Endpoint]:
        """Without the avoided ones, unless none would be left."""
        if not self._avoided:
            return endpoints
        now = self._clock()
        return [e for e in endpoints if self._avoided.get(e.address, now) <= now] or endpoints
