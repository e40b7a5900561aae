"""`pvc://claim/path`: the model lies on a volume that the user has filled."""

from collections.abc import Iterator

import pytest

from e2e.kube import Kube, Object, path_of
from e2e.load import Request
from e2e.python_pod import add_volume, python_pod
from e2e.story import Story, Wanted

ON_THE_NODE = "/var/tmp/forebay-story"
CLAIM = "models"


def volume_on_a_node(kube: Kube, story: Story) -> tuple[Object, Object]:
    """A PersistentVolume in a folder of one node, and the claim that is bound to it."""
    node = kube.items(path_of("v1/nodes"))[0]["metadata"]["name"]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    volume = common | {
        "capacity": {"storage": "1Gi"},
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": story.namespace, "name": CLAIM},
        "hostPath": {"path": ON_THE_NODE, "type": "DirectoryOrCreate"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    claim = common | {"volumeName": story.namespace, "resources": {"requests": {"storage": "1Gi"}}}
    return (
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": story.namespace}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM}, "spec": claim},
    )


def on_the_volume(story: Story, name: str, script: str) -> None:
    """Runs a line of Python, as root, with the volume at /data."""
    pod = python_pod(story.kube, name, "-c", script, root=True)
    add_volume(pod, "data", "/data", {"persistentVolumeClaim": {"claimName": CLAIM}})
    story.kube.apply(story.namespace, pod)
    done = "--for=jsonpath={.status.phase}=Succeeded"
    story.kube.must("wait", done, f"pod/{name}", "-n", story.namespace, "--timeout=60s", timeout=70)
    story.kube.must("delete", "pod", name, "-n", story.namespace, "--wait=false")


@pytest.fixture
def filled(cluster: Kube, story: Story) -> Iterator[str]:
    """`claim/path` of the sample model's files."""
    story.enforces("baseline")  # who fills the volume is root
    volume, claim = volume_on_a_node(cluster, story)
    cluster.apply(story.namespace, volume, claim)
    on_the_volume(story, "fill", "import shutil; shutil.copytree('/model', '/data/sample', dirs_exist_ok=True)")
    story.enforces("restricted")
    yield f"{CLAIM}/sample"
    cluster.must("delete", "isvc", "--all", "-n", story.namespace, "--timeout=30s")
    story.enforces("baseline")
    on_the_volume(story, "empty", "import shutil; shutil.rmtree('/data/sample')")
    cluster.must("delete", "pv", story.namespace, "--wait=false")


def test_a_model_on_a_volume_is_served(story: Story, filled: str) -> None:
    served = story.apply(Wanted("stored").with_(model={"source": f"pvc://{filled}"}))
    served.becomes_ready()
    with served.under_load(Request(tokens=8)) as load:
        load.goes_on(1)


def test_a_claim_that_does_not_exist_is_named(story: Story) -> None:
    served = story.apply(Wanted("unbound").with_(model={"source": "pvc://no-such-claim/sample"}))
    served.comes_to_say("no-such-claim", seconds=60)
