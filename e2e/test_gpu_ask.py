"""Asking for accelerators: too many are refused by name, fewer are placed, and a new revision takes the old one's."""

from collections.abc import Iterator

import pytest

from e2e.kube import Kube, path_of
from e2e.story import PODS, Story, Wanted

GPU = "nvidia.com/gpu"
NODES = "v1/nodes"


def capacity(kube: Kube) -> int:
    """The most that one node has to give."""
    return max(int(n["status"]["allocatable"].get(GPU, "0")) for n in kube.items(path_of(NODES)))


@pytest.fixture
def gpus(cluster: Kube) -> Iterator[int]:
    """The cluster's own GPUs; where it has none, two pretended ones of its first node, for as long as this lasts."""
    if capacity(cluster):
        yield capacity(cluster)
        return
    node = path_of(NODES, name=cluster.items(path_of(NODES))[0]["metadata"]["name"]) + "/status"
    cluster.patch(node, {"status": {"capacity": {GPU: "2"}, "allocatable": {GPU: "2"}}})
    yield 2
    cluster.patch(node, {"status": {"capacity": {GPU: None}, "allocatable": {GPU: None}}})


def test_too_many_are_refused_by_name_and_fewer_are_placed(story: Story, gpus: int) -> None:
    many, few = str(gpus + 1), "1"
    served = story.apply(Wanted("gpus").with_(resources__requests={GPU: many}, resources__limits={GPU: many}))
    said = served.comes_to_say(rf"Unschedulable.*{GPU}", seconds=60)
    assert served.condition("Ready")["status"] == "False", said

    served.edit(resources__requests={GPU: few}, resources__limits={GPU: few})

    def placed() -> bool | None:
        asked = [p for p in served.pods() if p["spec"]["containers"][0]["resources"]["limits"][GPU] == few]
        return any(p["spec"].get("nodeName") for p in asked) or None

    story.kube.until(placed, path_of(PODS, story.namespace), 60, "a node takes the pod that asks for one")


def test_where_no_accelerator_is_free_the_new_revision_takes_the_old_ones(story: Story, gpus: int) -> None:
    """The accelerators are pretended ones: the engine is told to compute on the CPU."""
    every, on_cpu = {GPU: str(gpus)}, "--device=cpu"
    wanted = Wanted("takes").with_(resources__requests=every, resources__limits=every, engine__args=[on_cpu])
    served = story.apply(wanted)
    served.becomes_ready()
    (old,) = served.pod_names()
    served.edit(engine__args=[on_cpu, "--max-num-seqs=12"])
    served.comes_to_say("RollingInPlace", seconds=30)
    served.becomes_ready()
    assert old not in served.pod_names()

    served.edit(resources__requests={GPU: str(gpus + 1)}, resources__limits={GPU: str(gpus + 1)})
    served.comes_to_say(rf"Unschedulable.*{GPU}", seconds=60)
    assert served.condition("Available")["status"] == "True", "what cannot be placed takes nothing down"
