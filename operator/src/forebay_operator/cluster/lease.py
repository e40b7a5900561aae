"""The Lease by which one of several operators is at work and the others wait."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from forebay_operator.cluster.api import Api
from forebay_operator.election import LAST_WRITE, RETRY, Lease, Seen, free, released, taken
from forebay_operator.refusal import ApiError, ClusterUnavailable

log = logging.getLogger(__name__)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


class LeaseHolder:
    """One candidate. `held` is the fence: True only while no other candidate can think that the lease is free."""

    def __init__(
        self, api: Api, namespace: str, name: str, me: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api, self._me, self._clock = api, me, clock
        self._namespace, self._name = namespace, name
        self._list = LEASES.format(namespace)
        self._path = f"{self._list}/{name}"
        self._seen = Seen()
        self._until = float("-inf")
        self._lease: Lease | None = None
        self._others = True  # whether another candidate has it, as last seen

    def held(self) -> bool:
        return self._clock() < self._until

    async def acquire(self) -> None:
        """Waits until the lease is this candidate's."""
        mine = await self.attempt()
        while not mine:
            await asyncio.sleep(RETRY)
            mine = await self.attempt()
        log.info("this operator, %s, is at work", self._me)

    async def hold(self) -> None:
        """Renews it; returns when another has it. While the API server is away nothing is written (`held`), and this
        candidate goes on where nobody else came in between."""
        while not self._others:
            await asyncio.sleep(RETRY)
            await self.attempt()
        log.error("another operator has the lease")

    async def attempt(self) -> bool:
        """One try to take or renew it; whether it is this candidate's now."""
        began = self._clock()
        try:
            lease = await self._api.find(self._path)
            self._seen = self._seen.look(lease, self._clock())
            if not free(lease, self._me, self._seen, self._clock()):
                self._until, self._others = float("-inf"), True
                return False
            self._lease = await self._write(taken(lease, self._me, self._name, self._namespace, _stamp()), lease)
        except (ApiError, ClusterUnavailable) as e:
            log.warning("lease %s: %s", self._name, e)
            return False
        self._until, self._others = began + LAST_WRITE, False
        return True

    async def release(self) -> None:
        """Gives it up at once, so that the next one need not wait. What cannot be given up expires."""
        self._until = float("-inf")
        if self._lease:
            with contextlib.suppress(ApiError, ClusterUnavailable):
                await self._api.request("PUT", self._path, released(self._lease, _stamp()))

    async def _write(self, lease: Lease, before: Lease | None) -> Lease:
        if before is None:
            return await self._api.request("POST", self._list, lease)
        return await self._api.request("PUT", self._path, lease)


def _stamp() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
