"""The door to the pods themselves: what they have in flight, what their model takes, how far they are in loading it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import aiohttp

from forebay_operator import metrics_page
from forebay_operator.engines.catalog import metric_names
from forebay_operator.observed import Pod
from forebay_operator.pod_answer import UntoldError, document, text
from forebay_operator.program import PORT, MetricNames
from forebay_operator.reports import Footprint, Loading, parse_footprint, parse_loading

log = logging.getLogger(__name__)
SECONDS = 2.0
UNREADABLE = (UntoldError, ValueError, KeyError, TypeError, OverflowError)  # JSON knows numbers beyond all
MOST_ASKED = 8  # pods of one resource that are asked how far they are, in one pass


class PodDoor:
    """A pod that does not tell, in time and as expected, is left out: nothing is made up for it."""

    def __init__(self, port: int = PORT) -> None:
        self._port = port
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def loads(self, pods: Iterable[Pod], engine: str) -> dict[str, int]:
        """Requests in flight by pod of that type of engine."""
        serving = [p for p in pods if p.ready and not p.deleting and p.ip]
        found = await asyncio.gather(*(self._in_flight(p, engine) for p in serving))
        return {p.name: n for p, n in zip(serving, found, strict=True) if n is not None}

    async def footprint(self, pod: Pod) -> Footprint | None:
        try:
            status, told = await document(self._asking(), self._url(pod, "/version"), SECONDS)
            return parse_footprint(told) if status == 200 else None
        except UNREADABLE as e:
            log.info("pod %s does not tell what its model takes: %r", pod.name, e)
            return None

    async def loading(self, pods: Iterable[Pod]) -> tuple[Loading, ...]:
        """Of those that download, or that run and are not ready."""
        busy = (p for p in pods if p.fetches or (p.runs and not p.ready))
        asked = [p for p in busy if not p.deleting and p.ip][:MOST_ASKED]
        found = await asyncio.gather(*map(self._loading, asked))
        return tuple(f for f in found if f)

    async def _loading(self, pod: Pod) -> Loading | None:
        try:
            status, told = await document(self._asking(), self._url(pod, "/ready"), SECONDS)
            return parse_loading(pod.name, told, downloads=pod.fetches) if status == 503 else None
        except UNREADABLE:
            return None

    async def _in_flight(self, pod: Pod, engine: str) -> int | None:
        try:
            status, page = await text(self._asking(), self._url(pod, "/metrics"), SECONDS)
            return in_flight(page, metric_names(engine)) if status == 200 else None
        except UNREADABLE as e:
            log.warning("no load from pod %s: %s", pod.name, e)
            return None

    def _asking(self) -> aiohttp.ClientSession:
        self._session = self._session or aiohttp.ClientSession()
        return self._session

    def _url(self, pod: Pod, path: str) -> str:
        host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
        return f"http://{host}:{self._port}{path}"


def in_flight(page: str, names: MetricNames) -> int:
    """Requests that an engine has taken and not ended. ValueError where its metrics do not tell."""
    return metrics_page.total(page, (names.running, names.waiting))
