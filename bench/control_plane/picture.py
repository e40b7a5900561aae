"""What counts as done, by watches: lists of a thousand objects, each second, would be half of what is measured."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.control_plane.api import LISTINGS, SERVICES
from forebay_operator.api_server import ApiServer
from forebay_operator.informer import Informer

LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Seen:
    name: str
    version: str
    told: bool = True  # of a service: whether its status is about its present generation
    arguments: frozenset[str] = frozenset()  # of a Deployment's container


class Picture:
    """The services and their children as they are now."""

    def __init__(self, server: ApiServer) -> None:
        self._of = {
            path: Informer[Seen](server, path, _keep, lambda _: None) for path in (SERVICES, *LISTINGS.values())
        }
        self._following = [asyncio.create_task(informer.run()) for informer in self._of.values()]

    async def begin(self) -> None:
        for informer in self._of.values():
            await informer.until_synced()

    async def end(self) -> None:
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)

    def served(self, count: int, argument: str) -> bool:
        """Every service has its children, as its present generation wants them, and a status that says so."""
        told = sum(s.told for s in self._of[SERVICES])
        made = [sum(1 for _ in self._of[path]) for path in LISTINGS.values()]
        right = sum(not argument or argument in d.arguments for d in self._of[LISTINGS["Deployment"]])
        return min(told, right, *made) >= count

    def gone(self) -> bool:
        return not self.versions()

    def versions(self) -> dict[str, str]:
        return {f"{path}/{s.name}": s.version for path, informer in self._of.items() for s in informer}


async def until(done: Callable[[], bool], seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(f"not converged in {seconds:.0f} s")
        await asyncio.sleep(LOOK_SECONDS)


def _keep(item: Mapping[str, Any]) -> Seen:
    meta, spec = item["metadata"], item.get("spec") or {}
    seen = Seen(meta["name"], meta["resourceVersion"])
    if "model" in spec:
        told = (item.get("status") or {}).get("observedGeneration") == meta["generation"]
        return Seen(seen.name, seen.version, told)
    if "template" in spec:
        words = spec["template"]["spec"]["containers"][0].get("args") or []
        return Seen(seen.name, seen.version, True, frozenset(words))
    return seen
