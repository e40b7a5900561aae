"""One worker per resource: wakes are merged while it works, failures are retried later and later."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from forebay_operator import telemetry
from forebay_operator.refusal import ApiError, ClusterUnavailable, Refused
from forebay_operator.turns import Key, Turns

log = logging.getLogger(__name__)
FIRST_RETRY, LAST_RETRY = 0.5, 120.0


@dataclass(slots=True)
class _Job:
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    woken: bool = False
    urgent: bool = False
    failures: int = 0
    next_pass: float = 0.0  # not before this time of the monotonic clock


class WorkQueue:
    """`work` makes one pass and says after how long the next is due at the latest; None forgets the resource.

    The first wake after a quiet time has its pass at once; `settle` is the least pause between two passes of one,
    in which wakes come together. `together` bounds the passes at once; what is urgent has its turn first.
    """

    def __init__(
        self, work: Callable[[Key], Awaitable[timedelta | None]], *, settle: float = 0.2, together: int = 16
    ) -> None:
        self._work, self._settle = work, settle
        self._turns = Turns(together)
        self._jobs: dict[Key, _Job] = {}
        self._pending = 0

    def wake(self, key: Key, *, urgent: bool = False) -> None:
        """Has a pass begin soon; one that is going on is followed by another."""
        job = self._jobs.setdefault(key, _Job())
        job.woken = True
        job.urgent |= urgent
        if urgent:
            self._turns.hurry(key)
        if job.timer:
            job.timer.cancel()
            job.timer = None
        if job.task is None:
            job.task = asyncio.get_running_loop().create_task(self._run(key, job), name=f"reconcile {key[0]}/{key[1]}")
            self._count(1)

    async def close(self) -> None:
        """Ends all work where it stands: the next start converges."""
        tasks = [j.task for j in self._jobs.values() if j.task]
        for job in self._jobs.values():
            if job.timer:
                job.timer.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, key: Key, job: _Job) -> None:
        delay: timedelta | None = None
        while job.woken:
            await asyncio.sleep(job.next_pass - time.monotonic())
            await self._turns.take(key, urgent=job.urgent)
            try:
                job.woken = job.urgent = False
                delay = await self._pass(key, job)
            finally:
                self._turns.give_back()
            job.next_pass = time.monotonic() + self._settle
        job.task = None
        if delay is None:
            self._jobs.pop(key, None)
        else:
            job.timer = asyncio.get_running_loop().call_later(delay.total_seconds(), self.wake, key)
        self._count(-1)

    def _count(self, change: int) -> None:
        self._pending += change
        telemetry.PENDING.set(self._pending)

    async def _pass(self, key: Key, job: _Job) -> timedelta | None:
        began = time.monotonic()
        try:
            delay = await self._work(key)
        except Exception as e:
            job.failures += 1
            telemetry.PASSES.labels("failed").inc()
            seconds = min(LAST_RETRY, FIRST_RETRY * 2 ** min(job.failures - 1, 16)) * random.uniform(0.8, 1.2)
            expected = isinstance(e, (ClusterUnavailable, Refused, ApiError))
            log.warning("%s/%s: again in %.1f s: %s", *key, seconds, e, exc_info=not expected)
            return timedelta(seconds=seconds)
        finally:
            telemetry.PASS_SECONDS.observe(time.monotonic() - began)
        job.failures = 0
        telemetry.PASSES.labels("done").inc()
        return delay
