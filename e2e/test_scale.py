"""Load comes and replicas follow; load goes and they go with it, and no request is lost on the way."""

from e2e.kube import path_of
from e2e.load import Request
from e2e.story import ISVC, Story, Wanted

HPA = "autoscaling/v2/horizontalpodautoscalers"
SHORT = Request(tokens=24)
LONG = Request(tokens=160)


def test_out_under_load_and_in_again(story: Story) -> None:
    wanted = Wanted("scales").scaling(2, queueDepth=1).with_(engine__args=["--max-num-seqs=2"])
    served = story.apply(wanted)
    served.becomes_ready()
    (first,) = served.pod_names()

    # One client goes on through it all: what it asks while a pod leaves has to be answered too.
    with served.under_load(LONG) as steady:
        with served.under_load(*[SHORT] * 7):
            served.comes_to_serve_with(2, seconds=120)
            assert served.now()["spec"]["replicas"] == 2, "the autoscaler moves the object itself"
            (second,) = (p for p in served.ready_pods() if p["metadata"]["name"] != first)
            busy = "vllm:generation_tokens_total"
            steady.until(lambda: served.metric(second, busy) > 0, 60, "the second pod serves")

        served.comes_to_serve_with(1, seconds=120)
        steady.goes_on(1)

    assert served.now()["spec"]["replicas"] == 1
    hpa = story.kube.get(path_of(HPA, story.namespace, served.name))
    assert hpa is not None
    assert hpa["spec"]["scaleTargetRef"]["kind"] == "InferenceService"
    ready = served.becomes_ready(seconds=30)
    assert ready["status"]["replicas"] == 1


def test_it_scales_by_hand_where_it_does_not_scale_itself(story: Story) -> None:
    served = story.apply(Wanted("by-hand").parked())
    story.kube.must("scale", "isvc", served.name, "-n", story.namespace, "--replicas=3")
    look = lambda: len(served.pods()) == 3 or None  # noqa: E731
    story.kube.until(look, path_of("v1/pods", story.namespace), 30, "three pods")
    counted = lambda: served.now().get("status", {}).get("replicas") == 3 or None  # noqa: E731
    story.kube.until(counted, path_of(ISVC, story.namespace), 30, "status.replicas follows")
