"""Events tell what happened, once."""

from typing import Any

from forebay_operator.happenings import Change, Happening, Verb, happenings
from forebay_operator.observed import Observed
from forebay_operator.resource import InferenceService, Status
from forebay_operator.sync import sync
from tests.operator.builders import CONFIG, NOW, observed, pod_body, resource, revision, wanted

CRASH = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 3}}}


def told(of: InferenceService, seen: Observed, *changes: Change) -> list[Happening]:
    return happenings(of, sync(of, seen, CONFIG, NOW).status, changes)


def reasons(found: list[Happening]) -> list[str]:
    return [h.reason for h in found]


def status(of: InferenceService, pods: list[dict[str, Any]]) -> Status:
    return sync(of, observed(of, pods), CONFIG, NOW).status


SERVING = [pod_body("p", revision(resource()), ready=True)]
CRASHING = [pod_body("p", revision(resource()), container=CRASH)]


def test_the_children_that_were_made_are_one_event() -> None:
    (event,) = told(resource(), Observed(), Change(Verb.MADE, "Service"), Change(Verb.MADE, "Deployment"))
    assert (event.reason, event.message) == ("Created", "made: Deployment, Service")


def test_a_quiet_pass_tells_nothing() -> None:
    assert told(resource(status=status(resource(), SERVING)), observed(resource(), SERVING)) == []
    assert told(resource(status=status(resource(), CRASHING)), observed(resource(), CRASHING)) == []


def test_becoming_ready_is_told() -> None:
    before = wanted(resource()).status
    assert reasons(told(resource(status=before), observed(resource(), SERVING))) == ["Ready"]


def test_trouble_is_a_warning_with_its_cause_and_its_end_is_told() -> None:
    (event,) = told(resource(status=status(resource(), SERVING)), observed(resource(), CRASHING))
    assert event.warning
    assert event.reason == "CrashLoop"
    assert "exit code 3" in event.message
    after = told(resource(status=status(resource(), CRASHING)), observed(resource(), SERVING))
    assert reasons(after) == ["Ready", "Recovered"]


def test_a_new_revision_is_told_with_the_old_one() -> None:
    old = status(resource(), SERVING)
    edited = resource(engine={"args": ["--max-num-seqs=4"]}, status=old, generation=2)
    (event,) = told(edited, observed(resource(), SERVING))
    assert event.reason == "RollingOut"
    assert old.revision in event.message


def test_a_change_of_the_size_is_told_with_both_numbers() -> None:
    scaled = resource(replicas=4, status=status(resource(), SERVING))
    (event,) = told(scaled, observed(resource(), SERVING))
    assert (event.reason, event.message) == ("Scaled", "replicas 1 -> 4: spec.replicas was changed")


def test_a_child_put_back_is_told_as_healed() -> None:
    of = resource(status=status(resource(), SERVING))
    (event,) = told(of, observed(resource(), SERVING), Change(Verb.PUT_BACK, "Service"))
    assert (event.reason, event.message) == ("Healed", "put back: Service after a change by another")
