"""A table of (resource, observed) -> conditions, and what conditions keep over time."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from forebay_operator.observed import Missing, Observed
from forebay_operator.resource import InferenceService, Status
from forebay_operator.sync import sync
from tests.operator.builders import CONFIG, NOW, SOURCE, live, observed, pod_body, resource, revision, says, wanted

CRASH = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}}
DEMO = resource()
TWO = resource(replicas=2)
ZERO = resource(replicas=0)
SCALED = resource(scaling={"maxReplicas": 3, "targets": {"queueDepth": 4}})
OLD = "0123456789"


def pods(of: InferenceService, ready: int, loading: int = 0, old: int = 0) -> list[dict[str, Any]]:
    now = revision(of)
    return [
        *(pod_body(f"ready-{i}", now, ready=True) for i in range(ready)),
        *(pod_body(f"loading-{i}", now) for i in range(loading)),
        *(pod_body(f"old-{i}", OLD, ready=True) for i in range(old)),
    ]


def crashing(of: InferenceService, old: int = 0) -> Observed:
    return observed(of, [pod_body("crash", revision(of), container=CRASH), *pods(of, 0, old=old)])


def hpa(of: InferenceService, status: str, reason: str) -> dict[str, Any]:
    outcome = wanted(of)
    assert outcome.children
    (made,) = [c for c in outcome.children if c["kind"] == "HorizontalPodAutoscaler"]
    return {made["kind"]: live(made, conditions=[{"type": "ScalingActive", "status": status, "reason": reason}])}


SECRET = resource(model={"source": SOURCE, "credentialsSecret": "token"})

TABLE: dict[str, tuple[InferenceService, Observed, dict[str, tuple[str, str]]]] = {
    "nothing is there yet": (
        DEMO,
        Observed(),
        {
            "Accepted": ("True", "Accepted"),
            "Ready": ("False", "Starting"),
            "Available": ("False", "NoReadyPods"),
            "Progressing": ("True", "Starting"),
            "Degraded": ("False", "NothingWrong"),
        },
    ),
    "the pod loads": (DEMO, observed(DEMO, pods(DEMO, 0, loading=1)), {"Ready": ("False", "Starting")}),
    "the pod serves": (
        DEMO,
        observed(DEMO, pods(DEMO, 1)),
        {
            "Ready": ("True", "Serving"),
            "Available": ("True", "Serving"),
            "Progressing": ("False", "Settled"),
            "Degraded": ("False", "NothingWrong"),
        },
    ),
    "one of two serves": (
        TWO,
        observed(TWO, pods(TWO, 1, loading=1)),
        {"Ready": ("False", "Scaling"), "Available": ("True", "Serving"), "Progressing": ("True", "Scaling")},
    ),
    "an edit is not carried out yet": (
        resource(engine={"args": ["--max-num-seqs=4"]}),
        observed(DEMO, pods(DEMO, 1)),
        {"Ready": ("False", "RollingOut"), "Available": ("True", "Serving"), "Progressing": ("True", "RollingOut")},
    ),
    "the new pod loads, the old one serves": (
        DEMO,
        observed(DEMO, pods(DEMO, 0, loading=1, old=1)),
        {"Ready": ("False", "RollingOut"), "Available": ("True", "Serving")},
    ),
    "the new pod crashes, the old one serves": (
        DEMO,
        crashing(DEMO, old=1),
        {
            "Ready": ("False", "CrashLoop"),
            "Available": ("True", "Serving"),
            "Progressing": ("True", "RollingOut"),
            "Degraded": ("True", "CrashLoop"),
        },
    ),
    "the only pod crashes": (
        DEMO,
        crashing(DEMO),
        {"Ready": ("False", "CrashLoop"), "Degraded": ("True", "CrashLoop")},
    ),
    "the Secret is gone, the pods serve on": (
        SECRET,
        replace(observed(SECRET, pods(SECRET, 1)), credentials=Missing()),
        {"Ready": ("True", "Serving"), "Degraded": ("True", "SecretMissing")},
    ),
    "stopped": (
        ZERO,
        observed(ZERO),
        {"Ready": ("False", "Stopped"), "Progressing": ("False", "Stopped"), "Degraded": ("False", "NothingWrong")},
    ),
    "stopping": (
        ZERO,
        observed(ZERO, pods(ZERO, 1)),
        {"Ready": ("False", "Stopped"), "Progressing": ("True", "Stopping")},
    ),
    "no autoscaler has looked": (SCALED, observed(SCALED, pods(SCALED, 1)), {"ScalingActive": ("Unknown", "Waiting")}),
    "the autoscaler has no metric": (
        SCALED,
        observed(SCALED, pods(SCALED, 1), children=hpa(SCALED, "False", "FailedGetObjectMetric")),
        {"ScalingActive": ("False", "FailedGetObjectMetric"), "Ready": ("True", "Serving")},
    ),
    "the model name is another's": (
        DEMO,
        Observed(rival="other/first"),
        {"Accepted": ("False", "ModelNameTaken"), "Ready": ("False", "ModelNameTaken")},
    ),
    "a field is not understood": (
        resource(engine={"no": 1}),
        Observed(),
        {"Accepted": ("False", "InvalidSpec"), "Ready": ("False", "InvalidSpec"), "Degraded": ("True", "InvalidSpec")},
    ),
}


@pytest.mark.parametrize(("of", "seen", "expected"), TABLE.values(), ids=TABLE.keys())
def test_conditions(of: InferenceService, seen: Observed, expected: dict[str, tuple[str, str]]) -> None:
    found = says(sync(of, seen, CONFIG, NOW))
    assert {k: v for k, v in found.items() if k in expected} == expected
    assert ("ScalingActive" in found) == (of is SCALED)


def test_a_cluster_that_takes_image_volumes_out_of_the_pods_is_told_of() -> None:
    seen = observed(DEMO, pods(DEMO, 0, loading=1))
    template = seen.children["Deployment"]["spec"]["template"]["spec"]
    template["volumes"] = [v for v in template["volumes"] if "image" not in v]
    outcome = sync(DEMO, seen, CONFIG, NOW)
    assert says(outcome)["Degraded"] == ("True", "NoImageVolumes")
    assert says(outcome)["Ready"] == ("False", "NoImageVolumes")


def test_a_deployment_whose_controller_lags_is_not_believed() -> None:
    seen = observed(DEMO, pods(DEMO, 1))
    seen.children["Deployment"]["metadata"]["generation"] = 2
    assert says(sync(DEMO, seen, CONFIG, NOW))["Ready"][0] == "False"


def test_ready_follows_the_pods_before_the_deployment_counts_them() -> None:
    seen = replace(observed(DEMO, pods(DEMO, 1)), pods=())
    assert says(sync(DEMO, seen, CONFIG, NOW))["Ready"][0] == "False"


def status_of(of: InferenceService, seen: Observed, later: timedelta = timedelta(0)) -> Status:
    return sync(of, seen, CONFIG, NOW + later).status


def test_transition_times_move_only_with_the_status() -> None:
    first = status_of(DEMO, Observed())
    again = status_of(resource(status=first), observed(DEMO, pods(DEMO, 0, loading=1)), timedelta(seconds=9))
    served = status_of(resource(status=first), observed(DEMO, pods(DEMO, 1)), timedelta(seconds=9))
    stamps = [s.condition("Ready").last_transition_time for s in (first, again, served)]  # type: ignore[union-attr]
    assert stamps == ["2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z", "2026-03-01T12:00:09Z"]


def test_every_condition_is_of_the_present_generation() -> None:
    status = status_of(resource(generation=7), Observed())
    assert status.observed_generation == 7
    assert {c.observed_generation for c in status.conditions} == {7}


def test_the_same_observation_gives_the_same_status() -> None:
    seen = observed(DEMO, pods(DEMO, 1))
    first = status_of(DEMO, seen)
    assert status_of(resource(status=first), seen, timedelta(hours=1)) == first


def test_a_healthy_status_has_no_word_of_trouble() -> None:
    said = " ".join(f"{c.reason} {c.message}" for c in status_of(DEMO, observed(DEMO, pods(DEMO, 1))).conditions)
    assert not [word for word in ("rror", "pull", "exit", "rash", "not found") if word in said]


def test_counts_selector_and_url_are_told() -> None:
    status = status_of(TWO, observed(TWO, pods(TWO, 1, loading=1)))
    assert (status.replicas, status.ready_replicas) == (2, 1)
    assert status.selector == "app.kubernetes.io/component=runtime,forebay.dev/inferenceservice=demo"
    assert status.url == "http://demo.ns.svc"
    assert status.revision == revision(TWO)
