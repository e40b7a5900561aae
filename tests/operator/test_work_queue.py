"""One worker per resource; wakes are merged; failures back off."""

import asyncio
from datetime import timedelta

import pytest

from forebay_operator import work_queue
from forebay_operator.refusal import ClusterUnavailable
from forebay_operator.turns import Key
from forebay_operator.work_queue import WorkQueue

A, B = ("ns", "a"), ("ns", "b")
HOUR = timedelta(hours=1)


class Work:
    """Counts passes; a pass ends when the test lets it."""

    def __init__(self, *results: timedelta | Exception | None) -> None:
        self.results = list(results)
        self.begun: list[Key] = []
        self.together = self.most = 0
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, key: Key) -> timedelta | None:
        self.begun.append(key)
        self.together += 1
        self.most = max(self.most, self.together)
        await self.go.wait()
        self.together -= 1
        result = self.results.pop(0) if self.results else HOUR
        if isinstance(result, Exception):
            raise result
        return result


async def turns(n: int = 20) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


def queue(work: Work, together: int = 16) -> WorkQueue:
    return WorkQueue(work, settle=0, together=together)


async def test_wakes_before_a_pass_are_one_pass() -> None:
    work = Work()
    q = queue(work)
    for _ in range(5):
        q.wake(A)
    await turns()
    assert work.begun == [A]
    await q.close()


async def test_wakes_during_a_pass_are_one_more_pass_after_it() -> None:
    work = Work()
    work.go.clear()
    q = queue(work)
    q.wake(A)
    await turns()
    for _ in range(5):
        q.wake(A)
    await turns()
    assert work.begun == [A], "no two passes of one resource at once"
    work.go.set()
    await turns()
    assert work.begun == [A, A]
    await q.close()


async def test_resources_do_not_wait_for_each_other_but_no_more_run_than_allowed() -> None:
    work = Work()
    work.go.clear()
    q = queue(work, together=2)
    for name in "abc":
        q.wake(("ns", name))
    await turns()
    assert len(work.begun) == work.most == 2
    work.go.set()
    await turns()
    assert len(work.begun) == 3
    assert work.most == 2
    await q.close()


async def test_the_next_pass_comes_by_itself() -> None:
    work = Work(timedelta(0), HOUR)
    q = queue(work)
    q.wake(A)
    for _ in range(100):
        await asyncio.sleep(0.001)
        if len(work.begun) == 2:
            break
    assert work.begun == [A, A]
    await q.close()


async def test_what_is_forgotten_does_not_come_back() -> None:
    work = Work(None)
    q = queue(work)
    q.wake(A)
    await turns()
    assert q._jobs == {}


async def test_a_failure_is_tried_again_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "FIRST_RETRY", 0.001)
    work = Work(HOUR, ClusterUnavailable("away"), ClusterUnavailable("away"))
    q = queue(work)
    q.wake(B)
    q.wake(A)
    for _ in range(200):
        await asyncio.sleep(0.001)
        if work.begun.count(A) == 3:
            break
    assert work.begun.count(A) == 3
    assert work.begun.count(B) == 1
    assert q._jobs[A].failures == 0, "a pass that ends well ends the back-off"
    await q.close()


async def test_a_change_does_not_wait_for_the_back_off() -> None:
    work = Work(ClusterUnavailable("away"))
    q = queue(work)
    q.wake(A)
    await turns()
    q.wake(A)
    await turns()
    assert work.begun == [A, A]
    await q.close()


async def test_what_is_urgent_goes_before_what_came_earlier() -> None:
    work = Work()
    work.go.clear()
    q = queue(work, together=1)
    for name in "abcd":
        q.wake(("ns", name))
    await turns()
    q.wake(("ns", "e"), urgent=True)
    q.wake(("ns", "d"), urgent=True)
    await turns()
    work.go.set()
    await turns(60)
    assert [name for _, name in work.begun] == ["a", "d", "e", "b", "c"]
    await q.close()


async def test_urgent_work_without_end_does_not_starve_the_rest() -> None:
    work = Work()
    q = queue(work, together=1)
    work.go.clear()
    for n in range(20):
        q.wake(("ns", f"urgent-{n}"), urgent=True)
    q.wake(A)
    await turns()
    work.go.set()
    await turns(200)
    assert work.begun.index(A) < 5
    await q.close()


async def test_a_queue_that_is_closed_while_some_wait_leaves_no_turn_taken() -> None:
    work = Work()
    work.go.clear()
    q = queue(work, together=1)
    for name in "abc":
        q.wake(("ns", name))
    await turns()
    await q.close()
    assert q._turns._free == 1
