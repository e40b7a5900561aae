"""The object goes, and nothing is left."""

from e2e.kube import Kube, path_of
from e2e.story import DEPLOYMENTS, ISVC, Story, Wanted

# What every namespace has by itself, or what tells of the past.
PASSING = ("events", "events.events.k8s.io")


def everything_in(kube: Kube, namespace: str) -> set[str]:
    kinds = kube.must("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    wanted = ",".join(k for k in kinds if k not in PASSING and not k.endswith("metrics.k8s.io"))
    return set(kube.must("get", wanted, "-n", namespace, "-o", "name", "--ignore-not-found").split())


def test_nothing_is_left_of_one_that_served(story: Story) -> None:
    before = everything_in(story.kube, story.namespace)
    served = story.apply(Wanted("goes").scaling(2, queueDepth=4))
    served.becomes_ready()
    assert len(everything_in(story.kube, story.namespace) - before) >= 7, "children of five kinds, a pod, the object"

    story.kube.must("delete", "isvc", served.name, "-n", story.namespace, "--timeout=30s")
    gone = lambda: everything_in(story.kube, story.namespace) == before or None  # noqa: E731
    story.kube.until(gone, path_of("v1/pods", story.namespace), 60, "nothing but what was there before")


def test_one_that_never_served_goes_as_well(story: Story) -> None:
    served = story.apply(Wanted("never").parked())
    path = path_of(DEPLOYMENTS, story.namespace)
    story.kube.until(lambda: story.kube.get(f"{path}/{served.name}"), path, 30, "the operator has seen it")
    story.kube.must("delete", "isvc", served.name, "-n", story.namespace, "--timeout=30s")
    story.kube.until(lambda: not story.kube.items(path), path, 30, "its Deployment is gone")
    assert not story.kube.items(path_of(ISVC, story.namespace))
