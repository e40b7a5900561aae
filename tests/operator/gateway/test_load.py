"""What the gateway remembers of its endpoints."""

from forebay_operator.endpoints import Endpoint
from forebay_operator.gateway.load import AVOID_SECONDS, Load

A, B = Endpoint("10.0.0.1:8000"), Endpoint("10.0.0.2:8000")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_requests_are_counted_while_they_run() -> None:
    load = Load(Clock())
    with load.request(A), load.request(A), load.request(B):
        assert load.in_flight == {A.address: 2, B.address: 1}
    assert load.in_flight == {}


def test_an_endpoint_that_failed_is_avoided_for_a_while() -> None:
    clock = Clock()
    load = Load(clock)
    load.avoid(A)
    assert load.preferred([A, B]) == [B]
    clock.now += AVOID_SECONDS
    assert load.preferred([A, B]) == [A, B]


def test_when_all_failed_all_are_tried() -> None:
    load = Load(Clock())
    load.avoid(A)
    assert load.preferred([A]) == [A]
