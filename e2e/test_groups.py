"""Replicas of several pods: refused where the cluster has no LeaderWorkerSets, and made as one where it has.

The kind alone is installed, without its controller: what is looked at is what the API server takes from the operator.
"""

import json
from collections.abc import Iterator

import pytest

from e2e.kube import Kube, Object, path_of
from e2e.story import Story, Wanted

GROUP, PLURAL = "leaderworkerset.x-k8s.io", "leaderworkersets"
SETS = f"{GROUP}/v1/{PLURAL}"
CRDS = "apiextensions.k8s.io/v1/customresourcedefinitions"
ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
KIND: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{GROUP}", "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
    "spec": {
        "group": GROUP,
        "names": {"kind": "LeaderWorkerSet", "plural": PLURAL, "singular": "leaderworkerset"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": ANYTHING, "status": ANYTHING}}},
                "subresources": {"status": {}},
            }
        ],
    },
}


@pytest.fixture
def kind(cluster: Kube) -> Iterator[Object]:
    """What installs the kind; taken away at the end, unless the cluster had it before."""
    if cluster.get(path_of(CRDS, name=KIND["metadata"]["name"])):
        pytest.fail(f"the cluster has {PLURAL} of its own: this story is about one that gets them")
    yield KIND
    cluster.kubectl("delete", "crd", KIND["metadata"]["name"], "--timeout=30s")


def test_groups_are_made_once_the_cluster_knows_them(story: Story, kind: Object) -> None:
    pods = {"image": "registry.invalid/vllm:1", "type": "vllm", "parallelism": {"nodes": 2}}
    gpus = {"limits": {"nvidia.com/gpu": "4"}}
    long = Wanted("l" * 43).with_(engine=pods, resources=gpus).manifest("long")
    assert (
        "at most 42 characters"
        in story.kube.kubectl("apply", "-n", story.namespace, "-f", "-", stdin=json.dumps(long)).err
    )
    served = story.apply(Wanted("large").with_(engine=pods, resources=gpus, replicas=2))
    assert "install LeaderWorkerSet" in served.comes_to_say("NoLeaderWorkerSets", seconds=30)
    assert not story.kube.items(path_of("v1/services", story.namespace)), "nothing is made for it"

    story.kube.apply("", kind)
    served.comes_to_say("Accepted=True", seconds=90)
    made = story.kube.get(path_of(SETS, story.namespace, "large-group"))
    assert made
    assert made["metadata"]["ownerReferences"][0]["uid"] == served.now()["metadata"]["uid"]
    group = made["spec"]["leaderWorkerTemplate"]
    assert (made["spec"]["replicas"], group["size"]) == (2, 2)
    assert "--headless" in group["workerTemplate"]["spec"]["containers"][0]["args"]
    assert "readinessProbe" in group["leaderTemplate"]["spec"]["containers"][0]
    assert not story.kube.items(path_of("apps/v1/deployments", story.namespace))

    served.edit(replicas=1)
    scaled = path_of(SETS, story.namespace, "large-group")
    look = lambda: story.kube.get(scaled)["spec"]["replicas"] == 1 or None  # type: ignore[index]  # noqa: E731
    story.kube.until(look, path_of(SETS, story.namespace), 30, "the number of groups follows")
