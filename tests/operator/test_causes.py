"""The root cause is read from what the kubelet, the scheduler and the API server say."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from forebay_operator.causes import killed_as_stalled, root_cause, suspects
from forebay_operator.observed import Missing, Observed, parse_pod
from forebay_operator.resource import Spec
from tests.operator.builders import pod_body, resource, unschedulable

REVISION = "abc"


def spec(**parts: Any) -> Spec:
    found = resource(**parts).spec
    assert isinstance(found, Spec)
    return found


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}, **more}


def ended(code: int, message: str = "", reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


CASES = {
    "an image that does not exist": (
        waiting("ImagePullBackOff", 'Back-off pulling image "registry/runtime:none"'),
        "ImagePullBackOff",
        "registry/runtime:none",
    ),
    "the first failed pull": (waiting("ErrImagePull", "not found"), "ImagePullBackOff", "ErrImagePull"),
    "a crash loop tells its last words": (
        waiting("CrashLoopBackOff", "back-off 20s", lastState=ended(1, "forebay-runtime: no weights in /model")),
        "CrashLoop",
        "exit code 1: forebay-runtime: no weights in /model",
    ),
    "a crash is told also while the container runs again": (
        {"state": {"running": {}}, "lastState": ended(2, "unknown argument")},
        "CrashLoop",
        "exit code 2: unknown argument",
    ),
    "a load that stands still": (
        {"state": ended(1, "forebay-runtime: loading has stalled: no byte of the model came for 300 s")},
        "LoadStalled",
        "no byte of the model came for 300 s; it is started again",
    ),
    "a crash without words": ({"state": ended(137)}, "CrashLoop", "exit code 137 without a word"),
    "too little memory": ({"state": ended(137, reason="OOMKilled")}, "OOMKilled", "more memory than its limit"),
    "a Secret that the kubelet misses": (
        waiting("CreateContainerConfigError", 'secret "token" not found'),
        "SecretMissing",
        '"token"',
    ),
    "another fault of the container's settings": (
        waiting("CreateContainerConfigError", "couldn't find key token in Secret ns/s"),
        "CreateContainerConfigError",
        "couldn't find key token",
    ),
}


@pytest.mark.parametrize(("container", "reason", "words"), CASES.values(), ids=CASES.keys())
def test_a_containers_trouble_is_named(container: dict[str, Any], reason: str, words: str) -> None:
    cause = cause_of(pod_body("p", REVISION, container=container))
    assert cause is not None
    assert cause.reason == reason
    assert words in cause.message


def cause_of(*pods: dict[str, Any], **more: Any) -> Any:
    return root_cause(spec(), Observed(pods=tuple(parse_pod(p) for p in pods), **more), REVISION)


def test_a_failed_download_is_the_init_containers() -> None:
    body = pod_body("p", REVISION)
    init = {"name": "fetch", "image": "i", **waiting("CrashLoopBackOff", lastState=ended(1, "no such revision"))}
    body["status"]["initContainerStatuses"] = [init]
    cause = cause_of(body)
    assert cause.reason == "DownloadFailed"
    assert "no such revision" in cause.message


def test_a_container_beside_the_engine_is_not_what_served_and_its_end_is_no_download() -> None:
    body = pod_body("p", REVISION, container={"state": {"running": {"startedAt": "2026-03-01T11:59:50Z"}}})
    body["status"]["conditions"][0]["lastTransitionTime"] = "2026-03-01T11:59:40Z"
    beside = {"name": "drain-gate", "image": "i", "state": {"running": {"startedAt": "2026-03-01T11:50:00Z"}}}
    body["status"]["initContainerStatuses"] = [beside]
    assert cause_of(body) is None, "its engine has just begun"
    beside |= waiting("CrashLoopBackOff", lastState=ended(1, "no port"))
    assert cause_of(body).reason == "CrashLoop"


def test_what_cannot_be_scheduled_names_the_resource() -> None:
    words = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu, 1 Insufficient memory. no new claims"
    cause = cause_of(unschedulable("p", REVISION, words))
    assert cause.reason == "Unschedulable"
    assert "not enough nvidia.com/gpu, memory on any node" in cause.message


def test_a_missing_volume_claim_is_told_in_the_schedulers_words() -> None:
    cause = cause_of(unschedulable("p", REVISION, 'persistentvolumeclaim "models" not found'))
    assert 'persistentvolumeclaim "models" not found' in cause.message


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ('pods "p" is forbidden: exceeded quota: small', "QuotaExceeded"),
        ('pods "p" is forbidden: violates PodSecurity "restricted:latest"', "PodsRefused"),
    ],
)
def test_pods_that_cannot_even_be_made_are_told(words: str, reason: str) -> None:
    cause = cause_of(failed_creation={REVISION: words})
    assert cause.reason == reason
    assert words in cause.message


def test_a_missing_secret_is_named_before_any_pod_is_there() -> None:
    named = spec(model={"source": "oci://m", "credentialsSecret": "token"})
    cause = root_cause(named, Observed(credentials=Missing()), REVISION)
    assert cause is not None
    assert 'Secret "token" not found' in cause.message


def test_pods_on_their_way_are_no_trouble() -> None:
    assert cause_of(pod_body("p", REVISION, container=waiting("ContainerCreating"))) is None
    assert cause_of(pod_body("p", REVISION)) is None


def test_a_process_that_ended_well_and_starts_again_is_no_crash() -> None:
    body = pod_body("p", REVISION, container={"state": {"running": {}}, "lastState": ended(0, reason="Completed")})
    assert cause_of(body) is None


def test_pods_of_other_revisions_and_ready_pods_are_not_blamed() -> None:
    crash = {"lastState": ended(1)}
    assert cause_of(pod_body("old", "other", container=crash)) is None
    assert cause_of(pod_body("well again", REVISION, ready=True, container=crash)) is None


def test_long_last_words_keep_their_end() -> None:
    cause = cause_of(pod_body("p", REVISION, container={"state": ended(1, "x" * 5000 + " the reason")}))
    assert cause.message.endswith("the reason")
    assert len(cause.message) < 1000


AT = "2026-03-01T12:00:00Z"
LATER = datetime(2026, 3, 1, 12, 0, 40, tzinfo=UTC)


def restarted(code: int = 137, reason: str = "Error") -> Any:
    end = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": "2026-03-01T12:00:45Z"}}
    return parse_pod(pod_body("p", REVISION, container={"state": {"running": {}}, "lastState": end, "restartCount": 2}))


def test_an_engine_that_the_kubelet_ended_for_not_answering_is_stalled() -> None:
    pod = restarted()
    assert suspects([pod]) == [pod]
    assert killed_as_stalled(pod, [LATER])
    found = root_cause(spec(), Observed(pods=(pod,), stalled=frozenset({"p"})), REVISION)
    assert found
    assert found.reason == "EngineStalled"
    assert "restarts so far: 2" in found.message


def test_another_end_than_the_one_that_was_told_of_is_no_stall() -> None:
    assert not killed_as_stalled(restarted(), [LATER - timedelta(minutes=5)])
    assert not killed_as_stalled(restarted(), [])
    assert not suspects([restarted(reason="OOMKilled")])


def test_one_that_served_and_answers_no_more_is_told_before_it_is_ended() -> None:
    body = pod_body("p", REVISION, container={"state": {"running": {"startedAt": AT}}})
    body["status"]["conditions"][0]["lastTransitionTime"] = "2026-03-01T12:05:00Z"
    found = root_cause(spec(), Observed(pods=(parse_pod(body),)), REVISION)
    assert found
    assert found.reason == "NotAnswering"


def test_one_that_never_served_is_only_on_its_way() -> None:
    body = pod_body("p", REVISION, container={"state": {"running": {"startedAt": AT}}})
    body["status"]["conditions"][0]["lastTransitionTime"] = "2026-03-01T11:59:58Z"
    assert root_cause(spec(), Observed(pods=(parse_pod(body),)), REVISION) is None
