"""A Lease in several hands: who may work, and when."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest

from forebay_operator.cluster.api import Api
from forebay_operator.cluster.lease import LeaseHolder
from forebay_operator.election import DURATION, LAST_WRITE, RETRY
from forebay_operator.refusal import ApiError, ClusterUnavailable


@dataclass
class OneLease:
    """An API server that holds one Lease, with optimistic concurrency."""

    lease: dict[str, Any] | None = None
    version: int = 0
    away: bool = False

    async def find(self, path: str) -> dict[str, Any] | None:
        if self.away:
            raise ClusterUnavailable("connection refused")
        return copy.deepcopy(self.lease)

    async def request(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.away:
            raise ClusterUnavailable("connection refused")
        held = (self.lease or {}).get("metadata", {}).get("resourceVersion")
        if (method == "POST") != (held is None) or body["metadata"].get("resourceVersion") != held:
            raise ApiError(409, "Conflict", "the object has been modified")
        self.version += 1
        self.lease = {**copy.deepcopy(body), "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return copy.deepcopy(self.lease)


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Candidates:
    api: OneLease = field(default_factory=OneLease)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.a, self.b = (LeaseHolder(self.api, "ns", "op", me, self.clock) for me in "ab")  # type: ignore[arg-type]


@pytest.fixture
def two() -> Candidates:
    return Candidates()


async def test_the_first_has_it_and_the_second_waits(two: Candidates) -> None:
    assert (await two.a.attempt(), await two.b.attempt()) == (True, False)
    assert (two.a.held(), two.b.held()) == (True, False)


async def test_a_lease_that_is_renewed_is_never_taken(two: Candidates) -> None:
    await two.a.attempt()
    for _ in range(30):
        two.clock.now += RETRY
        assert await two.a.attempt()
        assert not await two.b.attempt()


async def test_the_holder_stops_writing_before_another_can_take_it(two: Candidates) -> None:
    await two.a.attempt()
    taken = False
    while not taken:
        taken = await two.b.attempt()
        assert not (taken and two.a.held())
        two.clock.now += 0.5
    assert two.clock.now - 100 >= DURATION > LAST_WRITE


async def test_one_that_is_given_up_is_free_at_once(two: Candidates) -> None:
    await two.a.attempt()
    await two.a.release()
    assert not two.a.held()
    assert await two.b.attempt()
    assert two.api.lease
    assert two.api.lease["spec"]["leaseTransitions"] == 1


async def test_of_two_that_take_it_at_once_one_succeeds(two: Candidates) -> None:
    two.api.lease = {"metadata": {"name": "op", "resourceVersion": "0"}, "spec": {"holderIdentity": ""}}
    stale = copy.deepcopy(two.api.lease)
    await two.a.attempt()

    async def find(path: str) -> dict[str, Any]:
        return stale

    two.api.find = find  # type: ignore[method-assign]
    assert not await two.b.attempt()
    assert not two.b.held()


async def test_while_the_api_server_is_away_nothing_is_written_and_then_it_goes_on(two: Candidates) -> None:
    await two.a.attempt()
    two.api.away = True
    two.clock.now += LAST_WRITE
    await two.a.attempt()
    assert not two.a.held()
    two.api.away = False
    assert await two.a.attempt()
    assert two.a.held()


async def test_a_holder_that_finds_another_in_its_place_ends(two: Candidates) -> None:
    await two.a.attempt()
    two.clock.now += DURATION + 1
    await two.b.attempt()
    two.clock.now += DURATION + 1
    assert await two.b.attempt()
    await two.a.attempt()
    await two.a.hold()
    assert not two.a.held()


async def test_the_fence_stops_writes_and_lets_reads_through() -> None:
    class Server:
        async def send(self, method: str, *_: Any) -> tuple[int, bytes]:
            return 200, b"{}"

    api = Api(Server(), may_write=lambda: False)  # type: ignore[arg-type]
    assert await api.get("/api") == {}
    with pytest.raises(ClusterUnavailable, match="lease"):
        await api.patch("/api", {}, "application/json")
