"""Fewer replicas are wanted while every pod is busy: one is taken out of rotation, and goes when it is idle."""

from e2e.kube import Object, path_of
from e2e.load import Request
from e2e.story import PODS, Story, Wanted

RUNNING = "vllm:num_requests_running"
ROTATION = "forebay.dev/rotation"


def test_a_pod_goes_when_it_has_nothing_in_flight(story: Story) -> None:
    served = story.apply(Wanted("drains").with_(replicas=2))
    served.becomes_ready()
    pods = path_of(PODS, story.namespace)
    streams = [Request(tokens=100, prompt=f"Write the {n}th chapter of a long book.") for n in range(6)]

    def marked() -> Object | None:
        found = story.kube.items(pods, f"{ROTATION}=out")
        return found[0] if found else None

    def leaving() -> Object | None:
        found = marked()
        return found if found and "deletionTimestamp" in found["metadata"] else None

    with served.under_load(*streams) as load:
        busy = lambda: all(served.metric(p, RUNNING) > 0 for p in served.ready_pods())  # noqa: E731
        load.until(busy, 90, "both pods are busy")
        story.kube.must("scale", "isvc", served.name, "-n", story.namespace, "--replicas=1")
        out = story.kube.until(marked, pods, 30, "a pod is out of rotation")
        assert "deletionTimestamp" not in out["metadata"], "it is not ended at once"
        served.becomes_ready(seconds=20)  # the one that is wanted serves
        gone = story.kube.until(leaving, pods, 120, "the pod is told to end")
        assert gone["metadata"]["uid"] == out["metadata"]["uid"]
        assert served.metric(gone, RUNNING) == 0, "it was told to end with requests in flight"
        load.goes_on(2)
    assert len(served.pods()) == 1
