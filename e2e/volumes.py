"""Volumes of a story's own: folders of one node, since this cluster makes none by itself."""

from typing import Any

from e2e.kube import Kube, Object, path_of
from e2e.python_pod import add_volume, python_pod
from e2e.story import Story


def volume(kube: Kube, name: str, folder: str, size: str = "1Gi", **more: Any) -> Object:
    """A PersistentVolume in a folder of the first node."""
    node = kube.items(path_of("v1/nodes"))[0]["metadata"]["name"]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "capacity": {"storage": size},
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": folder, "type": "DirectoryOrCreate"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        **more,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def claimed(kube: Kube, story: Story, claim: str, folder: str) -> str:
    """The name of a volume in that folder, and a claim that is bound to it."""
    name = f"{story.namespace}-{claim}"
    of: dict[str, Any] = {"claimRef": {"namespace": story.namespace, "name": claim}}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "volumeName": name,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim}, "spec": spec}
    kube.apply(story.namespace, volume(kube, name, folder, **of), body)
    return name


def on_the_volume(story: Story, claim: str, name: str, script: str) -> None:
    """Runs a line of Python, as root, with the claim's volume at /data; it must succeed."""
    story.enforces("baseline")
    pod = python_pod(story.kube, name, "-c", script, root=True)
    add_volume(pod, "data", "/data", {"persistentVolumeClaim": {"claimName": claim}})
    story.kube.apply(story.namespace, pod)
    done = "--for=jsonpath={.status.phase}=Succeeded"
    story.kube.must("wait", done, f"pod/{name}", "-n", story.namespace, "--timeout=60s", timeout=70)
    story.kube.must("delete", "pod", name, "-n", story.namespace, "--wait=false")
    story.enforces("restricted")
