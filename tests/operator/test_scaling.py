"""The way down: who goes, and that nobody goes with requests in flight before the deadline."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forebay_operator.api_names import DRAINING_ANNOTATION, IN_ROTATION, OUT_OF_ROTATION, ROTATION_LABEL
from forebay_operator.observed import (
    Manifest,
    Observed,
    parse_pod,
)
from forebay_operator.scaling import DRAINS, LEAVES, STAYS, UNTIL_KNOWN, Mark, Retreat, retreat
from forebay_operator.sync import Outcome, sync
from tests.operator.builders import CONFIG, NOW, desired, observed, pod_body, resource, revision, says

THREE = resource(replicas=3)
DEADLINE = timedelta(minutes=10)
LATER = NOW + UNTIL_KNOWN


def pod(name: str, *, ready: bool = True, since: datetime | None = None, of: str = "") -> Manifest:
    body = pod_body(name, of or revision(THREE), ready=ready)
    if since:
        body["metadata"]["labels"][ROTATION_LABEL] = OUT_OF_ROTATION
        body["metadata"]["annotations"] = {
            DRAINING_ANNOTATION: since.isoformat(),
            "controller.kubernetes.io/pod-deletion-cost": str(DRAINS),
        }
    return body


def seen(*pods: Manifest, **load: int) -> Observed:
    return replace(observed(THREE, pods), load=load)


def down(before: Observed, to: int, now: datetime = NOW) -> Retreat:
    return retreat(before, to, DEADLINE, now)


def test_the_idle_are_taken_out_of_rotation_first_and_nobody_goes_yet() -> None:
    found = down(seen(pod("a"), pod("b"), pod("c"), a=5, b=0, c=2), 1)
    assert found.marks == {"a": Mark(STAYS), "b": Mark(DRAINS, NOW), "c": Mark(DRAINS, NOW)}
    assert (found.replicas, found.draining) == (3, 2)


def test_one_that_does_not_tell_its_load_is_as_busy_as_can_be() -> None:
    assert down(seen(pod("a"), pod("b"), pod("c"), a=5, b=3), 1).marks["c"] == Mark(STAYS)


def test_one_goes_when_it_is_out_of_rotation_for_a_moment_and_has_nothing_in_flight() -> None:
    out = seen(pod("a"), pod("b", since=NOW), pod("c", since=NOW), a=5, b=0, c=2)
    assert down(out, 1, NOW + UNTIL_KNOWN / 2).replicas == 3
    found = down(out, 1, LATER)
    assert (found.replicas, found.draining) == (2, 1)
    assert found.marks == {"a": Mark(STAYS), "b": Mark(LEAVES, NOW)}


def test_one_whose_load_is_not_known_is_waited_for_until_the_deadline() -> None:
    out = seen(pod("a"), pod("b"), pod("c", since=NOW), a=5, b=5)
    assert down(out, 2, LATER).replicas == 3
    assert down(out, 2, NOW + DEADLINE).replicas == 2


def test_those_that_do_not_serve_go_first_and_at_once() -> None:
    found = down(seen(pod("a"), pod("b"), pod("c", ready=False), a=0, b=0), 2)
    assert found == Retreat(2, {"a": Mark(STAYS), "b": Mark(STAYS)})


def test_pods_that_are_not_there_yet_cost_nobody_its_place() -> None:
    """The workload was told to have seven by another hand, and has one pod so far."""
    before = seen(pod("a"), a=0)
    before.children["Deployment"]["spec"]["replicas"] = 7
    found = down(before, 1)
    assert (found.replicas, found.draining) == (1, 0)
    assert found.marks == {"a": Mark(STAYS)}


def test_more_are_wanted_again_and_the_marked_come_back() -> None:
    found = down(seen(pod("a"), pod("b"), pod("c", since=NOW)), 3)
    assert found == Retreat(3, {"c": Mark(STAYS)})


def test_where_all_is_to_stop_or_a_roll_is_under_way_nobody_is_waited_for() -> None:
    assert down(seen(pod("a"), pod("b"), pod("c"), a=1), 0) == Retreat(0)
    rolling = down(seen(pod("a"), pod("b"), pod("c", of="older"), a=4, b=0, c=2), 2)
    assert (rolling.replicas, rolling.draining) == (2, 0)
    assert rolling.marks == {"a": Mark(4), "b": Mark(0), "c": Mark(2)}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.booleans()), min_size=3, max_size=3), st.integers(1, 3))
def test_never_fewer_than_wanted_and_nobody_busy_goes(pods: list[tuple[bool, int, bool]], wanted: int) -> None:
    names = "abc"
    bodies = [pod(n, ready=r, since=NOW if out else None) for n, (r, _, out) in zip(names, pods, strict=True)]
    load = {n: count for n, (_, count, _) in zip(names, pods, strict=True)}
    found = down(seen(*bodies, **load), wanted, LATER)
    assert wanted <= found.replicas <= 3
    leaves = [n for n, mark in found.marks.items() if mark.cost == LEAVES]
    assert all(load[n] == 0 for n in leaves)
    assert found.replicas >= 3 - len(leaves) - sum(not r for r, _, _ in pods)


class TestOutcome:
    def lowered(self, to: int, *pods: Manifest, **load: int) -> Outcome:
        return sync(resource(replicas=to), seen(*pods, **load), CONFIG, NOW)

    def test_while_pods_drain_the_workload_keeps_them_and_the_rest_is_ready(self) -> None:
        outcome = self.lowered(1, pod("a"), pod("b"), pod("c"), a=1, b=0, c=0)
        assert desired(outcome, "Deployment")["spec"]["replicas"] == 3
        assert says(outcome)["Ready"] == ("True", "Serving")
        assert says(outcome)["Progressing"] == ("True", "Draining")
        assert outcome.requeue_after == timedelta(seconds=1)

    def test_a_service_sends_nothing_to_a_pod_that_is_out_of_rotation(self) -> None:
        outcome = self.lowered(3, pod("a"))
        template: Any = desired(outcome, "Deployment")["spec"]["template"]["metadata"]["labels"]
        assert desired(outcome, "Service")["spec"]["selector"].items() <= template.items()
        assert template[ROTATION_LABEL] == IN_ROTATION
        workload = desired(outcome, "Deployment")["spec"]["selector"]["matchLabels"]
        assert ROTATION_LABEL not in workload, "a pod that drains is still its workload's"


def test_a_mark_is_read_back() -> None:
    assert parse_pod(pod("a", since=NOW)).draining_since == NOW
    assert parse_pod(pod("a")).draining_since is None
