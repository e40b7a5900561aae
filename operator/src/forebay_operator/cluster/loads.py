"""The door to the pods' own metrics: how many requests each has in flight."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import aiohttp

from forebay_operator.engines import forebay
from forebay_operator.engines.catalog import metric_names
from forebay_operator.observed import Pod
from forebay_operator.program import PORT

log = logging.getLogger(__name__)
TIMEOUT = aiohttp.ClientTimeout(total=2)


class Loads:
    def __init__(self, port: int = PORT) -> None:
        self._port = port
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def of(self, pods: Iterable[Pod], engine: str) -> dict[str, int]:
        """Requests in flight by pod of that type of engine; a pod that does not tell has no entry."""
        serving = [p for p in pods if p.ready and not p.deleting and p.ip]
        found = await asyncio.gather(*(self._in_flight(p.ip, engine) for p in serving))
        return {p.name: n for p, n in zip(serving, found, strict=True) if n is not None}

    async def _in_flight(self, ip: str, engine: str) -> int | None:
        self._session = self._session or aiohttp.ClientSession(timeout=TIMEOUT)
        host = f"[{ip}]" if ":" in ip else ip
        try:
            async with self._session.get(f"http://{host}:{self._port}/metrics") as reply:
                if reply.status != 200:
                    return None
                return forebay.in_flight(await reply.text(), metric_names(engine))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as e:
            log.warning("no load from %s: %r", ip, e)
            return None
