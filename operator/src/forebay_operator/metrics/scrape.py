"""The adapter's door to the pods: scrapes every ready pod's metrics, and keeps what the window needs."""

from __future__ import annotations

import asyncio
import collections
import logging
import time
from collections.abc import Callable, Iterable, Mapping

import aiohttp

from forebay_operator import metrics_page
from forebay_operator.endpoints import Endpoint
from forebay_operator.engines import forebay
from forebay_operator.metrics.window import WINDOW_SECONDS, Pod, Scrape
from forebay_operator.pod_answer import UntoldError, text
from forebay_operator.program import MetricNames

log = logging.getLogger(__name__)

EVERY_SECONDS = 2.0
TIMEOUT_SECONDS = 5.0  # a pod that is busy is slow; one scrape of it at a time
KEPT = int(WINDOW_SECONDS / EVERY_SECONDS) + 2
AT_ONCE = 64

Key = tuple[str, str]  # namespace, name
Services = Mapping[Key, tuple[Endpoint, ...]]


def parse(page: str, at: float, names: MetricNames = forebay.METRICS) -> Scrape:
    """ValueError where the page does not tell what the window needs."""
    told = metrics_page.parse(page, names.wanted)
    return Scrape(
        at,
        waiting=told.sums[names.waiting],
        running=told.sums[names.running],
        generated=told.sums[names.generated] if names.generated else 0.0,
        ttft=told.buckets.get(f"{names.ttft}_bucket", {}) if names.ttft else None,
    )


class Scraper:
    """The recent scrapes of all ready pods. `services` gives the ready pods of each service at the moment, `names` what
    its engine calls its metrics."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        services: Callable[[], Services],
        names: Callable[[Key], MetricNames] = lambda _: forebay.METRICS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session, self._services, self._names, self._clock = session, services, names, clock
        self._scrapes: dict[str, collections.deque[Scrape]] = {}
        self._since: dict[str, float] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    def pods(self, namespace: str, name: str) -> Iterable[Pod]:
        """The ready pods of a service with what they said."""
        for endpoint in self._services().get((namespace, name), ()):
            at = endpoint.address
            yield Pod(endpoint.pod or at, self._since.setdefault(at, self._clock()), tuple(self._scrapes.get(at, ())))

    async def run(self) -> None:
        """Scrapes for ever. A slow pod does not hold up the others."""
        while True:
            self.begin()
            await asyncio.sleep(EVERY_SECONDS)

    def begin(self) -> list[asyncio.Task[None]]:
        """Begins a scrape of each ready pod that is not being scraped; forgets the pods that are gone."""
        now = self._clock()
        of = {endpoint.address: key for key, endpoints in self._services().items() for endpoint in endpoints}
        ready = of.keys()
        self._since = {at: self._since.get(at, now) for at in ready}
        self._scrapes = {at: scrapes for at, scrapes in self._scrapes.items() if at in ready}
        self._under_way = {at: task for at, task in self._under_way.items() if not task.done()}
        for at in ready - self._under_way.keys():
            self._under_way[at] = asyncio.ensure_future(self._scrape(at, self._names(of[at])))
        return list(self._under_way.values())

    async def _scrape(self, at: str, names: MetricNames) -> None:
        try:
            async with self._slots:
                status, page = await text(self._session, f"http://{at}/metrics", TIMEOUT_SECONDS)
            if status != 200:
                raise UntoldError(f"status {status}")
            scrape = parse(page, self._clock(), names)
        except (UntoldError, ValueError) as e:
            log.warning("scrape failed endpoint=%s: %s: %s", at, type(e).__name__, e)
            return
        if at in self._since:
            self._scrapes.setdefault(at, collections.deque(maxlen=KEPT)).append(scrape)
