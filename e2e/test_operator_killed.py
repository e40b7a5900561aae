"""The operator dies in the middle of a roll: nobody who asks notices, and the next one brings it to its end."""

from e2e.gateway import NAMESPACE
from e2e.kube import path_of
from e2e.load import Request
from e2e.story import PODS, Story, Wanted


def test_a_roll_outlives_the_operator(story: Story) -> None:
    served = story.apply(Wanted("outlives"))
    served.becomes_ready()
    old = served.pod_names()
    pods = path_of(PODS, story.namespace)

    with served.under_load(Request(tokens=48), Request(tokens=8, stream=False)) as load:
        served.edit(engine__args=["--max-num-seqs=12"])
        begun = lambda: (served.pod_names() - old) or None  # noqa: E731
        story.kube.until(begun, pods, 30, "the roll has begun")
        selector = "app.kubernetes.io/component=operator,app.kubernetes.io/name=forebay"
        story.kube.must("delete", "pod", "-n", NAMESPACE, "-l", selector, "--grace-period=0", "--force")
        served.becomes_ready()
        load.goes_on(2)

    assert not served.pod_names() & old
    story.kube.must("rollout", "status", "-n", NAMESPACE, "deployment/forebay-operator", "--timeout=60s", timeout=70)
